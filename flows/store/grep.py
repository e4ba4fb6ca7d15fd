"""Reading for exact search: which files may match, their texts, and the chunks and symbols around lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from psycopg import sql
from psycopg.adapt import Buffer, Loader

from flows.store import sieve
from flows.store.arrays import NONE, Integers, fetch, pack
from flows.store.conditions import parameters, where_file
from flows.store.connect import Connection
from flows.store.names import SPELT
from flows.store.rarity import rarest
from flows.store.read import Filters
from flows.store.trigrams import EXPRESSION, LONG, Need

BATCH = 4 << 20  # bytes of texts in memory at once
RAREST = 6  # trigrams that are looked up: all of them take three times as long, and sieves leave fewer pieces
OTHERS = 12  # of those that no sieve knows
MAX_DEFINING = 2_000  # cuts that define a name


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is searched: up to ``files`` that may match, if they hold no more than ``whole`` bytes.

    Else the first ``bytes``, and up to ``some`` files: a sort of as few is quick.
    """

    whole: int
    files: int
    bytes: int
    some: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may match, and the pieces in which it may: their first lines, None for the whole text."""

    branch_id: int
    path: str
    language: str
    cut_id: int
    blob_id: int
    size: int  # of what is to be searched
    pieces: list[int] | None


def candidates(
    connection: Connection,
    filters: Filters,
    need: Need,
    order: Sequence[Sequence[str]],
    first: Sequence[int],
    budget: Budget,
    *,
    whole: bool = False,
) -> tuple[list[Candidate], int]:
    """Return the files that may match, as many as the budget allows, and how many there are.

    A text that is not to be seen as a ``whole`` needs to be looked at in those pieces alone that meet the need.

    The cuts in ``first`` come first, then the languages outside ``order``, then those of its first group, and so on;
    then paths decide. So the same request over the same commits gets the same files.
    """
    given = parameters(filters) | {
        "first": list(first),
        "whole": budget.whole,
        "bytes": budget.bytes,
        "files": budget.files,
        "some": budget.some,
    }
    source, matching = sql.SQL("(select blob_id, size from blob)"), None
    if need:
        matching = _matching(connection, need, whole=whole)
        given |= {"blobs": pack(matching.blobs), "sizes": pack(matching.sizes)}
        source = sql.SQL("unnest(%(blobs)s::int8[], %(sizes)s::int8[])")  # tells the planner how many there are
    groups = sql.SQL(" ").join(
        sql.SQL("when f.language = any({}) then {}").format(sql.Literal(list(group)), sql.Literal(n))
        for n, group in enumerate(order, 1)
    )
    query = sql.SQL(
        """
        with found as materialized (
            select f.branch_id, f.path, f.language, f.cut_id, c.blob_id, c.size::int4,
                f.cut_id <> all(%(first)s) as later, case {groups} else 0 end as place
            from (
                select blob_id, c.size, cut_id from {source} c (blob_id, size) join cut using (blob_id) offset 0
            ) c join file f using (cut_id) where {where}  -- "offset 0" joins the narrow rows first
        ),
        everything as materialized (
            select count(*) as files, coalesce(sum(size), 0) <= %(whole)s as fits from found
        )
        select branch_id, path, language, cut_id, blob_id, size, files from (
            select *, sum(size) over (
                order by later, place, path, branch_id, blob_id rows unbounded preceding
            ) - size as before
            from (
                select * from found order by later, place, path, branch_id, blob_id
                limit (select case when fits then %(files)s else %(some)s end from everything)
            ) firsts
        ) counted, everything
        where fits or before < %(bytes)s order by later, place, path, branch_id, blob_id
        """
    ).format(groups=groups, source=source, where=where_file(filters))
    rows = fetch(connection, query, given)
    pieces = matching.pieces([row[4] for row in rows]) if matching else [None] * len(rows)
    found = [Candidate(*(*row[:6], some)) for row, some in zip(rows, pieces, strict=True)]
    return found, rows[0][6] if rows else 0


@dataclass(frozen=True, slots=True)
class _Matching:
    """The blobs that meet a need, in their order, with the bytes to be searched of each, and their pieces in a row."""

    blobs: Integers
    sizes: Integers
    starts: Integers  # of each blob in ``lines``
    lines: Integers | None  # None: all of them

    def pieces(self, blob_ids: Sequence[int]) -> list[list[int] | None]:
        """Return the first lines of the pieces that meet the need."""
        if self.lines is None:
            return [None] * len(blob_ids)
        ends = np.append(self.starts[1:], len(self.lines))
        at = np.searchsorted(self.blobs, blob_ids)
        return [self.lines[start:end].tolist() for start, end in zip(self.starts[at], ends[at], strict=True)]


def _matching(connection: Connection, need: Need, *, whole: bool) -> _Matching:
    given: dict[str, Any] = {}
    if whole:
        query = sql.SQL("select array_agg(blob_id), array_agg(size) from blob where {}")
        ((blobs, sizes),) = fetch(connection, query.format(_needs_of_blob(need, given)), given)
        return _Matching(NONE, NONE, NONE, None) if blobs is None else _Matching(blobs, sizes, NONE, None)
    where = _needs(need, given)
    if passes := sieve.condition(need):
        where += sql.SQL(" and (sieve is null or {})").format(passes)
    query = sql.SQL("select array_agg(blob_id), array_agg(line), array_agg(octet_length(body)) from piece where {}")
    ((blobs, lines, sizes),) = fetch(connection, query.format(where), given)
    if blobs is None:
        return _Matching(NONE, NONE, NONE, NONE)
    order = np.lexsort((lines, blobs))
    different, starts = np.unique(blobs[order], return_index=True)
    return _Matching(different, np.add.reduceat(sizes[order], starts), starts, lines[order])


def _trigrams(need: Need) -> list[str]:
    """Return the trigrams to look up: some of those that sieves know within longer strings, more of all others."""
    known = {gram[i : i + 3] for gram in need.grams if len(gram) == LONG for i in range(LONG - 2)}
    others = (gram for gram in need.grams if len(gram) < LONG and gram not in known)
    return rarest(known, RAREST) + rarest(others, OTHERS)


def _holds(grams: Collection[str], values: dict[str, Any]) -> sql.Composed:
    name = f"grams{len(values)}"
    values[name] = list(grams)
    return sql.SQL("{} @> {}::text[]").format(EXPRESSION, sql.Placeholder(name))


def _needs(need: Need, values: dict[str, Any]) -> sql.Composed:
    """Return the condition on a piece's trigrams; what it compares with is added to ``values``."""
    clauses: list[sql.Composable] = [_holds(_trigrams(need), values)] if need.grams else []
    for group in need.either:
        clauses.append(sql.SQL("({})").format(sql.SQL(" or ").join(_needs(one, values) for one in group)))
    return sql.SQL("({})").format(sql.SQL(" and ").join(clauses))


