"""list_repos: what can be searched, by name and project, in pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from flows.errors import UsageError
from flows.settings import Settings
from flows.store import repos as stored
from flows.store.connect import Database
from mcp_tools import render
from mcp_tools.code_search import code_search
from mcp_tools.index import Index
from mcp_tools.repos import PAGE, as_text, list_repos
from tests.conftest import Indexer
from tests.mcp_tools.test_cli import run
from tests.repos import Repo


def names(answer: object) -> list[str]:
    return [info.repo for info in answer.result]  # type: ignore[attr-defined]


def configure(database: Database, projects: dict[str, list[str]]) -> None:
    with database.connect() as connection:
        configs = {name: (f"host/{name}", {"projects": of}) for name, of in projects.items()}
        stored.publish_configuration(connection, "conf", stored.Version("a" * 40, datetime.now(UTC)), configs)


def test_all_and_some(library: Index, golden: Callable[[str, str], None]) -> None:
    answer = list_repos(library)
    assert names(answer) == ["acme/bare", "acme/copy", "acme/http", "acme/many", "acme/pictures"]
    assert (answer.total, answer.next_cursor, answer.note) == (5, "", "")
    http = answer.result[2]
    assert http.branches == ["main", "feature"] and len(http.commit) == 40 and http.languages["python"] > 3
    assert names(list_repos(library, name_contains="HTTP")) == ["acme/http"]
    golden("repos", as_text(answer))


def test_nothing_has_its_sentence(library: Index, reader: Index) -> None:
    assert list_repos(library, name_contains="%").note == (
        "No repository's name contains '%': there are 5, among them "
        "acme/bare, acme/copy, acme/http, acme/many, acme/pictures."
    )
    assert list_repos(reader).note.startswith("The index is empty")
    with pytest.raises(UsageError, match="unknown project 'x': no projects are configured"):
        list_repos(library, project="x")


def test_projects_narrow_lists_and_searches(database: Database, index: Indexer, reader: Index, repo: Repo) -> None:
    configure(database, {"acme/api": ["pay", "web"], "acme/app": ["web"], "acme/none": []})
    repo.commit(a_py="def shared(x):\n    return x\n")
    with database.connect() as connection:
        connection.execute("update repo set origin = %s where name like 'acme/a%%'", [str(repo.path)])
    index(repo, name="acme/api")
    repo.commit(a_py="def shared(y, z):\n    return y + z\n")
    index(repo, name="other/api")
    answer = list_repos(reader, project="web")
    assert names(answer) == ["acme/api", "acme/app"]
    assert answer.result[0].projects == ["pay", "web"]
    assert (answer.result[1].branches, answer.result[1].commit) == ([], "")
    assert "acme/app: nothing published yet, 0 files, 0 chunks; projects web" in as_text(answer)
    assert {row.repo for row in code_search(reader, "shared", project="pay").result} == {"acme/api"}
    assert {row.repo for row in code_search(reader, "shared").result} == {"acme/api", "other/api"}
    with pytest.raises(UsageError, match=r"unknown project 'wep': did you mean 'web'\? There are pay, web"):
        code_search(reader, "shared", project="wep")
    with pytest.raises(UsageError, match="other/api is not in the project pay: it has acme/api"):
        code_search(reader, "shared", project="pay", repo="other/api")


def test_pages_cover_every_repository_once(database: Database, reader: Index) -> None:
    configure(database, {f"acme/r{n:03}": [] for n in range(2 * PAGE + 5)})
    seen: list[str] = []
    cursor = ""
    while True:
        answer = list_repos(reader, name_contains="acme", cursor=cursor)
        assert answer.total == 2 * PAGE + 5 and len(as_text(answer)) < render.MAX_ANSWER
        seen += names(answer)
        cursor = answer.next_cursor
        if not cursor:
            break
    assert seen == [f"acme/r{n:03}" for n in range(2 * PAGE + 5)]
    first = list_repos(reader).next_cursor
    with pytest.raises(UsageError, match="this cursor belongs to other filters"):
        list_repos(reader, name_contains="x", cursor=first)
    configure(database, {f"acme/r{n:03}": [] for n in range(2 * PAGE)})
    assert "the list changed since the first page" in list_repos(reader, cursor=first).note


def test_the_command_line(database: Database, config: Settings) -> None:
    configure(database, {"acme/api": ["pay"]})
    where = {"GITSTRATA_DSN": config.dsn or "", "GITSTRATA_HOME": str(config.home)}
    assert json.loads(run("repos", "list", "--json", **where).stdout)["result"][0]["projects"] == ["pay"]
    assert "acme/api: nothing published yet" in run("repos", "list", "api", "--project", "pay", **where).stdout
