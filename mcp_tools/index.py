"""An index opened for reading: connects and loads the model when first asked, and again after the server went away."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flows.errors import DatabaseError, EmbedderError, SchemaMismatch, UsageError
from flows.settings import Settings
from mcp_tools.seen import Seen

if TYPE_CHECKING:
    import psycopg_pool

    from flows.embed import Embedder, Vectors
    from flows.store.connect import Connection, Database
    from flows.store.models import Model

STATEMENT_SECONDS = 10
CONNECT_SECONDS = 10
PATIENCE_SECONDS = 2  # for a connection, before we look whether the server is still there
CONNECTIONS = 8


class Index:
    """What queries need: snapshots of the database, and vectors of queries. Safe to share between threads."""

    def __init__(self, settings: Settings, *, embedder: Embedder | None = None) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._pool: psycopg_pool.ConnectionPool[Connection] | None = None
        self._embedder_lock = threading.Lock()  # the model needs no database, nor the database a model
        self._embedder = embedder  # None = the configured one, loaded when first asked
        self.seen = Seen()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm(self) -> None:
        """Connect and load the model now, quietly: whoever asks later gets the error."""
        with contextlib.suppress(DatabaseError, EmbedderError, SchemaMismatch):
            self._connections()
            self.embed("warm up")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see one state of the index.

        Raises:
            DatabaseError: the database cannot be reached, or a statement took too long.
            UsageError: the block asked for text that Postgres cannot hold, or for a pattern that it cannot read.
        """
        from flows.store import read

        with self._told(), self._checked_out() as connection, read.snapshot(connection):
            yield connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction that may write; raises what :meth:`snapshot` does."""
        from flows.store import read

        with self._told(), self._checked_out() as connection, read.transaction(connection):
            yield connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the database raises into errors of ours."""
        import psycopg

        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise DatabaseError(
                f"the query took longer than {STATEMENT_SECONDS} s: narrow it by repo, paths or languages"
            ) from error
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise UsageError(f"an argument cannot be looked up: {_first_line(error)}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise DatabaseError(f"the database went away: {_first_line(error)}. Try again in a moment") from error
        except psycopg.Error as error:
            raise DatabaseError(f"the database failed: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _checked_out(self) -> Iterator[Connection]:
        import psycopg_pool

        pool = self._connections()
        try:
            connection = pool.getconn(timeout=PATIENCE_SECONDS)
        except (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed):
            self._look_after(pool)
            pool = self._connections()
            connection = pool.getconn(timeout=CONNECT_SECONDS)
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _look_after(self, pool: psycopg_pool.ConnectionPool[Connection]) -> None:
        """Let an embedded server that is gone be started again; raise DatabaseError where that is not ours to do."""
        database = self._database
        if database is None:
            return
        try:
            database.connect(connect_timeout=PATIENCE_SECONDS).close()  # then all connections are in use
        except DatabaseError:
            if not database.is_embedded:
                raise
            self._forget(pool)

    def _connections(self) -> psycopg_pool.ConnectionPool[Connection]:
        with self._lock:
            if self._pool is None:
                self._database, self._pool = self._open()
            return self._pool

    def _open(self) -> tuple[Database, psycopg_pool.ConnectionPool[Connection]]:
        import psycopg_pool

        from flows.store.connect import open_database

        database = open_database(self._settings)  # migrates anew: a server that crashed may have lost its first moments
        if self._database is not None:
            self._database.close()
        options = f"-c statement_timeout={STATEMENT_SECONDS * 1000} -c max_parallel_workers_per_gather=0"
        pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            database.conninfo,
            kwargs={"autocommit": True, "prepare_threshold": None, "options": options, "application_name": "gitstrata"},
            min_size=1,
            max_size=CONNECTIONS,
            check=psycopg_pool.ConnectionPool.check_connection,
            reconnect_timeout=CONNECT_SECONDS,
            open=True,
        )
        return database, pool

    def _forget(self, pool: psycopg_pool.ConnectionPool[Connection]) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.close(timeout=1)

    def embed(self, query: str) -> Vectors:
        """Return the vector of a query, float32 of shape (dimension,)."""
        return self.embedder.embed_query(query)

    @property
    def embedder(self) -> Embedder:
        """The configured model; loaded once."""
        with self._embedder_lock:
            if self._embedder is None:
                from flows.embed import load_embedder

                self._embedder = load_embedder(self._settings.model)
            return self._embedder

    def check_model(self, model: Model) -> None:
        """Refuse to compare vectors of two models."""
        if model.fingerprint != self.embedder.fingerprint:
            raise SchemaMismatch(
                f"the index was built with the model {model.name}, this server has {self.embedder.name}: "
                "set GITSTRATA_MODEL to the same model"
            )

    def close(self) -> None:
        """Close connections and give up this process's share of the embedded server."""
        if self._pool is not None:
            self._forget(self._pool)
        if self._database is not None:
            self._database.close()
            self._database = None


def _first_line(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half a surrogate pair, which is no character"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