def _needs_of_blob(need: Need, values: dict[str, Any]) -> sql.Composed:
    """Return the condition on a blob that has the trigrams in whichever of its pieces."""
    clauses: list[sql.Composable] = [
        sql.SQL("blob_id in (select blob_id from piece where {})").format(_holds([gram], values))
        for gram in rarest(_trigrams(need), RAREST)
    ]
    for group in need.either:
        clauses.append(sql.SQL("({})").format(sql.SQL(" or ").join(_needs_of_blob(one, values) for one in group)))
    return sql.SQL("({})").format(sql.SQL(" and ").join(clauses))


class Piece(NamedTuple):
    """Some lines of a text in UTF-8, with the number of the first one."""

    line: int
    body: bytes


class _Bytes(Loader):
    """Gives a text column as the UTF-8 that it comes as."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def texts(connection: Connection, wanted: Sequence[Candidate]) -> Iterator[tuple[int, list[Piece]]]:
    """Yield what is to be searched of each blob, in the order asked for; a few megabytes are read at once."""
    batch: dict[int, Candidate] = {}
    size = 0
    for one in {one.blob_id: one for one in wanted}.values():
        batch[one.blob_id] = one
        size += one.size
        if size >= BATCH:
            yield from _read(connection, batch)
            batch, size = {}, 0
    yield from _read(connection, batch)


def _read(connection: Connection, batch: dict[int, Candidate]) -> Iterator[tuple[int, list[Piece]]]:
    some = [(blob_id, line) for blob_id, one in batch.items() for line in one.pieces or ()]
    rows = _pieces(connection, "where blob_id = any(%s)", [[i for i, one in batch.items() if one.pieces is None]])
    rows += _pieces(connection, f"join {_PAIRS} using (blob_id, line)", [[i for i, _ in some], [n for _, n in some]])
    found: dict[int, list[Piece]] = {blob_id: [] for blob_id in batch}
    for blob_id, line, body in rows:
        found[blob_id].append(Piece(line, body))
    yield from found.items()


_PAIRS = "unnest(%s::int8[], %s::int4[]) w (blob_id, line)"


def _pieces(connection: Connection, which: str, given: Sequence[Sequence[int]]) -> list[tuple[int, int, bytes]]:
    if not given[0]:
        return []
    with connection.cursor() as cursor:
        cursor.adapters.register_loader("text", _Bytes)
        query = f"select blob_id, line, body from piece {which} order by blob_id, line"
        return cursor.execute(query, given).fetchall()


def around(connection: Connection, lines: Sequence[tuple[int, int]], *, whole: bool) -> dict[int, list[Piece]]:
    """Return, by blob, the pieces that hold some (blob, line), or all of them."""
    found: dict[int, list[Piece]] = {}
    ids = [blob_id for blob_id, _ in lines]
    if whole:
        rows = _pieces(connection, "where blob_id = any(%s)", [ids])
    else:
        which = (
            "where (blob_id, line) in (select w.blob_id, (select max(p.line) from piece p where p.blob_id = w.blob_id"
            f" and p.line <= w.line) from {_PAIRS})"
        )
        rows = _pieces(connection, which, [ids, [line for _, line in lines]])
    for blob_id, line, body in rows:
        found.setdefault(blob_id, []).append(Piece(line, body))
    return found


class Span(NamedTuple):
    """The lines of a class or a method, ``ord`` being its chunk. There are tens of thousands of them in a search."""

    ord: int
    start_line: int
    end_line: int


def spans(connection: Connection, wanted: Mapping[int, tuple[int, int]]) -> dict[int, list[Span]]:
    """Return the classes and methods of cuts, outer ones before inner ones, that have some of the lines from, to."""
    rows = connection.cursor(binary=True).execute(
        "select c.cut_id, ord, start_line, end_line"
        " from unnest(%s::int8[], %s::int4[], %s::int4[]) w (cut_id, low, high)"
        " join chunk c on c.cut_id = w.cut_id and level in (1, 2) and start_line <= high and end_line >= low"
        " order by c.cut_id, start_line, end_line desc, level, ord",
        [list(wanted), [low for low, _ in wanted.values()], [high for _, high in wanted.values()]],
    )
    found: dict[int, list[Span]] = {}
    for cut_id, ord, start_line, end_line in rows.fetchall():
        found.setdefault(cut_id, []).append(Span(ord, start_line, end_line))
    return found


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as a row shows it."""

    level: int
    anchor: str
    signature: str
    start_line: int
    end_line: int


