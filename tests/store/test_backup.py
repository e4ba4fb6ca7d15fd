"""Dump and restore: what comes back is what was there, and a database with content is never touched."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flows import settings
from flows.errors import DatabaseError, UsageError
from flows.settings import Settings
from flows.store import backup
from flows.store.connect import Database
from flows.store.models import active_model
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo
from tests.servers import temporary_home


def empty(server: str, tmp_path: Path, name: str = "restored") -> Settings:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")  # type: ignore[arg-type]
        connection.execute(f"create database {name}")  # type: ignore[arg-type]
    return settings.load({"GITSTRATA_HOME": str(tmp_path / name), "GITSTRATA_DSN": make_conninfo(server, dbname=name)})


def test_a_restored_index_shows_the_same_and_goes_on(
    index: Indexer, repo: Repo, server: str, config: Settings, tmp_path: Path
) -> None:
    repo.commit(a_py="def a():\n    return 1\n", b_md="# B\n\ntext\n")
    index(repo)
    file = tmp_path / "index.dump"
    assert backup.dump(config, file) == file.stat().st_size
    target = empty(server, tmp_path)
    backup.restore(target, file)
    assert target.dsn
    restored = Database(target.dsn)
    assert published(restored) == published(index.database)
    with index.database.connect() as one, restored.connect() as other:
        before, after = active_model(one), active_model(other)
    assert before and after and before.rewrites < after.rewrites  # the ids of what comes now may have been others'
    again = Indexer(restored, target, index.embedder)
    assert again(repo).outcome == "unchanged"
    repo.commit(a_py="def a():\n    return 2\n")
    assert again(repo).outcome == "done" and len(index.embedder.texts) == 1


def test_a_dump_goes_into_a_new_embedded_server(index: Indexer, repo: Repo, config: Settings, tmp_path: Path) -> None:
    repo.commit(a_py="def a():\n    return 1\n")
    index(repo)
    backup.dump(config, tmp_path / "index.dump")
    with temporary_home("gs-restore-") as home:
        backup.restore(home, tmp_path / "index.dump")
        with pytest.raises(UsageError, match="is not empty"):
            backup.restore(home, tmp_path / "index.dump")


def test_what_is_in_the_way_is_said(index: Indexer, repo: Repo, server: str, config: Settings, tmp_path: Path) -> None:
    repo.commit(a_py="x = 1\n")
    index(repo)
    file = tmp_path / "index.dump"
    backup.dump(config, file)
    with pytest.raises(UsageError, match="is there already"):
        backup.dump(config, file)
    with pytest.raises(UsageError, match="is not empty: restore into a new database"):
        backup.restore(config, file)
    with pytest.raises(UsageError, match="away cannot be read"):
        backup.restore(config, tmp_path / "away")
    target = empty(server, tmp_path, "broken")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatabaseError, match="pg_restore failed"):
        backup.restore(target, file)
    file.write_bytes(whole)
    backup.restore(target, file)  # the broken one left nothing
