"""Failures that users of comparable tools reported, as inputs to ours. Ids are those of the project's list of cases."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows import git, settings
from flows.embed import Vectors, guard
from flows.errors import DatabaseError, EmbedderError, SchemaMismatch
from flows.select import Rules
from flows.store.connect import Database, open_database
from mcp_tools import render
from mcp_tools.index import Index
from mcp_tools.status import index_status
from tests.conftest import Indexer
from tests.published import published
from tests.repos import Repo
from tests.store.tcp_server import tcp_server
from tests.stubs import StubEmbedder

CODE = "class Circle:\n    def area(self):\n        return 3.14\n\n\ndef unit():\n    return Circle()\n"
PROJECT = Path(__file__).parent.parent.parent


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with database.connect() as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def test_p01_a_state_that_says_nothing_is_there_is_rebuilt_once(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    index(repo, name="r")
    before = published(index.database)
    rows(index.database, "delete from file returning 1")
    rows(index.database, "update branch set files = 0, chunks = '{0,0,0,0}' returning 1")
    assert index(repo, name="r").outcome == "done"
    assert published(index.database) == before
    assert index(repo, name="r").outcome == "unchanged"


def test_p01_a_state_with_wrong_counts_is_put_right(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    index(repo, name="r")
    before = published(index.database)
    rows(index.database, "update branch set chunks = '{7,7,7,7}' returning 1")
    assert index(repo, name="r").outcome == "done"
    assert published(index.database) == before


def test_p04_rules_that_deny_everything_are_named(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE, b_go="package b\n")
    report = index(repo, name="r", rules=Rules(deny=("*.go", "*.py")))
    assert (report.outcome, report.files.seen) == ("done", 0)
    assert report.notes == ["0 files: all 2 denied, 1 of them by deny: *.go"]
    assert index(repo, name="r", rules=Rules(deny=("*",))).notes == ["0 files: all 2 denied by deny: *"]
    outside = "0 files: all 2 denied by the allow list, which does not name it"
    assert index(repo, name="r", rules=Rules(allow=("*.rs",))).notes == [outside]
    repo.write(".gitstrataignore", "# everything\n*\n")
    repo.commit()
    for _ in range(2):  # it is said as long as it is so
        assert index(repo, name="r").notes == ["0 files: all 3 denied by .gitstrataignore:2: *"]
    with Index(index.config) as opened:
        status = index_status(opened, repo="r")
    assert status.branches[0].note == "0 files: all 3 denied by .gitstrataignore:2: *"
    assert status.branches[0].note in render.status_text(status)


def test_p04_an_ignore_file_of_another_tool_decides_nothing(index: Indexer, repo: Repo) -> None:
    repo.write(".dockerignore", "*\n")
    repo.write(".gitignore", "*\n")
    repo.write("a.py", CODE)
    repo.git("add", "-fA")
    repo.git("commit", "-qm", "c")
    report = index(repo)
    assert report.files.seen == 3 and not report.notes


def test_p11_a_change_of_equal_size_within_the_same_second_is_seen(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py="VALUE = 1\n")
    index(repo)
    repo.commit(a_py="VALUE = 2\n")
    assert index(repo).files.new == 1
    assert rows(index.database, "select body from piece join blob using (blob_id) join file using (oid)") == [
        ("VALUE = 2\n",)
    ]


def test_p14_removing_one_of_three_identical_files_removes_one_location(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE, b_py=CODE, c_py=CODE)
    index(repo)
    repo.git("rm", "-q", "b.py")
    repo.commit()
    report = index(repo)
    assert (report.files.removed, report.vectors.computed) == (1, 0)
    assert rows(index.database, "select path from file order by 1") == [("a.py",), ("c.py",)]


def test_p16_an_indexed_commit_that_was_pruned_is_unknown_not_fresh(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    lost = repo.commit(b_py="b = 1\n")
    index(repo)
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    tree = git.working_tree(git.open_repository(repo.path), lost)
    assert tree is not None and tree.ahead is None
    assert index(repo).outcome == "done"  # the plan needs no old commit
    assert rows(index.database, "select path from file") == [("a.py",)]


def test_p26_a_dirty_working_tree_is_counted_but_not_read(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE, b_py="b = 1\n", c_py="c = 1\n")
    index(repo)
    repo.write("a.py", "edited = True\n")
    (repo.path / "b.py").unlink()
    repo.write("c.py", "staged = True\n")
    repo.git("add", "c.py")
    tree = git.working_tree(git.open_repository(repo.path), repo.git("rev-parse", "HEAD"))
    assert tree is not None and (tree.ahead, tree.behind, tree.changed) == (0, 0, 3)
    assert index(repo).outcome == "unchanged"


def test_p29_worktrees_share_everything(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=CODE)
    index(repo, name="r")
    texts = rows(index.database, "select count(*) from text")
    for n in range(5):
        repo.git("worktree", "add", "-q", str(tmp_path / f"tree{n}"), "-b", f"topic{n}")
        index(tmp_path / f"tree{n}", name="r")
        assert index.embedder.texts == []
    assert rows(index.database, "select count(*) from text") == texts


def test_p31_clones_of_one_remote_are_one_repository(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=CODE)
    for place in ("alice", "bob"):
        clone = tmp_path / place / "checkout"
        repo.git("clone", "-q", repo.path.as_uri(), str(clone))
        subprocess.run(
            ["git", "-C", str(clone), "remote", "set-url", "origin", "git@example.org:team/app.git"], check=True
        )
        assert index(clone).repo == "team/app"
    assert rows(index.database, "select name, origin from repo") == [("team/app", "example.org/team/app")]


def test_p49_p56_the_place_of_a_clone_does_not_matter(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=CODE)
    for place in ("a b/ü", "build", "vendor/node_modules", "it's"):
        clone = tmp_path / place / "clone"
        repo.git("clone", "-q", repo.path.as_uri(), str(clone))
        assert index(clone, name=f"at {place}").files.seen == 1
    assert {path for (path,) in rows(index.database, "select path from file where skip is null")} == {"a.py"}


def test_p47_line_numbers_are_gits_and_carriage_returns_stay(index: Indexer, repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "false")
    repo.commit(a_py="def one():\r\n    return 1\r\n\r\n\r\ndef two():\r\n    return 2\r\n")
    index(repo)
    found = rows(index.database, "select start_line, end_line from symbol where name = 'two'")
    assert found == [(5, 6)]
    assert "\r\n" in str(rows(index.database, "select body from piece")[0][0])


def test_p51_long_paths_and_symbols_are_stored(index: Indexer, repo: Repo) -> None:
    path = "/".join(["d" * 200] * 5) + "/file.py"
    repo.write(path, f"def {'f' * 5000}():\n    return 1\n")
    repo.commit()
    assert index(repo).outcome == "done"
    assert rows(index.database, "select length(path) from file") == [(len(path),)]


def test_p52_p53_p45_odd_encodings_are_read(index: Indexer, repo: Repo) -> None:
    repo.write("nul.py", b"def nul_inside():\n    return 'a\x00b'\n")
    repo.write("wide.cs", "class Utf16Thing { }\n".encode("utf-16"))
    repo.write("latin.py", "# -*- coding: latin-1 -*-\ndef caf\xe9_price():\n    return 1\n".encode("latin-1"))
    repo.write("sjis.py", "# -*- coding: shift_jis -*-\nNAME = '日本語テキスト'\n".encode("shift_jis"))
    repo.write("bom.py", b"\xef\xbb\xbfdef bom_function():\n    return 1\n")
    repo.commit()
    assert index(repo).outcome == "done"
    text = "\n".join(str(body) for (body,) in rows(index.database, "select body from piece"))
    for word in ("nul_inside", "Utf16Thing", "caf\xe9_price", "日本語テキスト", "bom_function"):
        assert word in text
    assert "\0" not in text and "\ufeff" not in text


def test_p91_a_model_that_hangs_is_given_up(embedder: StubEmbedder) -> None:
    def hang(texts: Sequence[str], vectors: Vectors) -> Vectors:
        time.sleep(60)
        return vectors

    embedder.spoil = hang
    with pytest.raises(EmbedderError, match="did not answer within"):
        guard.embed(embedder, ["a"], timeout=0.2)


def test_p100_a_row_that_breaks_a_constraint_publishes_nothing(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=CODE)
    index(repo, name="r")
    before = published(index.database)
    rows(index.database, "select 1")
    with index.database.connect() as connection:
        connection.execute("alter table chunk add constraint unlucky check (symbol <> 'unlucky')")
    repo.commit(b_py="def unlucky():\n    return 13\n", c_py="def fine():\n    return 1\n")
    with pytest.raises(DatabaseError, match="unlucky"):
        index(repo, name="r")
    assert published(index.database) == before
    with index.database.connect() as connection:
        connection.execute("alter table chunk drop constraint unlucky")
    assert index(repo, name="r").outcome == "done"


def test_p88_terminated_connections_are_opened_again(index: Indexer, repo: Repo) -> None:
    for n in range(30):
        repo.write(f"f{n}.py", f"def f{n}():\n    return {n}\n")
    repo.commit()
    terminated = 0

    def terminate(texts: Sequence[str], vectors: Vectors) -> Vectors:
        nonlocal terminated
        if terminated < 2:
            terminated += 1
            with index.database.connect() as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
        return vectors

    index.embedder.spoil = terminate
    assert index(repo, name="r").outcome == "done"
    assert terminated == 2
    assert rows(index.database, "select outcome from sync_run order by run_id") == [("failed",), ("failed",), ("done",)]


def test_p102_an_older_program_refuses_a_newer_schema(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("insert into _yoyo_migration (migration_hash, migration_id) values ('x', '9999_future')")
    with pytest.raises(SchemaMismatch, match="has schema 9999_future, this program knows only up to"):
        open_database(settings.load({"GITSTRATA_DSN": database.conninfo}))


def test_p103_work_done_before_a_termination_is_not_done_again(index: Indexer, repo: Repo, tmp_path: Path) -> None:
    for n in range(300):
        repo.write(f"f{n}.py", f"def f{n}():\n    return {n}\n")
    repo.commit()
    left = 540  # of about 600 texts

    def stop(texts: Sequence[str], vectors: Vectors) -> Vectors:
        nonlocal left
        left -= len(texts)
        if left < 0:
            raise EmbedderError("stopped at 90 %")
        return vectors

    index.embedder.spoil = stop
    with pytest.raises(EmbedderError):
        index(repo)
    index.embedder.spoil = None
    report = index(repo)
    assert report.vectors.computed < 0.35 * report.chunks.total


def test_p77_many_files_with_few_descriptors(server: str, repo: Repo, tmp_path: Path) -> None:
    for n in range(2000):
        repo.write(f"d{n % 50}/f{n}.py", f"VALUE = {n}\n")
    repo.commit()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier("few_descriptors")))
    dsn = make_conninfo(server, dbname="few_descriptors")
    done = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -n 256; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "mcp_tools.cli",
            "index",
            repo.path,
            "--json",
        ],
        cwd=PROJECT,
        env={"PATH": "/usr/bin:/bin", "GITSTRATA_HOME": str(tmp_path / "home"), "GITSTRATA_DSN": dsn},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert '"outcome": "done"' in done.stdout


def test_p83_a_database_without_pgvector_or_rights_is_one_sentence() -> None:
    with tcp_server(with_vector=False) as team, pytest.raises(DatabaseError, match=r"CREATE EXTENSION vector"):
        open_database(settings.load({"GITSTRATA_DSN": team.dsn}))


def test_a_teams_database_is_set_up_and_used_by_its_ordinary_owner(repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py=CODE)
    with tcp_server() as team:
        config = settings.load({"GITSTRATA_HOME": str(tmp_path / "home"), "GITSTRATA_DSN": team.dsn})
        with open_database(config) as database:
            assert Indexer(database, config, StubEmbedder())(repo).outcome == "done"
            assert Indexer(database, config, StubEmbedder())(repo).outcome == "unchanged"
