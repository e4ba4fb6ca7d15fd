"""All reading for queries. Every answer is made of statements in one read-only snapshot: one commit, never two.

Scores are computed here, since they decide which rows leave the database; fusing and ranking happen above.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql

from chunkers import words
from flows.embed import Vectors
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.texts import MAX_TF

K1, B = 1.2, 0.75  # BM25, as everyone sets them
MAX_TERMS = 32  # of a query, the rarest first
MAX_WORDED = 5_000  # texts that are scored by their words: .997 of the top 10 of scoring all
MAX_PLACES = 4  # of one text
_TF_BOUNDS: list[float] = []  # between the ts_rank of n and n + 1 occurrences of one term


def _ts_rank(occurrences: int) -> float:
    """Return PostgreSQL's ts_rank of a single term: 0.1 times the sum of 1/j^2 over its limit (calc_rank_or)."""
    return 0.1 * sum(1 / j**2 for j in range(1, occurrences + 1)) / 1.64493406685


_TF_BOUNDS += [(_ts_rank(n - 1) + _ts_rank(n)) / 2 for n in range(1, MAX_TF + 1)]


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

    @property
    def narrow(self) -> bool:
        """Say whether anything but branches narrows the search."""
        return bool(self.languages or self.include or self.exclude or self.level is not None)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk at one place, with its ranks in the pools that found it (from 1; 0 = not in that pool)."""

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
def snapshot(connection: Connection) -> Iterator[Connection]:
    """Run the block's statements in one REPEATABLE READ, read-only transaction."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection.transaction():
        yield connection


@contextlib.contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """Run the block's statements in one READ COMMITTED transaction that may write."""
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = False
    with connection.transaction():
        yield connection


def branches(connection: Connection, repo: str = "", branch: str = "") -> list[BranchInfo]:
    """Return published branches by repository and name; "" for ``branch`` means each repository's default."""
    rows = connection.execute(
        """
        select b.branch_id, r.name, b.name, b.is_default, b.generation, b.commit_sha, b.committed_at, b.published_at,
            coalesce(b.head_sha, ''), coalesce(b.head_seen_at, b.published_at), b.files, b.failed, b.chunks, r.origin,
            coalesce((select s.outcome = 'failed' from sync_run s where s.repo = r.name and s.branch = b.name
                and s.outcome <> 'running' order by s.run_id desc limit 1), false)
        from branch b join repo r using (repo_id)
        where (%(repo)s = '' or r.name = %(repo)s)
            and (b.name = %(branch)s or %(branch)s = '*' or (%(branch)s = '' and b.is_default))
        order by r.name, b.name
        """,
        {"repo": repo, "branch": branch},
    )
    return [BranchInfo(*row) for row in rows]


def repo_names(connection: Connection) -> list[str]:
    """Return the names of all repositories that have been added."""
    return [row[0] for row in connection.execute("select name from repo order by name")]


def count_files(connection: Connection, filters: Filters) -> int:
    """Return how many indexed files the filters leave, levels aside."""
    query = sql.SQL("select count(*) from file f where {}").format(_where(filters))
    row = connection.execute(query, _parameters(filters)).fetchone()
    return int(row[0]) if row else 0


