"""`repos check`, `repos add` and `repos plan` on the command line, and roles that only read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flows.config import load
from flows.fleet import Options
from flows.settings import Settings
from flows.store import read, vector_index
from flows.store.connect import Database
from mcp_tools import cli_sync
from tests.conftest import Indexer
from tests.mcp_tools.conftest import environment
from tests.repos import Repo

CODE = "def one():\n    return 1\n"


class Folder:
    """A folder of repository files and the command line."""

    def __init__(self, path: Path, dsn: str) -> None:
        self.path, self.dsn, self.code = path, dsn, 0
        path.mkdir()

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def run(self, *arguments: str, dsn: str = "") -> str:
        env = environment(GITSTRATA_HOME=str(self.path.parent / "home"), GITSTRATA_DSN=dsn or self.dsn)
        command = [sys.executable, "-m", "mcp_tools.cli", *arguments]
        done = subprocess.run(command, cwd=self.path.parent, env=env, capture_output=True, text=True, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, config: Settings) -> Folder:
    assert config.dsn
    return Folder(tmp_path / "repos.d", config.dsn)


@pytest.fixture
def remote(repo: Repo) -> Repo:
    repo.commit(a_py=CODE, README_md="# A\n")
    return repo


def file_of(remote: Repo, more: str = "", name: str = "app") -> str:
    return f"name: {name}\nurl: {remote.path.as_uri()}\n{more}"


# --- check ---


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("allow: ['.env']\n", 3, "'.env' lets in files that hold secrets"),
        ("allow: ['*.py', 'vendor/']\n", 3, "'vendor/' lets in vendored code"),
        ("deny: ['!id_rsa']\n", 3, "'!id_rsa' lets in files that hold secrets that are denied"),
        ("allow: ['*']\ninclude_vendored: true\n", 3, "'*' lets in vendored trees in full"),
    ],
)
def test_globs_that_let_in_what_nobody_wants_are_warned_of(
    folder: Folder, remote: Repo, more: str, line: int, said: str
) -> None:
    folder.write("app.yaml", file_of(remote, more))
    output = folder.run("repos", "check", "repos.d")
    assert folder.code == 0 and f"repos.d/app.yaml:{line}:" in output and f"warning: {said}" in output


@pytest.mark.parametrize("glob", ["*", "**", "*.py", "src/", "lib/**/*.js", "docs/*.md", "/cmd/"])
def test_ordinary_globs_are_not(folder: Folder, remote: Repo, glob: str) -> None:
    folder.write("app.yaml", file_of(remote, f"allow: ['{glob}']\n"))
    assert "warning" not in folder.run("repos", "check", "repos.d")


def test_files_that_overlap_are_warned_of(folder: Folder, remote: Repo) -> None:
    folder.write("a.yaml", file_of(remote, name="team/a"))
    folder.write("b.yaml", f"name: team\nurl: {remote.path}\n")
    output = folder.run("repos", "check", "repos.d")
    assert "repos.d/b.yaml:2:6: warning: the same repository as team/a in a.yaml" in output
    assert "repos.d/a.yaml:1:7: warning: the name 'team/a' lies in that of 'team'" in output


def test_remotes_are_asked_online_only(folder: Folder, remote: Repo) -> None:
    folder.write("app.yaml", file_of(remote, "branches: [main, nope/*]\n"))
    folder.write("away.yaml", f"name: away\nurl: {remote.path.as_uri()}x\n")
    assert "cannot be fetched" not in folder.run("repos", "check", "repos.d") and folder.code == 0
    output = folder.run("repos", "check", "repos.d", "--online")
    assert folder.code == 1
    assert "repos.d/away.yaml:2:1: away: " in output and "cannot be fetched" in output
    assert "repos.d/app.yaml:3:1: warning: app: `branches`: 'nope/*' matches no branch or tag there" in output


def test_globs_that_match_nothing_are_named_when_files_are_looked_at(folder: Folder, remote: Repo) -> None:
    folder.write("_defaults.yaml", "deny: [node_modules/]\n")
    folder.write("app.yaml", file_of(remote, "allow:\n  - '*.py'\n  - '*.rs'\ndeny: [tests/]\n"))
    output = folder.run("repos", "check", "repos.d", "--deep")
    assert folder.code == 0, output
    assert "repos.d/app.yaml:5:1: warning: app: `allow`: '*.rs' matches no file at main" in output
    assert "repos.d/app.yaml:6:1: warning: app: `deny`: 'tests/' matches no file" in output
    assert "node_modules" not in output and "'*.py'" not in output
    folder.write("app.yaml", file_of(remote, "deny: ['*']\n"))
    assert "its rules deny all 2 files" in folder.run("repos", "check", "repos.d", "--deep")


def test_problems_as_json(folder: Folder, remote: Repo) -> None:
    folder.write("app.yaml", file_of(remote, "allows: ['*']\n"))
    answer = json.loads(folder.run("repos", "check", "repos.d", "--json"))
    assert folder.code == 2
    (problem,) = answer["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == ("repos.d/app.yaml", 3, 1)
    assert "did you mean 'allow'?" in problem["message"]


# --- add ---


def test_a_new_repository_gets_a_file_that_says_what_is_in_it(folder: Folder, remote: Repo) -> None:
    for number in range(25):
        remote.write(f"third_party/lib/{number}.js", "x\n")
        remote.write(f"src/{number}.py", CODE * 20)
    remote.commit()
    output = folder.run(
        "repos", "add", remote.path.as_uri(), "--name", "team/app", "--project", "core", "--deny", "*.md"
    )
    assert folder.code == 0, output
    text = (folder.path / "team+app.yaml").read_text()
    assert "python" in text and "#   /src/  25 files" in text
    assert "  - '/third_party/'  # 25 vendored files" in text
    (found,) = load(folder.path).repos
    assert (found.name, found.projects, found.rules.deny) == ("team/app", ("core",), ("*.md", "/third_party/"))
    assert folder.run("repos", "check", "repos.d", "--deep").startswith("1 repository: ")


COMMENTED = """\
# Ours.
name: app   # short
url: {url}
projects:
  - core      # the first
  # and no more

