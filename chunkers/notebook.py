"""Cuts Jupyter notebooks by cell: Markdown cells by heading, code cells as their text; outputs are never looked at.

A cell is a chunk of level ``method`` under the heading above it. Texts are what the cells say, line numbers are those
of the JSON file, found by decoding it once more value by value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from chunkers.chunk import Cut, Level, Symbol
from chunkers.draft import FILE, MODULE, Draft, finish
from chunkers.lines import (
    MERGED,
    TINY_CHARS,
    WHOLE_CHARS,
    border_key,
    bounded_texts,
    clip,
    size_of,
    split_lines,
    split_rows,
    split_units,
    text_of,
    text_ranks,
)
from chunkers.naming import qualify
from chunkers.plain import beginning, cut_plain
from chunkers.prose import OUTLINE_CHARS, markdown_headings, slug

_SPACE = re.compile(r"[ \t\r\n]*")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_EMBEDDED = re.compile(r"(data:[\w/+.-]{1,80};base64,)[A-Za-z0-9+/=\s]{100,}")
_DECODER = json.JSONDecoder()


@dataclass(slots=True, eq=False)
class Part:
    """A cell, or what stands under one heading of a Markdown cell: its lines and the file's row of each."""

    kind: str
    lines: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    depth: int = 0  # of its heading, 0 without one
    title: str = ""
    name: str = ""
    anchor: str = MODULE
    path: str = ""

    @property
    def is_tiny(self) -> bool:
        return size_of(self.lines, 0, len(self.lines) - 1) < TINY_CHARS


def cut_notebook(text: str) -> Cut:
    """Cut a notebook by cell; what is no notebook is cut by lines, saying so."""
    if not text.strip():
        return Cut((), (), len(split_lines(text)))
    try:
        parts = [part for kind, lines, rows in _cells(text) for part in _parts(kind, lines, rows)]
    except (ValueError, RecursionError) as error:
        return cut_plain(text, f"no notebook: {type(error).__name__}: {error}"[:300])
    last = text.count("\n") - text.endswith("\n")
    _name(parts)
    drafts = [draft for group in _grouped(parts) for draft in _drafts(group)]
    if {row for draft in drafts for row in range(draft.first, draft.last + 1)} != set(range(last + 1)):
        outline = _outline(parts) or beginning(split_lines(text))
        file = Draft(Level.FILE, FILE, "", "", 0, last, outline, None)
        for draft in drafts:
            draft.parent = file
        drafts.append(file)
    symbols = [
        Symbol(part.name, "section", part.rows[0] + 1, part.rows[-1] + 1, part.path, "") for part in parts if part.title
    ]
    return finish(drafts, symbols, last + 1)


def _cells(text: str) -> Iterator[tuple[str, list[str], list[int]]]:
    """Yield kind, lines and rows of every cell that says something; raise ValueError for what is no notebook."""
    top = dict(_members(text, _SPACE.match(text).end()))  # type: ignore[union-attr]
    sheets = [dict(_members(text, at)) for at in _items(text, top["worksheets"])] if "worksheets" in top else [top]
    starts = [sheet["cells"] for sheet in sheets if "cells" in sheet]  # before format 4 they stood in worksheets
    if not starts:
        raise ValueError("it has no cells")
    newlines = _Rows(text)
    for start in starts:
        for at in _items(text, start):
            cell = dict(_members(text, at))
            source = cell.get("source", cell.get("input"))
            kind = _value(text, cell["cell_type"]) if "cell_type" in cell else ""
            if source is not None:
                lines, rows = _source(text, source, newlines)
                if kind == "heading":  # of its own before format 4, now Markdown
                    kind, lines[0] = "markdown", f"{'#' * _level(text, cell)} {lines[0]}"
                if any(map(str.isalnum, "".join(lines))):
                    yield str(kind), lines, rows


def _level(text: str, cell: dict[str, int]) -> int:
    level = _value(text, cell["level"]) if "level" in cell else 1
    return min(max(level, 1), 6) if isinstance(level, int) else 1


class _Rows:
    """Tells the row of rising offsets."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.row = text, 0, 0

    def __call__(self, offset: int) -> int:
        self.row += self.text.count("\n", self.at, offset)
        self.at = offset
        return self.row


def _source(text: str, at: int, row_of: _Rows) -> tuple[list[str], list[int]]:
    """Return the lines of a cell's source, a string or a list of strings, and their rows in the file."""
    lines, rows = [""], [row_of(at)]
    for start in _items(text, at) if text[at] == "[" else [at]:
        value = _value(text, start)
        row = row_of(start)
        if not isinstance(value, str):
            raise ValueError("a cell's source is no text")
        first, *others = _EMBEDDED.sub(r"\1", _NO_TEXT.sub("\ufffd", value)).split("\n")
        if not lines[-1]:
            rows[-1] = row
        lines[-1] += first
        lines += others
        rows += [row] * len(others)
    if not lines[-1]:
        lines.pop()
        rows.pop()
    return lines, rows


