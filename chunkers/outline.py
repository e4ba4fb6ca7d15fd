"""Texts that stand for something longer: the file's outline, a class's skeleton, a long method's head.

None of them holds a body, so that an edit inside a method changes no text but the method's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from chunkers.comments import comment_end, comment_text, docstring_at
from chunkers.definitions import CLASS, CONST, Definition
from chunkers.languages import Comments
from chunkers.lines import clip, size_of, text_of
from chunkers.plain import beginning

OUTLINE_CHARS = 2_400  # a file's outline
SKELETON_CHARS = 3_200  # a class's skeleton; its own lines always fit
HEADER_CHARS = 1_200  # docs, decorators and signature as they stand
OWN_CHARS = 1_500  # fields and constants of a class that its skeleton holds as they stand
DOC_CHARS = 600
IMPORT_CHARS = 600
_LICENSE = re.compile(r"copyright|licen[cs]e|SPDX|all rights reserved", re.IGNORECASE)
_QUOTES = re.compile(r"\s*[rRuUbB]{0,2}(?:\"|')")


def file_outline(
    lines: Sequence[str],
    imports: Sequence[tuple[int, int]],
    members: Sequence[Definition],
    source: bytes,
    comments: Comments,
) -> str:
    """Return what a file is about: first comment, imports, definitions with signatures; else its first lines."""
    parts = [_top_comment(lines, comments, source)]
    parts.append(_fill((clip(text_of(lines, a, b), 200) for a, b in imports), IMPORT_CHARS))
    room = OUTLINE_CHARS - sum(len(part) + 1 for part in parts)
    parts.append(_fill((_entry(member) for member in members), room))
    return "\n".join(part for part in parts if part) or beginning(list(lines))


def _entry(member: Definition) -> str:
    """Return a member's signature, with the names of what a class holds."""
    if member.group != CLASS or not member.children:
        return member.signature
    inner = ", ".join(child.name.rpartition(".")[2] for child in member.children[:60] if child.group != CONST)
    return f"{member.signature}: {clip(inner, 300)}" if inner else member.signature


def _fill(entries: Iterable[str], room: int) -> str:
    """Join entries by lines while they fit."""
    kept: list[str] = []
    for entry in entries:
        room -= len(entry) + 1
        if room < 0:
            break
        kept.append(entry)
    return "\n".join(kept)


def _top_comment(lines: Sequence[str], comments: Comments, source: bytes) -> str:
    """Return the first paragraph of the file's docstring or of its first comment that is no license."""
    row = 0
    while row < min(len(lines), 200):
        stripped = lines[row].strip()
        if not stripped or stripped.startswith("#!"):
            row += 1
            continue
        if comments == "python" and _QUOTES.match(stripped):
            offset = len("\n".join(lines[:row]).encode("utf-8", "surrogatepass")) + (1 if row else 0)
            offset += len(lines[row]) - len(lines[row].lstrip())
            return _paragraphs(docstring_at(source, offset, comments))
        last = comment_end(lines, row, comments)
        if last < row:
            return ""
        block = "\n".join(lines[row : last + 1])
        said = comment_text(lines[row : last + 1], comments)
        if said and not _LICENSE.search(block[:3_000]) and len(said) > 8:
            return _paragraphs(said)
        row = last + 1
    return ""


def _paragraphs(text: str) -> str:
    return clip(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0], DOC_CHARS)


def header_last(definition: Definition) -> int:
    """Return the last row of what stands before a definition's body."""
    body_row = definition.body_row
    if body_row is None:
        return definition.first
    return max(definition.first, body_row - 1)


def header(lines: Sequence[str], definition: Definition) -> str:
    """Return docs, decorators and signature as they stand, or in short if they are long."""
    last = header_last(definition)
    if size_of(lines, definition.lead, last) <= HEADER_CHARS:
        text = text_of(lines, definition.lead, last)
    else:
        text = "\n".join(part for part in (definition.doc, definition.signature) if part)
    return f"{definition.name}\n{text}" if "." in definition.name else text


def own_rows(
    definition: Definition, members: Sequence[Definition], first: int, last: int
) -> list[tuple[int, int, Definition | None]]:
    """Return the body in order: row ranges outside members (None) and the members."""
    rows: list[tuple[int, int, Definition | None]] = []
    row = max(first, header_last(definition) + 1)
    for member in members:
        if row < member.lead:
            rows.append((row, member.lead - 1, None))
        rows.append((member.lead, member.last, member))
        row = max(row, member.last + 1)
    if row <= last:
        rows.append((row, last, None))
    return rows


def tells_own(lines: Sequence[str], definition: Definition, members: Sequence[Definition]) -> bool:
    """Return whether a class's docs and own lines are few enough for its skeleton to hold them all."""
    if size_of(lines, definition.lead, header_last(definition)) > HEADER_CHARS:
        return False
    own = own_rows(definition, members, definition.first, definition.last)
    return sum(size_of(lines, a, b) for a, b, member in own if member is None) <= OWN_CHARS


def skeleton(
    lines: Sequence[str], definition: Definition, members: Sequence[Definition], source: bytes, comments: Comments
) -> str:
    """Return a class without its members' bodies: docs, signature, fields if they are few, member signatures."""
    parts = [header(lines, definition)]
    own_told = tells_own(lines, definition, members)
    if not own_told and definition.body is not None:
        parts.append(clip(docstring_at(source, definition.body, comments), DOC_CHARS))
    body = own_rows(definition, members, definition.first, definition.last)
    own = sum(size_of(lines, a, b) for a, b, member in body if member is None) if own_told else 0
    room = SKELETON_CHARS - own - sum(map(len, parts))
    for first, last, member in body:
        if member is None:
            parts += [text_of(lines, first, last)] if own_told else []
        elif room > 0:
            parts.append("    " + member.signature)
            room -= len(parts[-1]) + 1
    return "\n".join(part for part in parts if part.strip())


def method_head(
    lines: Sequence[str], definition: Definition, members: Sequence[Definition], source: bytes, comments: Comments
) -> str:
    """Return docs and signature of a long method and the signatures of what it defines."""
    parts = [header(lines, definition)]
    if definition.body is not None:
        parts.append(clip(docstring_at(source, definition.body, comments), DOC_CHARS))
    parts.extend("    " + member.signature for member in members)
    return _fill([part for part in parts if part.strip()], OUTLINE_CHARS)
