"""From lines that match to rows: each line counts for the smallest class or method around it, else for its file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flows.store import grep
from flows.store.grep import Candidate, Defined, Lookup, Piece, Span
from mcp_tools import rules
from mcp_tools.matching import Pattern
from mcp_tools.results import Line

if TYPE_CHECKING:
    from flows.store.connect import Connection

MAX_SHOWN = 4  # lines of a row
MAX_WIDTH = 160  # characters of one
MAX_NAMES = 64  # different matches of a file, of which the identifiers may be definitions
OUTSIDE = 0.5  # what a line outside every class and method counts
_IDENTIFIER = re.compile(rb"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Found:
    """A file that matches: its lines in their order, and the identifiers that were matched."""

    candidate: Candidate
    lines: list[int]
    names: frozenset[str]


@dataclass(slots=True)
class Group:
    """A row in the making: lines of one chunk, or of a file outside every class and method (``ord`` None)."""

    branch_id: int
    path: str
    language: str
    cut_id: int
    blob_id: int
    ord: int | None
    lines: list[int] = field(default_factory=list)
    defines: bool = False
    definition: int = 0  # the line to show where none matches

    @property
    def score(self) -> float:
        """The number of lines that match, half of it for text outside every class and method."""
        return len(self.lines) * (1.0 if self.ord is not None else OUTSIDE)


def lines(pattern: Pattern, pieces: Iterable[Piece]) -> tuple[list[int], frozenset[str]]:
    """Return the numbers of the lines that match, and the identifiers in what they matched first."""
    numbers: list[int] = []
    texts: set[bytes] = set()
    for first, body in pattern.searched(pieces):
        for line, _, start, end in pattern.lines(body):
            numbers.append(first + line - 1)
            if len(texts) < MAX_NAMES:
                texts.add(body[start:end])
    names = {name for text in texts for name in _IDENTIFIER.findall(text)}
    return numbers, frozenset(name.decode() for name in names)


def groups(connection: Connection, matched: Sequence[Found], pattern: Pattern) -> list[Group]:
    """Return one group for each chunk or rest of a file that has a matching line."""
    cut_ids = {one.candidate.cut_id for one in matched}
    spans = grep.spans(connection, {one.candidate.cut_id: (one.lines[0], one.lines[-1]) for one in matched})
    symbols: dict[int, list[Defined]] = {}
    names = frozenset().union(*(one.names for one in matched))
    for symbol in grep.defined(connection, cut_ids, names) if names else ():
        symbols.setdefault(symbol.cut_id, []).append(symbol)
    return [
        group
        for one in matched
        for group in _of_file(one, spans.get(one.candidate.cut_id, []), symbols.get(one.candidate.cut_id, []), pattern)
    ]


def _of_file(one: Found, spans: Sequence[Span], symbols: Sequence[Defined], pattern: Pattern) -> list[Group]:
    made: dict[int | None, Group] = {}
    at = enclosing(spans, one.lines)
    for line, ord in zip(one.lines, at, strict=True):
        group = made.get(ord)
        if group is None:
            c = one.candidate
            group = made[ord] = Group(c.branch_id, c.path, c.language, c.cut_id, c.blob_id, ord)
        group.lines.append(line)
    chunk_of = dict(zip(one.lines, at, strict=True)) if symbols else {}
    for symbol in symbols:
        if _is_named(symbol, one.names, pattern):
            first = next((line for line in one.lines if symbol.start_line <= line <= symbol.end_line), None)
            if first is not None:
                made[chunk_of[first]].defines = True
    return list(made.values())


def _is_named(symbol: Defined, names: frozenset[str], pattern: Pattern) -> bool:
    return pattern.ignores_case or symbol.name.rpartition(".")[2] in names


def enclosing(spans: Sequence[Span], numbers: Sequence[int]) -> list[int | None]:
    """Return, for each line, the innermost of nested spans that holds it; both are in their order."""
    result: list[int | None] = []
    around: list[Span] = []
    coming = iter(spans)
    following = next(coming, None)
    for number in numbers:
        while following is not None and following.start_line <= number:
            around.append(following)
            following = next(coming, None)
        while around and around[-1].end_line < number:
            around.pop()
        result.append(around[-1].ord if around else None)
    return result


def looked_up(connection: Connection, lookups: Sequence[Lookup], groups: Sequence[Group]) -> list[Group]:
    """Mark the groups that define a name that was looked up, and return those that have no matching line."""
    known = {(group.branch_id, group.path, group.ord): group for group in groups}
    lines: dict[int, list[int]] = {}
    for one in lookups:
        lines.setdefault(one.cut_id, []).append(one.start_line)
    spans = grep.spans(connection, {cut_id: (min(some), max(some)) for cut_id, some in lines.items()}) if lines else {}
    new: list[Group] = []
    for one in lookups:
        (ord,) = enclosing(spans.get(one.cut_id, []), [one.start_line])
        group = known.get((one.branch_id, one.path, ord))
        if group is None:
            group = Group(one.branch_id, one.path, one.language, one.cut_id, one.blob_id, ord)
            known[one.branch_id, one.path, ord] = group
            group.definition = one.start_line
            new.append(group)
        group.defines = True
    return new


def rank(groups: Iterable[Group]) -> list[Group]:
    """Return definitions first, then code before tests before documents, then by score, then by place."""

    def order(group: Group) -> tuple[bool, int, float, str, int, int]:
        kind = rules.kind(group.path, group.language)
        return not group.defines, kind, -group.score, group.path, group.branch_id, group.ord or 0

    return sorted(groups, key=order)


def wanted(group: Group) -> list[int]:
    """Return the lines of a group that are shown: the first that match, else the definition."""
    return group.lines[:MAX_SHOWN] or [group.definition]


def shown(pattern: Pattern, pieces: Iterable[Piece], group: Group) -> list[Line]:
    """Return the lines of a group that are shown, long ones cut around the match, from the pieces that hold them."""
    if not group.lines:
        first, body = max((piece for piece in pieces if piece.line <= group.definition), default=Piece(1, b""))
        text = body.split(b"\n", group.definition - first + 1)[group.definition - first]
        return [Line(line=group.definition, text=_around(text, 0, 0))]
    numbers = wanted(group)
    result: list[Line] = []
    for first, body in pattern.searched(pieces):
        for line, line_start, start, _ in pattern.lines(body):
            if first + line - 1 in numbers:
                result.append(Line(line=first + line - 1, text=_around(body, line_start, start)))
                if len(result) == len(numbers):
                    return result
    return result


def _around(body: bytes, line_start: int, start: int) -> str:
    """Return a line without the white space around it, at most MAX_WIDTH characters with the match's begin."""
    end = body.find(b"\n", line_start)
    stop = end if end >= 0 else len(body)
    near = 4 * MAX_WIDTH  # bytes to look at, of a line that may be a megabyte
    low, high = max(line_start, start - near), min(stop, start + near)
    before = body[low:start].decode(errors="ignore")
    after = body[start:high].decode(errors="ignore")
    text, at = before + after, len(before)
    if low == line_start:
        text = text.lstrip()
        at = max(0, at - (len(before + after) - len(text)))
    if high == stop:
        text = text.rstrip()
    whole = low == line_start and high == stop
    if whole and len(text) <= MAX_WIDTH:
        return text
    room = MAX_WIDTH - 2  # for the signs that something is missing
    first = 0 if low == line_start and at <= room // 2 else max(0, min(at - room // 3, len(text) - room))
    cut = text[first : first + room]
    left = "…" if first or low > line_start else ""
    right = "…" if first + room < len(text) or high < stop else ""
    return left + cut + right
