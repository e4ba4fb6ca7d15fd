"""All reading for queries. Every answer is made of statements in one read-only snapshot: one commit, never two.

What a search ranks is in ``candidates``; fusing and ranking happen above.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg

from flows.errors import DatabaseError
from flows.store.connect import Connection
from flows.store.pieces import TEXT


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A published branch as an answer describes it."""

    branch_id: int
    repo: str
    name: str
    is_default: bool
    generation: int
    commit_sha: str
    committed_at: datetime
    published_at: datetime
    head_sha: str
    head_seen_at: datetime
    files: int
    failed: int
    chunks: list[int]
    origin: str
    last_failed: bool  # the last run that ended, ended badly


@dataclass(frozen=True, slots=True)
class Filters:
    """What narrows a search before anything is ranked. Patterns are PostgreSQL regular expressions on whole paths."""

    branch_ids: tuple[int, ...]
    languages: tuple[str, ...] = ()
    include: tuple[str, ...] = ()  # at least one must match, if there are any
    exclude: tuple[str, ...] = ()  # none may match
    level: int | None = None
    likely: tuple[str, ...] = ()  # LIKE patterns, one for each of ``include``: what they leave out, it does, too
    published: tuple[tuple[int, str, datetime], ...] = ()  # what the branches show: generation, commit, since when

    @property
    def narrow(self) -> bool:
        """Say whether anything but branches narrows the search."""
        return bool(self.languages or self.include or self.exclude or self.level is not None)


@dataclass(slots=True)  # not frozen: that would make one, of hundreds a search, nine times as dear
class Hit:
    """A chunk at one place, with its ranks in the pools that found it (from 1; 0 = not in that pool).

    Where the name of a definition found it, ``symbol`` and ``signature`` are that definition's.
    """

    branch_id: int
    path: str
    language: str
    cut_id: int
    ord: int
    level: int
    anchor: str
    symbol: str
    signature: str
    start_line: int
    end_line: int
    text_id: int
    near: int
    worded: int
    category: str = ""  # docs or code where the repository says so
    named: int = 0
    share: float = 0.0  # of the best word score that anything in scope has


@dataclass(frozen=True, slots=True)
class Place:
    """A chunk at one place, with what is needed to show it."""

    branch_id: int
    path: str
    language: str
    cut_id: int
    ord: int
    parent: int | None
    level: int
    anchor: str
    symbol: str
    signature: str
    start_line: int
    end_line: int


@contextlib.contextmanager
def snapshot(connection: Connection, projects: Sequence[str] | None = None) -> Iterator[Connection]:
    """Run the block's statements in one REPEATABLE READ, read-only transaction.

    With ``projects``, no statement of the block sees a repository that is in none of them (see 0009_projects.sql).
    """
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection.transaction():
        if projects is not None:
            limit(connection, projects)
        yield connection


@contextlib.contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """Run the block's statements in one READ COMMITTED transaction that may write."""
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = False
    with connection.transaction():
        yield connection


def limit(connection: Connection, projects: Sequence[str]) -> None:
    """Hide every repository that is in none of ``projects`` until the transaction ends.

    Raises:
        DatabaseError: this role may not use the schema of the views. Postgres passes over such a schema in a
            search_path without a word, and the tables behind it would show everything.
    """
    row = connection.execute(
        "select has_schema_privilege(current_schema() || '_scope', 'usage'), current_user,"
        " quote_ident(current_schema() || '_scope'),"
        " set_config('search_path', quote_ident(current_schema() || '_scope') || ', '"
        " || current_setting('search_path'), true), set_config('gitstrata.projects', %s, true)",
        [json.dumps(list(projects))],
    ).fetchone()
    assert row is not None
    allowed, role, schema = row[:3]
    if not allowed:
        raise DatabaseError(
            f"{role} may not use the schema {schema}, which limits a request to projects: nothing is read."
            ' The owner of the database gives it what docs/operations.md lists in "A role for the server"'
        )


