"""The command line as people and scripts meet it: a process, its outputs, its exit code, what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows.settings import Settings
from flows.store.connect import Database
from tests.mcp_tools.conftest import FILES, embedded, environment
from tests.published import published
from tests.repos import Repo
from tests.store.tcp_server import tcp_server

SECRET = "hunter2hunter2"


def start(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mcp_tools.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(**variables),
    )


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, cwd=cwd, **variables)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def check_refused(done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    """Check for one line on standard error, nothing on standard output, and the exit code."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert re.fullmatch(r"gitstrata: [^\n]+\n", done.stderr), done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr) < 1_000


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A GITSTRATA_HOME with spaces in its path, whose server stays up between the commands of this module."""
    home = tmp_path_factory.mktemp("a home")
    with embedded(home) as server, server:
        yield {"GITSTRATA_HOME": str(home)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo(tmp_path_factory.mktemp("checkouts") / "http")
    for path, content in FILES.items():
        repo.write(path, content)
    repo.commit()
    return repo


@pytest.fixture
def variables(config: Settings) -> dict[str, str]:
    """What points a command at the empty database of this test."""
    assert config.dsn
    return {"GITSTRATA_HOME": str(config.home), "GITSTRATA_DSN": config.dsn}


def test_index_search_show_and_status_on_the_embedded_server(own_home: dict[str, str], checkout: Repo) -> None:
    indexed = run("index", cwd=checkout.path / "src", **own_home)
    assert indexed.returncode == 0, indexed.stderr
    assert re.match(
        r"http main at [0-9a-f]{12}: done\n  files    12 seen, 12 new, 0 removed; skipped: 1 binary\n", indexed.stdout
    )
    assert "\r" not in indexed.stderr and "\x1b" not in indexed.stdout + indexed.stderr
    again = run("index", str(checkout.path), "--json", **own_home)
    assert (again.returncode, again.stderr) == (0, "")
    report = json.loads(again.stdout)
    assert (report["outcome"], report["repo"], report["vectors"]["computed"]) == ("unchanged", "http", 0)

    found = run("search", "seconds that a header asks to wait", "--limit", "3", **own_home)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("searched http@") and "\n1. http src/retry.py#" in found.stdout
    shown = run("show", "src/retry.py#wait", **own_home)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "    def wait(self, attempt: int) -> float:\n        return 2.0**attempt\n" in shown.stdout
    status = run("status", **own_home)
    assert (status.returncode, status.stderr) == (0, "")
    assert status.stdout.startswith("state ready, model gitstrata-static") and "not indexed: binary 1" in status.stdout


def test_json_is_one_value_and_nothing_else(served: Settings) -> None:
    variables = {"GITSTRATA_DSN": served.dsn or ""}
    rows = value(run("search", "retry", "-n", "2", "--path", "src", "--language", "python", "--json", **variables))
    assert {row["language"] for row in rows["result"]} == {"python"} and "next_cursor" in rows
    assert value(run("show", "src/retry.py#unit", "--json", **variables))["text"].startswith("def unit")
    assert value(run("status", "--repo", "acme/http", "--json", **variables))["state"] == "ready"


def value(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    parsed = json.loads(done.stdout)
    assert isinstance(parsed, dict)
    return parsed


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["index", "{tmp}/nothing"], 2, "nothing does not exist"),
        (["index", "{tmp}"], 2, "not in a git repository|no git repository"),
        (["index", "{repo}", "--rev", "nope"], 2, "no branch, tag or commit 'nope'"),
        (["index", "{repo}", "--rev", "--upload-pack=x"], 2, "no branch, tag or commit"),
        (["index", "{empty}"], 1, "no commit"),
        (["index", "https://localhost:1/x"], 1, r"https://localhost:1/x cannot be fetched: .*Check the URL"),
        (["index", f"https://me:{SECRET}@localhost:1/x"], 1, "cannot be fetched"),
        (["index", f"https://{SECRET}@localhost:1/x"], 1, "cannot be fetched"),
        (["index", "ext::sh -c touch% {tmp}/pwned"], 2, "ext"),
        (["index", "--upload-pack=touch {tmp}/pwned"], 2, r"No such option.* See gitstrata index --help\n$"),
        (["index", "--", "-upload-pack=x"], 2, "upload-pack=x"),
        (["search", "x", "--limit", "0"], 2, "limit is 0: use 1 to 50"),
        (["search", "x", "--limit", "many"], 2, "Invalid value for '--limit'"),
        (["search", "x", "--colour"], 2, "No such option"),
        (["search"], 2, "Missing argument.* See gitstrata search --help"),
        (["db", "dump"], 2, "Missing argument.* See gitstrata db dump --help"),
        (
            ["db", "dump", "{tmp}/no/x"],
            2,
            r"no/x cannot be written \(No such file or directory\): name a file in another",
        ),
        (["db", "restore", "{tmp}/no"], 2, r"no cannot be read \(No such file or directory\): name a file that"),
        (["db", "restore", "{repo}/a.py"], 2, "a.py is no dump of a database: name a file that"),
        (["cases", "load", "{tmp}"], 2, "cannot be read: Is a directory"),
        (["sync", "--all", "--summary", "{tmp}/no/x"], 2, "--summary .*no/x cannot be written: No such file"),
        (["sync", "r", "--branch", "main", "--checkout", "{tmp}/no"], 2, "no does not exist: give the folder"),
        (["model", "set", "{tmp}/no"], 2, "no is no folder: name one that holds a model"),
        (["model", "set", "{tmp}"], 2, "no sentence-transformers model in"),
        (["serch", "x"], 2, "No such command 'serch'. Did you mean 'search'.* See gitstrata --help"),
        (["search", ""], 2, "query is empty"),
        (["search", "x", "--repo", "nope"], 2, "unknown repo 'nope'"),
        (["search", "x", "--cursor", "nope"], 2, "cursor is not one of ours|The index is empty"),
        (["search", "x", "--path", "../.."], 2, "leaves the repository"),
        (["show", "../../etc/passwd"], 2, "is no source_id"),
        (["show", "a.py"], 2, "The index is empty"),
        (["show", "a.py", "--context", "9"], 2, "context is 9: use 0 to 3"),
        (["status", "--repo", "nope"], 2, "unknown repo 'nope'"),
    ],
)
def test_bad_input_is_one_line(
    variables: dict[str, str], repo: Repo, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    repo.commit(a_py="a = 1\n")
    empty = Repo(tmp_path / "empty")
    (tmp_path / "plain").mkdir()
    places = {"{tmp}": str(tmp_path / "plain"), "{repo}": str(repo.path), "{empty}": str(empty.path)}
    for place, path in places.items():
        arguments = [argument.replace(place, path) for argument in arguments]
    done = run(*arguments, **variables)
    if arguments[0] == "search" and "--cursor" in arguments:
        assert done.returncode in (0, 2)  # nothing is indexed: nobody looks at the cursor
        return
    check_refused(done, code, message)
    assert SECRET not in done.stderr
    assert not (tmp_path / "plain" / "pwned").exists()
    assert not any(SECRET in str(path) for path in tmp_path.rglob("*"))
    with psycopg.connect(variables["GITSTRATA_DSN"]) as connection:
        for table in ("repo", "branch", "blob", "sync_run"):
            row = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(table))).fetchone()
            assert row == (0,), table


@pytest.mark.parametrize(
    ("dsn", "code", "message"),
    [
        (f"host=127.0.0.1 port=1 dbname=x password={SECRET}", 1, "cannot connect to database x at 127.0.0.1:1"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x", 1, "cannot connect to database x at 127.0.0.1:1"),
        (f"not a dsn {SECRET}", 2, "GITSTRATA_DSN is not a connection string"),
        (f"postgresql://me:{SECRET}@[::1/x", 2, "GITSTRATA_DSN is not a connection string"),
        (f"nonsense=1 password={SECRET}", 2, "GITSTRATA_DSN is not a connection string"),
    ],
)
def test_a_database_out_of_reach_is_one_line(repo: Repo, tmp_path: Path, dsn: str, code: int, message: str) -> None:
    repo.commit(a_py="a = 1\n")
    for arguments in (["index", str(repo.path)], ["status"]):
        done = run(*arguments, GITSTRATA_DSN=dsn, GITSTRATA_HOME=str(tmp_path / "home"))
        check_refused(done, code, message)
        assert SECRET not in done.stderr


def test_a_home_that_can_be_no_folder_is_a_wrong_setting(variables: dict[str, str], repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py="a = 1\n")
    (tmp_path / "file").touch()
    away = variables | {"GITSTRATA_HOME": str(tmp_path / "file" / "home")}
    check_refused(run("index", str(repo.path), **away), 2, "file/home.*or choose another folder with GITSTRATA_HOME")


def test_a_database_without_pgvector_is_one_line(repo: Repo) -> None:
    repo.commit(a_py="a = 1\n")
    with tcp_server(with_vector=False) as server:
        done = run("index", str(repo.path), GITSTRATA_DSN=server.dsn)
        check_refused(done, 1, r"lacks pgvector: its administrator must run CREATE EXTENSION vector;")
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("select 1 from pg_class where relname = 'repo'").fetchone() is None


# --- stopped in the middle -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_index_leaves_the_database_as_it_was(
    database: Database, variables: dict[str, str], repo: Repo, number: signal.Signals
) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    assert run("index", str(repo.path), "--name", "r", **variables).returncode == 0
    before = published(database)
    for i in range(600):
        body = "\n".join(f"    total = total + {i} * {j}" for j in range(40))
        repo.write(f"new/{i}.py", f"def function_{i}(total):\n{body}\n    return total\n")
    repo.commit()
    process = start("index", str(repo.path), "--name", "r", **variables)
    with psycopg.connect(variables["GITSTRATA_DSN"], autocommit=True) as connection:
        end = time.monotonic() + 30
        while connection.execute("select count(*) > 20 from blob").fetchone() != (True,):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    check_refused(subprocess.CompletedProcess([], process.returncode, out, err), 130, "stopped.*run it again to go on")
    assert published(database) == before
    again = run("index", str(repo.path), "--name", "r", "--json", **variables)
    report = json.loads(again.stdout)
    assert (report["outcome"], report["files"]["seen"]) == ("done", 601)
    assert report["vectors"]["computed"] < report["chunks"]["total"]  # finished work was kept


def test_an_interrupted_command_says_so(tmp_path: Path, repo: Repo) -> None:
    repo.commit(a_py="a = 1\n")
    home = tmp_path / "home"
    with embedded(home) as server:
        process = start("index", str(repo.path), GITSTRATA_HOME=str(home))
        while not server.directory.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    check_refused(subprocess.CompletedProcess([], process.returncode, out, err), 130, "stopped.*run it again to go on")


def test_a_partial_run_has_exit_code_1(variables: dict[str, str], repo: Repo) -> None:
    repo.commit(good_py="def good():\n    return 1\n", bad_py="def bad():\n    return 2\n")
    blob = repo.git("rev-parse", "HEAD:bad.py")
    stored = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    stored.chmod(0o644)
    stored.write_bytes(b"not a zlib stream")
    done = run("index", str(repo.path), "--json", **variables)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (1, "partial")


def test_messages_have_the_words_of_the_command_line(served: Settings) -> None:
    variables = {"GITSTRATA_DSN": served.dsn or ""}
    check_refused(run("search", "x", "-n", "0", **variables), 2, "--limit is 0: use 1 to 50, and --cursor for more")
    check_refused(run("grep", "(", **variables), 2, "Set --literal to search for it as it is")
    check_refused(run("show", "a.py", "--max-chars", "0", **variables), 2, "--max-chars is 0: use 1 to 40000")
    assert "\n--cursor " in run("search", "retry", "-n", "1", **variables).stdout
    check_refused(run("serve", "--project", "nope", **variables), 2, "unknown project 'nope'")
    check_refused(run("serve", "--http", "--port", "0", "--project", "nope", **variables), 2, "unknown project 'nope'")


def test_every_command_that_prints_data_has_json(variables: dict[str, str], repo: Repo, tmp_path: Path) -> None:
    repo.commit(a_py="a = 1\n")
    assert value(run("index", str(repo.path), "--name", "r", "--json", **variables))["outcome"] == "done"
    assert value(run("db", "upgrade", "--json", **variables))["schema"]
    dumped = value(run("db", "dump", str(tmp_path / "x.dump"), "--json", **variables))
    assert dumped == {"file": str(tmp_path / "x.dump"), "bytes": (tmp_path / "x.dump").stat().st_size}
    purged = value(run("purge", "r", "a.py", "--json", **variables))
    assert purged["history_forgotten"] is True and purged["deleted"]["chunks"] > 0
    assert value(run("repos", "remove", "r", "--json", **variables)) == {"removed": "r", "configured_by": ""}
    row = value(run("token", "new", "ci", "--projects", "pay,web", "--expires", "never", "--json"))["row"]
    assert (row["name"], row["projects"], row["expires"]) == ("ci", ["pay", "web"], "never")
    assert value(run("install-agent", "cursor", "--json"))["client"] == "cursor"


# --- outputs -------------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error(served: Settings) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_tools.cli", "search", "retry"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(GITSTRATA_DSN=served.dsn or ""),
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_that_is_no_utf8_terminal(served: Settings) -> None:
    done = run("search", "retry", GITSTRATA_DSN=served.dsn or "", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_every_command(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("index", "search", "show", "status", "serve", "db"))


def test_a_name_with_bad_bytes_is_one_line(variables: dict[str, str]) -> None:
    check_refused(run("search", "x", "--repo", os.fsdecode(b"\xff"), **variables), 2, "surrogate")
    check_refused(
        run("index", os.fsdecode(b"/\xff"), **variables), 2, "does not exist: give the folder of a git repository"
    )


def test_a_dsn_may_hold_spaces_and_quotes(server: str, database: Database) -> None:
    dsn = make_conninfo(database.conninfo, application_name="it's a name")
    assert value(run("status", "--json", GITSTRATA_DSN=dsn))["state"] == "empty"


# --- the model -----------------------------------------------------------------------------------------------------


def test_the_model_is_changed_and_back(variables: dict[str, str], checkout: Repo, tmp_path: Path) -> None:
    from flows.embed.static import MODEL_FOLDER, read_model, write_model

    _, vocabulary, table = read_model(MODEL_FOLDER)
    small = tmp_path / "small"
    write_model(small, vocabulary, table[:, :64], recipe={})

    def model(*arguments: str, **more: str) -> Any:
        done = run("model", *arguments, "--json", **(variables | more))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert model("list") == {"models": []}
    assert run("index", str(checkout.path), **variables).returncode == 0
    assert model("set", "default")["outcome"] == "same"
    changed = model("set", str(small))
    assert (changed["outcome"], changed["name"]) == ("switched", "gitstrata-static-64")
    found = run("search", "retry policy", "--json", **variables)
    assert json.loads(found.stdout)["result"] and not json.loads(found.stdout)["note"]
    listed = model("list")["models"]
    assert [(item["state"], item["setting"]) for item in listed] == [("active", str(small)), ("retired", "default")]
    assert {item["vectors"] - item["texts"] for item in listed} == {0}
    assert model("rollback")["before"] == "gitstrata-static-64"
    done = run("model", "list", **(variables | {"GITSTRATA_MODEL": str(small)}))
    assert re.match(r"active   gitstrata-static-256: 256 dimensions, (\d+) of \1 vectors", done.stdout)
    assert f"run `gitstrata model set {small}` to change it" in done.stdout
    check_refused(run("model", "cancel", **variables), 2, "no model is being built: there is nothing to cancel")
    check_refused(run("model", "set", str(tmp_path / "none"), **variables), 2, "none is no folder")


def test_an_index_without_a_model_begins_with_the_configured_one(variables: dict[str, str], checkout: Repo) -> None:
    away = variables | {"GITSTRATA_MODEL": "http://127.0.0.1:1/v1#name&batch=x"}
    check_refused(run("index", str(checkout.path), **away), 2, "batch='x' of the model's setting is not a number")
