"""What a search says while there is nothing to search yet: the first run is at work, or the model is being loaded."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

from flows.embed.shelf import Shelf
from flows.errors import UsageError
from flows.settings import Settings
from flows.store import repos, runs
from mcp_tools import access
from mcp_tools import index as index_module
from mcp_tools.access import Access
from mcp_tools.chunks import get_chunk
from mcp_tools.code_resource import read_code
from mcp_tools.code_search import code_search
from mcp_tools.index import Index
from mcp_tools.related import find_related
from mcp_tools.search_code import search_code
from mcp_tools.status import index_status
from mcp_tools.who_knows import who_knows
from tests.conftest import Indexer
from tests.repos import Repo
from tests.stubs import StubEmbedder

WARMING = r"The index is warming up: the first run of new \(main\) is at work since .*Z; ask again in a moment\."

ASKED: dict[str, Callable[[Index], str]] = {
    "code_search": lambda reader: code_search(reader, "one").note,
    "search_code": lambda reader: search_code(reader, "one").note,
    "who_knows": lambda reader: who_knows(reader, "one").note,
    "find_related": lambda reader: find_related(reader, "a.py").note,
    "get_chunk": lambda reader: error(get_chunk, reader, "a.py"),
    "resource": lambda reader: error(read_code, reader, "new", "abcdef0", "a.py"),
}


def error(tool: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(UsageError) as caught:
        tool(*arguments)
    return str(caught.value)


def during(index: Indexer, repo: Repo, ask: Callable[[], str], rev: str = "", name: str = "new") -> str:
    """Return what is said while a run is at work."""
    said: list[str] = []
    index.embedder.spoil = lambda texts, vectors: (said.append(ask()), vectors)[1]
    index(repo, rev, name=name)
    index.embedder.spoil = None
    return said[0]


@pytest.mark.parametrize("tool", ASKED)
def test_the_first_run_is_said(tool: str, index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    said = during(index, repo, lambda: ASKED[tool](reader))
    assert re.fullmatch(WARMING, said), said


def test_beside_others_it_is_said_where_nothing_was_found(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="old")
    repo.commit(b_py="def walrus():\n    return 2\n")

    def ask() -> str:
        return "\n".join(search_code(reader, "walrus", repo=name).note for name in ("", "new", "old"))

    everywhere, new, old = during(index, repo, ask).split("\n")
    assert everywhere.startswith("No match in old (main): try other words") and "first run of new (main)" in everywhere
    assert new.startswith("The index is warming up")
    assert "warming up" not in old  # which was asked for, and is there
    assert search_code(reader, "walrus").result


def test_a_branch_whose_first_run_is_at_work(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="new")
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit(b_py="def walrus():\n    return 2\n")

    def ask() -> str:
        asked = error(lambda: code_search(reader, "one", branch="topic"))
        return asked + "\n" + error(lambda: code_search(reader, "one", branch="topik"))

    topic, unknown = during(index, repo, ask, "topic").split("\n")
    assert "the first run of new (topic) is at work" in topic
    assert unknown.startswith("unknown branch 'topik': Indexed: main")


def test_a_killed_first_run_does_not_warm_up(index: Indexer, reader: Index) -> None:
    with index.database.connect() as connection:
        repos.claim(connection, "new", "somewhere")
    assert "no run is at work" in code_search(reader, "one", repo="new").note
    with index.database.connect() as connection:
        runs.start(connection, "new", "main", "e" * 40)  # and then its process is killed
    assert code_search(reader, "one").note.startswith("No commit of new is published yet: the last run failed")


def test_runs_outside_a_tokens_projects_are_not_named(index: Indexer, reader: Index, repo: Repo) -> None:
    repo.commit(a_py="def one():\n    return 1\n")

    def ask() -> str:
        with access.granted(Access("pay", ("pay",))):
            return code_search(reader, "one").note + index_status(reader).note + search_code(reader, "one").note

    assert "new" not in during(index, repo, ask)


# --- the model -----------------------------------------------------------------------------------------------------


def test_a_model_that_takes_long_to_load_holds_up_nobody(
    index_of_one: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LOADING_SECONDS", 0.05)
    loading, loaded = threading.Event(), threading.Event()

    def load(setting: str, *, dimension: int = 0) -> StubEmbedder:
        loading.set()
        assert loaded.wait(30)
        return StubEmbedder()

    with Index(index_of_one, embedder=Shelf(load=load)) as reader:
        warming = threading.Thread(target=reader.warm)
        warming.start()
        assert loading.wait(30)
        early = code_search(reader, "one")
        assert early.note == "found by words and names only: the model is being loaded: ask again in a moment"
        assert early.result[0].source_id == "a.py#one"
        loaded.set()
        warming.join(30)
        assert code_search(reader, "one").note == ""  # at once, not after a pause


@pytest.fixture
def index_of_one(index: Indexer, config: Settings, repo: Repo) -> Settings:
    repo.commit(a_py="def one():\n    return 1\n")
    index(repo, name="r")
    return config
