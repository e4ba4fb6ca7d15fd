"""Blobs and their cuts: what one file's content is and how it is chunked, wherever it stands."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from chunkers.chunk import Chunk, Cut, Level
from flows.decode import Facts
from flows.select import Keep
from flows.store import pieces
from flows.store.connect import Connection, copy_rows
from flows.store.models import Model, keep_active

LEVELS = tuple(Level)
_RANK = {level: i for i, level in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class CutKey:
    """How a blob is chunked: its language, and that language's fingerprint."""

    language: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CutRows:
    """A cut and the ids of its chunks' texts, in the order of ``cut.chunks``."""

    key: CutKey
    cut: Cut
    text_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlobRows:
    """Everything one blob adds: its facts, its text (None if there is none to show, ever), its cuts."""

    oid: str
    size: int
    facts: Facts
    body: str | None
    cuts: tuple[CutRows, ...]


@dataclass(frozen=True, slots=True)
class BlobTask:
    """A blob to be read, with what its paths would keep it as."""

    oid: str
    size: int
    keeps: tuple[Keep, ...]


@dataclass(frozen=True, slots=True)
class KnownBlob:
    """What the database holds of a blob."""

    size: int
    facts: Facts | None


def rank_of(level: Level) -> int:
    """Return the number that stands for a level in the database: 0 is the coarsest."""
    return _RANK[level]


def known_blobs(connection: Connection, oids: Sequence[str]) -> dict[str, KnownBlob]:
    """Return size and facts of the blobs that were inspected before."""
    rows = connection.execute("select oid, size, facts from blob where oid = any(%s)", [list(oids)])
    return {oid: KnownBlob(size, Facts.from_json(facts)) for oid, size, facts in rows}


def known_cuts(connection: Connection, oids: Sequence[str]) -> dict[tuple[str, CutKey], int]:
    """Return the ids of all cuts of the given blobs."""
    rows = connection.execute(
        "select b.oid, c.language, c.fingerprint, c.cut_id from cut c join blob b using (blob_id)"
        " where b.oid = any(%s)",
        [list(oids)],
    )
    return {(oid, CutKey(language, fingerprint)): cut_id for oid, language, fingerprint, cut_id in rows}


def count_chunks(connection: Connection, cut_ids: Collection[int]) -> int:
    """Return how many chunks some cuts have."""
    row = connection.execute(
        "select coalesce(sum((select sum(n) from unnest(levels) n)), 0) from cut where cut_id = any(%s)",
        [list(cut_ids)],
    ).fetchone()
    return int(row[0]) if row else 0


def levels(connection: Connection, cut_ids: Collection[int]) -> dict[int, list[int]]:
    """Return how many chunks of each level some cuts have."""
    rows = connection.execute("select cut_id, levels from cut where cut_id = any(%s)", [list(cut_ids)])
    return dict(rows.fetchall())


def write_blobs(connection: Connection, blobs: Sequence[BlobRows], broken: frozenset[int], model: Model) -> None:
    """Write blobs with their cuts in one transaction; what is there already stays, unless it is in ``broken``.

    Blobs and cuts go in order of their keys, so that two runs that write the same content wait for each other instead
    of deadlocking. Their texts have vectors of ``model``.

    Raises:
        Moved: another model has become the active one.
    """
    ordered = sorted(blobs, key=lambda blob: blob.oid)
    with connection.transaction():
        keep_active(connection, model)
        blob_ids = _insert_blobs(connection, ordered)
        cuts = [(blob_ids[blob.oid], rows) for blob in ordered for rows in sorted(blob.cuts, key=_cut_order)]
        cut_ids = _insert_cuts(connection, cuts, broken)
        new = [(cut_ids[blob_id, rows.key], rows) for blob_id, rows in cuts if (blob_id, rows.key) in cut_ids]
        copy_rows(
            connection,
            "chunk",
            ["int8", "int4", "int2", "int4", "text", "text", "text", "int4", "int4", "int8"],
            (row for cut_id, rows in new for row in _chunk_rows(cut_id, rows)),
        )
        copy_rows(
            connection,
            "symbol",
            ["int8", "int4", "text", "text", "int4", "int4", "text", "text"],
            (
                (cut_id, ord, s.name, s.kind, s.start_line, s.end_line, s.signature, s.doc)
                for cut_id, rows in new
                for ord, s in enumerate(rows.cut.symbols)
            ),
        )


def _cut_order(rows: CutRows) -> tuple[str, str]:
    return rows.key.language, rows.key.fingerprint


def _insert_blobs(connection: Connection, blobs: Sequence[BlobRows]) -> dict[str, int]:
    connection.execute(
        "insert into blob (oid, size, facts) select oid, size, facts::jsonb"
        " from unnest(%b::text[], %b::int8[], %b::text[]) as new (oid, size, facts) order by oid"
        " on conflict (oid) do update set facts = excluded.facts"  # locks the row even where it stays as it is
        " where (excluded.facts ->> 'read')::boolean and blob.facts <> excluded.facts",
        [
            [blob.oid for blob in blobs],
            [blob.size for blob in blobs],
            [json.dumps(blob.facts.to_json()) for blob in blobs],
        ],
    )
    rows = connection.execute("select oid, blob_id from blob where oid = any(%s)", [[blob.oid for blob in blobs]])
    ids: dict[str, int] = dict(rows.fetchall())
    # A blob that is not cut stores no text; if a cut of another configuration has it stored, it is the one of now.
    pieces.write(
        connection,
        {ids[blob.oid]: blob.body for blob in blobs if blob.cuts and blob.body is not None},
        kept={ids[blob.oid]: blob.body for blob in blobs if not blob.cuts and blob.facts.read},
    )
    return ids


