"""The cut of every fixture, as a reader sees it. To accept a change: ``python tests/chunkers/test_cut_golden.py``."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from laws import FIXTURES

from chunkers.chunk import Cut
from chunkers.cut import CUTTER_VERSION, cut
from chunkers.languages import detect

GOLDEN = Path(__file__).parent / "golden"


def render(made: Cut) -> str:
    """Return chunks, then symbols, one a line."""
    rows = [f"{made.lines} lines{'; ' + made.fallback if made.fallback else ''}", ""]
    for chunk in made.chunks:
        above = "-" if chunk.parent is None else made.chunks[chunk.parent].anchor
        span = f"{chunk.start_line}-{chunk.end_line}"
        rows.append(f"{chunk.level:6} {span:8} {chunk.anchor}  <{above}>  {chunk.signature}".rstrip())
    rows.append("")
    for symbol in made.symbols:
        span = f"{symbol.start_line}-{symbol.end_line}"
        rows.append(f"{symbol.kind:11} {span:8} {symbol.name}  {symbol.signature}  // {symbol.doc}".rstrip("/ "))
    return "\n".join(rows) + "\n"


def digest() -> str:
    """Return the cutter's version and a hash of everything it makes of the fixtures."""
    made = repr([(name, cut(text, detect(name))) for name, text in FIXTURES.items()])
    return f"{CUTTER_VERSION} {sha256(made.encode()).hexdigest()}\n"


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_is_cut_as_its_golden_file_says(name: str) -> None:
    made = cut(FIXTURES[name], detect(name))
    assert render(made) == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_a_changed_cut_needs_a_new_cutter_version() -> None:
    """Once released, raise CUTTER_VERSION whenever this digest changes: old cuts must not pass for new ones."""
    assert digest() == (GOLDEN / "digest").read_text("utf-8")


if __name__ == "__main__":
    for name, text in FIXTURES.items():
        (GOLDEN / f"{name}.txt").write_text(render(cut(text, detect(name))), "utf-8")
    (GOLDEN / "digest").write_text(digest(), "utf-8")
