"""What must hold for the cut of any text, whatever the language."""

from __future__ import annotations

from pathlib import Path

from chunkers.chunk import Cut, Level
from chunkers.cut import cut
from chunkers.languages import Language
from chunkers.lines import TEXT_CHARS

ORDER = list(Level)
# The files end in .in, so that no linter and no test runner takes them for ours.
FIXTURES = {
    path.name.removesuffix(".in"): path.read_text("utf-8")
    for path in sorted((Path(__file__).parent / "fixtures").glob("*.in"))
}


def check(text: str, language: Language | str) -> Cut:
    """Cut a text twice and assert every law that needs no second text."""
    made = cut(text, language)
    assert made == cut(text, language)
    assert "cutter failed" not in made.fallback
    lines = text.split("\n")
    assert made.lines == len(lines) - (lines[-1] == "")
    if not text.strip():
        assert made.chunks == ()
        return made
    covered: set[int] = set()
    for chunk in made.chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= made.lines, chunk
        assert 0 < len(chunk.text) <= TEXT_CHARS, chunk
        assert len(chunk.signature) <= 300 and "\n" not in chunk.signature
        covered.update(range(chunk.start_line, chunk.end_line + 1))
        if chunk.parent is not None:
            assert ORDER.index(made.chunks[chunk.parent].level) < ORDER.index(chunk.level)
    assert covered == set(range(1, made.lines + 1))
    if not made.fallback and language != "jupyter":  # whose lines are JSON around what is told
        told = {line.strip() for chunk in made.chunks for line in chunk.text.split("\n")}
        assert not [
            line for line in lines if any(map(str.isalnum, line)) and len(line) < 3_000 and line.strip() not in told
        ]
    anchors = [chunk.anchor for chunk in made.chunks]
    assert len(anchors) == len(set(anchors)), anchors
    assert sum(chunk.level == Level.FILE for chunk in made.chunks) <= 1
    for symbol in made.symbols:
        assert symbol.name and len(symbol.name) <= 300
        assert not any(character == "#" or character.isspace() for character in symbol.name), symbol
        assert 1 <= symbol.start_line <= symbol.end_line <= made.lines
    return made


def changed(before: str, after: str, language: str) -> list[str]:
    """Return the texts of the second cut that the first did not have: what would have to be embedded."""
    known = {chunk.text for chunk in check(before, language).chunks}
    return [chunk.text for chunk in check(after, language).chunks if chunk.text not in known]
