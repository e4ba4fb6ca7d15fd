"""A shelf of small repositories, indexed once for all tests that only read, and answers kept in golden files."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import mcp
import psycopg
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent, TextResourceContents, Tool
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows import settings
from flows.config import RepoConfig
from flows.settings import Settings
from flows.store import repos as stored
from flows.store.connect import Database, connect
from flows.store.embedded import EmbeddedServer
from flows.store.repos import Version
from mcp_tools.cli import run_index
from mcp_tools.index import Index
from mcp_tools.server import DEFAULT_TOOLSETS, build_server
from tests.conftest import Indexer
from tests.repos import Repo
from tests.stubs import StubEmbedder

GOLDEN = Path(__file__).parent / "golden"

RETRY_PY = '''"""Retries of failed requests."""


class RetryPolicy:
    """Says when a request is sent again."""

    def __init__(self, attempts: int = 3) -> None:
        self.attempts = attempts

    def parse_retry_after(self, header: str) -> float:
        """Return the seconds that a Retry-After header asks to wait."""
        return float(header)

    def wait(self, attempt: int) -> float:
        return 2.0**attempt


def unit() -> RetryPolicy:
    return RetryPolicy(1)
'''
CLIENT_TS = """export class Client {
  constructor(private base: string) {}

  parseRetryAfter(header: string): number {
    return Number(header);
  }
}
"""
RETRY_GO = """package retry

// ParseRetryAfter reads the header of a response.
func ParseRetryAfter(header string) int {
	return len(header)
}
"""
GUIDE_MD = """# Guide

Install the client, then connect.

## Proxies

Requests go through a corporate proxy when one is configured.
"""
FILES = {
    "README.md": "# HTTP\n\nA small client that retries.\n",
    "docs/guide.md": GUIDE_MD,
    "pkg/retry.go": RETRY_GO,
    "src/client.ts": CLIENT_TS,
    "src/retry.py": RETRY_PY,
    "src-old/retry.py": "def old_retry(header):\n    return header  # kept for old callers\n",
    "tests/test_retry.py": "def test_parse_retry_after():\n    assert unit().parse_retry_after('3') == 3\n",
    "windows.py": "def first():\r\n    return 1\r\n\r\n\r\ndef second():\r\n    return 2\r\n",
    "#odd.py": "def odd():\n    return 'hash'\n",
    "back\\slash.py": "def slashed():\n    return 'backslash'\n",
    "new\nline.py": "def broken():\n    return 'newline'\n",
    "logo.png": "\0\1\2\3" * 300,
}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare an answer with tests/mcp_tools/golden/NAME.txt; times do not count."""

    def check(name: str, answer: str) -> None:
        file = GOLDEN / f"{name}.txt"
        answer = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\dZ", "TIME", answer) + "\n"
        if request.config.getoption("--update-golden"):
            file.write_text(answer)
        assert answer == file.read_text(), "run pytest with --update-golden if this is as it should be"

    return check


