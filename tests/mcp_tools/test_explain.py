"""explain and chunks: which rule decided, where it stands, how a file is cut; nothing about what is denied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import fleet, git
from flows.config import load
from flows.explain import explain
from flows.select import Rules
from flows.settings import Settings
from flows.store.connect import Database
from tests.conftest import Indexer
from tests.mcp_tools.conftest import RETRY_PY
from tests.mcp_tools.test_cli import check_refused, run
from tests.repos import Repo

FILES = {
    "src/retry.py": RETRY_PY,
    "src/latin.py": "# préféré\n".encode("latin-1"),
    "src/key.py": f"KEY = 'ghp_{'a' * 36}'\n",
    "gen/a.py": "a = 1\n",
    "gen/b_pb2.py": "b = 1\n",
    "notes.go": "package notes\n",
    "private/a.py": "a = 1\n",
    "secret/a.py": "a = 1\n",
    "bundle.js": "var a=1;" * 2_000,
    ".gitattributes": "# ours\ngen/* linguist-generated\ngen/b* -linguist-generated\n",
    ".gitstrataignore": "\nprivate/\n",
}
RULES = Rules(deny=("*.pem", "secret/"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    repo = Repo(tmp_path_factory.mktemp("explain") / "acme")
    for path, content in FILES.items():
        repo.write(path, content)
    (repo.path / "link").symlink_to("src")
    repo.commit()
    yield repo


def ask(repo: Repo, path: str, rules: Rules = RULES) -> tuple[str, str, str]:
    opened = git.open_repository(repo.path)
    answer = explain(opened, git.resolve(opened), rules, path)
    return answer.verdict, answer.reason, answer.rule


@pytest.mark.parametrize(
    ("path", "verdict", "reason", "rule"),
    [
        ("src/retry.py", "indexed", "", ""),
        ("./src/retry.py", "indexed", "", ""),
        ("gen/a.py", "skipped", "generated", ".gitattributes:2: gen/* linguist-generated"),
        ("gen/b_pb2.py", "indexed", "", ""),  # by line 3, although its name is that of generated code
        ("link", "skipped", "symlink", "its mode in the tree, 120000"),
        ("bundle.js", "skipped", "minified", "16000 characters in 1 lines, the longest of 16000"),
        ("private/a.py", "denied", "", ".gitstrataignore:2: private/"),
        ("private/no.py", "denied", "", ".gitstrataignore:2: private/"),
        ("secret/a.py", "denied", "", "deny: secret/"),
        ("secret/no.py", "denied", "", "deny: secret/"),  # the same words, whether it exists or not
        ("src/no.py", "unknown", "", ""),
        ("src", "unknown", "", ""),
    ],
)
def test_what_decided(shown: Repo, path: str, verdict: str, reason: str, rule: str) -> None:
    assert ask(shown, path) == (verdict, reason, rule)


def test_rules_of_the_configuration(shown: Repo) -> None:
    assert ask(shown, "notes.go", Rules(languages=("python",)))[1:] == ("language", "languages: python")
    assert ask(shown, "notes.go", Rules(allow=("src/",))) == ("denied", "", "the allow list, which does not name it")
    assert ask(shown, "src/retry.py", Rules(max_bytes=10))[1] == "too_large"
    assert ask(shown, "gen/a.py", Rules(include_generated=True))[0] == "indexed"


def test_the_answer_agrees_with_the_index(shown: Repo, index: Indexer) -> None:
    index(shown, name="acme", rules=RULES)
    opened = git.open_repository(shown.path)
    with index.database.connect() as connection:
        rows = connection.execute(
            "select f.path, f.skip, f.language, k.levels from file f left join cut k using (cut_id)"
        ).fetchall()
    for path, skip, language, levels in rows:
        answer = explain(opened, git.resolve(opened), RULES, path)
        assert (answer.reason or None) == skip, path
        assert list(answer.chunks.values()) == (levels or []), path
        assert skip or answer.language == language
    assert not [path for path, *_ in rows if ask(shown, path)[0] in ("denied", "unknown")]


def test_explain_on_the_command_line(shown: Repo, database: Database, config: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "repos.d"
    folder.mkdir()
    (folder / "_defaults.yaml").write_text("deny:\n  - '*.pem'\n")
    (folder / "acme.yaml").write_text(f"name: acme/code\nurl: {shown.path}\n\ndeny:\n  - x/\n  - secret/\n")
    with database.connect() as connection:
        fleet.publish(connection, load(folder))
    variables = {"GITSTRATA_HOME": str(config.home), "GITSTRATA_DSN": config.dsn or ""}

    def said(*arguments: str) -> str:
        done = run("explain", *arguments, cwd=tmp_path, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    nothing = "nothing is said of what is denied, not even whether it exists\n"
    for name in ("a.py", "no.py"):
        there = said("acme/code", f"secret/{name}")
        assert there == f"secret/{name}: denied by deny: secret/ (repos.d/acme.yaml:6); {nothing}"
    assert said("acme/code", "x.pem").endswith(f"deny: *.pem (repos.d/_defaults.yaml:2); {nothing}")
    commit = shown.git("rev-parse", "HEAD")[:12]
    text = said(str(shown.path), "src/retry.py")
    assert text.startswith(f"src/retry.py at {commit}: indexed\n  language python (code)\n  content  utf-8, 19 lines\n")
    assert "  chunks   1 file, 1 class, " in text
    value = json.loads(said(str(shown.path), "src/key.py", "--json"))
    assert (value["verdict"], value["masked"], value["language"], value["category"]) == ("indexed", 1, "python", "code")
    assert json.loads(said(str(shown.path), "src/latin.py", "--json"))["encoding"] == "cp1252"
    check_refused(run("explain", "acme/other", "a", **variables), 2, "unknown repo 'acme/other'")


def test_chunks_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "retry.py").write_text(RETRY_PY)
    done = run("chunks", "retry.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("python, utf-8, 19 lines, ")
    assert any(line.split()[:2] == ["method", "RetryPolicy.wait"] and "def wait(" in line for line in lines)
    (tmp_path / "script").write_text(f"#!/usr/bin/env python3\nKEY = 'ghp_{'a' * 36}'\n")
    value = json.loads(run("chunks", "script", "--json", cwd=tmp_path).stdout)
    assert (value["language"], value["masked"]) == ("python", 1) and "ghp_" not in str(value)
    assert json.loads(run("chunks", "script", "-l", "text", "--json", cwd=tmp_path).stdout)["language"] == "text"


def test_chunks_refuses_what_it_cannot_cut(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\0\1\2\3" * 100)
    check_refused(run("chunks", "a.png", cwd=tmp_path), 2, "it is binary")
    check_refused(run("chunks", "no.py", cwd=tmp_path), 2, "No such file")
    check_refused(run("chunks", ".", cwd=tmp_path), 2, "cannot be read")
    check_refused(run("chunks", "a.png", "-l", "pyton", cwd=tmp_path), 2, "it is binary|unknown language")