def candidates(
    connection: Connection, model: Model, filters: Filters, query: str, vector: Vectors, pool: int
) -> list[Hit]:
    """Return the chunks behind the ``pool`` nearest and best-worded texts in scope, each at MAX_PLACES at most.

    Distances are exact; word scores are BM25 over the statistics' newest generation. Equals share a rank, so that two
    builds of one index rank alike, whatever ids they gave.
    """
    register_vector(connection)
    terms = _query_terms(connection, query)
    statement = sql.SQL(
        """
        with shown as materialized (
            select c.text_id from file f join chunk c using (cut_id) where {where} and {level}
        ), near as (
            select text_id, rank() over (order by distance) as rank from (
                select text_id, (vector <=> %(vector)s) + 0 as distance from {vectors}
                where text_id in (select text_id from shown) order by distance, text_id limit %(pool)s
            ) n
        ), worded as (
            select text_id, rank() over (order by score desc) as rank from (
                select text_id, {score} as score from (
                    select text_id, terms, {k} * ({b} + {c} * length) as k from lex
                    where terms @@ %(terms)s::tsquery and text_id in (select text_id from shown)
                ) l order by score desc, text_id limit %(pool)s
            ) w
        )
        select place.*
        from near n full join worded w using (text_id)
        cross join lateral (
            select f.branch_id, f.path, f.language, c.cut_id, c.ord, c.level, c.anchor, c.symbol, c.signature,
                c.start_line, c.end_line, c.text_id, coalesce(n.rank, 0), coalesce(w.rank, 0), f.category
            from chunk c join file f using (cut_id) where c.text_id = coalesce(n.text_id, w.text_id)
                and {where} and {level}
            order by f.path, f.branch_id, c.ord limit {places}
        ) place
        """
    ).format(
        where=_where(filters),
        level=sql.SQL("true") if filters.level is None else sql.SQL("c.level = {}").format(sql.Literal(filters.level)),
        vectors=model.vectors,
        score=sql.SQL(" + ").join([_bm25(term, weight) for term, weight in terms.weights] or [sql.SQL("0").format()]),
        k=_number(K1),
        b=_number(1 - B),
        c=_number(B / terms.mean_length),
        places=sql.Literal(MAX_PLACES),
    )
    wanted = " | ".join(map(_quoted, terms.required))
    parameters = _parameters(filters) | {"vector": HalfVector(vector), "terms": wanted, "pool": pool, "tf": _TF_BOUNDS}
    return [Hit(*row) for row in connection.execute(statement, parameters)]


def _where(filters: Filters) -> sql.Composed:
    clauses = [sql.SQL("f.branch_id = any(%(branches)s)"), sql.SQL("f.cut_id is not null")]
    if filters.languages:
        clauses.append(sql.SQL("f.language = any(%(languages)s)"))
    if filters.include:
        clauses.append(sql.SQL("f.path ~ any(%(include)s)"))
    if filters.exclude:
        clauses.append(sql.SQL("not f.path ~ any(%(exclude)s)"))
    return sql.SQL(" and ").join(clauses)


def _parameters(filters: Filters) -> dict[str, Any]:
    return {
        "branches": list(filters.branch_ids),
        "languages": list(filters.languages),
        "include": list(filters.include),
        "exclude": list(filters.exclude),
    }


@dataclass(frozen=True, slots=True)
class _Terms:
    """A query's terms with their weights; a text must have one of ``required`` to be scored."""

    weights: list[tuple[str, float]]
    required: list[str]
    mean_length: float


def _query_terms(connection: Connection, query: str) -> _Terms:
    """Weigh a query's terms by IDF, max(0, ln(N / (1 + df))), the rarest first.

    Common terms score, but do not bring texts in by themselves once rarer ones have brought MAX_WORDED.
    """
    terms = sorted(set(words.words(query)))
    row = connection.execute(
        "select generation, texts, mean_length from lex_stat order by generation desc limit 1"
    ).fetchone()
    if row is None or not terms:
        return _Terms([], [], 1.0)
    generation, texts, mean_length = row
    found = connection.execute(
        "select term, df from term_df where generation = %s and term = any(%s)", [generation, terms]
    )
    frequencies: dict[str, int] = dict(found.fetchall())
    rarest = sorted(terms, key=lambda term: (frequencies.get(term, 1), term))[:MAX_TERMS]
    weights = [(term, max(0.0, math.log(max(1, texts) / (1 + frequencies.get(term, 1))))) for term in rarest]
    weights = [pair for pair in weights if pair[1] > 0] or [(term, 1e-6) for term, _ in weights]
    required: list[str] = []
    expected = 0
    for term, _ in weights:
        expected += frequencies.get(term, 1)
        if required and expected > MAX_WORDED:
            break
        required.append(term)
    return _Terms(weights, required, float(mean_length) or 1.0)


def _bm25(term: str, weight: float) -> sql.Composed:
    """Return weight * (k1 + 1) * tf / (tf + k); tf comes back exactly from ts_rank, which depends on nothing else."""
    return sql.SQL(
        "{weight} * (1 - k / (width_bucket(ts_rank(terms, {term}::tsquery)::float8, %(tf)s::float8[]) + k))"
    ).format(weight=_number(weight * (K1 + 1)), term=sql.Literal(_quoted(term)))


def _number(value: float) -> sql.SQL:
    """Return a float8 literal; a plain one would be numeric, and slow."""
    return sql.SQL(f"{value!r}::float8")


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


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
        "select f.branch_id, f.path, f.language, f.oid, f.skip, b.body from file f left join blob b using (oid)"
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