def _insert_cuts(
    connection: Connection, cuts: Sequence[tuple[int, CutRows]], broken: frozenset[int]
) -> dict[tuple[int, CutKey], int]:
    """Insert cuts and return the ids of those whose chunks are to be written: the new and the broken ones."""
    rows = (
        connection.execute(
            "insert into cut (blob_id, language, fingerprint, levels, symbols, fallback)"
            " select blob_id, language, fingerprint, array[l0, l1, l2, l3], symbols, fallback from unnest("
            "%b::int8[], %b::text[], %b::text[], %b::int4[], %b::int4[], %b::int4[], %b::int4[], %b::int4[], %b::text[]"
            ") as new (blob_id, language, fingerprint, l0, l1, l2, l3, symbols, fallback)"
            " on conflict do nothing returning blob_id, language, fingerprint, cut_id",
            [
                [blob_id for blob_id, _ in cuts],
                [rows.key.language for _, rows in cuts],
                [rows.key.fingerprint for _, rows in cuts],
                *(list(counts) for counts in zip(*(by_level(rows.cut.chunks) for _, rows in cuts), strict=True)),
                [len(rows.cut.symbols) for _, rows in cuts],
                [rows.cut.fallback for _, rows in cuts],
            ],
        ).fetchall()
        if cuts
        else []
    )
    to_write = {(blob_id, CutKey(language, fingerprint)): cut_id for blob_id, language, fingerprint, cut_id in rows}
    for blob_id, made in cuts if broken else ():
        if (blob_id, made.key) not in to_write and (row := _empty_cut(connection, blob_id, made, broken)):
            to_write[blob_id, made.key] = row[0]
    return to_write


def _empty_cut(connection: Connection, blob_id: int, rows: CutRows, broken: frozenset[int]) -> tuple[int] | None:
    """Lock a broken cut and take away what is left of it; None if it is whole."""
    row = connection.execute(
        "update cut set levels = %s, symbols = %s, fallback = %s"
        " where blob_id = %s and language = %s and fingerprint = %s and cut_id = any(%s) returning cut_id",
        [
            by_level(rows.cut.chunks),
            len(rows.cut.symbols),
            rows.cut.fallback,
            blob_id,
            rows.key.language,
            rows.key.fingerprint,
            list(broken),
        ],
    ).fetchone()
    if row is not None:
        connection.execute("delete from chunk where cut_id = %s", row)
        connection.execute("delete from symbol where cut_id = %s", row)
    return row


def by_level(chunks: Iterable[Chunk]) -> list[int]:
    counts = [0] * len(LEVELS)
    for chunk in chunks:
        counts[_RANK[chunk.level]] += 1
    return counts


def _chunk_rows(cut_id: int, rows: CutRows) -> Iterable[tuple[object, ...]]:
    for ord, (chunk, text_id) in enumerate(zip(rows.cut.chunks, rows.text_ids, strict=True)):
        yield (
            cut_id,
            ord,
            _RANK[chunk.level],
            chunk.parent,
            chunk.anchor,
            chunk.symbol,
            chunk.signature,
            chunk.start_line,
            chunk.end_line,
            text_id,
        )


def shown_but_broken(connection: Connection, branch_id: int, model: Model) -> frozenset[int]:
    """Return the cuts that a branch shows but that the database no longer holds whole."""
    shown = sql.SQL("select distinct cut_id from file where branch_id = %s and cut_id is not null")
    return _broken(connection, shown, branch_id, model)


def broken_among(connection: Connection, cut_ids: Collection[int], model: Model) -> frozenset[int]:
    """Return those of some cuts that the database no longer holds whole, shown by a branch or not."""
    return _broken(connection, sql.SQL("select unnest(%s::int8[]) as cut_id"), list(cut_ids), model)


def _broken(connection: Connection, asked: sql.SQL, parameter: int | list[int], model: Model) -> frozenset[int]:
    """Return the cuts that lack chunks, symbols or their blob's text, or whose chunks' texts lack words or a vector."""
    query = sql.SQL(
        """
        with asked as ({asked}),
        held as (
            select c.cut_id, count(*) as chunks, count(l.text_id) as lexed, count(v.text_id) as embedded
            from asked join chunk c using (cut_id)
            left join lex l using (text_id) left join {vectors} v using (text_id) group by 1
        ),
        named as (select s.cut_id, count(*) as symbols from asked join symbol s using (cut_id) group by 1)
        select k.cut_id from asked join cut k using (cut_id) left join held h using (cut_id)
            left join named n using (cut_id)
        where coalesce(h.chunks, 0) <> (select sum(x) from unnest(k.levels) x)
            or h.lexed <> h.chunks or h.embedded <> h.chunks or coalesce(n.symbols, 0) <> k.symbols
            or not exists (select from piece p where p.blob_id = k.blob_id)
        """
    ).format(asked=asked, vectors=model.vectors)
    return frozenset(row[0] for row in connection.execute(query, [parameter]))