# What is left out.
deny: ['*.md']  # prose
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_comments_and_order_stay_when_a_file_is_edited(folder: Folder, remote: Repo, end: str) -> None:
    text = COMMENTED.format(url=remote.path.as_uri()).replace("\n", end)
    file = folder.write("app.yaml", text)
    output = folder.run("repos", "add", remote.path.as_uri(), "--project", "pay", "--deny", "tests/", "--owner", "me")
    assert folder.code == 0 and "added projects pay, deny tests/, owner me" in output, output
    after = file.read_bytes().decode()
    lines = [" ".join(line.split()) for line in after.split(end)]
    for line in text.split(end):
        assert " ".join(line.replace("['*.md']", "['*.md', tests/]").split()) in lines
    assert lines[4:7] == ["- core # the first", "- pay", "# and no more"]
    (found,) = load(folder.path).repos
    assert (found.projects, found.rules.deny, found.owner) == (("core", "pay"), ("*.md", "tests/"), "me")
    assert "says so already" in folder.run("repos", "add", remote.path.as_uri(), "--project", "pay")
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("https://user:secret@host/a/b",), "must not contain a user name, token or password"),
        (("http://host/a/b",), "is not encrypted"),
        (("{url}", "--project", "no spaces"), "'no spaces' must be 1 to 100 letters"),
        (("{url}", "--name", "-x"), "`name` '-x' cannot name a repository"),
        (("{url}x",), "cannot be fetched"),
        (("{url}x", "--name", "taken"), "has the name taken for another URL"),
        (("/away", "--name", "taken"), "has the name taken for another URL"),
    ],
)
def test_what_cannot_be_added_is_said_and_nothing_is_written(
    folder: Folder, remote: Repo, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    other = Repo(tmp_path / "other")
    folder.write("taken.yaml", file_of(other, name="taken"))
    output = folder.run("repos", "add", *(word.format(url=remote.path.as_uri()) for word in arguments))
    assert folder.code in (1, 2) and said in output and "secret" not in output
    assert [path.name for path in folder.path.iterdir()] == ["taken.yaml"]


def test_a_repository_that_is_there_asks_what_to_add(folder: Folder, remote: Repo) -> None:
    folder.write("app.yaml", file_of(remote))
    assert "configures it already: say what to add" in folder.run("repos", "add", remote.path.as_uri())
    assert folder.code == 2


# --- roles ---


def test_a_role_that_only_reads_searches_and_plans_but_cannot_sync(
    folder: Folder, remote: Repo, index: Indexer, server: str
) -> None:
    index(remote, name="other")
    folder.write("app.yaml", file_of(remote))
    with psycopg.connect(folder.dsn, autocommit=True) as connection:
        connection.execute("drop role if exists reader")
        connection.execute("create role reader login")
        connection.execute("grant select on all tables in schema public to reader")
    dsn = make_conninfo(folder.dsn, user="reader")
    try:
        assert "one" in folder.run("search", "one", dsn=dsn) and folder.code == 0
        assert "other (main): ready" in folder.run("status", dsn=dsn)
        output = folder.run("repos", "plan", dsn=dsn)
        assert folder.code == 0 and "app main: planned" in output, output
        output = folder.run("sync", "--config", "repos.d", dsn=dsn)
        assert folder.code == 1 and "permission denied" in output, output
    finally:
        with psycopg.connect(folder.dsn, autocommit=True) as connection:
            connection.execute("drop owned by reader")
            connection.execute("drop role reader")


def test_a_sync_publishes_no_folder_that_it_was_not_given(folder: Folder, remote: Repo) -> None:
    """A member's checkout may have a folder of that name: only --config publishes one."""
    folder.write("app.yaml", file_of(remote))
    assert "no repository is configured" in folder.run("sync", "--all") and folder.code == 0
    folder.run("sync", "--config", "repos.d")
    assert folder.code == 0
    folder.write("mine.yaml", file_of(remote, name="mine"))
    (folder.path / "app.yaml").unlink()
    assert "app main" in folder.run("sync", "--all") and folder.code == 0
    assert "app is not configured any more: would be removed" in folder.run("sync", "--config", "repos.d", "--dry-run")
    listed = folder.run("repos", "list")
    assert "app" in listed and "mine" not in listed


def test_the_vector_index_is_built_once_after_all_repositories(
    folder: Folder, remote: Repo, config: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[int] = []

    def build(database: Database, *_: object) -> bool:
        with database.connect() as connection:
            published.append(len(read.branches(connection)))
        return True

    monkeypatch.setattr(vector_index, "build_if_large", build)
    subprocess.run(["git", "clone", "-q", "--bare", remote.path, folder.path.parent / "fork"], check=True)
    folder.write("app.yaml", file_of(remote))
    folder.write("fork.yaml", f"name: fork\nurl: file://{folder.path.parent}/fork\n")
    repositories = list(load(folder.path).repos)
    assert cli_sync.run(config, repositories, Options(), jobs=1, quiet=True)[1].outcome == "done"
    assert published == [2]
    remote.commit(new_py="def new():\n    return 1\n")
    cli_sync.run(config, repositories[:1], Options(), jobs=1, quiet=True)
    assert published == [2, 2]
