"""How large a scope is: files and cuts that filters leave, and about how many chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from psycopg import sql

from flows.store.arrays import NONE, Integers, fetch
from flows.store.conditions import parameters, where_file
from flows.store.connect import Connection
from flows.store.read import Filters


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scope is, about: chunks of all levels, and the share of all there are that is of its level."""

    chunks: int
    share: float


def measure(connection: Connection, filters: Filters, room: int) -> tuple[Size, Integers | None]:
    """Return the size of a scope, and its cuts if their chunks are no more than ``room``."""
    row = connection.execute(
        "select coalesce(sum(n), 0)::int8, coalesce(sum(l) filter (where hit), 0)::int8,"
        " coalesce(sum(n) filter (where hit), 0)::int8, coalesce(sum(files) filter (where hit), 0)::int8"
        " from (select files, branch_id = any(%s) as hit, (select sum(x) from unnest(chunks) x) as n,"
        " case when %s::int is null then (select sum(x) from unnest(chunks) x) else chunks[%s::int + 1] end as l"
        " from branch) b",
        [list(filters.branch_ids), filters.level, filters.level],
    ).fetchone()
    assert row is not None
    everything, of_level, chunks, files = row
    fitting = room * files // max(1, chunks)
    left, cuts = files, None
    if filters.languages or filters.include or filters.exclude:
        left, cuts = cuts_of(connection, filters, fitting)
    elif files <= fitting:
        left, cuts = cuts_of(connection, filters, None)
    in_scope = of_level * left // max(1, files)
    return Size(chunks * left // max(1, files), min(1.0, in_scope / max(1, everything))), cuts


def cuts_of(connection: Connection, filters: Filters, most: int | None) -> tuple[int, Integers | None]:
    """Return how many files filters leave, and their cuts in order if they are no more than ``most``."""
    query = sql.SQL(
        "select n, case when %(most)s::int8 is null or n <= %(most)s then cuts end from"
        " (select count(*) as n, array_agg(f.cut_id) as cuts from file f where {}) x"
    ).format(where_file(filters))
    ((count, cuts),) = fetch(connection, query, parameters(filters) | {"most": most})
    if cuts is None:
        return count, NONE if not count else None
    return count, np.unique(cuts)


def count_files(connection: Connection, filters: Filters) -> int:
    """Return how many indexed files the filters leave, levels aside."""
    return cuts_of(connection, filters, -1)[0]
