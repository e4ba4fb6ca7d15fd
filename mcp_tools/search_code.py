"""search_code: every line that holds a text or matches a pattern, counted exactly, as rows of classes and methods."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkers import languages as language_table
from flows.errors import UsageError
from flows.store import grep
from flows.store.grep import Budget, Candidate, Lookup, Piece
from flows.wording import counted
from mcp_tools import found, render, scope
from mcp_tools.cursor import Cursor
from mcp_tools.found import Found, Group
from mcp_tools.index import STATEMENT_SECONDS, Index
from mcp_tools.matching import Pattern
from mcp_tools.results import CodeResult, CodeRow, Totals
from mcp_tools.scope import Scope
from mcp_tools.surface import argument

if TYPE_CHECKING:
    from flows.store.connect import Connection

MAX_LIMIT = 50
MAX_LOOKUPS = 50  # definitions of a full name
# What one answer may cost. None of it depends on the machine: the same request has the same answer everywhere.
BUDGET = Budget(whole=128 << 20, files=10_000, bytes=16 << 20, some=4_000)
MAX_LINES = 400_000
MAX_KEPT = 4 << 20  # bytes of texts that match, for the rows that show some of their lines
ENOUGH = 5_000  # lines, where not all that may match can be searched

Kept = dict[int, list[Piece]]  # texts by blob


@dataclass(frozen=True, slots=True)
class Request:
    """What is looked for, besides the scope."""

    pattern: str
    literal: bool
    ignore_case: bool
    multiline: bool

    @property
    def key(self) -> list[object]:
        """What a cursor belongs to."""
        return ["search_code", self.pattern, self.literal, self.ignore_case, self.multiline]

    def compile(self) -> Pattern:
        """Return the pattern; raises UsageError if it is none."""
        return Pattern(self.pattern, literal=self.literal, ignore_case=self.ignore_case, multiline=self.multiline)


def search_code(
    index: Index,
    pattern: str,
    *,
    limit: int = 10,
    repo: str = "",
    project: str = "",
    branch: str = "",
    paths: Sequence[str] = (),
    languages: Sequence[str] = (),
    literal: bool = False,
    ignore_case: bool = False,
    multiline: bool = False,
    cursor: str = "",
) -> CodeResult:
    """Return the classes and methods with lines that match, at most ``limit`` (1 to 50), and exact totals.

    An empty pattern with ``paths`` lists files.

    Raises:
        UsageError: a bad pattern, limit or cursor, a name that is not indexed, or a search that took too long.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"{argument('limit')} is {limit}: use 1 to {MAX_LIMIT}, and {argument('cursor')} for more")
    if not pattern and not any(path.strip() for path in paths):
        raise UsageError(
            f"the pattern is empty: give text or a regular expression, or {argument('paths')} to list files"
        )
    request = Request(pattern, literal, ignore_case, multiline)
    compiled = request.compile() if pattern else None
    with index.snapshot() as connection:
        where = scope.resolve(connection, repo=repo, project=project, branch=branch, languages=languages, paths=paths)
        if not where.branches:
            return _nothing(render.nothing_yet(connection, repo))
        start, moved = Cursor.start(cursor, request.key, where)
        if compiled is None:
            return _list_files(connection, request, where, start, limit, moved)
        return _search(connection, request, compiled, where, start, limit, moved)


def _nothing(note: str) -> CodeResult:
    totals = Totals(matches=0, files=0, chunks=0, exact=True)
    return CodeResult(result=[], totals=totals, freshness="", next_cursor="", note=note)


def _search(
    connection: Connection, request: Request, pattern: Pattern, where: Scope, start: int, limit: int, moved: str
) -> CodeResult:
    lookups = _lookups(connection, pattern, where)
    candidates, files = _candidates(connection, pattern, where)
    kept: Kept = {}
    most = MAX_LINES if len(candidates) == files else ENOUGH
    matched, searched = _match(connection, pattern, candidates, most, kept)
    groups = found.groups(connection, matched, pattern)
    rows = found.rank([*groups, *found.looked_up(connection, lookups, groups)])
    page = rows[start : start + limit]
    shown = render.fitting_lines(_rows(connection, pattern, where, page, kept))
    end = start + len(shown)
    totals = Totals(
        matches=sum(len(one.lines) for one in matched),
        files=len(matched),
        chunks=sum(1 for group in groups if group.ord is not None),
        exact=searched == files,
    )
    notes = [moved]
    if not totals.exact:
        notes.append(_unfinished(searched, files))
    if not rows:
        notes.append(render.nothing(connection, where))
    elif not groups:
        notes.append("no line has this text: the rows define the symbol of that name")
    elif not shown:
        notes.append("no more rows")
    notes.append(render.not_searched(grep.left_out(connection, where.filters)))
    return CodeResult(
        result=shown,
        totals=totals,
        freshness=render.freshness([where.branch(group.branch_id) for group in page[: len(shown)]] or where.branches),
        next_cursor=Cursor.at(end, request.key, where).encode() if end < len(rows) else "",
        note=_joined(notes),
    )


