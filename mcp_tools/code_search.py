"""code_search: find code by meaning and by words."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from chunkers import words
from flows.errors import UsageError
from flows.store import read
from flows.store.connect import Connection
from flows.store.models import active_model
from mcp_tools import rank, render, rules, scope
from mcp_tools.index import Index
from mcp_tools.rank import Ranked
from mcp_tools.results import Row, SearchResult
from mcp_tools.scope import Scope

MAX_LIMIT = 50
MAX_QUERY = 4_000  # characters; beyond it a query says nothing more
MAX_CURSOR = 200


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins, of which request and over which state of the index."""

    offset: int
    request: str
    state: str

    def encode(self) -> str:
        raw = json.dumps([self.offset, self.request, self.state]).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        try:
            if len(text) > MAX_CURSOR:
                raise ValueError
            offset, request, state = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            if type(offset) is not int or offset < 0:
                raise ValueError
            return cls(offset, str(request), str(state))
        except (ValueError, TypeError) as error:
            raise UsageError("this cursor is not one of ours: leave it out to start at the first row") from error


def code_search(
    index: Index,
    query: str,
    *,
    limit: int = 10,
    repo: str = "",
    project: str = "",
    branch: str = "",
    languages: Sequence[str] = (),
    paths: Sequence[str] = (),
    level: str = "any",
    cursor: str = "",
) -> SearchResult:
    """Return the chunks that answer ``query`` best, at most ``limit`` (1 to 50).

    Raises:
        UsageError: an empty query, a bad limit or cursor, or a name that is not indexed.
    """
    query = check_query(query)
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit is {limit}: use 1 to {MAX_LIMIT}, and cursor for more")
    vector = index.embed(query)
    with index.snapshot() as connection:
        where = scope.resolve(
            connection, repo=repo, project=project, branch=branch, languages=languages, paths=paths, level=level
        )
        model = active_model(connection)
        if model is None or not where.branches:
            return SearchResult(result=[], freshness="", next_cursor="", note=render.nothing_yet(repo))
        index.check_model(model)
        hits = read.candidates(connection, model, where.filters, query, vector, rank.POOL)
        ranked = rank.rank(hits, rules.read(query))
        start, moved = _start(cursor, query, where)
        page = ranked[start : start + limit]
        lines = _best_lines(connection, page, query)
        note = moved or (render.nothing(connection, where) if not ranked else "")
    rows = render.fitting([_row(row, where, lines) for row in page])
    for row, shown in zip(page, rows, strict=False):  # a page may be cut short
        info = where.branch(row.hit.branch_id)
        index.seen.give(info.branch_id, shown.url, row.hit.cut_id, info.commit_sha)
    end = start + len(rows)
    return SearchResult(
        result=rows,
        freshness=render.freshness([where.branch(row.hit.branch_id) for row in page[: len(rows)]] or where.branches),
        next_cursor=Cursor(end, _request(query, where), _state(where)).encode() if end < len(ranked) else "",
        note=note or ("no more rows: try other words or fewer filters" if not rows else ""),
    )


def check_query(query: str) -> str:
    """Return a query that can be searched for."""
    query = query.replace("\0", " ").encode(errors="replace").decode().strip()  # half a surrogate pair has no UTF-8
    if not query:
        raise UsageError("the query is empty: say in words or identifiers what the code does")
    return query[:MAX_QUERY]


def _start(cursor: str, query: str, where: Scope) -> tuple[int, str]:
    """Return the first row of the page, and a note if the index moved since the cursor was made."""
    if not cursor:
        return 0, ""
    given = Cursor.decode(cursor)
    if given.request != _request(query, where):
        raise UsageError("this cursor belongs to another query or other filters: repeat them, or leave the cursor out")
    moved = (
        "" if given.state == _state(where) else "the index moved since the first page: rows may repeat or be missing"
    )
    return given.offset, moved


def _request(query: str, where: Scope) -> str:
    filters = where.filters
    narrowed = [filters.languages, filters.include, filters.exclude, filters.level]
    return _digest([query, narrowed, [[info.repo, info.name] for info in where.branches]])


def _state(where: Scope) -> str:
    return _digest([[info.branch_id, info.generation] for info in where.branches])


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()


def _best_lines(connection: Connection, page: Sequence[Ranked], query: str) -> dict[int, str]:
    """Return, for rows without a signature, the line of the chunk that shares most words with the query."""
    wanted = set(words.words(query))
    lines = {}
    for text_id, body in read.texts(connection, [row.hit.text_id for row in page if not row.hit.signature]).items():
        candidates = [line.strip() for line in body.split("\n") if any(char.isalnum() for char in line)]
        lines[text_id] = max(candidates, key=lambda line: len(wanted & set(words.words(line))), default="")
    return lines


def _row(row: Ranked, where: Scope, lines: dict[int, str]) -> Row:
    hit = row.hit
    return Row(
        source_id=render.source_id(hit.path, hit.anchor),
        source="repo_code",
        score=round(row.score, 5),
        snippet=render.one_line(hit.signature or lines.get(hit.text_id, "")),
        url=render.url(hit.path, hit.start_line, hit.end_line),
        repo=where.branch(hit.branch_id).repo,
        level=scope.LEVELS[hit.level],
        language=hit.language,
    )