def branches(connection: Connection, repo: str = "", branch: str = "") -> list[BranchInfo]:
    """Return published branches by repository and name; "" for ``branch`` means each repository's default."""
    rows = connection.execute(
        """
        select b.branch_id, r.name, b.name, b.is_default, b.generation, b.commit_sha, b.committed_at, b.published_at,
            coalesce(b.head_sha, ''), coalesce(b.head_seen_at, b.published_at), b.files, b.failed, b.chunks, r.origin,
            b.run_failed
        from branch b join repo r using (repo_id)
        where (%(repo)s = '' or r.name = %(repo)s)
            and (b.name = %(branch)s or %(branch)s = '*' or (%(branch)s = '' and b.is_default))
        order by r.name, b.name
        """,
        {"repo": repo, "branch": branch},
    ).fetchall()
    return [BranchInfo(*row) for row in rows]


def repo_names(connection: Connection) -> list[str]:
    """Return the names of all repositories that have been added."""
    return [row[0] for row in connection.execute("select name from repo order by name")]


# --- one place -----------------------------------------------------------------------------------------------------

_PLACE = """
    select f.branch_id, f.path, f.language, c.cut_id, c.ord, c.parent, c.level, c.anchor, c.symbol, c.signature,
        c.start_line, c.end_line
    from file f join chunk c using (cut_id)
"""


def places(connection: Connection, branch_ids: Sequence[int], path: str, anchor: str) -> list[Place]:
    """Return the chunks called ``anchor`` in the file ``path``, one a branch."""
    rows = connection.execute(
        _PLACE + "where f.path = %s and f.branch_id = any(%s) and c.anchor = %s order by f.branch_id",
        [path, list(branch_ids), anchor],
    )
    return [Place(*row) for row in rows]


def chunks_of(connection: Connection, branch_id: int, path: str) -> list[Place]:
    """Return all chunks of a file, in their order."""
    rows = connection.execute(_PLACE + "where f.path = %s and f.branch_id = %s order by c.ord", [path, branch_id])
    return [Place(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol of a file and its lines; several may share a chunk, or one may be cut into several."""

    name: str
    start_line: int
    end_line: int


def definitions(connection: Connection, cut_id: int) -> list[Definition]:
    """Return all symbols of a cut, in their order."""
    rows = connection.execute("select name, start_line, end_line from symbol where cut_id = %s order by ord", [cut_id])
    return [Definition(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a published commit; ``body`` is None where it was skipped."""

    branch_id: int
    path: str
    language: str
    oid: str
    skip: str | None
    body: str | None


def files(connection: Connection, branch_ids: Sequence[int], path: str) -> list[FileInfo]:
    """Return the file ``path`` of each of the branches that has it."""
    rows = connection.execute(
        f"select f.branch_id, f.path, f.language, f.oid, f.skip, {TEXT} from file f left join blob b using (oid)"
        " where f.path = %s and f.branch_id = any(%s) order by f.branch_id",
        [path, list(branch_ids)],
    )
    return [FileInfo(*row) for row in rows]


def similar_paths(connection: Connection, branch_ids: Sequence[int], path: str, limit: int = 3) -> list[str]:
    """Return paths that end like ``path``: the same file name, else the same stem."""
    name = path.rpartition("/")[2]
    rows = connection.execute(
        "select path from file where branch_id = any(%s) and path ~ %s group by path"
        " order by path ~ %s desc, path limit %s",
        [list(branch_ids), f"(^|/){re.escape(name.partition('.')[0])}(\\.|$)", f"(^|/){re.escape(name)}$", limit],
    )
    return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a branch shows: files by language, and files that show nothing by reason."""

    languages: dict[str, int]
    skipped: dict[str, int]


def coverage(connection: Connection, branch_id: int) -> Coverage:
    """Count the files of a branch."""
    kept: dict[str, int] = {}
    skipped: dict[str, int] = {}
    rows = connection.execute(
        "select skip, language, count(*) from file where branch_id = %s group by 1, 2 order by 3 desc, 2", [branch_id]
    )
    for reason, language, count in rows:
        counts, key = (skipped, reason) if reason else (kept, language)
        counts[key] = counts.get(key, 0) + count
    return Coverage(kept, skipped)


def texts(connection: Connection, text_ids: Sequence[int]) -> dict[int, str]:
    """Return the bodies of some chunk texts."""
    rows = connection.execute("select text_id, body from text where text_id = any(%s)", [list(text_ids)])
    return dict(rows.fetchall())
