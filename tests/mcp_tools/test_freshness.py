"""A server that stays up: what is published is seen by the next call, and a database that goes away comes back."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import settings
from flows.errors import DatabaseError
from flows.store.connect import Database, open_database
from flows.store.embedded import EmbeddedServer
from mcp_tools import access
from mcp_tools.index import Index
from mcp_tools.search_code import search_code
from tests.conftest import Indexer
from tests.repos import Repo
from tests.servers import temporary_home
from tests.stubs import StubEmbedder

SENTENCE = re.compile(r"the database is unreachable since \d\d:\d\d:\d\d UTC \(.+\): try again in a moment")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of our own, to be killed."""
    with temporary_home("gs-fresh-") as config:
        server = EmbeddedServer(config.server_dir)
        server.start()
        yield server


def kill(server: EmbeddedServer) -> None:
    """End the server as a machine that fails does."""
    pid = int(next(server.directory.rglob("postmaster.pid")).read_text().split("\n")[0])
    os.kill(pid, signal.SIGKILL)
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)


def test_a_publish_is_seen_by_the_next_call(index: Indexer, repo: Repo, reader: Index) -> None:
    repo.write("a.py", "first = 1\n")
    repo.commit()
    index(repo, name="r")
    assert search_code(reader, "first").totals.matches == 1
    repo.write("a.py", "second = 2\n")
    repo.commit()
    index(repo, name="r")
    assert search_code(reader, "first").totals.matches == 0
    assert search_code(reader, "second").totals.matches == 1


def test_projects_that_change_count_from_the_next_call_on(
    index: Indexer, repo: Repo, reader: Index, database: Database
) -> None:
    repo.write("a.py", "first = 1\n")
    repo.commit()
    index(repo, name="r")
    with access.granted(access.Access("ada", ("shop",))):
        assert search_code(reader, "first").result == []
        with database.connect() as connection:
            connection.execute("insert into configuration (source, sha, version_at) values ('s', '', now())")
            connection.execute("""update repo set source = 's', config = '{"projects": ["shop", "other"]}'""")
        assert [row.repo for row in search_code(reader, "first").result] == ["r"]
        with database.connect() as connection:
            connection.execute("""update repo set config = '{"projects": ["other"]}'""")
        assert search_code(reader, "first").result == []


def test_a_server_that_is_killed_and_comes_back_gives_no_wrong_answer(postgres: EmbeddedServer, tmp_path: Path) -> None:
    config = settings.load({"GITSTRATA_HOME": str(tmp_path / "home"), "GITSTRATA_DSN": postgres.start()})
    embedder = StubEmbedder()
    with open_database(config) as database:
        repo = Repo(tmp_path / "repo")
        for number in range(20):
            repo.write(f"step{number}.py", f"def step_{number}(queue):\n    return queue.pop({number})\n")
        repo.commit()
        Indexer(database, config, embedder)(repo, name="r")
    answers: set[str] = set()
    failures: list[tuple[float, BaseException]] = []
    good: list[float] = []
    done = threading.Event()
    with Index(config, embedder=embedder) as index:

        def ask() -> None:
            while not done.is_set():
                try:
                    answers.add(search_code(index, "queue", limit=50).model_dump_json())
                    good.append(time.monotonic())
                except BaseException as error:
                    failures.append((time.monotonic(), error))

        reference = search_code(index, "queue", limit=50)
        clients = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for _ in range(2):
                time.sleep(1)
                kill(postgres)
                time.sleep(3)
                postgres.start()
                back = time.monotonic()
                while not good or good[-1] < back:
                    assert time.monotonic() < back + 30, failures[-1:]
                    time.sleep(0.05)
            time.sleep(1)
        finally:
            done.set()
        for client in clients:
            client.join(30)
            assert not client.is_alive()
    ages = re.compile(r"\d+ \w+ ago|indexed [^\"]*")
    assert {ages.sub("", answer) for answer in answers} == {ages.sub("", reference.model_dump_json())}
    assert failures
    assert all(isinstance(error, DatabaseError) for _, error in failures), [repr(error) for _, error in failures]
    assert all(SENTENCE.fullmatch(str(error)) for _, error in failures), {str(error) for _, error in failures}
    assert max(good) > max(at for at, _ in failures)  # the last word was an answer
    assert len({str(error).partition(" UTC")[0] for _, error in failures}) <= 4  # "since" is of each outage
