"""Dump a database to a file and restore it into an empty one, with the Postgres programs that are installed already."""

from __future__ import annotations

import subprocess
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from flows.errors import DatabaseError, UsageError
from flows.settings import Settings
from flows.store import connect, postgres_binaries, signs

_MAGIC = b"PGDMP"  # how a file in the custom format begins


def dump(settings: Settings, file: Path) -> int:
    """Write everything in the database to ``file``, in the custom format of pg_dump, and return its bytes.

    One snapshot, beside runs and searches. The file appears when it is whole.

    Raises:
        DatabaseError: pg_dump is missing or failed. UsageError: the file is there already, or cannot be written.
    """
    if file.exists():
        raise UsageError(f"{file} is there already: choose another name or remove it")
    partial = file.with_name(f".{file.name}.part")
    _check_writable(file, partial)
    with connect.open_database(settings) as database:
        try:
            arguments = ["--format=custom", "--no-owner", "--no-acl", "--no-comments", "--file", str(partial)]
            _run(settings, "pg_dump", database.conninfo, *arguments)
            partial.rename(file)
        finally:
            partial.unlink(missing_ok=True)
    return file.stat().st_size


def _check_writable(file: Path, partial: Path) -> None:
    """Raise UsageError if nothing can be written there: pg_dump would say so in its own words, and late."""
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written ({error.strerror or error}): name a file in another folder"
        ) from error


def restore(settings: Settings, file: Path) -> None:
    """Fill an empty database from ``file``, whole or not at all.

    Raises:
        UsageError: there is no such dump, or the database is not empty. DatabaseError: pg_restore is missing or failed.
    """
    _check_dump(file)
    with connect.open_server(settings) as database:
        with database.connect() as connection:
            if connection.execute("select to_regclass('repo')").fetchone() != (None,):
                raise UsageError(
                    f"{connect.describe(database.conninfo)} is not empty: restore into a new database, then point"
                    " GITSTRATA_DSN to it (or GITSTRATA_HOME to a new folder)"
                )
        arguments = ["--no-owner", "--no-acl", "--no-comments", "--exit-on-error", "--single-transaction"]
        _run(settings, "pg_restore", database.conninfo, *arguments, str(file))
    with connect.open_database(settings) as database, database.connect() as connection:  # is it a schema that we know?
        signs.forget_what_was_read(connection)


def _check_dump(file: Path) -> None:
    """Raise UsageError if ``file`` does not begin as what pg_dump writes."""
    try:
        with file.open("rb") as opened:
            head = opened.read(len(_MAGIC))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{file} cannot be read ({why}): name a file that `gitstrata db dump` wrote") from error
    if head != _MAGIC:
        raise UsageError(f"{file} is no dump of a database: name a file that `gitstrata db dump` wrote")


def _run(settings: Settings, program: str, conninfo: str, *arguments: str) -> None:
    parameters = conninfo_to_dict(conninfo)
    password = parameters.pop("password", None)  # of a command line everybody can read
    target = make_conninfo("", **parameters)
    path = postgres_binaries.program(settings.postgres_bin, program)
    env = postgres_binaries.SERVER_ENVIRONMENT | ({"PGPASSWORD": str(password)} if password else {})
    done = subprocess.run(
        [path, "--dbname", target, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=env,
    )
    if done.returncode:
        # Postgres' own error stands before the hint and the statement that it is about.
        errors = [line for line in done.stderr.splitlines() if "ERROR:" in line]
        said = (errors[0] if errors else postgres_binaries.last_line(done.stderr)).removeprefix(f"{program}: error: ")
        raise DatabaseError(f"{program} failed: {said or 'without a word'}")
