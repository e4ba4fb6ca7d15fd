"""Case notes: found again by meaning and words, kept whatever happens to the index, apart by project."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pytest

from chunkers import words
from flows.errors import EmbedderError, UsageError
from flows.settings import Settings
from flows.store import collect
from flows.store.connect import Database
from mcp_tools import render
from mcp_tools.cases import add_case_reference, as_text, query_knowledge_base
from mcp_tools.index import Index
from tests.conftest import Indexer
from tests.mcp_tools.conftest import environment
from tests.mcp_tools.test_cli import check_refused, run
from tests.repos import Repo
from tests.stubs import StubEmbedder

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def fill(index: Index) -> dict[str, str]:
    """Store three notes; return their ids by a short name."""
    notes = {
        "pool": ("connection pool exhausted under load", "close cursors; raise max_size only after that"),
        "clock": ("flaky test around midnight", "freeze the clock in UTC"),
        "parse": ("parseRetryAfter fails on dates", "Retry-After may hold an HTTP date: parse both"),
    }
    return {name: add_case_reference(index, *note).case_id for name, note in notes.items()}


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with database.connect() as connection:
        return connection.execute(query).fetchall()


def ids(index: Index, query: str, **options: object) -> list[str]:
    return [case.id for case in query_knowledge_base(index, query, **options).results]  # type: ignore[arg-type]


def test_an_empty_case_base_is_an_error(reader: Index) -> None:
    with pytest.raises(UsageError, match="The case base is empty: add_case_reference stores the first case"):
        query_knowledge_base(reader, "anything")


def test_notes_are_found_by_words_and_their_parts(reader: Index) -> None:
    stored = fill(reader)
    assert ids(reader, "flaky midnight test")[0] == stored["clock"]
    assert ids(reader, "parse_retry_after")[0] == stored["parse"]  # an identifier, however it is written
    assert ids(reader, "HTTP date")[0] == stored["parse"]  # words of the solution
    answer = query_knowledge_base(reader, "connection pool exhausted under load", limit=2)
    assert (answer.status, answer.count, len(answer.results)) == ("success", 2, 2)
    assert answer.message == "2 of 3 cases, the most similar first"
    first, second = answer.results
    assert first.features == "connection pool exhausted under load" and first.solution.startswith("close cursors")
    assert first.similarity_score == 1 > second.similarity_score >= 0


def test_the_shipped_model_finds_what_is_said_in_other_words(config: Settings) -> None:
    with Index(config) as shipped:
        stored = fill(shipped)
        add_case_reference(shipped, "docker build is slow", "copy the lock file first, so that dependencies are cached")
        assert ids(shipped, "tests fail at night because of time zones")[0] == stored["clock"]
        assert ids(shipped, "too many open database connections")[0] == stored["pool"]


def test_every_add_makes_a_new_id_and_equal_queries_give_equal_answers(reader: Index) -> None:
    first = add_case_reference(reader, "same", "same")
    second = add_case_reference(reader, "same", "same")
    assert first.case_id != second.case_id
    assert first.message == second.message == "Case stored successfully"
    answers = [query_knowledge_base(reader, "same") for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [case.id for case in answers[0].results] == [second.case_id, first.case_id]  # of equals the newest first


def test_a_project_sees_its_own_notes_only(reader: Index) -> None:
    mine = add_case_reference(reader, "shared words here", "a", project="mine").case_id
    assert ids(reader, "shared words here", project="mine") == [mine]
    for other in ("", "theirs"):
        with pytest.raises(UsageError, match="The case base is empty: add_case_reference stores the first case"):
            query_knowledge_base(reader, "shared words here", project=other)
    add_case_reference(reader, "other", "b", project="theirs")
    assert query_knowledge_base(reader, "shared words", project="theirs", limit=100).count == 1


def test_secrets_are_masked_before_they_are_stored(reader: Index, database: Database) -> None:
    add_case_reference(reader, f"login with {TOKEN} fails", f"git clone https://me:{'x7' * 8}@host/a worked")
    answer = query_knowledge_base(reader, "login fails").results[0]
    assert TOKEN not in answer.features and "x7x7" not in answer.solution and "***" in answer.features
    assert not [row for row in rows(database, "select * from case_note") if TOKEN in str(row) or "x7x7" in str(row)]


@pytest.mark.parametrize(
    ("concept", "solution", "message"),
    [
        ("", "x", "concept is empty: say it in words"),
        ("x", " \n", "solution is empty"),
        ("x" * 2_001, "x", "concept has 2001 characters: use at most 2000"),
        ("x", "x" * 10_001, "solution has 10001 characters: use at most 10000"),
    ],
)
def test_texts_have_limits(reader: Index, database: Database, concept: str, solution: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        add_case_reference(reader, concept, solution)
    assert rows(database, "select count(*) from case_note") == [(0,)]


@pytest.mark.parametrize("text", ["a\0b", "\ud800 half", "'; drop table case_note; --", "%s %(x)s", "😀", "-- \\", "?"])
def test_odd_texts_are_stored_and_looked_for(reader: Index, text: str) -> None:
    stored = add_case_reference(reader, text, text).case_id
    assert ids(reader, text) == [stored]


def test_long_notes_are_few_in_an_answer_that_says_so(reader: Index) -> None:
    for n in range(4):
        add_case_reference(reader, f"long {n}", "word " * 1_900)
    answer = query_knowledge_base(reader, "long", limit=4)
    assert answer.count == len(answer.results) == 1
    assert "1 of 4 cases shown, more would be too long" in answer.message
    assert len(as_text(answer)) < render.MAX_ANSWER


# --- nothing loses a note ------------------------------------------------------------------------------------------


def test_index_gc_purge_and_removal_leave_notes_alone(
    reader: Index, database: Database, index: Indexer, repo: Repo
) -> None:
    stored = fill(reader)
    before = rows(database, "select * from case_note order by case_id")
    repo.commit(a_py="def a():\n    return 1\n")
    index(repo, name="acme/a")
    assert ids(reader, "midnight test")[0] == stored["clock"]
    with database.connect() as connection:
        oids = [row[0] for row in connection.execute("select oid from blob")]
        connection.execute("delete from repo")
        collect.collect(connection, timedelta(0), lambda: False)
        collect.purge(connection, oids)
    assert rows(database, "select count(*) from text") == [(0,)]
    assert rows(database, "select * from case_note order by case_id") == before
    assert ids(reader, "midnight test")[0] == stored["clock"]


def test_another_model_makes_its_own_vectors_of_the_same_texts(
    reader: Index, config: Settings, database: Database, embedder: StubEmbedder
) -> None:
    stored = fill(reader)
    assert rows(database, "select distinct fingerprint from case_vector") == [("5" * 64,)]
    before = rows(database, "select * from case_note order by case_id")
    with Index(config, embedder=StubEmbedder("6" * 64)) as other:
        assert ids(other, "midnight test")[0] == stored["clock"]
    assert rows(database, "select fingerprint, count(*) from case_vector group by 1") == [("6" * 64, 3)]
    assert rows(database, "select * from case_note order by case_id") == before
    embedder.texts.clear()
    assert ids(reader, "midnight test")[0] == stored["clock"]
    assert len(embedder.texts) == 3  # back again: embedded once more, and only once
    assert ids(reader, "midnight test")[0] == stored["clock"]
    assert len(embedder.texts) == 3


def test_words_of_another_version_are_made_again(reader: Index, database: Database) -> None:
    stored = fill(reader)
    with database.connect() as connection:
        connection.execute("update case_note set terms = '{}', words_version = -1")
        connection.execute("delete from case_vector")
    assert ids(reader, "parseRetryAfter")[0] == stored["parse"]
    assert rows(database, "select count(*) from case_note where terms = '{}'") == [(0,)]


class Broken(StubEmbedder):
    """A model that is away."""

    def embed_query(self, text: str) -> np.ndarray:
        raise EmbedderError("the provider is away")


def test_without_its_model_notes_are_stored_and_found_by_words(
    config: Settings, database: Database, reader: Index
) -> None:
    with Index(config, embedder=Broken()) as broken:
        stored = fill(broken)
        answer = query_knowledge_base(broken, "flaky midnight")
        assert answer.results[0].id == stored["clock"] and answer.results[0].similarity_score == 1
        assert answer.message == "found by words only, not by meaning: the provider is away"
    assert rows(database, "select count(*) from case_vector") == [(0,)]
    assert ids(reader, "flaky midnight")[0] == stored["clock"]
    assert rows(database, "select count(*) from case_vector") == [(3,)]


def test_a_text_without_a_usable_vector_is_found_by_words(
    reader: Index, database: Database, embedder: StubEmbedder
) -> None:
    embedder.spoil = lambda texts, vectors: np.full_like(vectors, np.nan)
    stored = fill(reader)
    assert ids(reader, "flaky midnight")[0] == stored["clock"]
    assert rows(database, "select count(*) from case_vector") == [(0,)]


def test_a_database_that_takes_no_vectors_is_searched_by_words(reader: Index, database: Database) -> None:
    with database.connect() as connection:
        connection.execute(
            "create function refuse() returns trigger language plpgsql as $$ begin raise 'full'; end $$;"
            "create trigger refuse before insert on case_vector execute function refuse()"
        )
    stored = fill(reader)  # the notes themselves are stored
    answer = query_knowledge_base(reader, "flaky midnight")
    assert answer.results[0].id == stored["clock"]
    assert answer.message == "some cases may be found by words only: the database failed: full"


def test_a_big_case_base_is_searched_quickly_and_whole(reader: Index) -> None:
    with reader.transaction() as connection:
        connection.execute(
            "insert into case_note (project, concept, solution, terms, words_version) select '', 'note ' || n, 'fix', "
            "array['fix', 'note'], %s from generate_series(1, 500) n",
            [words.WORDS_VERSION],
        )
    wanted = add_case_reference(reader, "the one about kerberos", "kinit").case_id
    assert ids(reader, "kerberos")[0] == wanted
    with reader.snapshot() as connection:
        assert connection.execute("select count(*) from case_vector").fetchone() == (501,)


# --- the command line ----------------------------------------------------------------------------------------------


def test_the_command_line_adds_finds_lists_and_deletes(config: Settings) -> None:
    where = {"GITSTRATA_DSN": config.dsn or "", "GITSTRATA_HOME": str(config.home)}
    check_refused(run("cases", "query", "x", **where), 2, "The case base is empty")
    added = json.loads(run("cases", "add", "disk full on the runner", "prune the mirrors", "--json", **where).stdout)
    assert set(added) == {"status", "message", "case_id"}
    found = json.loads(run("cases", "query", "the disk of a runner is full", "--json", **where).stdout)
    assert found["results"][0]["id"] == added["case_id"] and found["results"][0]["similarity_score"] > 0.5
    other = run("cases", "add", "secret", "of the others", "--project", "pay", **where)
    assert other.stdout.startswith("Case stored successfully: case-")
    listed = run("cases", "list", **where).stdout
    assert f"{added['case_id']} " in listed and "[pay] secret" in listed and listed.endswith("2 cases\n")
    whole = run("cases", "list", "--json", **where).stdout
    check_refused(run("cases", "delete", added["case_id"], "case-none", **where), 2, "no case case-none")
    assert run("cases", "list", "--json", **where).stdout == whole
    gone = json.loads(run("cases", "delete", added["case_id"], "--json", **where).stdout)
    assert gone == {"deleted": [added["case_id"]]}
    assert len(json.loads(run("cases", "list", "--project", "", "--json", **where).stdout)["cases"]) == 0
    loaded = subprocess.run(
        [sys.executable, "-m", "mcp_tools.cli", "cases", "load", "-", "--json"],
        input=whole,
        env=environment(**where),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(loaded.stdout) == {"new": 1, "known": 1}
    assert run("cases", "list", "--json", **where).stdout == whole  # ids, projects and times as they were


def test_what_is_no_list_of_notes_is_refused(config: Settings) -> None:
    where = {"GITSTRATA_DSN": config.dsn or "", "GITSTRATA_HOME": str(config.home)}
    file = config.home.parent / "notes.json"
    for text in ("{", "[]", '{"cases": [{"id": "x"}]}', '{"cases": [{"id": 1, "project": "", "features": 2}]}'):
        file.write_text(text)
        check_refused(run("cases", "load", str(file), **where), 2, "is not what `gitstrata cases list --json` prints")
    check_refused(run("cases", "load", str(file) + ".none", **where), 2, "none cannot be read: No such file")