def chunks(connection: Connection, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
    """Return chunks by (cut, ord); 0 is the chunk of the file, or the only one that it has. A blank file has none."""
    rows = connection.execute(
        "select c.cut_id, c.ord, level, anchor, signature, start_line, end_line from chunk c"
        " join unnest(%s::int8[], %s::int4[]) as wanted (cut_id, ord) using (cut_id, ord)",
        [[cut_id for cut_id, _ in keys], [ord for _, ord in keys]],
    )
    return {(row[0], row[1]): Chunk(*row[2:]) for row in rows}


@dataclass(frozen=True, slots=True)
class Defined:
    """A symbol of a cut."""

    cut_id: int
    name: str
    start_line: int
    end_line: int


_LAST = "lower(substring(s.name from '[^.]*$'))"
_IS_NAMED = f"{SPELT} = %(spelt)s and {_LAST} = %(last)s"  # the first by an index, which knows no separators
# An implementation or a section has a name, but does not define it.
_DEFINES = "s.kind not in ('impl', 'section')"


def _lower(name: str) -> str:
    """Return a name in lower case as the database has it: ASCII alone."""
    return name.encode().lower().decode()


def _spelt(name: str) -> str:
    return _lower(name).translate(dict.fromkeys(map(ord, "_$-")))


def _named(name: str) -> dict[str, object]:
    return {"last": _lower(name), "spelt": _spelt(name)}


def defining(connection: Connection, name: str) -> list[int]:
    """Return cuts that define a symbol of that last name, in any case of letters."""
    rows = connection.execute(
        f"select distinct cut_id from symbol s where {_IS_NAMED} and {_DEFINES} order by 1 limit %(most)s",
        _named(name) | {"most": MAX_DEFINING},
    )
    return [row[0] for row in rows]


def defined(connection: Connection, cut_ids: Collection[int], names: Collection[str]) -> list[Defined]:
    """Return the symbols of cuts whose last name is one of ``names``, in any case of letters."""
    rows = connection.execute(
        f"select cut_id, name, start_line, end_line from symbol s where cut_id = any(%s) and {SPELT} = any(%s)"
        f" and {_LAST} = any(%s) and {_DEFINES} order by cut_id, ord",
        [list(cut_ids), sorted(set(map(_spelt, names))), sorted(set(map(_lower, names)))],
    )
    return [Defined(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A symbol of a file."""

    branch_id: int
    path: str
    language: str
    cut_id: int
    blob_id: int
    name: str
    start_line: int
    end_line: int


def lookup(connection: Connection, filters: Filters, qualified: str, limit: int) -> list[Lookup]:
    """Return the symbols in scope with that full name, or whose full name ends with it."""
    query = sql.SQL(
        """
        select f.branch_id, f.path, f.language, f.cut_id, k.blob_id, s.name, s.start_line, s.end_line
        from symbol s join file f using (cut_id) join cut k using (cut_id)
        where {named} and {defines} and {where}
            and (s.name = %(name)s or right(s.name, %(length)s) = %(tail)s)
        order by s.name <> %(name)s, f.path, f.branch_id, s.ord limit %(limit)s
        """
    ).format(named=sql.SQL(_IS_NAMED), defines=sql.SQL(_DEFINES), where=where_file(filters))
    given = (
        parameters(filters)
        | _named(qualified.rpartition(".")[2])
        | {
            "name": qualified,
            "tail": "." + qualified,
            "length": len(qualified) + 1,
            "limit": limit,
        }
    )
    return [Lookup(*row) for row in connection.execute(query, given)]


@dataclass(frozen=True, slots=True)
class Listed:
    """A file by its name, indexed or not."""

    branch_id: int
    path: str
    language: str
    skip: str
    anchor: str  # of its file chunk
    end_line: int


def listing(connection: Connection, filters: Filters, offset: int, limit: int) -> tuple[list[Listed], int]:
    """Return files by path, indexed or not, and how many there are."""
    query = sql.SQL(
        """
        select f.branch_id, f.path, f.language, coalesce(f.skip, ''), coalesce(c.anchor, ''), coalesce(c.end_line, 0)
        from (select * from file f where {where} order by path, branch_id, entry offset %(offset)s limit %(limit)s) f
        left join chunk c on c.cut_id = f.cut_id and c.ord = 0 order by f.path, f.branch_id, f.entry
        """
    ).format(where=where_file(filters, skipped=True))
    rows = connection.execute(query, parameters(filters) | {"offset": offset, "limit": limit}).fetchall()
    count = sql.SQL("select count(*) from file f where {}").format(where_file(filters, skipped=True))
    total = connection.execute(count, parameters(filters)).fetchone()
    return [Listed(*row) for row in rows], total[0] if total else 0


def left_out(connection: Connection, filters: Filters) -> dict[str, int]:
    """Count the files in scope that have no text here, by reason."""
    query = sql.SQL("select f.skip, count(*) from file f where f.skip is not null and {} group by 1 order by 2 desc, 1")
    if not (filters.languages or filters.include or filters.exclude):
        # Of whole branches it is written down.
        query = sql.SQL(
            "select key, sum(value::int)::int from branch f, jsonb_each_text(skipped) where {} group by 1"
            " order by 2 desc, 1"
        )
    where = where_file(filters, skipped=True)
    return dict(connection.execute(query.format(where), parameters(filters)).fetchall())
