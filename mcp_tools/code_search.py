"""code_search: find code by meaning and by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chunkers import words
from flows.errors import UsageError
from flows.store import candidates, names, read, subjects
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters, Hit
from mcp_tools import rank, render, rules, scope
from mcp_tools.cursor import Cursor
from mcp_tools.index import Index, Search
from mcp_tools.rank import Ranked
from mcp_tools.results import Row, SearchResult
from mcp_tools.rules import Question
from mcp_tools.scope import Scope
from mcp_tools.surface import argument

MAX_LIMIT = 50
MAX_QUERY = 4_000  # characters; beyond it a query says nothing more


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
        raise UsageError(f"{argument('limit')} is {limit}: use 1 to {MAX_LIMIT}, and {argument('cursor')} for more")
    with index.search(query) as search:
        connection, model = search.connection, search.model
        where = scope.resolve(
            connection, repo=repo, project=project, branch=branch, languages=languages, paths=paths, level=level
        )
        if model is None or not where.branches:
            return SearchResult(
                result=[], total=0, freshness="", next_cursor="", note=render.nothing_yet(connection, repo)
            )
        ranked = gather(search, model, where.filters, query).ranked()
        start, moved = Cursor.start(cursor, query, where)
        page = ranked[start : start + limit]
        shown = rows(connection, page, where, query)
        note = moved or (render.nothing(connection, where) if not ranked else "")
        note = " ".join(filter(None, [search.note, note]))
    fitting = render.fitting(shown)
    give_out(index, where, page, fitting)
    end = start + len(fitting)
    return SearchResult(
        result=fitting,
        total=len(ranked),
        freshness=render.freshness([where.branch(row.hit.branch_id) for row in page[: len(fitting)]] or where.branches),
        next_cursor=Cursor.at(end, query, where).encode() if end < len(ranked) else "",
        note=note or ("no more rows: try other words or fewer filters" if not fitting else ""),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What a question found, before it is ranked."""

    question: Question
    hits: list[Hit]
    likeness: dict[int, float]  # of whole files, by their cuts
    past: dict[tuple[int, str], float]  # what earlier commits of files say of it, by branch and path

    def ranked(self) -> list[Ranked]:
        """Return the hits best first."""
        return rank.rank(self.hits, self.question, self.likeness, self.past)


def gather(search: Search, model: Model, filters: Filters, query: str) -> Found:
    """Look a question up: by meaning, by words, by names, then the leading files as a whole and by their past."""
    question = rules.read(query)
    terms = candidates.weigh(search.connection, query)
    hits = candidates.candidates(search.connection, model, filters, terms, search.vector, rank.POOL, search.resident)
    if question.is_identifier:
        found = names.definitions(search.connection, filters, question.identifiers, question.identifier)
        hits = rank.add_named(hits, found)
    leading = rank.leading_files(hits, names.MAX_FILES)
    branches = list(dict.fromkeys(hit.branch_id for hit in leading))[: subjects.MAX_BRANCHES]
    past = subjects.touched(search.connection, branches, [(term.word, term.weight) for term in terms])
    likeness: dict[int, float] = {}
    if search.vector is not None:
        cuts = [hit.cut_id for hit in leading]
        likeness = names.file_similarities(search.connection, model, search.vector, cuts)
        if search.embed is not None and leading:
            of_paths = search.embed([hit.path.replace("/", " ") for hit in leading]) @ search.vector
            for cut_id, cosine in zip(cuts, of_paths.tolist(), strict=True):
                likeness[cut_id] = likeness.get(cut_id, 0.0) + rank.PATH * cosine
    return Found(question, hits, likeness, past)


def give_out(index: Index, where: Scope, page: Sequence[Ranked], shown: Sequence[Row]) -> None:
    """Remember of which content the lines of an answer are; a page may have been cut short."""
    for ranked, row in zip(page, shown, strict=False):
        info = where.branch(ranked.hit.branch_id)
        index.seen.give(info.branch_id, row.url, ranked.hit.cut_id, info.commit_sha)


def check_query(query: str) -> str:
    """Return a query that can be searched for."""
    query = query.replace("\0", " ").encode(errors="replace").decode().strip()  # half a surrogate pair has no UTF-8
    if not query:
        raise UsageError("the query is empty: say in words or identifiers what the code does")
    return query[:MAX_QUERY]


def rows(connection: Connection, page: Sequence[Ranked], where: Scope, query: str) -> list[Row]:
    """Return ranked hits as an answer shows them."""
    lines = _best_lines(connection, page, query)
    return [_row(row, where, lines) for row in page]


def _best_lines(connection: Connection, page: Sequence[Ranked], query: str) -> dict[int, str]:
    """Return, for rows without a signature, the line of the chunk that shares most words with the query."""
    wanted = set(words.words(query))
    lines = {}
    for text_id, body in read.texts(connection, [row.hit.text_id for row in page if not row.hit.signature]).items():
        spoken = [line.strip() for line in body.split("\n") if any(char.isalnum() for char in line)]
        lines[text_id] = max(spoken, key=lambda line: len(wanted & set(words.words(line))), default="")
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
