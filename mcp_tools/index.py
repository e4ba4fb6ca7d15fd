"""An index opened for reading: connects and loads the model when first asked, and again after the server went away."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.errors import DatabaseError, EmbedderError, GitstrataError, Unreachable, UsageError
from flows.settings import Settings
from mcp_tools import access
from mcp_tools.access import Access
from mcp_tools.outage import Outage
from mcp_tools.seen import Seen
from mcp_tools.surface import argument

if TYPE_CHECKING:
    import psycopg_pool

    from flows.embed import Embedder, Vectors
    from flows.embed.shelf import Shelf
    from flows.store.connect import Connection, Database
    from flows.store.models import Model
    from flows.store.resident import Resident

log = logging.getLogger("gitstrata")

STATEMENT_SECONDS = 10
CONNECT_SECONDS = 10
PATIENCE_SECONDS = 2  # for a connection, before we look whether the server is still there
CONNECTIONS = 8
# A server that vanished without a word is noticed after about so long, not after the minutes of the system's defaults.
LIVELY = {
    "application_name": "gitstrata",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * (STATEMENT_SECONDS + 5),
}
PAUSE_SECONDS = 15  # that a model which failed is not asked again: nobody is to wait for a provider that is away
REMEMBERED = 8_192  # vectors of paths: 8 MB
LOADING_SECONDS = 3  # for a model that another thread loads; a large one takes longer
COLLECTED = 50_000, 20, 20  # objects made before the collector looks at the youngest, and so on
ATTEMPTS = 3  # at finding the query's vector and the snapshot of one model


@dataclass(frozen=True, slots=True)
class Search:
    """A snapshot for one search: the model whose vectors it holds, and the query's vector by that model."""

    connection: Connection
    model: Model | None  # None before the first index
    vector: Vectors | None
    note: str  # why there is no vector
    resident: Resident
    embed: Callable[[Sequence[str]], Vectors] | None = None  # of documents, where that costs next to nothing


