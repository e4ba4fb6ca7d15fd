"""Open the database: the embedded server or a DSN, with extension and schema in order."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from flows.errors import DatabaseError, SchemaMismatch, Unreachable, UsageError
from flows.settings import Settings

if TYPE_CHECKING:
    from flows.store.embedded import EmbeddedServer

MIGRATIONS = Path(__file__).parent / "migrations"
OLDEST_SERVER = 150000
OLDEST_VECTOR = (0, 8)
# Extension -> what it is called, and what to install. pg_trgm needs no superuser, only the right to create.
EXTENSIONS = {"vector": ("pgvector", "pgvector 0.8 or newer"), "pg_trgm": ("pg_trgm", "PostgreSQL's contrib modules")}
_MIGRATION_LOCK = 7_242_001  # key of pg_advisory_lock

Connection = psycopg.Connection[tuple[Any, ...]]


class Database:
    """An open database; the embedded server stays up while one of its users holds it."""

    def __init__(self, conninfo: str, server: EmbeddedServer | None = None) -> None:
        self.conninfo = conninfo
        self._server = server

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def is_embedded(self) -> bool:
        return self._server is not None

    def connect(self, **options: Any) -> Connection:
        """Return a new autocommit connection.

        Raises:
            DatabaseError: the server cannot be reached.
        """
        return connect(self.conninfo, **options)

    def reopen(self) -> None:
        """Start the embedded server again if it went away; nothing to do for a DSN."""
        if self._server is not None:
            self.conninfo = self._server.start()

    def close(self) -> None:
        """Give up this process's share of the embedded server."""
        if self._server is not None:
            self._server.release()


def connect(conninfo: str, **options: Any) -> Connection:
    """Connect in autocommit mode.

    Raises:
        UsageError: ``conninfo`` is no connection string.
        DatabaseError: no connection, in the server's own words.
    """
    parameters: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "application_name": "gitstrata"} | options
    try:
        return psycopg.connect(conninfo, prepare_threshold=None, **parameters)
    except psycopg.ProgrammingError as error:
        raise UsageError("GITSTRATA_DSN is not a connection string: use postgresql://user@host/database") from error
    except psycopg.OperationalError as error:
        said = _one_line(error).removeprefix("connection is bad: ")  # libpq refused the string, nobody was asked
        if said.startswith("invalid "):
            raise UsageError(f"GITSTRATA_DSN has an {said}: correct it") from error
        raise Unreachable(f"cannot connect to {describe(conninfo)}: {said}") from error


def copy_rows(
    connection: Connection,
    table: str,
    types: Sequence[str],
    rows: Iterable[Sequence[Any]],
    columns: Sequence[str] = (),
) -> None:
    """Append ``rows`` to ``table`` by a binary COPY; ``types`` are the names of the types of ``columns``, () = all."""
    named = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, columns))) if columns else sql.SQL("")
    query = sql.SQL("copy {}{} from stdin (format binary)").format(sql.Identifier(table), named)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def describe(conninfo: str) -> str:
    """Return a database's name and place without its password."""
    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "the database"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"database {parts.get('dbname') or parts.get('user') or ''} at {parts.get('host') or 'localhost'}{port}"


def open_database(settings: Settings, *, upgrade: bool = False) -> Database:
    """Open the configured database and bring its schema up to date where that is ours to do.

    The embedded server and an empty database are migrated at once; a team's database only with ``upgrade``.

    Raises:
        DatabaseError: unreachable, too old, or without pgvector or pg_trgm.
        SchemaMismatch: the schema is newer than this program, or older and not ours to change.
    """
    database = open_server(settings)
    try:
        with database.connect() as connection:
            _check_server(connection, describe(database.conninfo))
            _migrate(connection, database, upgrade=upgrade or database.is_embedded)
    except psycopg.Error as error:
        database.close()
        raise DatabaseError(f"{describe(database.conninfo)}: {_one_line(error)}") from error
    except BaseException:
        database.close()
        raise
    return database


def open_server(settings: Settings) -> Database:
    """Open the configured database, or the embedded server's, whatever is in it."""
    if settings.dsn:
        return Database(settings.dsn)
    from flows.store.embedded import EmbeddedServer

    server = EmbeddedServer(settings.server_dir, postgres_bin=settings.postgres_bin)
    return Database(server.start(), server)


