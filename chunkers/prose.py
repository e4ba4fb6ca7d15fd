"""Cuts documents by their headings. Knows Markdown, reStructuredText and AsciiDoc, and nothing of code.

A section is a chunk of level ``method``: that is the level which answers a question, in documents as in code. Its
symbol and anchor are the path of its headings (``Install.From-source``); the file chunk is the outline of all headings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chunkers.chunk import Cut, Level, Symbol
from chunkers.draft import FILE, MODULE, Draft, finish
from chunkers.lines import (
    WHOLE_CHARS,
    Sizes,
    border_key,
    bounded_texts,
    bounds_for,
    clip,
    long_line_note,
    size_of,
    split_lines,
    split_rows,
    split_units,
    text_of,
    text_ranks,
)
from chunkers.naming import first_sentence, qualify
from chunkers.plain import cut_plain

Flavour = Literal["markdown", "rst", "asciidoc"]
TITLE_CHARS = 200
SECTION_CHARS = 200  # smaller neighbours share a chunk
OUTLINE_CHARS = 2_400
_SLUG_CHARS = 60
_MERGED = Sizes(200, 1_200)
_IN_FENCE = 4  # how much worse a border inside a code sample is

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_BLOCK = re.compile(r"^(-{4,}|={4,}|\.{4,}|\+{4,}|/{4,})\s*$")
_ATX = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t\r]*$")
_SETEXT = re.compile(r"^ {0,3}(=+|-+)[ \t\r]*$")
_NOT_TITLE = re.compile(r"^\s*(?:[-*+>|]|\.\. |:\w+:|\d+[.)]|```|~~~|    )")
_ADOC = re.compile(r"^(={1,6})[ \t]+(\S.*?)[ \t\r]*$")
_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1{2,}[ \t\r]*$")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|:\w+:`([^`<]*)[^`]*`|[`*]+|</?\w[^>]*>")


@dataclass(slots=True, eq=False)
class Section:
    """A heading and the rows up to the next one; the text before the first heading has no title."""

    first: int
    last: int  # of the heading until sections are made
    depth: int
    title: str
    body: int = 0
    name: str = ""
    anchor: str = MODULE
    path: str = ""


def cut_prose(text: str, flavour: Flavour) -> Cut:
    """Cut a document by headings; one without headings is cut by lines."""
    lines = split_lines(text)
    if not text.strip():
        return Cut((), (), len(lines))
    headings, fenced = _FINDERS[flavour](lines)
    if not headings:
        return cut_plain(text)
    sections = _sections(lines, headings)
    file = Draft(Level.FILE, FILE, "", "", 0, len(lines) - 1, _outline(lines, sections), None)
    drafts = [file]
    for group in _grouped(lines, sections):
        drafts += _section_drafts(lines, group, fenced, file)
    symbols = [_symbol(lines, section, i, sections) for i, section in enumerate(sections) if section.title]
    return finish(drafts, symbols, len(lines), long_line_note(lines))


def _sections(lines: Sequence[str], headings: Sequence[Section]) -> list[Section]:
    """Return contiguous sections over all rows, with names and paths from the headings above."""
    sections = list(headings)
    for section in sections:
        section.body = section.last + 1
    if any(line.strip() for line in lines[: sections[0].first]):
        sections.insert(0, Section(0, 0, 0, ""))
    else:
        sections[0].first = 0
    counts: dict[str, int] = {}
    above: list[Section] = []
    for section, after in zip(sections, [*sections[1:], None], strict=True):
        section.last = after.first - 1 if after is not None else len(lines) - 1
        if not section.title:
            continue
        above = [*(s for s in above if s.depth < section.depth), section]
        section.name = qualify(*(slug(s.title) for s in above))
        section.path = clip(" > ".join(s.title for s in above), 300)
        count = counts[section.name] = counts.get(section.name, 0) + 1
        section.anchor = section.name if count == 1 else f"{section.name}@{count}"
    return sections


def slug(title: str) -> str:
    """Return a heading as part of an anchor: words joined by ``-``, no dots, ``#``, ``:`` or ``@``."""
    return re.sub(r"[\s.#:@/\\\x00]+", "-", title)[:_SLUG_CHARS].strip("-") or "section"


def _symbol(lines: Sequence[str], section: Section, at: int, sections: Sequence[Section]) -> Symbol:
    """Return a heading as a definition that reaches to the next heading of its depth or above."""
    last = next((s.first - 1 for s in sections[at + 1 :] if s.depth <= section.depth), len(lines) - 1)
    return Symbol(section.name, "section", section.first + 1, last + 1, section.path, _opening(lines, section))


def _opening(lines: Sequence[str], section: Section) -> str:
    """Return the first sentence under a heading, "" where only code, lists, tables or directives follow."""
    if section.body > section.last:
        return ""
    for paragraph in re.split(r"\n\s*\n", text_of(lines, section.body, min(section.last, section.body + 12))):
        if paragraph.strip() and not _NOT_TITLE.match(paragraph) and not _BLOCK.match(paragraph.partition("\n")[0]):
            return first_sentence(paragraph)
    return ""


