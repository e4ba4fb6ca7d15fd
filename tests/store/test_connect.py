"""Opening a database: what is refused, in which words, and that a schema is there whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend

from flows import settings
from flows.errors import DatabaseError, GitstrataError, SchemaMismatch, UsageError
from flows.store.connect import MIGRATIONS, connect, open_database, schema_version


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


def test_a_database_of_the_first_schema_is_upgraded_with_what_it_holds(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flows.store import connect as module

    config = settings.load({"GITSTRATA_DSN": dsn})
    with monkeypatch.context() as patch:
        shutil.copy(MIGRATIONS / "0001_spine.sql", tmp_path)
        patch.setattr(module, "MIGRATIONS", tmp_path)
        open_database(config).close()
    with connect(dsn) as connection:
        connection.execute("insert into repo (name, origin) values ('r', '/r')")
        connection.execute(
            "insert into branch (repo_id, name, commit_sha, tree_sha, committed_at, rules_fp, files, failed, chunks)"
            " select repo_id, 'main', 'c', 't', now(), '', 1, 0, '{0,0,0,0}' from repo"
        )
        connection.execute("insert into file select branch_id, 'e', 'a.bin', '100644', 'o', '', 'binary' from branch")
    with pytest.raises(SchemaMismatch, match="0001_spine"):
        open_database(config)
    open_database(config, upgrade=True).close()
    with connect(dsn) as connection:
        assert connection.execute("select path, category from file").fetchall() == [("a.bin", "")]


def test_a_database_in_another_encoding_is_refused(server: str) -> None:
    with connect(server) as connection:
        connection.execute("create database latin template template0 encoding 'LATIN1' locale 'C'")
        try:
            with pytest.raises(DatabaseError, match=r"is encoded in LATIN1: create one with .* ENCODING 'UTF8'"):
                open_database(settings.load({"GITSTRATA_DSN": make_conninfo(server, dbname="latin")}))
        finally:
            connection.execute("drop database latin with (force)")


def only(folder: Path, *names: str) -> Path:
    """Return a folder with some of the migrations."""
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(MIGRATIONS / f"{name}.sql", folder)
    return folder


def test_an_index_of_an_older_schema_keeps_its_models(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.store import connect as module
    from flows.store.models import active_model, all_models

    config = settings.load({"GITSTRATA_DSN": dsn})
    monkeypatch.setattr(module, "MIGRATIONS", only(tmp_path / "old", "0001_spine"))
    open_database(config).close()
    with connect(dsn) as connection:
        connection.execute(
            "insert into model (fingerprint, name, dimension, vectors, is_active) values"
            " ('a', 'gitstrata-static-256', 256, 'emb_a', true), ('b', 'owner/model', 384, 'emb_b', false)"
        )
        for name, dimension in (("emb_a", 256), ("emb_b", 384)):
            connection.execute(f"create table {name} (text_id bigint primary key, vector halfvec({dimension}))")
    monkeypatch.setattr(module, "MIGRATIONS", MIGRATIONS)
    open_database(config, upgrade=True).close()
    with connect(dsn) as connection:
        found = {(model.name, model.setting, model.state) for model in all_models(connection)}
        active = active_model(connection)
    assert found == {("gitstrata-static-256", "", "active"), ("owner/model", "owner/model", "retired")}
    assert active is not None and active.fingerprint == "a"


def test_a_migration_with_an_earlier_number_may_come_later(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several people add migrations at once; what one depends on says its first line, not its number."""
    from flows.store import connect as module

    config = settings.load({"GITSTRATA_DSN": dsn})
    folder = only(tmp_path / "gap", "0001_spine", "0003_generations")
    monkeypatch.setattr(module, "MIGRATIONS", folder)
    open_database(config).close()
    (folder / "0002_late.sql").write_text("-- Late.\n-- depends: 0001_spine\n\ncreate table late (id int);\n")
    with pytest.raises(SchemaMismatch, match="has schema 0003_generations and lacks 0002_late: run `gitstrata db upg"):
        open_database(config)
    open_database(config, upgrade=True).close()
    with connect(dsn) as connection:
        assert connection.execute("select to_regclass('late')").fetchone() == ("late",)
    open_database(config).close()


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://user:hunter2@localhost:1/x", "cannot connect to database x at localhost:1"),
        ("host=/nowhere dbname=x", "cannot connect to database x"),
        ("postgresql://user:hunter2@[broken", "GITSTRATA_DSN is not a connection string"),
        ("host=127.0.0.1 port=99999 password=hunter2", 'GITSTRATA_DSN has an invalid port number: "99999": correct it'),
        ("host=127.0.0.1 sslmode=nope password=hunter2", 'GITSTRATA_DSN has an invalid sslmode value: "nope"'),
    ],
)
def test_a_database_that_is_not_there_is_one_sentence_without_its_password(dsn: str, message: str) -> None:
    with pytest.raises(GitstrataError) as caught:
        open_database(settings.load({"GITSTRATA_DSN": dsn}))
    assert message in str(caught.value)
    assert isinstance(caught.value, UsageError) is message.startswith("GITSTRATA_DSN")
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)