class Index:
    """What queries need: snapshots of the database, and vectors of queries. Safe to share between threads."""

    def __init__(self, settings: Settings, *, embedder: Embedder | Shelf | None = None) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._pool: psycopg_pool.ConnectionPool[Connection] | None = None
        self._embedder = embedder
        self._shelf: Shelf | None = None  # made when first asked: numpy is not to delay the handshake
        self._resident: Resident | None = None
        self._model: Model | None = None  # the active one when last seen
        self._outage = Outage()
        self.unnamed: Access | None = access.OWNER  # what a request without a token may see; None = nothing
        self._failed = ("", 0.0, "")  # fingerprint of the model that failed last, when, and what is said of it
        self._remembered: tuple[Embedder, Callable[[Sequence[str]], Vectors]] | None = None
        self.seen = Seen()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm(self) -> None:
        """Connect and load the model now, quietly: whoever asks later gets the error.

        What is loaded then stays: the collector of garbage is told so, and to look less often at the thousands of
        objects that a search makes and drops, none of them in a cycle. It took a tenth of a search.
        """
        with access.granted(access.OWNER), contextlib.suppress(GitstrataError), self.search("warm up"):
            pass
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTED)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see one state of the index, and only what the request may see.

        Raises:
            DatabaseError: the database cannot be reached, or a statement took too long.
            UsageError: the block asked for text that Postgres cannot hold, or for a pattern that it cannot read.
        """
        from flows.store import read

        with self._told(), self._checked_out() as connection, read.snapshot(connection, self._projects()):
            yield connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction that may write; raises what :meth:`snapshot` does."""
        from flows.store import read

        self._projects()  # a request without a token changes nothing, either
        with self._told(), self._checked_out() as connection, read.transaction(connection):
            yield connection

    @property
    def notes_project(self) -> str:
        """The project of the case notes that this request reads and writes."""
        who = access.current() or self.unnamed
        return who.notes_project if who else ""

    def _projects(self) -> tuple[str, ...] | None:
        """Return the projects that this request is limited to."""
        who = access.current() or self.unnamed
        if who is None:
            raise UsageError("this request has no token: nothing can be shown")
        return who.projects

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the database raises into errors of ours."""
        import psycopg

        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise DatabaseError(
                f"the query took longer than {STATEMENT_SECONDS} s: narrow it by {argument('repo')}, "
                f"{argument('paths')} or {argument('languages')}"
            ) from error
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise UsageError(f"an argument cannot be looked up: {_first_line(error)}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise DatabaseError(self._outage.describe(_first_line(error))) from error
        except psycopg.Error as error:
            raise DatabaseError(f"the database failed: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _checked_out(self) -> Iterator[Connection]:
        import psycopg_pool

        try:
            pool = self._connections()
            try:
                connection = pool.getconn(timeout=PATIENCE_SECONDS)
            except (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed):
                self._look_after(pool)
                pool = self._connections()
                connection = pool.getconn(timeout=CONNECT_SECONDS)
        except Unreachable as error:
            raise DatabaseError(self._outage.describe(str(error))) from error
        except psycopg_pool.PoolTimeout as error:
            raise DatabaseError(
                f"all {CONNECTIONS} connections were busy for {CONNECT_SECONDS} s: try again in a moment"
            ) from error
        self._outage.ended()
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
        if self._resident is not None:
            self._resident.clear()
        options = (
            f"-c statement_timeout={STATEMENT_SECONDS * 1000} -c max_parallel_workers_per_gather=0 -c work_mem=32MB"
        )
        pool: psycopg_pool.ConnectionPool[Connection] = psycopg_pool.ConnectionPool(
            database.conninfo,
            kwargs={"autocommit": True, "prepare_threshold": None, "options": options, **LIVELY},
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

    # --- the model ---

    @contextlib.contextmanager
    def search(self, query: str) -> Iterator[Search]:
        """Give a snapshot with the vector of ``query`` by the very model whose vectors it holds, never another's.

        The vector is computed before the snapshot is taken, which then must have the same model: after a switch the
        new one is loaded first. Without a model that can be loaded there is no vector, and a note says why.
        """
        from flows.store.models import active_model

        model = self._model or self._active()
        for attempt in range(ATTEMPTS):
            vector, note = self._embed(query, model)
            with self.snapshot() as connection:
                before, model = model, active_model(connection)
                moved = model is not None and (before is None or before.fingerprint != model.fingerprint)
                if moved and attempt < ATTEMPTS - 1:
                    continue
                self._model = model
                if moved:
                    vector, note = None, "found by words and names only: the model of the index has just changed"
                embed = self._cheap(model) if vector is not None else None
                yield Search(connection, model, vector, note, self.resident, embed)
                return

    @property
    def shelf(self) -> Shelf:
        """The models that this process has loaded."""
        from flows.embed.shelf import Shelf

        with self._lock:
            if self._shelf is None:
                given = self._embedder
                self._shelf = given if isinstance(given, Shelf) else Shelf(self._settings.model, given)
            return self._shelf

    @property
    def resident(self) -> Resident:
        """What this process keeps of the index in memory."""
        from flows.store.resident import Resident

        with self._lock:
            if self._resident is None:
                self._resident = Resident()
            return self._resident

    def _active(self) -> Model | None:
        from flows.store import models

        with self.snapshot() as connection:
            model, building = models.active_model(connection), models.building_model(connection)
        if model is not None and (said := models.advice(model, building, self._settings.model)):
            log.warning(said)
        return model

    def _embed(self, query: str, model: Model | None) -> tuple[Vectors | None, str]:
        """Return the vector of a query, or why there is none."""
        if model is None:
            return None, ""
        fingerprint, since, note = self._failed
        if fingerprint == model.fingerprint and time.monotonic() - since < PAUSE_SECONDS:
            return None, note
        from flows.embed.shelf import Loading

        try:
            found = self.shelf.find(model.setting, model.fingerprint, model.dimension, patience=LOADING_SECONDS)
            return found.embed_query(query), ""
        except Loading as error:
            return None, f"found by words and names only: {error}"
        except (EmbedderError, UsageError) as error:
            log.warning("searching by words only: %s", error)
            note = f"found by words and names only, not by meaning: {error}"
            self._failed = (model.fingerprint, time.monotonic(), note)
            return None, note

    def _cheap(self, model: Model | None) -> Callable[[Sequence[str]], Vectors] | None:
        """Return what embeds short texts at the price of a look-up, None if the model is dearer."""
        from flows.embed.static import StaticEmbedder

        embedder = self.shelf.find(model.setting, model.fingerprint, model.dimension) if model else None
        if not isinstance(embedder, StaticEmbedder):
            return None
        if self._remembered is None or self._remembered[0] is not embedder:
            self._remembered = (embedder, _remembering(embedder))
        return self._remembered[1]

    def close(self) -> None:
        """Close connections and give up this process's share of the embedded server."""
        if self._pool is not None:
            self._forget(self._pool)
        if self._database is not None:
            self._database.close()
            self._database = None


def _remembering(embedder: Embedder) -> Callable[[Sequence[str]], Vectors]:
    """Return what embeds texts that come again and again, as paths of files do: those that are new all at once."""
    import numpy as np

    remembered: dict[str, Vectors] = {}

    def embed(texts: Sequence[str]) -> Vectors:
        vectors = {text: vector for text in texts if (vector := remembered.get(text)) is not None}
        if new := [text for text in dict.fromkeys(texts) if text not in vectors]:
            made = dict(zip(new, embedder.embed_documents(new), strict=True))
            if len(remembered) + len(made) > REMEMBERED:
                remembered.clear()  # other threads read on: what they found is theirs
            remembered.update(made)
            vectors |= made
        return np.stack([vectors[text] for text in texts])

    return embed


def _first_line(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half a surrogate pair, which is no character"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