@pytest.fixture(scope="session")
def shelf(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a database with five repositories; nobody writes to it after this."""
    folder = tmp_path_factory.mktemp("shelf")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database shelf template template_gitstrata")
    conninfo = make_conninfo(server, dbname="shelf")
    config = settings.load({"GITSTRATA_HOME": str(folder / "home"), "GITSTRATA_DSN": conninfo})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")  # the same commits on every machine
        patch.setenv("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        fill(Indexer(Database(conninfo), config, StubEmbedder()), folder)
    yield config
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database shelf with (force)"))


def fill(index: Indexer, folder: Path) -> None:
    http = Repo(folder / "http")
    for path, content in FILES.items():
        http.write(path, content)
    http.commit()
    index(http, name="acme/http")
    http.git("checkout", "-q", "-b", "feature")
    http.write("src/hedge.py", "def hedge(requests):\n    return requests[:2]\n")
    http.commit()
    index(http, "feature", name="acme/http")
    copy = Repo(folder / "copy")
    copy.write("lib/retry.py", RETRY_PY)
    copy.write("README.md", "# Copy\n\nSomebody's copy.\n")
    copy.commit()
    index(copy, name="acme/copy")
    many = Repo(folder / "many")
    for i in range(40):
        many.write(f"part{i:02}/step.py", f"def step_{i}(queue):\n    queue.push({i})\n")
    many.write("long.py", "\n\n".join(f"def handler_{i}(event):\n    return event.handle({i})\n" for i in range(20)))
    many.commit()
    index(many, name="acme/many")
    pictures = Repo(folder / "pictures")
    pictures.write("logo.png", b"\0\1\2\3" * 300)
    pictures.commit()
    index(pictures, name="acme/pictures")
    bare = Repo(folder / "bare")
    bare.commit("nothing yet")
    index(bare, name="acme/bare")


@pytest.fixture(scope="session")
def library(shelf: Settings) -> Iterator[Index]:
    """The shelf, opened for reading."""
    with Index(shelf, embedder=StubEmbedder()) as opened:
        yield opened


@pytest.fixture
def reader(config: Settings, embedder: StubEmbedder) -> Iterator[Index]:
    """The database of this test, opened for reading."""
    with Index(config, embedder=embedder) as opened:
        yield opened


# --- with the real model, over a real server -----------------------------------------------------------------------

ROOT = Path(__file__).parent.parent.parent


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a subprocess: nothing of the developer's own settings but these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GITSTRATA_", "GIT_", "PG", "PYTHON"))}
    return kept | {"PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull} | variables


@pytest.fixture(scope="session")
def served(server: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a database with two repositories, indexed with the model that is shipped."""
    folder = tmp_path_factory.mktemp("served")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database served template template_gitstrata")
    dsn = make_conninfo(server, dbname="served")
    config = settings.load({"GITSTRATA_HOME": str(folder / "home"), "GITSTRATA_DSN": dsn})
    for name, files in (("http", FILES), ("copy", {"lib/retry.py": RETRY_PY, "README.md": "# Copy\n"})):
        repo = Repo(folder / name)
        for path, content in files.items():
            repo.write(path, content)
        repo.commit()
        run_index(config, str(repo.path), name=f"acme/{name}", quiet=True)
    return config


class Client:
    """An MCP client session with a server process, for code that does not await."""

    def __init__(self, portal: BlockingPortal, session: ClientSession | mcp.Client) -> None:
        self.portal, self.session = portal, session

    def tools(self) -> list[Tool]:
        return self.portal.call(self.session.list_tools).tools

    def read(self, uri: str) -> str:
        (content,) = self.portal.call(self.session.read_resource, uri).contents
        assert isinstance(content, TextResourceContents)
        return content.text

    def call(self, tool: str, **arguments: object) -> CallToolResult:
        return self.portal.call(functools.partial(self.session.call_tool, tool, arguments))

    def calls(self, tool: str, arguments: Sequence[dict[str, object]]) -> list[CallToolResult]:
        """Call a tool several times at once."""
        results: dict[int, CallToolResult] = {}

        async def one(number: int, given: dict[str, object]) -> None:
            results[number] = await self.session.call_tool(tool, given)

        async def all_of_them() -> None:
            async with anyio.create_task_group() as group:
                for number, given in enumerate(arguments):
                    group.start_soon(one, number, given)

        self.portal.call(all_of_them)
        return [results[number] for number in range(len(arguments))]


@contextlib.contextmanager
def in_memory(index: Index, *toolsets: str) -> Iterator[Client]:
    """Give a client of a server in this process, by the SDK's in-memory transport."""
    server = build_server(index, toolsets or DEFAULT_TOOLSETS)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(mcp.Client(server)) as opened:
        yield Client(portal, opened)


@contextlib.contextmanager
def connected(errors: Path, *options: str, **variables: str) -> Iterator[Client]:
    """Start ``gitstrata serve`` with these settings and open a session; its standard error goes to ``errors``."""

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[ClientSession]:
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "mcp_tools.cli", "serve", *options], env=environment(**variables)
        )
        with errors.open("a") as log:
            async with stdio_client(parameters, errlog=log) as (read, write), ClientSession(read, write) as opened:
                await opened.initialize()
                yield opened

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(session()) as opened:
        yield Client(portal, opened)


@contextlib.contextmanager
def embedded(home: Path) -> Iterator[EmbeddedServer]:
    """Give the embedded server of a GITSTRATA_HOME, and remove its files at the end; root's are not below the home."""
    server = EmbeddedServer(settings.load({"GITSTRATA_HOME": str(home)}).server_dir)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)


def text_of(result: CallToolResult) -> str:
    """Return the text of an answer or error."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


# --- projects ------------------------------------------------------------------------------------------------------

PROJECTS = {"acme/pay": ["pay"], "acme/web": ["web", "both"], "acme/loose": []}


@pytest.fixture(scope="session")
def filled(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a database with three repositories, two of them in projects."""
    folder = tmp_path_factory.mktemp("team")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database team template template_gitstrata")
    dsn = make_conninfo(server, dbname="team")
    config = settings.load({"GITSTRATA_HOME": str(folder / "home"), "GITSTRATA_DSN": dsn})
    entries = {}
    for name in PROJECTS:
        repo = Repo(folder / name.rpartition("/")[2])
        if name == "acme/pay":
            repo.write("src/charge.py", "class Charge:\n    def settle(self, amount):\n        return amount * 2\n")
        else:
            repo.write("vault/zebra.py", "class ZebraVault:\n    def dazzle(self, stripes):\n        return stripes\n")
            repo.write("src/ledger.py", f"def ledger():\n    return '{name} zebra'\n")
        repo.write("README.md", "# Settle an amount\n")
        repo.commit()
        run_index(config, str(repo.path), name=name, quiet=True)
        if name == "acme/web":
            repo.git("checkout", "-q", "-b", "zebra-branch")
            run_index(config, str(repo.path), rev="zebra-branch", name=name, quiet=True)
        if PROJECTS[name]:
            entry = RepoConfig(name, f"/origin/{name}", projects=tuple(PROJECTS[name])).to_json()
            entries[name] = (str(repo.path), entry)
    with connect(dsn) as connection:
        entries = {name: (stored.origin(connection, name), entry) for name, (_, entry) in entries.items()}
        stored.publish_configuration(connection, "test", Version("", datetime.now(UTC)), entries)
    yield config
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("drop database team with (force)")