def _check_server(connection: Connection, where: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise DatabaseError(f"{where} is PostgreSQL {connection.info.server_version // 10000}: 15 or newer is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":  # the index of exact search has the bytes of characters
        raise DatabaseError(f"{where} is encoded in {encoding}: create one with TEMPLATE template0 ENCODING 'UTF8'")
    for extension in EXTENSIONS:
        if _version_of(connection, extension) is None:
            _create_extension(connection, extension, where)
    if (_version_of(connection, "vector") or ()) < OLDEST_VECTOR:
        raise DatabaseError(f"{where} has pgvector older than 0.8: run ALTER EXTENSION vector UPDATE there")


def _version_of(connection: Connection, extension: str) -> tuple[int, ...] | None:
    row = connection.execute("select extversion from pg_extension where extname = %s", [extension]).fetchone()
    return tuple(int(part) for part in row[0].split(".")[:2]) if row else None


def _create_extension(connection: Connection, extension: str, where: str) -> None:
    title, source = EXTENSIONS[extension]
    if not connection.execute("select 1 from pg_available_extensions where name = %s", [extension]).fetchone():
        raise DatabaseError(f"{where} has no {title}: install {source} on that server")
    try:
        connection.execute(sql.SQL("create extension if not exists {}").format(sql.Identifier(extension)))
    except psycopg.errors.InsufficientPrivilege as error:
        command = f"CREATE EXTENSION {extension};"
        raise DatabaseError(f"{where} lacks {title}: its administrator must run {command} in that database") from error
    except psycopg.errors.UniqueViolation:
        pass  # another process created it at the same moment


def schema_version() -> str:
    """Return the newest schema that this program knows."""
    return _known()[-1]


def _known() -> list[str]:
    return sorted(path.stem for path in MIGRATIONS.glob("*.sql"))


def _applied(connection: Connection) -> list[str]:
    if connection.execute("select to_regclass('_yoyo_migration')").fetchone() != ("_yoyo_migration",):
        return []
    return [row[0] for row in connection.execute("select migration_id from _yoyo_migration order by 1")]


def _migrate(connection: Connection, database: Database, *, upgrade: bool) -> None:
    known, applied = _known(), _applied(connection)
    _refuse_newer(known, applied)
    if applied == known:
        return
    if applied and not upgrade:
        lacking = ", ".join(sorted(set(known) - set(applied)))
        raise SchemaMismatch(
            f"{describe(database.conninfo)} has schema {applied[-1]} and lacks {lacking}: "
            "run `gitstrata db upgrade` once"
        )
    with database.connect() as holder:
        holder.execute("select pg_advisory_lock(%s)", [_MIGRATION_LOCK])
        _refuse_newer(known, _applied(holder))
        _apply(database.conninfo)


def _refuse_newer(known: list[str], applied: list[str]) -> None:
    if unknown := sorted(set(applied) - set(known)):
        raise SchemaMismatch(
            f"the database has schema {unknown[-1]}, this program knows only up to {known[-1]}: upgrade gitstrata"
        )


def _apply(conninfo: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # yoyo warns about its own psycopg backend's nested transactions
        from yoyo import read_migrations
        from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
        from yoyo.connections import parse_uri

        class Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
            def connect(self, dburi: object) -> Connection:
                connection = connect(conninfo)
                connection.execute("set synchronous_commit = on")
                return connection

            @contextlib.contextmanager
            def lock(self, timeout: int = 10) -> Iterator[None]:
                yield  # the advisory lock of our caller; yoyo's table of locks would outlive a killed process

            @contextlib.contextmanager
            def copy(self) -> Iterator[Backend]:
                yield self  # the steps run in our transaction, not on a connection of their own

        backend = Backend(parse_uri("postgresql+psycopg://gitstrata"), "_yoyo_migration")
        try:
            backend.init_database()
            for migration in backend.to_apply(read_migrations(str(MIGRATIONS))):
                with backend.transaction():  # the schema and the mark that it is there, together or not at all
                    backend.apply_one(migration)
        finally:
            backend.connection.close()


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
