"""What subjects of earlier commits say of a question: which count, how much, and that none of a later commit does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chunkers.words import WORDS_VERSION
from flows import past
from flows.select import Rules
from flows.store import subjects
from flows.store.connect import Connection, Database
from tests.conftest import Indexer
from tests.repos import Repo

BODY = "def f():\n    return 1\n"
ASKED = [("hydration", 4.0), ("slot", 3.0), ("fix", 1.0)]
Said = Callable[[], dict[str, float]]


@pytest.fixture
def said(database: Database) -> Said:
    def of_all_branches() -> dict[str, float]:
        with database.connect() as connection:
            branches = [row[0] for row in connection.execute("select branch_id from branch").fetchall()]
            found = subjects.touched(connection, branches, ASKED)
        return {path: round(value, 3) for (_, path), value in found.items()}

    return of_all_branches


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("fix hydration of a slot", 1.0),
        ("Slot hydration", 0.875),
        ("fix hydrationMismatch", 0.625),  # its part
        ("fix", 0.0),  # by the way: brings nothing in
        ("unlike", 0.0),
    ],
)
def test_a_commit_counts_by_the_share_that_its_subject_says(
    repo: Repo, index: Indexer, said: Said, message: str, value: float
) -> None:
    repo.commit(message, a_py=BODY)
    repo.commit("other", b_py=BODY)
    index(repo)
    assert said() == ({"a.py": value} if value else {})


def test_a_file_counts_the_more_commits_and_the_fewer_files_they_change(repo: Repo, index: Indexer, said: Said) -> None:
    repo.commit("slot", a_py=BODY, b_py=BODY, c_py=BODY, d_py=BODY)
    repo.commit("slot again", a_py=BODY * 2)
    for number in range(4):
        repo.commit("hydration slot", e_py=BODY * (number + 1))
    index(repo)
    assert said() == {"a.py": 0.562, "b.py": 0.188, "c.py": 0.188, "d.py": 0.188, "e.py": 1.0}


def test_wide_commits_and_merges_say_nothing(repo: Repo, index: Indexer, said: Said) -> None:
    repo.commit("slot hydration", **{f"f{number}_py": BODY for number in range(subjects.WIDEST + 1)})
    repo.git("switch", "-qc", "side")
    repo.commit("other", g_py=BODY)
    repo.git("switch", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "slot hydration", "side")
    index(repo)
    assert said() == {}


def test_a_file_keeps_what_was_said_under_its_earlier_names(repo: Repo, index: Indexer, said: Said) -> None:
    repo.commit("slot hydration", a_py=BODY)
    repo.git("mv", "a.py", "b.py")
    repo.commit("move")
    repo.git("mv", "b.py", "c.py")
    repo.commit("move on")
    index(repo)
    assert said()["c.py"] == 0.875


def test_commits_after_the_published_one_do_not_count(
    repo: Repo, index: Indexer, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit_at(repo, monkeypatch, 1, "slot", a_py=BODY)
    commit_at(repo, monkeypatch, 2, "slot hydration", b_py=BODY)
    index(repo)
    assert said() == {"a.py": 0.375, "b.py": 0.875}
    repo.git("reset", "-q", "--hard", first)
    index.history = 0  # the facts stay those of the later commit
    index(repo)
    assert said() == {"a.py": 0.375}
    index.history = past.BUDGET
    index(repo)
    assert said() == {"a.py": 0.375}
    index.history = 0  # ahead of its facts a branch has those that there are
    commit_at(repo, monkeypatch, 3, "slot", c_py=BODY)
    index(repo)
    assert said() == {"a.py": 0.375}


def commit_at(repo: Repo, monkeypatch: pytest.MonkeyPatch, day: int, message: str, **files: str) -> str:
    date = f"@{1_700_000_000 + day * 86_400} +0000"
    monkeypatch.setenv("GIT_AUTHOR_DATE", date)
    monkeypatch.setenv("GIT_COMMITTER_DATE", date)
    return repo.commit(message, **files)


def test_a_subject_that_names_what_is_denied_has_no_words(repo: Repo, index: Indexer, said: Said) -> None:
    repo.commit("slot of secret.py", a_py=BODY, secret_py=BODY)
    repo.commit("slot", secret_py=BODY * 2)
    index(repo, rules=Rules(deny=("secret.py",)))
    assert said() == {}


def test_facts_of_an_earlier_program_get_their_words_with_the_next_run(
    repo: Repo, index: Indexer, database: Database, said: Said
) -> None:
    repo.commit("slot hydration", a_py=BODY)
    index(repo)
    with database.connect() as connection:
        expected = stored(connection)
        connection.execute("update history_commit set words = '{}'")
        connection.execute("update history set words = 0")
    assert said() == {}
    index(repo)  # nothing new
    assert said() == {"a.py": 0.875}
    with database.connect() as connection:
        assert stored(connection) == expected
        assert connection.execute("select words from history").fetchall() == [(WORDS_VERSION,)]


def stored(connection: Connection) -> list[list[str]]:
    return [row[0] for row in connection.execute("select words from history_commit order by sha").fetchall()]


def test_branches_are_kept_apart(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit("slot hydration", a_py=BODY)
    index(repo)
    with database.connect() as connection:
        (branch,) = connection.execute("select branch_id from branch").fetchone() or (0,)
        assert subjects.touched(connection, [branch], ASKED)
        assert not subjects.touched(connection, [branch + 1], ASKED)
        assert not subjects.touched(connection, [], ASKED)
        assert not subjects.touched(connection, [branch], [])
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(
            row[0] for row in connection.execute("explain select 1 from history_commit where words && '{1/slot}'")
        )
    assert "history_commit_words" in plan