def _value(text: str, at: int) -> object:
    value: object = _DECODER.raw_decode(text, at)[0]
    return value


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the keys of the JSON object at an offset, each with the offset of its value."""
    for start, end in _values(text, at, "{"):
        key = _value(text, start)
        at = _after(text, end, ":")
        if not isinstance(key, str):
            raise ValueError("a key is no text")
        yield key, at


def _items(text: str, at: int) -> Iterator[int]:
    """Yield the offsets of the values of the JSON array at an offset."""
    return (start for start, _ in _values(text, at, "["))


def _values(text: str, at: int, opening: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each value of an array, or of each key of an object."""
    closing = "}" if opening == "{" else "]"
    at = _after(text, at, opening)
    while text[at : at + 1] != closing:
        start = at
        end = _DECODER.raw_decode(text, start)[1]
        yield start, end
        at = _DECODER.raw_decode(text, _after(text, end, ":"))[1] if opening == "{" else end
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] != closing:
            at = _after(text, at, ",")


def _after(text: str, at: int, mark: str) -> int:
    """Return the offset of what follows a mark that must stand here."""
    space = _SPACE.match(text, at)
    at = space.end() if space else at
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark!r} expected at character {at}")
    space = _SPACE.match(text, at + 1)
    return space.end() if space else at + 1


def _parts(kind: str, lines: list[str], rows: list[int]) -> Iterator[Part]:
    """Divide a Markdown cell at its headings; any other cell is one part."""
    headings = markdown_headings(lines) if kind == "markdown" else []
    borders = [0, *(heading.first for heading in headings if heading.first), len(lines)]
    by_row = {heading.first: heading for heading in headings}
    for a, b in pairwise(borders):
        if not any(map(str.isalnum, "".join(lines[a:b]))):
            continue
        part = Part(kind, lines[a:b], rows[a:b])
        if a in by_row:
            part.depth, part.title = by_row[a].depth, by_row[a].title
        yield part


def _name(parts: Sequence[Part]) -> None:
    """Fill in names, anchors and paths from the headings above."""
    counts: dict[str, int] = {}
    above: list[Part] = []
    for part in parts:
        if part.title:
            above = [*(p for p in above if p.depth < part.depth), part]
            part.name = qualify(*(slug(p.title) for p in above))
            part.path = clip(" > ".join(p.title for p in above), 300)
            count = counts[part.name] = counts.get(part.name, 0) + 1
            part.anchor = part.name if count == 1 else f"{part.name}@{count}"
        elif above:
            part.name, part.anchor, part.path = above[-1].name, above[-1].anchor, above[-1].path


def _grouped(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield parts one by one, but tiny neighbours of one kind and heading together."""
    for (_, _, is_tiny), run in groupby(parts, key=lambda part: (part.kind, part.anchor, part.is_tiny)):
        group = list(run)
        if not is_tiny:
            yield from ([part] for part in group)
            continue
        sizes = [size_of(part.lines, 0, len(part.lines) - 1) for part in group]
        keys = [border_key(0, part.lines[0]) for part in group]
        yield from (group[low:high] for low, high in split_units(sizes, keys, MERGED))


def _drafts(group: Sequence[Part]) -> Iterator[Draft]:
    """Yield the chunk of a part or of tiny neighbours, or the pieces of a long part."""
    lines = [line for part in group for line in part.lines]
    rows = [row for part in group for row in part.rows]
    head = group[0]
    last = len(lines) - 1
    for a, b in split_rows(lines, 0, last, text_ranks(lines, 0, last)):
        header = f"{head.path}\n" if head.title and (a > 0 or " > " in head.path) else ""
        for text in bounded_texts(text_of(lines, a, b)):
            if text.strip():
                is_piece = not head.title or a > 0 or len(text) > WHOLE_CHARS
                args = (head.anchor, head.name, head.path, rows[a], rows[b], header + text, None)
                yield Draft(Level.METHOD, *args, is_piece=is_piece)


def _outline(parts: Sequence[Part]) -> str:
    """Return the headings, indented by depth; without any, the first line of each cell."""
    told = ["  " * (part.depth - 1) + part.title for part in parts if part.title]
    told = told or [clip(next(filter(str.strip, part.lines)), 200) for part in parts]
    return "\n".join(told)[:OUTLINE_CHARS].rstrip()
