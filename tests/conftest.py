"""Real servers and real repositories: one embedded Postgres a worker, a fresh database a test."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows import git, settings, urls
from flows.past import BUDGET
from flows.report import Report
from flows.select import Rules
from flows.settings import Settings
from flows.store.connect import Database, open_database
from flows.store.embedded import EmbeddedServer
from flows.sync import Target, sync
from tests.repos import Repo
from tests.servers import temporary_home
from tests.stubs import StubEmbedder

_numbers = itertools.count()
# A suite that was started in the background ignores SIGINT, and so would every program that the tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Write what comes out to the golden files.")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The embedded server of this worker, with a migrated template database; gives its conninfo."""
    with temporary_home("gs-test-") as config:
        conninfo = EmbeddedServer(config.server_dir).start()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("create database template_gitstrata")
        dsn = make_conninfo(conninfo, dbname="template_gitstrata")
        open_database(settings.load({"GITSTRATA_DSN": dsn})).close()
        yield conninfo


@pytest.fixture
def database(server: str) -> Iterator[Database]:
    """An empty, migrated database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template_gitstrata").format(sql.Identifier(name)))
        yield Database(make_conninfo(server, dbname=name))
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def config(database: Database, tmp_path: Path) -> Settings:
    """Settings that point at ``database``."""
    return settings.load({"GITSTRATA_HOME": str(tmp_path / "gitstrata"), "GITSTRATA_DSN": database.conninfo})


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


class Indexer:
    """Indexes repositories the way the command line does, with a stub for the model."""

    def __init__(self, database: Database, config: Settings, embedder: StubEmbedder) -> None:
        self.database, self.config, self.embedder = database, config, embedder
        self.history = BUDGET

    def __call__(
        self,
        path: Path | Repo,
        rev: str = "",
        *,
        name: str = "",
        rules: Rules | None = None,
        default: bool | None = None,
        verify: bool = False,
    ) -> Report:
        self.embedder.texts.clear()
        repository = git.open_repository(path.path if isinstance(path, Repo) else path)
        target = Target(
            name or urls.short_name(repository.origin),
            repository,
            git.resolve(repository, rev),
            rules or Rules(),
            make_default=not rev if default is None else default,
            rename=bool(name),
            history=self.history,
            verify=verify,
        )
        return sync(self.database, self.config, self.embedder, target)


@pytest.fixture
def index(database: Database, config: Settings, embedder: StubEmbedder) -> Indexer:
    return Indexer(database, config, embedder)
