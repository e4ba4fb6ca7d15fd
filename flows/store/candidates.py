"""What a search ranks: the nearest and the best-worded texts of a scope, and where each of them stands.

How a scope is searched depends on its size and on whether the vector index is there, on nothing else, so that one
state of the index gives one answer:

====  =====================================================  =======================================================
way   when                                                   nearest by
====  =====================================================  =======================================================
list  filters leave at most LISTED chunks                    all their vectors
scan  no vector index, or a scope of branches up to SCANNED  signs of all vectors in scope, then SIGNED whole ones
walk  everything larger                                      the index, on and on until enough lie in scope
====  =====================================================  =======================================================

Words bring in texts from the inverted index, the rarest first; up to LEXED texts of a scope are scored one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from psycopg import sql

from chunkers import words
from flows.embed import Vectors
from flows.store import vector_index
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters, Hit
from flows.store.texts import MAX_TF

K1, B = 1.2, 0.75  # BM25, as everyone sets them
MAX_TERMS = 32  # of a query, the rarest first
MAX_WORDED = 5_000  # texts that are scored by their words: .997 of the top 10 of scoring all, at 5 us each
MAX_WORDED_LARGE = 2_000  # ... of a corpus of LARGE and more texts: .978
LARGE = 100_000
MAX_PLACES = 4  # of one text
LISTED = 10_000  # chunks: 1 us for each vector that is looked up by its text
LEXED = 5_000  # chunks: 2 us for each whose words are looked at one by one
SCANNED = 150_000  # chunks: .2 us for each row that is compared by signs
SIGNED = 2_000  # texts whose whole vectors are compared after a scan of signs
MOSTLY = 0.5  # of the corpus: the index finds such a scope's nearest in its first steps
WALK = {"hnsw.ef_search": "400", "hnsw.iterative_scan": "relaxed_order", "hnsw.max_scan_tuples": "40000"}


def _ts_rank(occurrences: int) -> float:
    """Return PostgreSQL's ts_rank of a single term: 0.1 times the sum of 1/j^2 over its limit (calc_rank_or)."""
    return 0.1 * sum(1 / j**2 for j in range(1, occurrences + 1)) / 1.64493406685


# between the ts_rank of n and n + 1 occurrences of one term
_TF_BOUNDS = [(_ts_rank(n - 1) + _ts_rank(n)) / 2 for n in range(1, MAX_TF + 1)]