def _outline(lines: Sequence[str], sections: Sequence[Section]) -> str:
    """Return the headings, indented by depth, and what is said before the second one."""
    told = [s for s in sections if s.title]
    opening = _opening(lines, told[0])
    kept, room = [], OUTLINE_CHARS
    for entry in ([opening] if opening else []) + ["  " * (s.depth - 1) + s.title for s in told]:
        room -= len(entry) + 1
        if room < 0:
            break
        kept.append(entry)
    return "\n".join(kept)


def _grouped(lines: Sequence[str], sections: Sequence[Section]) -> list[list[Section]]:
    groups: list[list[Section]] = []
    tiny: list[Section] = []
    for section in [*sections, None]:
        if section is not None and size_of(lines, section.first, section.last) < SECTION_CHARS:
            tiny.append(section)
            continue
        sizes = [size_of(lines, s.first, s.last) for s in tiny]
        keys = [border_key(s.depth, s.anchor) for s in tiny]
        ranges = split_units(sizes, keys, bounds_for(sum(sizes), _MERGED)) if tiny else []
        groups += [tiny[low:high] for low, high in ranges]
        tiny = []
        if section is not None:
            groups.append([section])
    return groups


def _section_drafts(lines: Sequence[str], group: Sequence[Section], fenced: set[int], file: Draft) -> list[Draft]:
    """Return the chunk of a section or of tiny neighbours, or the pieces of a long section."""
    first, last = group[0].first, group[-1].last
    named = next((section for section in group if section.title), group[0])
    header = f"{named.path}\n" if " > " in named.path else ""
    ranges = [(first, last)]
    if size_of(lines, first, last) > WHOLE_CHARS:
        ranks = text_ranks(lines, first, last)
        ranks = [rank + _IN_FENCE * (first + i in fenced) for i, rank in enumerate(ranks)]
        ranges = split_rows(lines, first, last, ranks)
    drafts = []
    for a, b in ranges:
        above = header if a == first else f"{named.path}\n" if named.path else ""
        for text in bounded_texts(text_of(lines, a, b)):
            if text.strip():
                args = (named.anchor, named.name, named.path, a, b, above + text, file)
                drafts.append(Draft(Level.METHOD, *args, is_piece=len(ranges) > 1 or len(text) > WHOLE_CHARS))
    return drafts


def _title(raw: str) -> str:
    return clip(_LINK.sub(lambda match: match[1] or match[2] or "", raw), TITLE_CHARS) or "section"


def markdown_headings(lines: Sequence[str]) -> list[Section]:
    """Return the headings of Markdown lines (at least one), with row, depth and title."""
    return _markdown(lines)[0]


def _markdown(lines: Sequence[str]) -> tuple[list[Section], set[int]]:
    found: list[Section] = []
    fenced: set[int] = set()
    fence = ""
    start = 0
    if lines[0].rstrip() == "---":  # front matter
        start = next((row + 1 for row in range(1, min(len(lines), 200)) if lines[row].rstrip() == "---"), 0)
    for row in range(start, len(lines)):
        line = lines[row]
        mark = _FENCE.match(line)
        if fence:
            fenced.add(row)
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif line.lstrip().startswith("#") and (atx := _ATX.match(line)):
            found.append(Section(row, row, len(atx[1]), _title(atx[2] or "")))
        elif (setext := _SETEXT.match(line)) and row > start and _is_setext_title(lines, row - 1, found):
            found.append(Section(row - 1, row, 1 if setext[1][0] == "=" else 2, _title(lines[row - 1])))
    return found, fenced


def _is_setext_title(lines: Sequence[str], row: int, found: Sequence[Section]) -> bool:
    """Return whether a row above ``===`` or ``---`` is a one-line paragraph and no list, table or heading."""
    line = lines[row]
    before = lines[row - 1].strip() if row else ""
    taken = found and found[-1].first == row
    return bool(line.strip()) and not before and not taken and not _NOT_TITLE.match(line) and "|" not in line


def _rst(lines: Sequence[str]) -> tuple[list[Section], set[int]]:
    found: list[Section] = []
    styles: list[str] = []
    for row in range(1, len(lines)):
        line = lines[row].rstrip()
        title = lines[row - 1].strip()
        if not title or not _ADORNMENT.match(line) or _ADORNMENT.match(lines[row - 1]) or len(line) < len(title):
            continue
        over = row > 1 and lines[row - 2].rstrip() == line
        if not over and (lines[row - 1][:1].isspace() or (row > 1 and lines[row - 2].strip())):
            continue
        style = line[0] + ("^" if over else "")
        if style not in styles:
            styles.append(style)
        found.append(Section(row - 2 if over else row - 1, row, styles.index(style) + 1, _title(title)))
    return found, set()


def _asciidoc(lines: Sequence[str]) -> tuple[list[Section], set[int]]:
    found: list[Section] = []
    fenced: set[int] = set()
    block = ""
    for row, line in enumerate(lines):
        mark = _BLOCK.match(line)
        if block:
            fenced.add(row)
            block = "" if mark and line.rstrip() == block else block
        elif mark:
            block = line.rstrip()
        elif heading := _ADOC.match(line):
            found.append(Section(row, row, len(heading[1]), _title(heading[2])))
    return found, fenced


_FINDERS = {"markdown": _markdown, "rst": _rst, "asciidoc": _asciidoc}
