"""Reading for exact search: which files may match, their texts, and the chunks and symbols around lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import sql
from psycopg.adapt import Buffer, Loader

from flows.store.candidates import parameters, where_file
from flows.store.connect import Connection
from flows.store.read import Filters
from flows.store.trigrams import EXPRESSION, Need

BATCH = 200  # texts in memory at once
MAX_DEFINING = 2_000  # cuts that define a name


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is searched: all that may match, if that is no more than ``whole`` bytes, else the first ``bytes``."""

    whole: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may match."""

    branch_id: int
    path: str
    language: str
    cut_id: int
    blob_id: int


def candidates(
    connection: Connection,
    filters: Filters,
    need: Need,
    order: Sequence[Sequence[str]],
    first: Sequence[int],
    budget: Budget,
) -> tuple[list[Candidate], int]:
    """Return the files that may match, as many as the budget allows, and how many there are.

    The cuts in ``first`` come first, then the languages outside ``order``, then those of its first group, and so on;
    then paths decide. So the same request over the same commits gets the same files.
    """
    shown: list[int] | None = None
    if need:
        values: dict[str, Any] = {}
        query = sql.SQL("select blob_id from blob where {}").format(_needs(need, values))
        shown = [row[0] for row in connection.execute(query, values, binary=True)]
    source = sql.SQL("unnest(%(blobs)s::int8[]) c (blob_id) join blob b using (blob_id)" if need else "blob b")
    groups = sql.SQL(" ").join(
        sql.SQL("when f.language = any({}) then {}").format(sql.Literal(list(group)), sql.Literal(n))
        for n, group in enumerate(order, 1)
    )
    query = sql.SQL(
        """
        select branch_id, path, language, cut_id, blob_id, files from (
            select *, count(*) over () as files, sum(size) over () as whole, sum(size) over (
                order by later, place, path, branch_id, blob_id rows unbounded preceding
            ) - size as before
            from (
                select f.branch_id, f.path, f.language, f.cut_id, b.blob_id, b.size,
                    f.cut_id <> all(%(first)s) as later, case {groups} else 0 end as place
                from {source} join file f on f.oid = b.oid where {where}
            ) found
        ) counted
        where (whole <= %(whole)s or before < %(bytes)s) order by later, place, path, branch_id, blob_id limit %(files)s
        """
    ).format(groups=groups, source=source, where=where_file(filters))
    given = parameters(filters) | {
        "blobs": shown,
        "first": list(first),
        "whole": budget.whole,
        "bytes": budget.bytes,
        "files": budget.files,
    }
    rows = connection.execute(query, given, binary=True).fetchall()
    return [Candidate(*row[:5]) for row in rows], rows[0][5] if rows else 0


def _needs(need: Need, values: dict[str, Any]) -> sql.Composed:
    """Return the condition on a blob's trigrams; what it compares with is added to ``values``."""
    clauses: list[sql.Composable] = []
    if need.grams:
        name = f"grams{len(values)}"
        values[name] = sorted(need.grams)
        clauses.append(sql.SQL("{} @> {}::text[]").format(EXPRESSION, sql.Placeholder(name)))
    for group in need.either:
        clauses.append(sql.SQL("({})").format(sql.SQL(" or ").join(_needs(one, values) for one in group)))
    return sql.SQL("({})").format(sql.SQL(" and ").join(clauses))


class _Bytes(Loader):
    """Gives a text column as the UTF-8 that it comes as."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def bodies(connection: Connection, blob_ids: Sequence[int]) -> Iterator[dict[int, bytes]]:
    """Yield the texts of blobs in UTF-8, a batch at a time, in the order asked for."""
    query = "select blob_id, coalesce(body, '') from blob where blob_id = any(%s)"
    with connection.cursor() as cursor:
        cursor.adapters.register_loader("text", _Bytes)
        different = list(dict.fromkeys(blob_ids))
        for n in range(0, len(different), BATCH):
            cursor.execute(query, [different[n : n + BATCH]])
            yield dict(cursor.fetchall())


class Span(NamedTuple):
    """The lines of a class or a method, ``ord`` being its chunk. There are tens of thousands of them in a search."""

    ord: int
    start_line: int
    end_line: int


def spans(connection: Connection, cut_ids: Collection[int]) -> dict[int, list[Span]]:
    """Return the classes and methods of cuts, outer ones before inner ones."""
    rows = connection.cursor(binary=True).execute(
        "select cut_id, ord, start_line, end_line from chunk where cut_id = any(%s) and level in (1, 2)"
        " order by cut_id, start_line, end_line desc, level, ord",
        [list(cut_ids)],
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


_LAST = "lower(substring(name from '[^.]*$'))"  # as the index symbol_last has it
# An implementation or a section has a name, but does not define it.
_DEFINES = "kind not in ('impl', 'section')"


def defining(connection: Connection, name: str) -> list[int]:
    """Return cuts that define a symbol of that last name, in any case of letters."""
    rows = connection.execute(
        f"select distinct cut_id from symbol where {_LAST} = %s and {_DEFINES} order by 1 limit %s",
        [name.lower(), MAX_DEFINING],
    )
    return [row[0] for row in rows]


def defined(connection: Connection, cut_ids: Collection[int], names: Collection[str]) -> list[Defined]:
    """Return the symbols of cuts whose last name is one of ``names``, in any case of letters."""
    rows = connection.execute(
        f"select cut_id, name, start_line, end_line from symbol where cut_id = any(%s) and {_LAST} = any(%s)"
        f" and {_DEFINES} order by cut_id, ord",
        [list(cut_ids), sorted({name.lower() for name in names})],
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
        where {last} = %(last)s and {defines} and {where}
            and (s.name = %(name)s or right(s.name, %(length)s) = %(tail)s)
        order by s.name <> %(name)s, f.path, f.branch_id, s.ord limit %(limit)s
        """
    ).format(last=sql.SQL(_LAST), defines=sql.SQL(_DEFINES), where=where_file(filters))
    given = parameters(filters) | {
        "last": qualified.rpartition(".")[2].lower(),
        "name": qualified,
        "tail": "." + qualified,
        "length": len(qualified) + 1,
        "limit": limit,
    }
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
    query = sql.SQL(
        "select f.skip, count(*) from file f where f.skip is not null and {} group by 1 order by 2 desc, 1"
    ).format(where_file(filters, skipped=True))
    return dict(connection.execute(query, parameters(filters)).fetchall())
