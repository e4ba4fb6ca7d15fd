"""Signs and means of cuts: written by every publish, healed by every run, made for a database that had none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from psycopg import sql

from flows import settings
from flows.store import collect, connect, signs
from flows.store.connect import Connection, open_database
from flows.store.models import active_model
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo

ONE = "def one():\n    return 1\n    return 2\n"
TWO = "def two():\n    return 3\n    return 4\n"


def agree(index: Indexer) -> bool:
    with index.database.connect() as connection:
        model = active_model(connection)
        assert model is not None
        ids = [row[0] for row in connection.execute("select branch_id from branch")]
        return all(signs.agree(connection, model, branch_id) for branch_id in ids)


def count(connection: Connection) -> int:
    model = active_model(connection)
    assert model is not None
    row = connection.execute(sql.SQL("select count(*) from {}").format(model.signs)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def shown(index: Indexer, repo: Repo) -> Iterator[Indexer]:
    repo.commit(a_py=ONE, copy_py=ONE, b_py=TWO)
    index(repo, name="r")
    yield index


def test_a_publish_writes_exactly_what_is_new(shown: Indexer, repo: Repo) -> None:
    with shown.database.connect() as connection:
        before = count(connection)
        repo.git("branch", "other")  # shows the same cuts
        shown(repo, name="r", rev="other")
        assert count(connection) == before and agree(shown)
        repo.commit(c_py="def three():\n    return 3\n")
        shown(repo, name="r")
        assert count(connection) > before and agree(shown)


def test_what_is_collected_takes_its_signs_along(shown: Indexer, repo: Repo) -> None:
    with shown.database.connect() as connection:
        repo.git("rm", "-q", "b.py")
        repo.commit("one of three")
        shown(repo, name="r")
        before = count(connection)
        collect.collect(connection, timedelta(0), lambda: False)
        assert 0 < count(connection) < before and agree(shown)


@pytest.mark.parametrize(
    "damage",
    [
        "truncate sign_{}",
        "truncate mean_{}",
        "delete from sign_{} where cut_id = (select min(cut_id) from cut)",
        "update sign_{} set texts = int8send(9999) where cut_id = (select min(cut_id) from cut)",
    ],
)
def test_what_outside_hands_broke_is_put_right_by_the_next_run(shown: Indexer, repo: Repo, damage: str) -> None:
    before = published(shown.database)
    with shown.database.connect() as connection:
        connection.execute(damage.format("5555555555555555").encode())
    report = shown(repo, name="r")
    assert report.outcome == "unchanged" and "put right" in " ".join(report.notes)
    assert published(shown.database) == before and not shown(repo, name="r").notes


def test_wrong_signs_are_found_by_looking_at_everything(shown: Indexer, repo: Repo) -> None:
    before = published(shown.database)
    with shown.database.connect() as connection:
        connection.execute("update sign_5555555555555555 set levels = '\\x03'")
    assert not shown(repo, name="r").notes
    assert "put right" in " ".join(shown(repo, name="r", verify=True).notes)
    assert published(shown.database) == before


def test_a_database_of_before_gets_signs_and_weights_in_place(shown: Indexer) -> None:
    before = published(shown.database)
    with shown.database.connect() as connection:
        for statement in (
            "drop table sign_5555555555555555, mean_5555555555555555",
            "alter table model drop column signs, drop column means, drop column rewrites, add column members text",
            "update model set members = 'member' || substr(vectors, 4)",
            "create table member_5555555555555555 (branch_id int, text_id bigint, signs bit(8))",
            "alter table lex_stat add column mean_length real not null default 1",
            "update lex set terms = (select string_agg(quote_literal(w) || case w when 'return' then ':1,2' else ':1'"
            " end, ' ')::tsvector from unnest(tsvector_to_array(terms)) w)",
            "alter table lex drop column weights",
            "delete from _yoyo_migration where migration_id in ('0012_signs', '0013_weights', '0014_packed_signs')",
        ):
            connection.execute(statement)
    config = settings.load({"GITSTRATA_DSN": shown.database.conninfo})
    with pytest.raises(connect.SchemaMismatch, match="db upgrade"):
        open_database(config)
    open_database(config, upgrade=True).close()
    assert published(shown.database) == before
