"""Sieves: what a text holds is never kept out, most else is, and pieces of an older schema get theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from flows.settings import load
from flows.store import connect as module
from flows.store import pieces, sieve
from flows.store.connect import MIGRATIONS, Connection, Database, connect, open_database
from flows.store.trigrams import LONG, Need, fold, grams, one_of
from tests.conftest import Indexer
from tests.repos import Repo
from tests.store.test_connect import only

CHARACTERS = "abksKS019_->.()\\ \t\r\n'ſ\u212aéñИ中\u05d0"
texts = st.text(st.sampled_from(CHARACTERS), max_size=60)


def longs(text: str) -> set[str]:
    words = "".join(map(fold, text)).split()
    return {word[i : i + LONG] for word in words for i in range(len(word) - LONG + 1)}


def of(text: str) -> frozenset[str]:
    return grams("".join(map(fold, text)))


def lets_through(bits: bytes, numbers: list[int]) -> bool:
    size = 8 * len(bits)
    return all(bits[number % size // 8] >> (number % size % 8) & 1 for number in numbers)


@settings(max_examples=300)
@given(texts)
def test_it_sees_the_text_that_the_trigram_index_sees(text: str) -> None:
    assert set(sieve._numbers(text).tolist()) == {sieve._numbers(gram).tolist()[0] for gram in longs(text)}


@settings(max_examples=300)
@given(texts, texts, texts)
def test_what_a_text_holds_is_never_kept_out(before: str, text: str, after: str) -> None:
    numbers = [number for gram in longs(text) for number in sieve._numbers(gram).tolist()]
    assert lets_through(sieve.make(before + text + after), numbers)


def test_its_size_follows_the_text_within_bounds() -> None:
    assert len(sieve.make("")) == len(sieve.make("one or two")) == sieve.SIZES[0]
    text = "\n".join(f"name_{n * 7919:x}" for n in range(300))
    assert len(sieve.make(text)) == -(-sieve.BITS * len(longs(text)) // 8)
    assert len(sieve.make("".join(f"name{n * 7919:x}" for n in range(50_000)))) == sieve.SIZES[1]


def passing(connection: Connection, need: Need) -> list[int]:
    condition = sieve.condition(need)
    assert condition
    query = sql.SQL("select blob_id from piece where {} and blob_id > %(least)s").format(condition)
    return [row[0] for row in connection.execute(query, {"least": 0})]


def test_the_database_reads_it_as_it_was_made(database: Database) -> None:
    names = [f"handle_{n * 7919:05x}_of_request" for n in range(400)]
    with database.connect() as connection:
        rows = connection.execute(
            "insert into blob (oid, size, facts) select n, 0, '{}' from generate_series(1, 400) n returning blob_id"
        ).fetchall()
        ids = [row[0] for row in rows]
        pieces.write(connection, {i: f"x = {name}(y)\n" for i, name in zip(ids, names, strict=True)}, kept={})
        passed = [passing(connection, Need(of(name))) for name in names[:40]]
        assert all(i in found for i, found in zip(ids, passed, strict=False))
        assert sum(map(len, passed)) < 2 * len(passed)
        either = one_of([Need(of(names[0])), Need(of(names[1]))])
        assert {*passed[0], *passed[1]} == set(passing(connection, either))


def test_it_has_no_say_in_what_is_short() -> None:
    assert sieve.condition(Need(of("short"))) is None
    assert sieve.condition(one_of([Need(of("short")), Need(of("longer_name"))])) is None


def test_pieces_of_an_older_schema_get_theirs(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load({"GITSTRATA_DSN": dsn})
    older = [path.stem for path in MIGRATIONS.glob("*.sql") if path.stem < "0015"]
    monkeypatch.setattr(module, "MIGRATIONS", only(tmp_path / "old", *older))
    monkeypatch.setattr(sieve, "_BATCH", 2)
    open_database(config).close()
    bodies = ["", "one_name\n", "another_name\n", "größe_und_länge\n", "ſix of the \u212aelvins"]
    with connect(dsn) as connection:
        for n, body in enumerate(bodies):
            connection.execute("insert into blob (oid, size, facts) values (%s, 1, '{}')", [str(n)])
            connection.execute("insert into piece select blob_id, 1, %s from blob where oid = %s", [body, str(n)])
        connection.execute("insert into repo (name, origin) values ('a/b', '')")
        connection.execute(
            "insert into branch (repo_id, name, commit_sha, tree_sha, committed_at, rules_fp, files, failed, chunks)"
            " select repo_id, 'main', '', '', now(), '', 0, 0, '{0,0,0,0}' from repo"
        )
        connection.execute(
            "insert into file (branch_id, entry, path, mode, oid, language, skip) select branch_id, n::text::bytea, n,"
            " '', '', '', case when n < 3 then 'binary' else 'too large' end from branch, generate_series(1, 5) n"
        )
        connection.execute(
            "insert into sync_run (repo, branch, outcome) values ('a/b', 'main', 'done'), ('a/b', 'main', 'failed'),"
            " ('a/b', 'main', 'running')"
        )
    monkeypatch.setattr(module, "MIGRATIONS", MIGRATIONS)
    with open_database(config, upgrade=True) as database, database.connect() as connection:
        assert connection.execute("select count(sieve) from piece").fetchone() == (0,)
        sieve.fill(connection)
        rows = connection.execute("select body, sieve from piece order by blob_id").fetchall()
        assert rows == [(body, sieve.make(body)) for body in bodies]
        counts = {"binary": 2, "too large": 3}
        assert connection.execute("select skipped, run_failed from branch").fetchone() == (counts, True)


def test_a_run_that_verifies_puts_them_right(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py="def handle_request():\n    return 1\n", b_py="def other_names():\n    return 2\n")
    index(repo, name="r")
    with index.database.connect() as connection:
        query = "select body, sieve from piece order by body"
        right = connection.execute(query).fetchall()
        connection.execute("update piece set sieve = '\\x0000000000000000' where body like '%handle_request%'")
        assert connection.execute(query).fetchall() != right
        assert index(repo, name="r", verify=True).notes == ["sieves of 1 piece of text of main were put right"]
        assert connection.execute(query).fetchall() == right
        assert index(repo, name="r", verify=True).notes == []


def test_what_is_said_to_be_skipped_is_put_right(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py="x = 1\n", b_txt=b"\0\1\2 binary")
    index(repo, name="r")
    with index.database.connect() as connection:
        right = connection.execute("select skipped from branch").fetchall()
        assert right == [({"binary": 1},)]
        connection.execute("update branch set skipped = '{}'")
        index(repo, name="r")
        assert connection.execute("select skipped from branch").fetchall() == right
        assert index(repo, name="r").outcome == "unchanged"
