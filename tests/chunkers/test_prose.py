"""Documents by headings, in tables of small texts."""

from __future__ import annotations

import json

import pytest
from laws import FIXTURES, check

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


def notebook(*cells: tuple[str, object], **options: int) -> str:
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}, **options)


NOTEBOOKS = [
    # text, anchors, fallback begins with
    (notebook(("markdown", ["# A\n"]), ("code", "x = 1")), ["A", "A:1"], ""),
    (notebook(("code", "x = 1\n\0\ud800")), ["module"], ""),
    (notebook(("code", []), ("code", "  \n")), ["file"], ""),
    (notebook(("markdown", "# A\nx\n## B\ny"), ("markdown", "# A"), indent=1), ["file", "A", "A.B", "A@2"], ""),
    (json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["y = 1"]}]}]}), ["module"], ""),
    ('{"cells": [', ["module"], "no notebook: "),
    ('{"cells": [{"source": 1}]}', ["module"], "no notebook: "),
    ('{"cells": [{"source": [[]]}]}', ["module"], "no notebook: "),
    ('{"metadata": {}}', ["module"], "no notebook: ValueError: it has no cells"),
    ("[]", ["module"], "no notebook: "),
]


@pytest.mark.parametrize(("text", "anchors", "fallback"), NOTEBOOKS)
def test_notebooks_are_cut_by_cell(text: str, anchors: list[str], fallback: str) -> None:
    made = check(text, "jupyter")
    assert [chunk.anchor for chunk in made.chunks] == anchors
    assert made.fallback.startswith(fallback) and bool(made.fallback) == bool(fallback)


def test_outputs_are_dropped_and_lines_are_those_of_the_file() -> None:
    text = FIXTURES["sample.ipynb"]
    lines = text.split("\n")
    for chunk in check(text, "jupyter").chunks:
        assert "OUTPUT" not in chunk.text and "ATTACHMENT" not in chunk.text
        if chunk.level != Level.FILE:
            first = chunk.text.split("\n")[" > " in chunk.text]
            assert json.dumps(first)[1:-1] in lines[chunk.start_line - 1]
    output = {"output_type": "display_data", "data": {"image/png": "A" * 300_000}}
    cells = [
        {"cell_type": "markdown", "source": ["# R\n"]},
        {"cell_type": "code", "source": "r()", "outputs": [output]},
    ]
    assert [c.text for c in check(json.dumps({"cells": cells}), "jupyter").chunks] == ["# R", "r()"]


def test_embedded_images_are_dropped() -> None:
    made = check(notebook(("markdown", f"# A\n![a](data:image/png;base64,{'iVBO' * 900}) text")), "jupyter")
    assert made.chunks[0].text == "# A\n![a](data:image/png;base64,) text"
