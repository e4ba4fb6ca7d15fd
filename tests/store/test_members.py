"""Which texts a branch shows: moved by every publish, healed by every run, made for a database that had none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql

from flows import settings
from flows.store import connect, members
from flows.store.connect import Connection, open_database
from flows.store.models import active_model
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo

ONE = "def one():\n    return 1\n"
TWO = "def two():\n    return 2\n"


def agree(index: Indexer) -> bool:
    with index.database.connect() as connection:
        model = active_model(connection)
        assert model is not None
        ids = [row[0] for row in connection.execute("select branch_id from branch")]
        return all(members.agree(connection, model, branch_id) for branch_id in ids)


def count(connection: Connection) -> int:
    model = active_model(connection)
    assert model is not None
    row = connection.execute(sql.SQL("select count(*) from {}").format(model.members)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def shown(index: Indexer, repo: Repo) -> Iterator[Indexer]:
    repo.commit(a_py=ONE, copy_py=ONE, b_py=TWO)
    index(repo, name="r")
    yield index


def test_a_publish_moves_exactly_what_changed(shown: Indexer, repo: Repo) -> None:
    with shown.database.connect() as connection:
        before = count(connection)
        repo.git("rm", "-q", "copy.py")  # its twin still shows the same texts
        repo.commit("one of two")
        shown(repo, name="r")
        assert count(connection) == before and agree(shown)
        repo.git("rm", "-q", "a.py")
        repo.commit("both")
        shown(repo, name="r")
        assert 0 < count(connection) < before and agree(shown)


@pytest.mark.parametrize(
    "damage",
    [
        "truncate {}",
        "delete from {} where text_id = (select min(text_id) from text)",
        "update {} set text_id = 9999 where text_id = (select min(text_id) from text)",
    ],
)
def test_what_outside_hands_broke_is_put_right_by_the_next_run(shown: Indexer, repo: Repo, damage: str) -> None:
    before = published(shown.database)
    with shown.database.connect() as connection:
        connection.execute(damage.format("member_5555555555555555").encode())
    report = shown(repo, name="r")
    assert report.outcome == "unchanged" and "put right" in " ".join(report.notes)
    assert published(shown.database) == before and not shown(repo, name="r").notes


def test_a_database_of_before_gets_its_members_in_place(shown: Indexer) -> None:
    before = published(shown.database)
    with shown.database.connect() as connection:
        connection.execute("drop table member_5555555555555555")
        connection.execute("alter table model drop column members")
        connection.execute("delete from _yoyo_migration where migration_id = '0005_membership'")
    config = settings.load({"GITSTRATA_DSN": shown.database.conninfo})
    with pytest.raises(connect.SchemaMismatch, match="db upgrade"):
        open_database(config)
    open_database(config, upgrade=True).close()
    assert published(shown.database) == before