class Way(Enum):
    """How the texts of a scope are come by."""

    LIST = "list"
    SCAN = "scan"
    WALK = "walk"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look, and how: ``cuts`` are those of the files that filters leave, if a list of them is short."""

    filters: Filters
    way: Way
    chunks: int  # about
    share: float  # of the corpus, about
    cuts: list[int] | None = None

    @property
    def is_lexed(self) -> bool:
        """Say whether the words of all its texts are looked at."""
        return self.chunks <= LEXED


def candidates(
    connection: Connection, model: Model, filters: Filters, query: str, vector: Vectors | None, pool: int
) -> list[Hit]:
    """Return the chunks behind the ``pool`` nearest and best-worded texts in scope, each at MAX_PLACES at most.

    Without a vector only words count. Word scores are BM25 over the statistics' newest generation. Equals share a rank,
    so that two builds of one index rank alike, whatever ids they gave.
    """
    corpus = _corpus(connection)
    scope = measure(connection, model, filters)
    terms = _query_terms(connection, query, corpus, everything=scope.is_lexed)
    statement = sql.SQL(
        """
        with {scope} near as materialized (
            select text_id, rank() over (order by distance) as rank from ({near}) n
        ), worded as materialized (
            select text_id, rank() over (order by score desc) as rank, score / nullif(max(score) over (), 0) as share
            from ({worded}) w
        )
        select place.*
        from near n full join worded w using (text_id)
        cross join lateral (
            select f.branch_id, f.path, f.language, c.cut_id, c.ord, c.level, c.anchor, c.symbol, c.signature,
                c.start_line, c.end_line, c.text_id, coalesce(n.rank, 0), coalesce(w.rank, 0), f.category,
                0, coalesce(w.share, 0)
            from chunk c join file f using (cut_id) where c.text_id = coalesce(n.text_id, w.text_id) and {where}
            order by f.path, f.branch_id, c.ord limit {places}
        ) place
        """
    ).format(
        scope=_scope_clause(scope, model),
        near=_near(scope, model) if vector is not None else _NOTHING_NEAR,
        worded=_worded(scope, model, terms),
        where=where(filters),
        places=sql.Literal(MAX_PLACES),
    )
    numbers = [] if vector is None else vector.tolist()
    given = parameters(filters) | {
        "vector": f"[{','.join(map(str, numbers))}]",  # as text: the types' numbers cost four statements
        "signs": "".join("1" if x > 0 else "0" for x in numbers),
        "terms": " | ".join(map(_quoted, terms.required)),
        "pool": pool,
        "tf": _TF_BOUNDS,
        "cuts": scope.cuts,
    }
    if scope.way is Way.WALK and vector is not None:
        for name, value in WALK.items():
            connection.execute("select set_config(%s, %s, true)", [name, value])
    return [Hit(*row) for row in connection.execute(statement, given)]


# --- scope ---------------------------------------------------------------------------------------------------------


def measure(connection: Connection, model: Model, filters: Filters) -> Scope:
    """Return how a scope is to be searched."""
    everything, shown, of_level, files = _sizes(connection, filters)
    chunks, cuts = of_level, None
    if filters.languages or filters.include or filters.exclude:
        left, cuts = _files(connection, filters, max(1, LISTED * files // max(1, of_level)))
        chunks = of_level * left // max(1, files)
    elif of_level <= LISTED and filters.level is not None:
        _, cuts = _files(connection, filters, files)
    share = min(1.0, chunks / max(1, everything))
    if cuts is not None:
        return Scope(filters, Way.LIST, chunks, share, cuts)
    if not vector_index.usable(connection, model):
        return Scope(filters, Way.SCAN, chunks, share)
    if filters.narrow or (shown > SCANNED or (share >= MOSTLY and shown > vector_index.FROM_ROWS)):
        return Scope(filters, Way.WALK, chunks, share)
    return Scope(filters, Way.SCAN, chunks, share)


def _sizes(connection: Connection, filters: Filters) -> tuple[int, int, int, int]:
    """Return the chunks of all branches, of those in scope, of the level in scope, and the files in scope."""
    row = connection.execute(
        "select coalesce(sum(n), 0)::int8, coalesce(sum(n) filter (where hit), 0)::int8,"
        " coalesce(sum(l) filter (where hit), 0)::int8, coalesce(sum(files) filter (where hit), 0)::int8"
        " from (select files, branch_id = any(%s) as hit, (select sum(x) from unnest(chunks) x) as n,"
        " case when %s::int is null then (select sum(x) from unnest(chunks) x) else chunks[%s::int + 1] end as l"
        " from branch) b",
        [list(filters.branch_ids), filters.level, filters.level],
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


def _files(connection: Connection, filters: Filters, most: int) -> tuple[int, list[int] | None]:
    """Return how many files filters leave, and their cuts if they are no more than ``most``."""
    query = sql.SQL(
        "select n, case when n <= %(most)s then cuts end from"
        " (select count(*) as n, coalesce(array_agg(f.cut_id), '{{}}') as cuts from file f where {}) x"
    ).format(where_file(filters))
    row = connection.execute(query, parameters(filters) | {"most": most}).fetchone()
    assert row is not None
    return row[0], row[1]


def count_files(connection: Connection, filters: Filters) -> int:
    """Return how many indexed files the filters leave, levels aside."""
    return _files(connection, filters, 0)[0]


def where_file(filters: Filters, *, skipped: bool = False) -> sql.Composed:
    """Return the condition on a file ``f`` of the scope; skipped files only if asked."""
    clauses: list[sql.Composable] = [sql.SQL("f.branch_id = any(%(branches)s::int[])")]
    if not skipped:
        clauses.append(sql.SQL("f.cut_id is not null"))
    if filters.languages:
        clauses.append(sql.SQL("f.language = any(%(languages)s)"))
    if filters.include:
        clauses.append(sql.SQL("f.path like any(%(likely)s)"))  # a tenth of a pattern's cost
        clauses.append(sql.SQL("f.path ~ any(%(include)s)"))
    if filters.exclude:
        clauses.append(sql.SQL("not f.path ~ any(%(exclude)s)"))
    return sql.SQL(" and ").join(clauses)


def where(filters: Filters) -> sql.Composed:
    """Return the condition on a file ``f`` and its chunk ``c`` of the scope."""
    if filters.level is None:
        return where_file(filters)
    return sql.SQL("{} and c.level = {}").format(where_file(filters), sql.Literal(filters.level))


def parameters(filters: Filters) -> dict[str, Any]:
    """Return the parameters of those conditions."""
    return {
        "branches": list(filters.branch_ids),
        "languages": list(filters.languages),
        "include": list(filters.include),
        "likely": list(filters.likely),
        "exclude": list(filters.exclude),
    }


def _scope_clause(scope: Scope, model: Model) -> sql.Composable:
    """Return the list of a scope's texts as a common table expression, where there is one."""
    if scope.cuts is not None:
        level = scope.filters.level
        texts = sql.SQL("select distinct c.text_id from chunk c where c.cut_id = any(%(cuts)s){}").format(
            sql.SQL("") if level is None else sql.SQL(" and c.level = {}").format(sql.Literal(level))
        )
    elif scope.way is Way.SCAN and scope.filters.narrow:
        texts = sql.SQL("select distinct c.text_id from file f join chunk c using (cut_id) where {}").format(
            where(scope.filters)
        )
    elif scope.is_lexed:
        texts = sql.SQL("select distinct text_id from {} where branch_id = any(%(branches)s::int[])").format(
            model.members
        )
    else:
        return sql.SQL("")
    return sql.SQL("shown as materialized ({}),").format(texts)


