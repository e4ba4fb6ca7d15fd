"""index_status: every state a branch can be in, what was left out and why, and the last run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flows.errors import EmbedderError, UsageError
from flows.store import read, repos, runs
from flows.store.connect import Database
from mcp_tools import render
from mcp_tools.index import Index
from mcp_tools.results import BranchStatus
from mcp_tools.status import MAX_BRANCHES, index_status
from tests.conftest import Indexer
from tests.repos import Repo


def only(index: Index, repo: str = "") -> BranchStatus:
    (branch,) = index_status(index, repo=repo).branches
    return branch


def fail(index: Indexer, repo: Repo, name: str = "r") -> None:
    index.embedder.spoil = lambda texts, vectors: vectors[:, :1]
    with pytest.raises(EmbedderError):
        index(repo, name=name)
    index.embedder.spoil = None


def test_an_empty_index(reader: Index) -> None:
    answer = index_status(reader)
    assert (answer.state, answer.branches, answer.model) == ("empty", [], "")
    assert "gitstrata index" in answer.note and answer.note in render.status_text(answer)
    with pytest.raises(UsageError, match="unknown repo 'x': no repository is indexed yet"):
        index_status(reader, repo="x")


def test_the_shelf(library: Index, golden: Callable[[str, str], None]) -> None:
    answer = index_status(library, repo="acme/http")
    text = render.status_text(answer)
    assert [(b.repo, b.branch) for b in answer.branches] == [("acme/http", "feature"), ("acme/http", "main")]
    for branch in answer.branches:
        assert branch.skipped == {"binary": 1} and sum(branch.languages.values()) + 1 == branch.files
        run = branch.last_run[0]
        for fact in (branch.commit[:12], branch.head[:12], branch.indexed_at, run.outcome, f"{run.seconds:g} s"):
            assert fact in text
    with pytest.raises(UsageError, match=r"unknown repo 'acme/htp': did you mean 'acme/http'\?"):
        index_status(library, repo="acme/htp")


def test_ready_counts_what_is_shown(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.write("logo.png", b"\0\1\2" * 500)
    repo.write("package-lock.json", "{}")
    commit = repo.commit(a_py="def one():\n    return 1\n", b_md="# B\n\ntext\n")
    report = index(repo, name="r")
    branch = only(reader)
    assert (branch.state, branch.commit, branch.head, branch.files) == ("ready", commit, commit, 4)
    assert branch.languages == {"markdown": 1, "python": 1}
    assert branch.skipped == {"binary": 1, "lock_file": 1}
    assert branch.chunks == report.chunks.by_level
    run = branch.last_run[0]
    assert (run.outcome, run.error, run.files_new, run.files_removed) == ("done", "", 4, 0)
    assert (run.chunks_added, run.vectors_computed) == (report.chunks.added, report.vectors.computed)
    assert index_status(reader).model == "stub"


def test_a_newer_head_is_stale(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="a = 1\n")
    index(repo, name="r")
    with index.database.connect() as connection:  # what a look at the remote notes
        connection.execute("update branch set head_sha = %s", ["f" * 40])
    branch = only(reader)
    assert (branch.state, branch.head) == ("stale", "f" * 40)
    assert index_status(reader).state == "stale"
    assert "behind fffffff" in render.freshness(branches(index.database))


def test_an_unknown_head_is_not_stale(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="a = 1\n")
    index(repo, name="r")
    with index.database.connect() as connection:
        connection.execute("update branch set head_sha = null, head_seen_at = null")
    assert only(reader).state == "ready"
    assert only(reader).head == "" and "head unknown" in render.status_text(index_status(reader))
    assert "unknown as of" in render.freshness(branches(index.database))


def branches(database: Database) -> list[render.BranchInfo]:
    with database.connect() as connection:
        return read.branches(connection)


def test_a_failed_run_shows_its_error_and_the_old_commit(index: Indexer, reader: Index, repo: Repo) -> None:
    # P118: a failing repository was silent
    commit = repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="r")
    repo.commit(a_py="def two():\n    return 2\n")
    fail(index, repo)
    branch = only(reader)
    assert (branch.state, branch.commit, branch.last_run[0].outcome) == ("failed", commit, "failed")
    assert "shape" in branch.last_run[0].error and branch.last_run[0].error in render.status_text(index_status(reader))
    index(repo, name="r")
    assert only(reader).state == "ready"


def test_a_first_run_that_failed_is_shown_beside_others(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="good")
    commit = repo.commit(a_py="def two():\n    return 1\n")
    fail(index, repo, "bad")
    bad = only(reader, "bad")
    assert (bad.state, bad.commit, bad.head, bad.files) == ("failed", "", commit, 0)
    answer = index_status(reader)
    assert [(b.repo, b.state) for b in answer.branches] == [("good", "ready"), ("bad", "failed")]
    assert f"bad (main): failed, never indexed, head {commit[:12]} seen 20" in render.status_text(answer)
    assert answer.state == "failed"


def test_a_file_that_failed_makes_it_partial(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(good_py="def good():\n    return 1\n", bad_py="def bad():\n    return 2\n")
    blob = repo.git("rev-parse", "HEAD:bad.py")
    stored = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    stored.chmod(0o644)
    stored.write_bytes(b"not a zlib stream")
    index(repo, name="r")
    branch = only(reader)
    assert (branch.state, branch.skipped) == ("partial", {"failed": 1})
    assert "bad.py" in branch.last_run[0].error


@pytest.mark.parametrize("published", [False, True])
def test_a_run_is_indexing_while_it_lives_and_failed_when_it_died(
    index: Indexer, reader: Index, repo: Repo, published: bool
) -> None:
    commit = repo.commit(a_py="def one():\n    return 1\n")
    if published:
        index(repo, name="r")
        repo.commit(a_py="def two():\n    return 1\n")
    seen: list[BranchStatus] = []
    index.embedder.spoil = lambda texts, vectors: (seen.append(only(reader)), vectors)[1]
    index(repo, name="r")
    assert seen[0].state == "indexing" and seen[0].last_run[0].outcome == "running"
    assert seen[0].commit == (commit if published else "")
    index.embedder.spoil = None
    with index.database.connect() as connection:
        name = "r" if published else "new"
        repos.claim(connection, name, "somewhere" if name == "new" else str(repo.path))
        runs.start(connection, name, "main", "e" * 40)  # and then its process is killed
    dead = only(reader, name)
    assert dead.state == "failed" and dead.last_run[0].outcome == "failed"
    assert "ended without a word" in dead.last_run[0].error


def test_many_branches_are_cut_short_and_counted(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="a = 1\n")
    index(repo, name="r")
    with index.database.connect() as connection:
        connection.execute(
            "insert into branch (repo_id, name, generation, commit_sha, tree_sha, committed_at, rules_fp, files,"
            " failed, chunks, head_sha) select repo_id, 'b' || n, 1, commit_sha, tree_sha, committed_at, rules_fp, 0,"
            " 0, chunks, head_sha from branch, generate_series(1, 60) n"
        )
    answer = index_status(reader)
    assert len(answer.branches) == MAX_BRANCHES
    assert answer.note.startswith("21 more branches")
    assert len(render.status_text(answer)) <= render.MAX_ANSWER
