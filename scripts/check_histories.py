"""Random histories, many of them: after every step the database must equal a build from nothing (law 4).

    python scripts/check_histories.py [--count 300] [--steps 8] [--seed 1000]

In one process, with a stub for the model. Prints what a failing history did; exit code 1 if any failed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from psycopg.conninfo import make_conninfo  # noqa: E402

from flows import settings as settings_module  # noqa: E402
from flows.store.connect import Database, connect, open_database  # noqa: E402
from flows.store.embedded import EmbeddedServer  # noqa: E402
from tests.histories import History  # noqa: E402
from tests.servers import temporary_home  # noqa: E402


def main() -> None:
    """Run the histories and count the steps that were taken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    started, taken, failed = time.monotonic(), Counter[str](), 0
    with temporary_home("gs-hist-") as settings:
        conninfo = EmbeddedServer(settings.server_dir).start()
        database, oracle = (_database(conninfo, name) for name in ("history", "oracle"))
        for seed in range(given.seed, given.seed + given.count):
            history = History(random.Random(seed), settings.home / f"repo{seed}", database, oracle, settings)
            try:
                history.run(given.steps)
            except AssertionError:
                failed += 1
                print(f"seed {seed}: differs after {history.log}", flush=True)
            taken.update(history.log)
    seconds = time.monotonic() - started
    print(f"{given.count} histories, {failed} wrong, {seconds:.0f} s; steps: {dict(taken.most_common())}")
    sys.exit(1 if failed else 0)


def _database(conninfo: str, name: str) -> Database:
    with connect(conninfo) as connection:
        connection.execute(f"create database {name}")
    return open_database(settings_module.load({"GITSTRATA_DSN": make_conninfo(conninfo, dbname=name)}))


if __name__ == "__main__":
    main()