def _is_shown(scope: Scope, model: Model, text_id: sql.SQL) -> sql.Composed:
    """Return a condition on one text that the planner cannot turn into a join with everything."""
    if scope.filters.narrow:
        return sql.SQL(
            "(select true from chunk c join file f using (cut_id) where c.text_id = {} and {} limit 1)"
        ).format(text_id, where(scope.filters))
    return sql.SQL(
        "(select true from {} m where m.text_id = {} and m.branch_id = any(%(branches)s::int[]) limit 1)"
    ).format(model.members, text_id)


# --- meaning -------------------------------------------------------------------------------------------------------


_NOTHING_NEAR = sql.SQL("select null::bigint as text_id, 0::float8 as distance where false").format()


def _near(scope: Scope, model: Model) -> sql.Composed:
    """Return the statement for the nearest texts with their distances."""
    if scope.way is Way.WALK:
        return sql.SQL(
            "select text_id, distance from (select e.text_id, e.vector <=> %(vector)s::halfvec as distance"
            " from {vectors} e where {shown} order by e.vector <=> %(vector)s::halfvec limit %(pool)s) r"
            " order by distance, text_id"
        ).format(vectors=model.vectors, shown=_is_shown(scope, model, sql.SQL("e.text_id")))
    if scope.way is Way.LIST:
        listed: sql.Composable = sql.SQL("shown")
    else:
        listed = sql.SQL(
            "(select distinct text_id from (select m.text_id from {members} m"
            " where m.branch_id = any(%(branches)s::int[]){only}"
            " order by m.signs <~> %(signs)s::text::bit({dimension}), m.text_id limit {signed}) s)"
        ).format(
            members=model.members,
            only=sql.SQL(" and m.text_id in (select text_id from shown)" if scope.filters.narrow else ""),
            dimension=sql.Literal(model.dimension),
            signed=sql.Literal(SIGNED),
        )
    # "offset 0" makes a look-up of each row; a join would read all vectors
    return sql.SQL(
        "select s.text_id, v.distance from {listed} s cross join lateral (select (e.vector <=> %(vector)s::halfvec) + 0"
        " as distance from {vectors} e where e.text_id = s.text_id offset 0) v order by 2, 1 limit %(pool)s"
    ).format(listed=listed, vectors=model.vectors)


# --- words ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The statistics that word scores rest on."""

    generation: int
    texts: int
    mean_length: float


@dataclass(frozen=True, slots=True)
class _Terms:
    """A query's terms with their weights; a text must have one of ``required`` to be scored."""

    weights: list[tuple[str, float]]
    required: list[str]
    mean_length: float


# A long row's terms are stored compressed: unpacked once, not once for each word. "offset 0" keeps it that way.
_UNPACKED = sql.SQL("terms || ''::tsvector as terms")


