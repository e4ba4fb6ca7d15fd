"""What a search ranks: the nearest and the best-worded texts of a scope, and where each of them stands.

How a scope is searched depends on its size and on whether the vector index is there, on nothing else, so that one
state of the index gives one answer:

====  =====================================================  =======================================================
way   when                                                   nearest by
====  =====================================================  =======================================================
scan  no vector index, or a scope of SCANNED chunks at most  signs of all vectors in scope, then some whole ones
walk  everything larger, and most of a corpus                the index, on and on until enough lie in scope
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
from flows.store.texts import query_weights

MAX_TERMS = 32  # of a query, the rarest first
MAX_WORDED = 5_000  # texts that are scored by their words: .997 of the top 10 of scoring all, at 1 us each
MAX_PLACES = 4  # of one text
LEXED = 5_000  # chunks: 1 us for each whose words are looked at one by one
SCANNED = 150_000  # chunks: .6 us for each row that is compared by signs; beyond, a walk costs no more
# Texts whose whole vectors are compared after a scan of signs: a tenth of the scope, at least and at most.
SIGNED = (2_000, 4_000)
COPIES = 3  # rows of the scan that are looked at for each of those: one text may stand in many files
MOSTLY = 0.5  # of the corpus: the index finds such a scope's nearest in its first steps
WALK = {"hnsw.ef_search": "400", "hnsw.iterative_scan": "relaxed_order", "hnsw.max_scan_tuples": "40000"}
_SET_WALK = "select " + ", ".join(["set_config(%s, %s, true)"] * len(WALK))


class Way(Enum):
    """How the texts of a scope are come by."""

    SCAN = "scan"
    WALK = "walk"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look, and how: ``cuts`` are those of the files that filters leave, where they are scanned."""

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
    connection: Connection, model: Model, filters: Filters, terms: Sequence[Term], vector: Vectors | None, pool: int
) -> list[Hit]:
    """Return the chunks behind the ``pool`` nearest and best-worded texts in scope, each at MAX_PLACES at most.

    ``terms`` are the query's, as :func:`weigh` returns them.

    Without a vector only words count. Word scores are BM25 over the statistics' newest generation. Equals share a rank,
    so that two builds of one index rank alike, whatever ids they gave.
    """
    scope = measure(connection, model, filters)
    statement = sql.SQL(
        """
        with {shown} near as materialized (
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
        shown=_shown(scope, model),
        near=_near(scope, model) if vector is not None else _NOTHING_NEAR,
        worded=_worded(scope, terms),
        where=where(filters),
        places=sql.Literal(MAX_PLACES),
    )
    numbers = [] if vector is None else vector.tolist()
    given = parameters(filters) | {
        "vector": f"[{','.join(map(str, numbers))}]",  # as text: the types' numbers cost four statements
        "signs": "".join("1" if x > 0 else "0" for x in numbers) or None,
        "terms": " | ".join(map(_quoted, _required(terms, everything=scope.is_lexed))),
        "weights": query_weights((term.word, term.weight) for term in terms),
        "pool": pool,
        "cuts": scope.cuts,
    }
    if scope.way is Way.WALK and vector is not None:
        connection.execute(_SET_WALK, [item for pair in WALK.items() for item in pair])
    return [Hit(*row) for row in connection.execute(statement, given).fetchall()]  # a row at a time costs 1 ms


# --- scope ---------------------------------------------------------------------------------------------------------


def measure(connection: Connection, model: Model, filters: Filters) -> Scope:
    """Return how a scope is to be searched."""
    everything, of_level, files, is_indexed = _sizes(connection, model, filters)
    chunks, cuts = of_level, None
    if filters.languages or filters.include or filters.exclude:
        left, cuts = _files(connection, filters, max(1, SCANNED * files // max(1, of_level)))
        chunks = of_level * left // max(1, files)
    share = min(1.0, chunks / max(1, everything))
    is_walked = chunks > SCANNED or (share >= MOSTLY and chunks > vector_index.FROM_ROWS)
    if is_walked and is_indexed:
        return Scope(filters, Way.WALK, chunks, share)
    return Scope(filters, Way.SCAN, chunks, share, cuts)


def _sizes(connection: Connection, model: Model, filters: Filters) -> tuple[int, int, int, bool]:
    """Return the chunks of all branches, of the level in scope, the files in scope, and if the index is usable."""
    row = connection.execute(
        "select coalesce(sum(n), 0)::int8, coalesce(sum(l) filter (where hit), 0)::int8,"
        " coalesce(sum(files) filter (where hit), 0)::int8,"
        f" {vector_index.USABLE}"
        " from (select files, branch_id = any(%s) as hit, (select sum(x) from unnest(chunks) x) as n,"
        " case when %s::int is null then (select sum(x) from unnest(chunks) x) else chunks[%s::int + 1] end as l"
        " from branch) b",
        [vector_index.quoted(connection, model), list(filters.branch_ids), filters.level, filters.level],
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


def _files(connection: Connection, filters: Filters, most: int) -> tuple[int, list[int] | None]:
    """Return how many files filters leave, and their cuts if they are no more than ``most``."""
    query = sql.SQL(
        "select n, case when n <= %(most)s then cuts end from"
        " (select count(*) as n, coalesce(array_agg(distinct f.cut_id), '{{}}') as cuts from file f where {}) x"
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


def _shown(scope: Scope, model: Model) -> sql.Composable:
    """Return the list of a scope's texts, and how far the signs of their vectors are, as a common table expression."""
    if scope.way is Way.WALK:
        return sql.SQL("")
    files = sql.SQL("select distinct f.cut_id from file f where {}").format(where_file(scope.filters))
    level = sql.SQL("" if scope.filters.level is None else f" and s.level = {scope.filters.level:d}")
    # "offset 0" makes a look-up of each file; a join would read the rows of all
    return sql.SQL(
        "shown as materialized (select s.text_id, s.far from ({cuts}) k cross join lateral (select s.text_id,"
        " s.signs <~> %(signs)s::text::bit({dimension}) as far from {signs} s where s.cut_id = k.cut_id{level} offset 0"
        ") s),"
    ).format(
        cuts=files if scope.cuts is None else sql.SQL("select unnest(%(cuts)s::int8[]) as cut_id"),
        dimension=sql.Literal(model.dimension),
        signs=model.signs,
        level=level,
    )


def _is_shown(scope: Scope, text_id: sql.SQL) -> sql.Composed:
    """Return a condition on one text that the planner cannot turn into a join with everything."""
    return sql.SQL("(select true from chunk c join file f using (cut_id) where c.text_id = {} and {} limit 1)").format(
        text_id, where(scope.filters)
    )


# --- meaning -------------------------------------------------------------------------------------------------------


_NOTHING_NEAR = sql.SQL("select null::bigint as text_id, 0::float8 as distance where false").format()


def _near(scope: Scope, model: Model) -> sql.Composed:
    """Return the statement for the nearest texts with their distances."""
    if scope.way is Way.WALK:
        return sql.SQL(
            "select text_id, distance from (select e.text_id, e.vector <=> %(vector)s::halfvec as distance"
            " from {vectors} e where {shown} order by e.vector <=> %(vector)s::halfvec limit %(pool)s) r"
            " order by distance, text_id"
        ).format(vectors=model.vectors, shown=_is_shown(scope, sql.SQL("e.text_id")))
    signed = min(max(scope.chunks // 10, SIGNED[0]), SIGNED[1])
    # "offset 0" makes a look-up of each row; a join would read all vectors
    return sql.SQL(
        "select s.text_id, v.distance from (select text_id from (select text_id, far from shown order by far, text_id"
        " limit {rows}) n group by text_id order by min(far), text_id limit {signed}) s cross join lateral"
        " (select (e.vector <=> %(vector)s::halfvec) + 0 as distance from {vectors} e where e.text_id = s.text_id"
        " offset 0) v order by 2, 1 limit %(pool)s"
    ).format(rows=sql.Literal(COPIES * signed), signed=sql.Literal(signed), vectors=model.vectors)


# --- words ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, what it weighs, and in how many published texts it stands, by the newest statistics."""

    word: str
    weight: float
    texts: int


def _worded(scope: Scope, terms: Sequence[Term]) -> sql.Composed:
    """Return the statement for the texts with the best word scores."""
    if not terms:
        return sql.SQL("select null::bigint as text_id, 0::float8 as score where false").format()
    if scope.way is Way.SCAN and scope.is_lexed:
        return sql.SQL(
            "select s.text_id, l.score from (select distinct text_id from shown) s cross join lateral (select"
            " -(weights <#> %(weights)s::sparsevec) as score from lex where lex.text_id = s.text_id offset 0) l"
            " where l.score > 0 order by score desc, text_id limit %(pool)s"
        ).format()
    nothing = sql.SQL("").format()
    only = sql.SQL(" and {}").format(
        sql.SQL("text_id in (select text_id from shown)")
        if scope.way is Way.SCAN
        else _is_shown(scope, sql.SQL("lex.text_id"))
    )
    # Where most of what has the words is in scope, score first and look whether the best are; else the other way round.
    early, late = (only, nothing) if scope.way is Way.SCAN or scope.share < MOSTLY else (nothing, only)
    return sql.SQL(
        "select text_id, score from (select text_id, -(weights <#> %(weights)s::sparsevec) as score from lex"
        " where terms @@ %(terms)s::tsquery{early} order by score desc, text_id offset 0) lex"
        " where true{late} limit %(pool)s"
    ).format(early=early, late=late)


def weigh(connection: Connection, query: str) -> list[Term]:
    """Return the rarest terms of a query, the rarest first, by IDF: max(0, ln(N / (1 + df))).

    A term that the statistics do not know stands in one text or none.
    """
    asked = sorted(set(words.words(query)))
    rows = connection.execute(
        "select s.texts, d.term, d.df from (select generation, texts from lex_stat order by generation desc limit 1) s"
        " left join term_df d on d.generation = s.generation and d.term = any(%s)",
        [asked],
    ).fetchall()
    if not asked or not rows:
        return []
    known = {term: df for _, term, df in rows if term is not None}
    rarest = sorted(asked, key=lambda term: (known.get(term, 1), term))[:MAX_TERMS]
    terms = [Term(term, _idf(rows[0][0], known.get(term, 1)), known.get(term, 1)) for term in rarest]
    return [term for term in terms if term.weight > 0] or [Term(term.word, 1e-6, term.texts) for term in terms]


def _idf(texts: int, having: int) -> float:
    return max(0.0, math.log(max(1, texts) / (1 + having)))


def _required(terms: Sequence[Term], *, everything: bool) -> list[str]:
    """Return the terms of which a text must have one to be scored.

    Common terms score, but do not bring texts in by themselves once rarer ones have brought enough; in a scope
    that is listed anyway, ``everything`` that has a term is scored.
    """
    required: list[str] = []
    expected = 0
    for term in terms:
        expected += term.texts
        if required and expected > MAX_WORDED and not everything:
            break
        required.append(term.word)
    return required


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
