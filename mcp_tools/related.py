"""find_related: code that resembles a chunk, by its stored vector and its own rarest words."""

from __future__ import annotations

from flows.errors import UsageError
from flows.store import candidates
from flows.store.models import active_model
from flows.store.read import Hit, Place
from mcp_tools import chunks, code_search, rank, render, rules, scope
from mcp_tools.index import Index
from mcp_tools.results import SearchResult
from mcp_tools.surface import argument

WORDS = 12  # of the chunk, the rarest; more find what shares its boilerplate


def find_related(index: Index, source_id: str, *, limit: int = 10, repo: str = "", project: str = "") -> SearchResult:
    """Return the chunks most like the one that ``source_id`` names, without itself and what overlaps it.

    ``repo`` and ``project`` say where to look; the chunk itself stands there, too.

    Raises:
        UsageError: no such chunk, or one in several repositories; or a bad limit.
    """
    if not 1 <= limit <= code_search.MAX_LIMIT:
        raise UsageError(f"{argument('limit')} is {limit}: use 1 to {code_search.MAX_LIMIT}")
    with index.snapshot() as connection:
        where = scope.resolve(connection, repo=repo, project=project)
        model = active_model(connection)
        if model is None or not where.branches:
            return SearchResult(
                result=[], total=0, freshness="", next_cursor="", note=render.nothing_yet(connection, repo)
            )
        file, _, _, found, _ = chunks.locate(connection, where.branches, source_id)
        stored = candidates.stored_text(connection, model, found.cut_id, found.ord, WORDS)
        if stored is None:
            raise UsageError(f"{file.path} is being put right: try again in a moment")
        query = " ".join(stored.words)
        terms = candidates.weigh(connection, query)
        hits = candidates.candidates(connection, model, where.filters, terms, stored.vector, rank.POOL, index.resident)
        others = [hit for hit in hits if hit.text_id != stored.text_id and not _overlaps(hit, found)]
        page = rank.rank(others, rules.read(query))[:limit]
        rows = render.fitting(code_search.rows(connection, page, where, query))
        code_search.give_out(index, where, page, rows)
    return SearchResult(
        result=rows,
        total=len(rows),
        freshness=render.freshness([where.branch(row.hit.branch_id) for row in page[: len(rows)]] or where.branches),
        next_cursor="",
        note="" if rows else f"nothing resembles it here: leave {argument('repo')} out to look everywhere",
    )


def _overlaps(hit: Hit, place: Place) -> bool:
    same = (hit.branch_id, hit.path) == (place.branch_id, place.path)
    return same and hit.start_line <= place.end_line and hit.end_line >= place.start_line
