"""Eight repositories synced at once, over and over, while readers search: no deadlock, no error, no half commit.

    python scripts/check_concurrency.py [--seconds 60] [--writers 8] [--readers 4]

Every commit of a repository writes the same number into two files, and most content is the same in all repositories. A
reader that finds two different numbers in one answer has seen half a commit. Exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from flows import git  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.embed import load_embedder  # noqa: E402
from flows.store import read  # noqa: E402
from flows.store.connect import Database, open_database  # noqa: E402
from flows.store.embedded import EmbeddedServer  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools.code_search import code_search  # noqa: E402
from mcp_tools.index import Index  # noqa: E402
from tests.repos import Repo  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

NUMBER = re.compile(r"NUMBER = (\d+)")


def main() -> None:
    """Run writers and readers and add up what they saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=4)
    given = parser.parse_args()
    with temporary_home("gs-conc-") as settings:
        home = str(settings.home)
        conninfo = EmbeddedServer(settings.server_dir).start()
        open_database(settings_module.load({"GITSTRATA_DSN": conninfo})).close()
        context = multiprocessing.get_context("spawn")
        deadline = time.time() + given.seconds
        with context.Pool(given.writers + given.readers) as pool:
            writers = [pool.apply_async(write, (conninfo, home, n, deadline)) for n in range(given.writers)]
            readers = [pool.apply_async(watch, (conninfo, deadline)) for _ in range(given.readers)]
            published = [result.get() for result in writers]
            seen = [result.get() for result in readers]
        deadlocks = server_deadlocks(conninfo)
    errors = [text for result in (*published, *seen) for text in result["errors"]]
    torn = sum(result["torn"] for result in seen)
    print(
        f"{sum(result['commits'] for result in published)} commits published, {sum(r['reads'] for r in seen)} reads, "
        f"{sum(r['searches'] for r in seen)} searches; {torn} half commits, {deadlocks} deadlocks, {len(errors)} errors"
    )
    print("\n".join(errors[:10]))
    sys.exit(1 if torn or deadlocks or errors else 0)


def write(conninfo: str, home: str, number: int, deadline: float) -> dict[str, Any]:
    """Commit and sync one repository until ``deadline``."""
    settings = settings_module.load({"GITSTRATA_HOME": home, "GITSTRATA_DSN": conninfo})
    repo, database, embedder = Repo(Path(home) / f"repo{number}"), Database(conninfo), load_embedder()
    commits, errors = 0, []
    while time.time() < deadline:
        commits += 1
        body = f"NUMBER = {commits}\n\n\ndef shared_{commits % 50}():\n    return {commits % 50}\n"
        repo.write("one.py", body)
        repo.write("two.py", body + f"\n\ndef own_{number}_{commits}():\n    pass\n")
        repo.write(f"many/file{commits % 40}.py", f"def step_{commits % 60}():\n    return {commits % 60}\n")
        repo.commit()
        repository = git.open_repository(repo.path)
        try:
            sync(
                database,
                settings,
                embedder,
                Target(f"team/{number}", repository, git.resolve(repository), make_default=True),
            )
        except Exception as error:
            errors.append(f"writer {number}: {type(error).__name__}: {error}")
    return {"commits": commits, "errors": errors}


def watch(conninfo: str, deadline: float) -> dict[str, Any]:
    """Read both files of every repository in one snapshot, and search, until ``deadline``."""
    reads, searches, torn, errors = 0, 0, 0, []
    with Index(settings_module.load({"GITSTRATA_DSN": conninfo})) as index:
        while time.time() < deadline:
            try:
                with index.snapshot() as connection:
                    ids = [info.branch_id for info in read.branches(connection)]
                    numbers = [_numbers(read.files(connection, ids, path)) for path in ("one.py", "two.py")]
                reads += 1
                torn += numbers[0] != numbers[1]
                if ids:
                    code_search(index, "which function returns the step", limit=5)
                    searches += 1
            except Exception as error:
                errors.append(f"reader: {type(error).__name__}: {error}")
    return {"reads": reads, "searches": searches, "torn": torn, "errors": errors}


def _numbers(files: list[read.FileInfo]) -> dict[int, str]:
    return {file.branch_id: match.group(1) for file in files if (match := NUMBER.search(file.body or ""))}


def server_deadlocks(conninfo: str) -> int:
    """Return how many deadlocks the server has broken."""
    with Database(conninfo).connect() as connection:
        row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    main()
