"""Reads back what was written, for comparing it with what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pgvector import SparseVector
from psycopg import sql

from flows.embed import Vectors
from flows.store import pieces
from flows.store.connect import Connection
from flows.store.models import Model


@dataclass(frozen=True, slots=True)
class StoredCut:
    """A cut as it stands: chunks as (level, parent, anchor, symbol, signature, lines, text hash), symbols likewise."""

    cut_id: int
    oid: str
    language: str
    fingerprint: str
    body: str | None
    facts: dict[str, Any]
    chunks: list[tuple[Any, ...]]
    symbols: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text as it stands, with its words, what they count, and its vector."""

    hash: bytes
    body: str
    length: int
    terms: set[str]
    weights: SparseVector
    vector: Vectors


def shown_cuts(connection: Connection, branch_id: int) -> list[int]:
    """Return the ids of the cuts that a branch shows."""
    rows = connection.execute(
        "select distinct cut_id from file where branch_id = %s and cut_id is not null order by 1", [branch_id]
    )
    return [row[0] for row in rows]


def stored_cuts(connection: Connection, cut_ids: Sequence[int]) -> list[StoredCut]:
    """Return some cuts with everything that hangs on them."""
    ids = list(cut_ids)
    chunks: dict[int, list[tuple[Any, ...]]] = {}
    for cut_id, *rest in connection.execute(
        "select c.cut_id, c.level, c.parent, c.anchor, c.symbol, c.signature, c.start_line, c.end_line, t.hash"
        " from chunk c join text t using (text_id) where c.cut_id = any(%s) order by c.cut_id, c.ord",
        [ids],
    ):
        chunks.setdefault(cut_id, []).append((*rest[:-1], bytes(rest[-1])))
    symbols: dict[int, list[tuple[Any, ...]]] = {}
    for cut_id, *rest in connection.execute(
        "select cut_id, name, kind, start_line, end_line, signature, doc from symbol where cut_id = any(%s)"
        " order by cut_id, ord",
        [ids],
    ):
        symbols.setdefault(cut_id, []).append(tuple(rest))
    rows = connection.execute(
        f"select k.cut_id, b.oid, k.language, k.fingerprint, {pieces.TEXT}, b.facts"
        " from cut k join blob b using (blob_id) where k.cut_id = any(%s) order by 1",
        [ids],
    )
    return [
        StoredCut(
            cut_id=row[0],
            oid=row[1],
            language=row[2],
            fingerprint=row[3],
            body=row[4],
            facts=row[5],
            chunks=chunks.get(row[0], []),
            symbols=symbols.get(row[0], []),
        )
        for row in rows
    ]


def stored_texts(connection: Connection, cut_ids: Sequence[int], model: Model) -> list[StoredText]:
    """Return the texts of some cuts that have words and a vector."""
    query = sql.SQL(
        "select t.hash, t.body, l.length, tsvector_to_array(l.terms), l.weights, v.vector::float4[]"
        " from text t join lex l using (text_id)"
        " join {} v using (text_id) where t.text_id in (select text_id from chunk where cut_id = any(%s))"
    ).format(model.vectors)
    return [
        StoredText(bytes(hash_), body, length, set(terms), weights, np.asarray(vector, np.float32))
        for hash_, body, length, terms, weights, vector in connection.execute(query, [list(cut_ids)])
    ]
