"""The HNSW index over a model's vectors: whether a search may use it, and building it once there are enough.

That is more than a search keeps signs of in memory (resident.py): up to there, comparing all costs no more and finds
more. It is built beside the syncs of other runs, never inside a transaction of one, and used from the moment it is
whole.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable

import psycopg
from psycopg import sql

from flows.store.connect import Connection, Database
from flows.store.models import Model
from flows.store.resident import most

M, EF_CONSTRUCTION = 16, 64  # pgvector's own defaults
_BYTES_A_ROW = 450  # of the graph, besides the vector
_MOST_MEMORY = 2**31 - 2**20  # what the setting takes
_BUILD_LOCK = 7_242_005
_POLL_SECONDS = 1.0

Progress = Callable[[str, int, int], None]


def usable(connection: Connection, model: Model) -> bool:
    """Say whether the index is there and whole."""
    name = _name(model).as_string(connection)
    query = "select coalesce((select indisvalid from pg_index where indexrelid = to_regclass(%s)), false)"
    return connection.execute(query, [name]).fetchone() == (True,)


def _name(model: Model) -> sql.Identifier:
    return sql.Identifier(f"{model.vectors_name}_hnsw")


def build_if_large(database: Database, model: Model, progress: Progress, *, beyond: int | None = None) -> bool:
    """Build the index if it is missing and the branches show many chunks; say whether it was built.

    Syncs and searches go on meanwhile. A build that was killed leaves an index that is not whole: it is dropped, and so
    is one over less than half of what it takes, which only costs.
    """
    beyond = most(model) if beyond is None else beyond
    with database.connect() as connection:
        is_usable, shown = usable(connection, model), _shown(connection)
        if is_usable and 2 * shown < beyond:
            connection.execute(sql.SQL("drop index concurrently if exists {}").format(_name(model)))
        if is_usable or shown <= beyond:
            return False
        if connection.execute("select pg_try_advisory_lock(%s)", [_BUILD_LOCK]).fetchone() != (True,):
            return False  # another run is at it
        if usable(connection, model):
            return False
        connection.execute(sql.SQL("drop index concurrently if exists {}").format(_name(model)))
        rows = _rows(connection, model)
        _give_memory(connection, rows * (2 * model.dimension + _BYTES_A_ROW))
        statement = sql.SQL(
            "create index concurrently {} on {} using hnsw (vector halfvec_cosine_ops)"
            " with (m = {}, ef_construction = {})"
        ).format(_name(model), model.vectors, sql.Literal(M), sql.Literal(EF_CONSTRUCTION))
        _run_watched(database, connection, statement, rows, progress)
    return True


def _shown(connection: Connection) -> int:
    row = connection.execute("select coalesce(sum(n), 0) from branch, unnest(chunks) n").fetchone()
    return int(row[0]) if row else 0


def _rows(connection: Connection, model: Model) -> int:
    row = connection.execute(sql.SQL("select count(*) from {}").format(model.vectors)).fetchone()
    return int(row[0]) if row else 0


def _give_memory(connection: Connection, wanted: int) -> None:
    """Raise maintenance_work_mem: a graph that does not fit costs three times the CPU to build.

    More than the server is set up for is taken from one process's own memory: workers would share it by /dev/shm.
    """
    row = connection.execute("select pg_size_bytes(current_setting('maintenance_work_mem'))").fetchone()
    if row is not None and row[0] < wanted:
        size = min(wanted * 5 // 4, _MOST_MEMORY) // 1024
        connection.execute("select set_config('maintenance_work_mem', %s, false)", [f"{size}kB"])
        connection.execute("set max_parallel_maintenance_workers = 0")


def _run_watched(
    database: Database, connection: Connection, statement: sql.Composed, rows: int, progress: Progress
) -> None:
    """Run ``statement`` in a thread of its own and report how far it is; cancel it if we are interrupted."""
    with concurrent.futures.ThreadPoolExecutor(1, "vector-index") as pool, database.connect() as watcher:
        running = pool.submit(connection.execute, statement)
        try:
            while not concurrent.futures.wait([running], _POLL_SECONDS).done:
                row = watcher.execute(
                    "select tuples_done from pg_stat_progress_create_index where pid = %s",
                    [connection.info.backend_pid],
                ).fetchone()
                progress("vector index", min(int(row[0]) if row else 0, rows), rows)
        except BaseException:
            connection.cancel_safe()
            raise
        running.result()


def failure(error: psycopg.Error) -> str:
    """Return the note of a run whose index could not be built."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"the vector index could not be built ({reason}): searches scan until a later run builds it"
