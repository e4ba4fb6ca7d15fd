"""Kill an indexing run at random points, run it again, and compare everything the database shows with a clean build.

    python scripts/check_crashes.py PATH [--kills 30] [--terminations 30] [--seed 1]

A *kill* is SIGKILL to the client and its children; a *termination* ends all its backends in Postgres. After each, a
second run must end as done, and the database must equal the clean one in every row. Each trial has its own database.
Exit code 1 if any differs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import psycopg  # noqa: E402
from psycopg import sql  # noqa: E402
from psycopg.conninfo import make_conninfo  # noqa: E402

from flows import settings as settings_module  # noqa: E402
from flows.store.connect import Database, open_database  # noqa: E402
from flows.store.embedded import EmbeddedServer  # noqa: E402
from tests.published import published  # noqa: E402
from tests.servers import temporary_home  # noqa: E402


def main() -> None:
    """Run all trials and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--terminations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with temporary_home("gs-crash-") as settings:
        trials = Trials(EmbeddedServer(settings.server_dir).start(), settings.home, given.path)
        bad = trials.run(given.kills, given.terminations, random.Random(given.seed))
    print(f"{given.kills} kills and {given.terminations} terminations: {bad or 'no'} wrong states")
    sys.exit(1 if bad else 0)


class Trials:
    """Trials on one repository, each in a database of its own."""

    def __init__(self, conninfo: str, home: Path, path: str) -> None:
        self._conninfo, self._home, self._path = conninfo, home, path

    def run(self, kills: int, terminations: int, chance: random.Random) -> int:
        """Return how many trials ended wrong."""
        clean = self._database("clean")
        started = time.monotonic()
        self._index(clean).wait()
        whole = time.monotonic() - started
        expected = published(clean)
        print(f"clean run: {whole:.1f} s, {sum(map(len, expected.values()))} files", flush=True)
        kinds = [("kill", self._kill)] * kills + [("terminate", self._terminate)] * terminations
        return sum(
            self._trial(n, kind, fault, chance.uniform(0.4, whole), expected) for n, (kind, fault) in enumerate(kinds)
        )

    def _trial(
        self, n: int, kind: str, fault: Callable[[subprocess.Popen[bytes], str], None], at: float, expected: object
    ) -> int:
        database = self._database(f"trial_{n}")
        process = self._index(database)
        time.sleep(at)
        ended = process.poll() is not None
        fault(process, f"trial_{n}")
        first = process.wait()
        shown = published(database)
        torn = bool(shown) and shown != expected
        second = self._index(database).wait()
        same = published(database) == expected
        good = same and second == 0 and not torn
        where = "after its end" if ended else "before anything was shown" if not shown else "after the publish"
        print(f"{kind} at {at:.2f} s, {where}: exit {first}, then {second}; {'equal' if good else 'WRONG'}", flush=True)
        self._drop(f"trial_{n}")
        return 0 if good else 1

    def _kill(self, process: subprocess.Popen[bytes], name: str) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def _terminate(self, process: subprocess.Popen[bytes], name: str) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])

    def _database(self, name: str) -> Database:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return open_database(settings_module.load({"GITSTRATA_DSN": make_conninfo(self._conninfo, dbname=name)}))

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def _index(self, database: Database) -> subprocess.Popen[bytes]:
        environment = os.environ | {"GITSTRATA_HOME": str(self._home), "GITSTRATA_DSN": database.conninfo}
        command = [sys.executable, "-m", "mcp_tools.cli", "index", self._path, "--name", "trial", "--json"]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        )


if __name__ == "__main__":
    main()