def _worded(scope: Scope, model: Model, terms: _Terms) -> sql.Composed:
    """Return the statement for the texts with the best word scores."""
    if not terms.weights:
        return sql.SQL("select null::bigint as text_id, 0::float8 as score where false").format()
    score = sql.SQL(" + ").join([_bm25(term, weight) for term, weight in terms.weights])
    k = sql.SQL("{} * ({} + {} * length) as k").format(_number(K1), _number(1 - B), _number(B / terms.mean_length))
    if scope.is_lexed:
        return sql.SQL(
            "select text_id, score from (select s.text_id, l.score from shown s cross join lateral (select {score} as"
            " score from (select {terms}, {k} from lex where lex.text_id = s.text_id offset 0) x"
            " where x.terms @@ %(terms)s::tsquery) l) r order by score desc, text_id limit %(pool)s"
        ).format(score=score, terms=_UNPACKED, k=k)
    nothing, is_listed = sql.SQL(""), scope.way is Way.LIST or (scope.way is Way.SCAN and scope.filters.narrow)
    in_list: sql.Composable = sql.SQL("text_id in (select text_id from shown)")
    only = sql.SQL(" and {}").format(in_list if is_listed else _is_shown(scope, model, sql.SQL("lex.text_id")))
    # Where most of what has the words is in scope, score first and look whether the best are; else the other way round.
    is_few = is_listed or scope.share < MOSTLY
    return sql.SQL(
        "select text_id, score from (select text_id, {score} as score from (select text_id, {terms}, {k} from lex"
        " where terms @@ %(terms)s::tsquery{early} offset 0) x order by score desc, text_id offset 0) lex"
        " where true{late} limit %(pool)s"
    ).format(score=score, terms=_UNPACKED, k=k, early=only if is_few else nothing, late=nothing if is_few else only)


def _corpus(connection: Connection) -> _Corpus | None:
    row = connection.execute(
        "select generation, texts, mean_length from lex_stat order by generation desc limit 1"
    ).fetchone()
    return _Corpus(row[0], max(1, row[1]), float(row[2]) or 1.0) if row else None


def _query_terms(connection: Connection, query: str, corpus: _Corpus | None, *, everything: bool) -> _Terms:
    """Weigh a query's terms by IDF, max(0, ln(N / (1 + df))), the rarest first.

    Common terms score, but do not bring texts in by themselves once rarer ones have brought enough; in a scope
    that is listed anyway, ``everything`` that has a term is scored.
    """
    terms = sorted(set(words.words(query)))
    if corpus is None or not terms:
        return _Terms([], [], 1.0)
    frequencies = document_frequencies(connection, corpus.generation, terms)
    rarest = sorted(terms, key=lambda term: (frequencies.get(term, 1), term))[:MAX_TERMS]
    weights = [(term, max(0.0, math.log(corpus.texts / (1 + frequencies.get(term, 1))))) for term in rarest]
    weights = [pair for pair in weights if pair[1] > 0] or [(term, 1e-6) for term, _ in weights]
    required: list[str] = []
    expected, most = 0, MAX_WORDED if corpus.texts < LARGE else MAX_WORDED_LARGE
    for term, _ in weights:
        expected += frequencies.get(term, 1)
        if required and expected > most and not everything:
            break
        required.append(term)
    return _Terms(weights, required, corpus.mean_length)


def weights(connection: Connection, query: str) -> list[tuple[str, float]]:
    """Return a query's words with what each weighs among the published texts, the rarest first."""
    return _query_terms(connection, query, _corpus(connection), everything=True).weights


def document_frequencies(connection: Connection, generation: int, terms: Sequence[str]) -> dict[str, int]:
    """Return in how many published texts some terms stand; one that is missing stands in one or none."""
    rows = connection.execute(
        "select term, df from term_df where generation = %s and term = any(%s)", [generation, list(terms)]
    )
    return dict(rows.fetchall())


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


# --- one text ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredText:
    """A chunk's text as it is searched for others like it."""

    text_id: int
    vector: Vectors
    words: list[str]


def stored_text(connection: Connection, model: Model, cut_id: int, ord: int, most: int) -> StoredText | None:
    """Return vector and rarest words of a chunk's text; words that stand nowhere else find nothing and are left out."""
    query = sql.SQL(
        "select c.text_id, e.vector::float4[], (select coalesce(array_agg(t.term), '{{}}') from (select d.term"
        ' from unnest(tsvector_to_array(l.terms)) as w (term) join term_df d on d.term = w.term collate "C"'
        " and d.generation = (select max(generation) from lex_stat) order by d.df, d.term limit %s) t)"
        " from chunk c join {} e using (text_id) join lex l using (text_id) where c.cut_id = %s and c.ord = %s"
    ).format(model.vectors)
    row = connection.execute(query, [most, cut_id, ord]).fetchone()
    return StoredText(row[0], np.asarray(row[1], np.float32), row[2]) if row else None
