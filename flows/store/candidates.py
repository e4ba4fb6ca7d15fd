"""What a search ranks: the nearest and the best-worded texts of a scope, and where each of them stands.

How a scope is searched depends on its size and on whether the vector index is there, on nothing else, so that one
state of the index gives one answer:

====  =====================================================  =======================================================
way   when                                                   nearest by
====  =====================================================  =======================================================
scan  no vector index, or a scope that fits in memory        signs of all vectors in scope, then some whole ones
walk  everything larger                                      the index, on and on until enough lie in scope
====  =====================================================  =======================================================

Signs are compared in the memory of the process (store/resident.py), whole vectors by the database. Words bring in texts
from the inverted index, the rarest first; up to LEXED texts of a scope are scored one by one.
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
from flows.store.arrays import NONE, Packed, ask, fetch, pack
from flows.store.compare import Chunks
from flows.store.conditions import parameters, where
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters, Hit
from flows.store.resident import Resident, most
from flows.store.sizes import Size
from flows.store.texts import query_weights

MAX_TERMS = 32  # of a query, the rarest first
MAX_WORDED = 5_000  # texts that are scored by their words: .997 of the top 10 of scoring all, at 1 us each
MAX_PLACES = 4  # of one text
LEXED = 5_000  # chunks: 1 us for each whose words are looked at one by one
MOSTLY = 0.5  # of the corpus: most of what has a question's words is in such a scope
WALK = {"hnsw.ef_search": "400", "hnsw.iterative_scan": "relaxed_order", "hnsw.max_scan_tuples": "40000"}
_SET_WALK = "select " + ", ".join(["set_config(%s, %s, true)"] * len(WALK))


class Way(Enum):
    """How the texts of a scope are come by."""

    SCAN = "scan"
    WALK = "walk"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look, and how."""

    filters: Filters
    size: Size
    chunks: Chunks | None = None  # where they are scanned

    @property
    def way(self) -> Way:
        """How the nearest texts are found."""
        return Way.WALK if self.chunks is None else Way.SCAN

    @property
    def is_lexed(self) -> bool:
        """Say whether the words of all its texts are looked at."""
        return self.chunks is not None and self.chunks.rows.count <= LEXED


def candidates(
    connection: Connection,
    model: Model,
    filters: Filters,
    terms: Sequence[Term],
    vector: Vectors | None,
    pool: int,
    resident: Resident,
) -> list[Hit]:
    """Return the chunks behind the ``pool`` nearest and best-worded texts in scope, each at MAX_PLACES at most.

    ``terms`` are the query's, as :func:`weigh` returns them.

    Without a vector only words count. Word scores are BM25 over the statistics' newest generation. Equals share a rank,
    so that two builds of one index rank alike, whatever ids they gave.
    """
    scope = measure(connection, model, filters, resident)
    numbers = [] if vector is None else vector.tolist()
    given = parameters(filters) | {
        "vector": f"[{','.join(map(str, numbers))}]",  # as text: the types' numbers cost four statements
        "terms": " | ".join(map(_quoted, _required(terms, everything=scope.is_lexed))),
        "weights": query_weights((term.word, term.weight) for term in terms),
        "pool": pool,
    }
    near, worded = _NOTHING_NEAR, _NOTHING_WORDED
    if scope.chunks is not None:
        with connection.pipeline():  # the database looks for words while we look at signs
            scored = ask(connection, _SCORED, given) if terms and not scope.is_lexed else None
            if vector is not None:
                near = _NEAREST_OF.format(vectors=model.vectors)
                given["near"] = pack(scope.chunks.nearest(vector, pool))
            if scored is not None:
                worded = _WORDED
                given["worded"], given["scores"] = _best(scope.chunks, scored.fetchall()[0], pool)
        if terms and scope.is_lexed:
            worded, given["texts"] = _WORDED_OF, pack(scope.chunks.all_texts())
    else:
        if vector is not None:
            near = _walk(scope, model)
            connection.execute(_SET_WALK, [item for pair in WALK.items() for item in pair])
        if terms:
            worded = _worded_in_walk(scope)
    statement = _PLACES.format(near=near, worded=worded, where=where(filters), places=sql.Literal(MAX_PLACES))
    return [Hit(*row) for row in fetch(connection, statement, given)]


