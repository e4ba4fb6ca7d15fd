"""Opening a database: what is refused, in which words, and that a schema is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend

from flows import settings
from flows.errors import DatabaseError, SchemaMismatch
from flows.store.connect import connect, open_database, schema_version


@pytest.fixture
def dsn(server: str) -> Iterator[str]:
    """A database without a schema."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database bare")
        yield make_conninfo(server, dbname="bare")
        connection.execute("drop database bare with (force)")


def test_a_migration_that_was_cut_off_is_done_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings.load({"GITSTRATA_DSN": dsn})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PostgresqlPsycopgBackend, "mark_one", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        open_database(config)
    with connect(dsn) as connection:
        assert connection.execute("select to_regclass('branch')").fetchone() == (None,)
    open_database(config).close()
    with connect(dsn) as connection:
        applied = connection.execute("select migration_id from _yoyo_migration").fetchall()
    assert applied[-1] == (schema_version(),)


def test_an_older_schema_waits_for_a_word(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings.load({"GITSTRATA_DSN": dsn})
    open_database(config).close()
    from flows.store import connect as module

    known = [*module._known(), "9999_next"]
    monkeypatch.setattr(module, "_known", lambda: known)
    with pytest.raises(SchemaMismatch, match="run `gitstrata db upgrade` once"):
        open_database(config)


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://user:hunter2@localhost:1/x", "cannot connect to database x at localhost:1"),
        ("host=/nowhere dbname=x", "cannot connect to database x"),
        ("postgresql://user:hunter2@[broken", "GITSTRATA_DSN is not a connection string"),
    ],
)
def test_a_database_that_is_not_there_is_one_sentence_without_its_password(dsn: str, message: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_database(settings.load({"GITSTRATA_DSN": dsn}))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)