def _joined(notes: Sequence[str]) -> str:
    return "; ".join(note.removesuffix(".") for note in notes if note)


def _unfinished(searched: int, files: int) -> str:
    return (
        f"at least so many: of {counted(files, 'file')} that may match, the first {searched} were searched (code"
        f" first); narrow by {_narrower()}, or give a longer pattern, for exact totals"
    )


def _narrower() -> str:
    return f"{argument('repo')}, {argument('paths')} or {argument('languages')}"


def _candidates(connection: Connection, pattern: Pattern, where: Scope) -> tuple[list[Candidate], int]:
    of = language_table.of_category
    order = [(*of("data"), *of("other text")), of("docs")]
    first = grep.defining(connection, pattern.name) if pattern.name else []
    return grep.candidates(connection, where.filters, pattern.need, order, first, BUDGET, whole=pattern.is_whole)


def _match(
    connection: Connection, pattern: Pattern, candidates: Sequence[Candidate], most: int, kept: Kept
) -> tuple[list[Found], int]:
    """Search files in their order, until ``most`` lines match; return those that match, and how many were searched.

    The first megabytes that match are left in ``kept``.
    """
    until = time.monotonic() + STATEMENT_SECONDS
    by_blob: dict[int, tuple[list[int], frozenset[str]]] = {}
    texts = grep.texts(connection, candidates)
    matched: list[Found] = []
    total, room = 0, MAX_KEPT
    for searched, candidate in enumerate(candidates, 1):
        blob_id = candidate.blob_id
        if blob_id not in by_blob:
            pieces = next(texts)[1]
            by_blob[blob_id] = found.lines(pattern, pieces)
            if by_blob[blob_id][0] and (room := room - candidate.size) >= 0:
                kept[blob_id] = pieces
            if time.monotonic() > until:
                raise UsageError(f"the search took longer than {STATEMENT_SECONDS} s: narrow it by {_narrower()}")
        lines, names = by_blob[blob_id]
        if lines:
            matched.append(Found(candidate, lines, names))
            total += len(lines)
            if total > most:
                return matched, searched
    return matched, len(candidates)


def _lookups(connection: Connection, pattern: Pattern, where: Scope) -> list[Lookup]:
    qualified = pattern.qualified
    return grep.lookup(connection, where.filters, qualified, MAX_LOOKUPS) if qualified else []


def _rows(connection: Connection, pattern: Pattern, where: Scope, page: Sequence[Group], kept: Kept) -> list[CodeRow]:
    chunks = grep.chunks(connection, [(group.cut_id, group.ord or 0) for group in page])
    # A definition without a line that matches may stand in any piece of its text.
    away = {group.blob_id for group in page if not group.lines or group.blob_id not in kept}
    lines = [(group.blob_id, line) for group in page if group.blob_id in away for line in found.wanted(group)]
    pieces = kept | (grep.around(connection, lines, whole=pattern.is_whole) if lines else {})
    rows = []
    for group in page:
        chunk = chunks.get((group.cut_id, group.ord or 0)) or grep.Chunk(0, "file", "", 1, max(group.lines))
        shown = found.shown(pattern, pieces[group.blob_id], group)
        rows.append(
            CodeRow(
                source_id=render.source_id(group.path, chunk.anchor),
                source="repo_code",
                score=group.score,
                snippet=render.one_line(chunk.signature) or (shown[0].text if shown else ""),
                url=render.url(group.path, chunk.start_line, chunk.end_line),
                repo=where.branch(group.branch_id).repo,
                level=scope.LEVELS[chunk.level],
                language=group.language,
                lines=shown,
            )
        )
    return rows


def _list_files(
    connection: Connection, request: Request, where: Scope, start: int, limit: int, moved: str
) -> CodeResult:
    listed, total = grep.listing(connection, where.filters, start, limit)
    rows = render.fitting_lines([_file_row(file, where) for file in listed])
    end = start + len(rows)
    nothing = "" if total else render.nothing(connection, where)
    return CodeResult(
        result=rows,
        totals=Totals(matches=0, files=total, chunks=0, exact=True),
        freshness=render.freshness([where.branch(file.branch_id) for file in listed[: len(rows)]] or where.branches),
        next_cursor=Cursor.at(end, request.key, where).encode() if end < total else "",
        note=_joined([moved, nothing or ("" if rows else "no more rows")]),
    )


def _file_row(file: grep.Listed, where: Scope) -> CodeRow:
    return CodeRow(
        source_id=render.source_id(file.path, file.anchor or "file"),
        source="repo_code",
        score=0.0,
        snippet=f"not indexed: {file.skip}" if file.skip else "",
        url=render.url(file.path, 1, file.end_line) if file.end_line else file.path,
        repo=where.branch(file.branch_id).repo,
        level="file",
        language=file.language,
        lines=[],
    )
