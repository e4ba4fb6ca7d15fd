"""Facts of commits: what is read of real repositories, what is kept out, how far they reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows import codeowners, git, past
from flows.select import Rules
from flows.store import history as store
from flows.store.connect import Database
from tests.conftest import Indexer
from tests.repos import Repo
from tests.repos import git as run_git

BODY = "def f():\n    return 1\n"


def facts(database: Database, columns: str = "c.subject, p.path") -> list[Any]:
    """Return one row a touch, oldest commit first."""
    with database.connect() as connection:
        return connection.execute(
            f"select {columns} from history_commit c left join touch using (commit_id) left join history_path p"
            " using (path_id) join person a on a.person_id = c.author order by c.commit_id desc, p.path"
        ).fetchall()


def state(database: Database) -> str:
    with database.connect() as connection:
        row = connection.execute("select branch_id from branch where is_default").fetchone()
        assert row is not None
        return past.coverage(store.find(connection, row[0]))


def shas(database: Database) -> set[str]:
    return {row[0] for row in facts(database, "c.sha")}


def clone(repo: Repo, to: Path, *options: str) -> Path:
    run_git(to.parent, "clone", "-q", *options, f"file://{repo.path}", str(to))
    return to


def test_facts_are_those_of_git(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit("one", a_py=BODY, b_py=BODY)
    repo.git("mv", "a.py", "c.py")
    repo.commit("two")
    repo.git("switch", "-qc", "side")
    repo.commit("three", b_py=BODY * 2)
    repo.git("switch", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    repo.commit("four\n\nCo-authored-by: Bob <bob@example.com>\nCo-authored-by: Ann Example <ann@example.com>")
    index(repo)
    touched = [("four", None), ("one", "a.py"), ("one", "b.py"), ("three", "b.py"), ("two", "c.py")]
    assert sorted(facts(database)) == touched
    assert state(database) == "complete"
    rows = facts(database, "c.subject, cardinality(c.co_authors), extract(epoch from c.at)::bigint, c.sha")
    assert [row[1] for row in rows if row[0] != "four"] == [0, 0, 0, 0]
    (last,) = [row for row in rows if row[0] == "four"]  # its author is no co-author of it
    assert last[1:] == (1, int(repo.git("log", "-1", "--format=%ct")), repo.git("rev-parse", "HEAD"))


def test_only_what_is_new_is_read(
    repo: Repo, index: Indexer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        repo.commit(f"change {number}", a_py=BODY * (number + 1))
    index(repo)
    read: list[str] = []
    real = git.read_commits

    def counted(repository: git.Repository, wanted: list[str]) -> Any:
        read.extend(wanted)
        return real(repository, wanted)

    monkeypatch.setattr(git, "read_commits", counted)
    index(repo)
    assert not read
    sha = repo.commit("new", a_py=BODY * 9)
    index(repo)
    assert read == [sha]


def test_a_long_history_is_read_in_several_runs(repo: Repo, index: Indexer, database: Database) -> None:
    for number in range(7):
        repo.commit(f"change {number}", a_py=BODY * (number + 1))
    index.history = 3
    report = index(repo)
    assert len(shas(database)) == 3
    assert state(database).startswith("since ")
    assert "later runs" in report.notes[0]
    repo.commit("change 7", a_py=BODY)
    index(repo)
    assert len(shas(database)) == 6
    index(repo)
    assert len(shas(database)) == 8
    assert state(database) == "complete"


def test_without_history_nothing_is_read(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit(a_py=BODY)
    index.history = 0
    assert not index(repo).notes
    assert not facts(database)
    assert state(database) == "none"


def test_a_clone_of_depth_1_has_none_and_says_so(
    repo: Repo, index: Indexer, database: Database, tmp_path: Path
) -> None:
    repo.commit("one", a_py=BODY)
    repo.commit("two", a_py=BODY * 2)
    report = index(clone(repo, tmp_path / "shallow", "--depth=1"), name="r")
    assert report.outcome == "done"
    assert report.notes == ["history: none, this clone is shallow; a whole clone brings it"]
    assert not facts(database)
    index(repo, name="r")  # the nightly job
    assert [row[0] for row in facts(database)] == ["one", "two"]
    assert state(database) == "complete"


def test_a_shallow_clone_never_leaves_a_gap(repo: Repo, index: Indexer, database: Database, tmp_path: Path) -> None:
    for number in range(4):
        repo.commit(f"change {number}", a_py=BODY * (number + 1))
    index(clone(repo, tmp_path / "three", "--depth=3"), name="r")
    assert [row[0] for row in facts(database)] == ["change 2", "change 3"]  # of the last, git shows all files as new
    assert state(database).startswith("since ")
    index(repo, name="r")
    repo.commit("change 4", a_py=BODY * 9)
    repo.commit("change 5", a_py=BODY)
    index(clone(repo, tmp_path / "deep", "--depth=4"), name="r")
    assert state(database) == "complete"
    assert len(shas(database)) == 6
    for number in range(6, 9):
        repo.commit(f"change {number}", a_py=BODY * number)
    report = index(clone(repo, tmp_path / "flat", "--depth=2"), name="r")
    assert "known up to" in report.notes[0]
    assert len(shas(database)) == 6
    index(repo, name="r")
    assert len(shas(database)) == 9


@pytest.mark.parametrize("pruned", [False, True])
def test_force_pushed_commits_lose_their_facts(
    repo: Repo, index: Indexer, database: Database, tmp_path: Path, pruned: bool
) -> None:
    first = repo.commit("kept", a_py=BODY)
    repo.commit("rewritten", b_py=BODY)
    index(repo, name="r")
    repo.git("reset", "-q", "--hard", first)
    repo.commit("instead", c_py=BODY)
    index(clone(repo, tmp_path / "fresh") if pruned else repo, name="r")
    assert sorted(facts(database)) == [("instead", "c.py"), ("kept", "a.py")]
    with database.connect() as connection:
        paths = connection.execute("select path from history_path order by 1").fetchall()
    assert paths == [("a.py",), ("c.py",)]


def test_denied_is_neither_a_path_nor_in_a_subject(repo: Repo, index: Indexer, database: Database) -> None:
    repo.write("secret/plan.txt", "a")
    repo.commit("add the plan")
    repo.write("secret/plan.txt", "b")
    repo.commit("open secret/plan.txt", a_py=BODY)
    repo.commit("see other.txt", a_py=BODY * 2)
    repo.git("mv", "secret/plan.txt", "plan.md")
    repo.commit("publish it")
    repo.write("secret/other.txt", "c")
    repo.commit("fine", a_py=BODY * 3)
    index(repo, rules=Rules(deny=("secret/",)))
    kept = facts(database)
    assert ("fine", "a.py") in kept and ("publish it", "plan.md") in kept
    assert not [row for row in kept if "secret" in f"{row}" or ".txt" in f"{row}" or row[0] == "add the plan"]
    with database.connect() as connection:
        assert connection.execute("select count(*) from touch where old_id is not null").fetchone() == (0,)
        assert not connection.execute("select 1 from history_path where path like 'secret%'").fetchall()


def test_other_rules_forget_and_read_again(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit("one", a_py=BODY, b_py=BODY)
    index(repo)
    index(repo, rules=Rules(deny=("b.py",)))
    assert facts(database) == [("one", "a.py")]
    index(repo)
    assert facts(database) == [("one", "a.py"), ("one", "b.py")]
    repo.write(".gitstrataignore", "a.py\n")
    repo.commit("two")
    index(repo)
    assert ("one", "a.py") not in facts(database)


def test_history_of_a_shallow_clone_is_not_kept_against_new_rules(
    repo: Repo, index: Indexer, database: Database, tmp_path: Path
) -> None:
    repo.commit("one", a_py=BODY, b_py=BODY)
    index(repo, name="r")
    repo.commit("two", c_py=BODY)
    index.history = 0
    index(clone(repo, tmp_path / "shallow", "--depth=1"), name="r", rules=Rules(deny=("b.py",)))
    assert not facts(database)


def test_people_are_shown_by_the_mailmap_of_the_commit(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit("one", a_py=BODY)
    index(repo)
    repo.write(".mailmap", "Ann Lee <ann@lee.example> <ann@example.com>\n")
    repo.commit("two", a_py=BODY * 2)
    repo.write(".mailmap", "Wrong <wrong@example.com> <ann@example.com>\n")  # the working tree says nothing
    index(repo, rules=Rules(deny=(".mailmap",)))
    assert {row[0] for row in facts(database, "a.shown_name || ' ' || a.shown_email")} == {"Ann Lee ann@lee.example"}
    repo.git("checkout", "-q", "--", ".mailmap")
    repo.git("rm", "-q", ".mailmap")
    repo.commit("three")
    index(repo)
    assert {row[0] for row in facts(database, "a.shown_name")} == {"Ann Example"}


def test_odd_commits(repo: Repo, index: Indexer, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@0 +0000")
    repo.write(b"caf\xe9/\xff\x01.py", BODY)
    repo.write("new\nline.py", BODY)
    repo.commit("odd \x01 :100644 subject")
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    raw = (
        f"tree {tree}\nparent {repo.git('rev-parse', 'HEAD')}\nauthor  <> 99999999999999 +0000\ncommitter x <x> y z\n\n"
    )
    repo.git("reset", "-q", "--hard", repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin",
        stdin=raw.encode()))  # fmt: skip
    repo.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
    index(repo)
    assert len(shas(database)) == 3
    dates = facts(database, "c.at is null, p.path")
    assert (True, "new\\u{a}line.py") in dates
    assert state(database) == "complete"


def test_a_failing_git_fails_no_publish(repo: Repo, index: Indexer, database: Database) -> None:
    first = repo.commit("one", a_py=BODY)
    repo.commit("two", a_py=BODY * 2)
    blob = repo.path / ".git/objects" / first[:2] / first[2:]
    blob.chmod(0o600)
    blob.write_bytes(b"broken")
    report = index(repo)
    assert report.outcome == "done"
    assert report.notes[0].startswith("history was not read to the end")


def test_removing_and_purging_take_the_facts(repo: Repo, index: Indexer, database: Database) -> None:
    repo.commit("one", a_py=BODY)
    index(repo, name="r")
    with database.connect() as connection:
        store.forget(connection, "r")
        assert not connection.execute("select 1 from history_commit").fetchall()
    index(repo, name="r")
    assert facts(database)
    with database.connect() as connection:
        connection.execute("delete from repo")
        for table in ("history", "history_commit", "history_path", "person", "touch"):
            assert not connection.execute(f"select 1 from {table}").fetchall()


CODEOWNERS = b"""
* @all
*.py @py   # all of them
docs/* @flat
/src/ @src a@example.com
build/ @build
/src/free
README.md @readme
!x @never
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("a.txt", ("@all",)),
        ("lib/a.py", ("@py",)),
        ("docs/a.md", ("@flat",)),
        ("docs/a/b.md", ("@all",)),
        ("src/a.py", ("@src", "a@example.com")),
        ("lib/src/a.txt", ("@all",)),
        ("lib/build/x/y.c", ("@build",)),
        ("build", ("@all",)),
        ("src/free/x.py", ()),
        ("lib/README.md", ("@readme",)),
    ],
)
def test_the_last_line_of_codeowners_that_matches_wins(path: str, owners: tuple[str, ...]) -> None:
    assert codeowners.parse(CODEOWNERS).of(path) == owners
