"""who_knows: people by topic, by who changed the files behind the best chunks of a search for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows import past
from flows.errors import UsageError
from flows.store import history, sizes
from mcp_tools import people, render, scope
from mcp_tools.code_search import check_query, gather
from mcp_tools.index import Index
from mcp_tools.people import Expert, Past
from mcp_tools.rank import Ranked
from mcp_tools.results import Author, Evidence, WhoResult
from mcp_tools.surface import argument, tool

if TYPE_CHECKING:
    from flows.store.connect import Connection
    from flows.store.read import BranchInfo
    from mcp_tools.scope import Scope

MAX_LIMIT = 20
ROWS = 20  # best chunks of the search whose files are looked at
MAX_COMMITS = 3  # shown for each person
MAX_CHUNKS = 3
MAX_OWNED = 5  # paths whose CODEOWNERS are shown
CODEOWNERS = "CODEOWNERS"


def who_knows(index: Index, topic: str, *, limit: int = 5, repo: str = "", project: str = "") -> WhoResult:
    """Return the people who know ``topic`` best, at most ``limit`` (1 to 20).

    A topic that is the path of an indexed file or folder is about that; any other is searched for.

    Raises:
        UsageError: an empty topic, a bad limit, or a name that is not indexed.
    """
    topic = check_query(topic)
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"{argument('limit')} is {limit}: use 1 to {MAX_LIMIT}")
    with index.search(topic) as search:
        connection, model = search.connection, search.model
        where, unknown = _scope(connection, topic, repo, project)
        if model is None or not where.branches:
            return WhoResult(result=[], evidence=[], note=render.nothing_yet(connection, repo))
        rows = gather(search, model, where.filters, topic).ranked()[:ROWS]
        if not rows:
            return WhoResult(result=[], evidence=[], note=render.nothing(connection, where))
        branches = [info for info in where.branches if any(row.hit.branch_id == info.branch_id for row in rows)]
        pasts = [_past(connection, info, rows) for info in branches]
        owned = [evidence for info in branches for evidence in _owners(connection, info, rows)]
        note = " ".join(filter(None, [unknown, search.note, _coverage(connection, branches)]))
    experts = people.rank([known for known in pasts if known.changes])[:limit]
    if not experts:
        note = f"Nobody is known to have changed the files that answer {render.one_line(topic, 80)!r}. {note}"
    return WhoResult(
        result=[_author(expert, rows) for expert in experts],
        evidence=[*(item for expert in experts for item in _commits(expert)), *owned[:MAX_OWNED]],
        note=note,
    )


def _scope(connection: Connection, topic: str, repo: str, project: str) -> tuple[Scope, str]:
    """Return the default branches that are asked about; only what is below the path, if the topic is one.

    A topic that looks like a path which is not there gets a note that says so.
    """
    where = scope.resolve(connection, repo=repo, project=project)
    if "/" in topic and not any(char.isspace() or char in "*?[!" for char in topic) and ".." not in topic.split("/"):
        below = scope.resolve(connection, repo=repo, project=project, paths=[topic])
        if where.branches and sizes.count_files(connection, below.filters):
            return below, ""
        if where.branches and (topic.endswith("/") or "." in topic.rpartition("/")[2]):
            return where, f"no file or folder {topic} in {render.names(where.branches)}: searched for its words."
    return where, ""


def _past(connection: Connection, info: BranchInfo, rows: Sequence[Ranked]) -> Past:
    weights: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        if row.hit.branch_id == info.branch_id:
            weights.setdefault(row.hit.path, 1 / number)
    changes = history.changes(connection, info.branch_id, weights)
    active = history.active(connection, info.branch_id, info.committed_at, people.HALF_LIFE, people.WIDEST)
    ids = {number for change in changes for number in (change.author, *change.co_authors)} | active.keys()
    return Past(info.repo, info.committed_at, weights, changes, active, history.people(connection, ids))


def _author(expert: Expert, rows: Sequence[Ranked]) -> Author:
    touched = {(credit.repo, credit.change.path): credit for credit in reversed(expert.credits)}
    paths = {path for _, path in touched}
    chunks = [render.source_id(row.hit.path, row.hit.anchor) for row in rows if row.hit.path in paths]
    commits = [credit.change.sha[:12] for credit in expert.credits[:MAX_COMMITS]]
    issues = [*dict.fromkeys(chunks[:MAX_CHUNKS]), *commits] or [f"active in {expert.active_in}"]
    return Author(author=expert.name, score=round(expert.score, 4), issues=issues)


def _commits(expert: Expert) -> list[Evidence]:
    return [
        Evidence(
            author=expert.name,
            repo=credit.repo,
            commit=credit.change.sha[:12],
            date=f"{credit.change.at:%Y-%m-%d}" if credit.change.at else "unknown",
            path=credit.change.old,
            subject=render.one_line(credit.change.subject, 100),
        )
        for credit in expert.credits[:MAX_COMMITS]
    ]


def _owners(connection: Connection, info: BranchInfo, rows: Sequence[Ranked]) -> list[Evidence]:
    """Return whom CODEOWNERS names for the files, in the files' order."""
    paths = list(dict.fromkeys(row.hit.path for row in rows if row.hit.branch_id == info.branch_id))
    found = dict(history.owners(connection, info.branch_id, paths))
    return [
        Evidence(author=" ".join(found[p]), repo=info.repo, commit="", date="", path=p, subject=CODEOWNERS)
        for p in paths
        if p in found
    ]


def _coverage(connection: Connection, branches: Sequence[BranchInfo]) -> str:
    """Say how far the history of each repository reaches, and that one has none."""
    said = []
    for info in branches[: render.MAX_BRANCHES]:
        state = history.find(connection, info.branch_id)
        text = f"history of {info.repo}: {past.coverage(state)}"
        if state is None or past.coverage(state) == "none":
            text += ", sync it from a whole clone"
        elif state.tip != info.commit_sha:
            text += f", up to {state.tip[:12]}; the published commit is {info.commit_sha[:12]}"
        said.append(text)
    more = len(branches) - len(said)
    return "; ".join(said) + (f"; and of {more} more repositories, see {tool('index_status')}" if more > 0 else "")
