"""The cut of every fixture, as a reader sees it. To accept a change: ``python tests/chunkers/test_cut_golden.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from laws import FIXTURES

from chunkers.chunk import Cut
from chunkers.cut import cut
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


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_is_cut_as_its_golden_file_says(name: str) -> None:
    made = cut(FIXTURES[name], detect(name))
    assert render(made) == (GOLDEN / f"{name}.txt").read_text("utf-8")


if __name__ == "__main__":
    for name, text in FIXTURES.items():
        (GOLDEN / f"{name}.txt").write_text(render(cut(text, detect(name))), "utf-8")