_PLACES = sql.SQL(
    """
    with near as materialized (
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
)


# --- scope ---------------------------------------------------------------------------------------------------------


def measure(connection: Connection, model: Model, filters: Filters, resident: Resident) -> Scope:
    """Return how a scope is to be searched."""
    size = resident.size(connection, model, filters)
    if size.chunks > most(model) and vector_index.usable(connection, model):
        return Scope(filters, size)
    return Scope(filters, size, resident.chunks(connection, model, filters))


def _is_shown(scope: Scope, text_id: sql.SQL) -> sql.Composed:
    """Return a condition on one text that the planner cannot turn into a join with everything."""
    return sql.SQL("(select true from chunk c join file f using (cut_id) where c.text_id = {} and {} limit 1)").format(
        text_id, where(scope.filters)
    )


# --- meaning -------------------------------------------------------------------------------------------------------


_NOTHING_NEAR = sql.SQL("select null::bigint as text_id, 0::float8 as distance where false").format()
# "offset 0" makes a look-up of each row; a join would read all vectors
_NEAREST_OF = sql.SQL(
    "select s.text_id, v.distance from unnest(%(near)s::int8[]) s (text_id) cross join lateral"
    " (select (e.vector <=> %(vector)s::halfvec) + 0 as distance from {vectors} e where e.text_id = s.text_id"
    " offset 0) v order by 2, 1 limit %(pool)s"
)


def _walk(scope: Scope, model: Model) -> sql.Composed:
    """Return the statement for the nearest texts with their distances, by the vector index."""
    return sql.SQL(
        "select text_id, distance from (select e.text_id, e.vector <=> %(vector)s::halfvec as distance"
        " from {vectors} e where {shown} order by e.vector <=> %(vector)s::halfvec limit %(pool)s) r"
        " order by distance, text_id"
    ).format(vectors=model.vectors, shown=_is_shown(scope, sql.SQL("e.text_id")))


# --- words ---------------------------------------------------------------------------------------------------------


_NOTHING_WORDED = sql.SQL("select null::bigint as text_id, 0::float8 as score where false").format()
_WORDED = sql.SQL("select * from unnest(%(worded)s::int8[], %(scores)s::float8[]) w (text_id, score)").format()
_WORDED_OF = sql.SQL(
    "select s.text_id, l.score from unnest(%(texts)s::int8[]) s (text_id) cross join lateral (select"
    " -(weights <#> %(weights)s::sparsevec) as score from lex where lex.text_id = s.text_id offset 0) l"
    " where l.score > 0 order by score desc, text_id limit %(pool)s"
).format()
_SCORED = sql.SQL(
    "select array_agg(text_id), array_agg(-(weights <#> %(weights)s::sparsevec)) from lex"
    " where terms @@ %(terms)s::tsquery"
).format()


def _best(chunks: Chunks, scored: tuple[Any, Any], pool: int) -> tuple[Packed, Packed]:
    """Return the texts in scope with the best word scores, and those, the best first."""
    texts, scores = scored
    if texts is None:  # nothing has the words
        return pack(NONE), pack(NONE.astype(np.float64))
    inside = chunks.holds(texts)
    texts, scores = texts[inside], scores[inside]
    best = np.lexsort((texts, -scores))[:pool]
    return pack(texts[best]), pack(scores[best])


def _worded_in_walk(scope: Scope) -> sql.Composed:
    """Return the statement for the texts with the best word scores, in a scope that is not in memory."""
    nothing = sql.SQL("").format()
    only = sql.SQL(" and {}").format(_is_shown(scope, sql.SQL("lex.text_id")))
    # Where most of what has the words is in scope, score first and look whether the best are; else the other way round.
    early, late = (only, nothing) if scope.size.share < MOSTLY else (nothing, only)
    return sql.SQL(
        "select text_id, score from (select text_id, -(weights <#> %(weights)s::sparsevec) as score from lex"
        " where terms @@ %(terms)s::tsquery{early} order by score desc, text_id offset 0) lex"
        " where true{late} limit %(pool)s"
    ).format(early=early, late=late)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, what it weighs, and in how many published texts it stands, by the newest statistics."""

    word: str
    weight: float
    texts: int


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
