"""Documents by headings, in tables of small texts."""

from __future__ import annotations

import pytest
from laws import check

from chunkers.chunk import Level
from chunkers.cut import cut

HEADINGS = [
    # language, text, names of the sections
    ("markdown", "# A\n\n## B c\n\n## B c\n", ["A", "A.B-c", "A.B-c"]),
    ("markdown", "Title\n=====\n\nSub\n---\n", ["Title", "Title.Sub"]),
    ("markdown", "# A\n```\n# no\n```\n~~~\n# no\n~~~\n", ["A"]),
    ("markdown", "# A\n````\n```\n# no\n````\n## B\n", ["A", "A.B"]),
    ("markdown", "---\ntitle: x\n---\n# A\n", ["A"]),
    ("markdown", "#no\n#\ttab ##\n", ["tab"]),
    ("markdown", "# `code` and [link](http://x.y/z)\n", ["code-and-link"]),
    ("markdown", "### deep\n# A\n### skip\n", ["deep", "A", "A.skip"]),
    ("markdown", "# v1.2: what #3 @ you\n", ["v1-2-what-3-you"]),
    ("markdown", "# 安装\n", ["安装"]),
    ("markdown", "# A\r\n\r\n## B\r\n", ["A", "A.B"]),
    ("rst", "A\n=\n\nB\n-\n\nC\n=\n", []),  # an underline has three characters at least
    ("rst", "Abc\n===\n\nBcd\n---\n\nCde\n===\n", ["Abc", "Abc.Bcd", "Cde"]),
    ("rst", "===\nAbc\n===\n\nBcd\n===\n", ["Abc", "Abc.Bcd"]),
    ("asciidoc", "= A\n\n== B\n----\n== no\n----\n", ["A", "A.B"]),
]


@pytest.mark.parametrize(("language", "text", "sections"), HEADINGS)
def test_headings_are_found(language: str, text: str, sections: list[str]) -> None:
    assert [symbol.name for symbol in check(text, language).symbols] == sections


def test_a_long_section_is_split_at_paragraphs_under_its_path() -> None:
    paragraphs = "\n\n".join(f"Paragraph {i} " + "word " * 60 for i in range(30))
    made = check(f"# Guide\n\n## Setup\n\n{paragraphs}\n", "markdown")
    pieces = [chunk for chunk in made.chunks if chunk.symbol == "Guide.Setup"]
    assert len(pieces) > 3
    assert {chunk.level for chunk in pieces} == {Level.METHOD}
    assert all(chunk.text.startswith("Guide > Setup\n") for chunk in pieces)
    assert pieces[2].anchor == "Guide.Setup:3"


def test_a_document_without_headings_is_cut_by_lines() -> None:
    assert [chunk.anchor for chunk in cut("Just words.\n", "markdown").chunks] == ["module"]
