"""Index repositories from nothing and again, and print what it cost.

    python scripts/bench_index.py PATH[@REVISION] ... [--json]

For each repository: files, chunks by level, wall seconds by stage, CPU seconds of the client and of Postgres, chunks
per CPU second, peak memory, database size; then the same of a second run, which changes nothing. Each repository gets
an embedded server and a home of its own in a temporary folder, and each run a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from flows.settings import Settings  # noqa: E402
from flows.store.connect import Database, open_database  # noqa: E402
from tests.servers import temporary_home  # noqa: E402


def main() -> None:
    """Measure each repository and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", metavar="PATH[@REVISION]")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    rows = [row for repository in given.repositories for row in measure(*repository.partition("@")[::2])]
    print(json.dumps(rows, indent=1) if given.as_json else "\n".join(map(line, rows)))


def measure(path: str, revision: str) -> list[dict[str, Any]]:
    """Return one row for the first run on ``path`` and one for the second."""
    with temporary_home("gs-bench-") as settings, open_database(settings) as database:
        return [_run(database, settings, path, revision, name) for name in ("first", "unchanged")]


def _run(database: Database, settings: Settings, path: str, revision: str, run: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mcp_tools.cli", "index", path, "--json", "--name", Path(path).resolve().name]
    before, start = server_cpu_seconds(settings), time.perf_counter()
    done = subprocess.run(
        [*command, *(["--rev", revision] if revision else [])],
        cwd=PROJECT,
        env=_environment(settings),
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - start
    if not done.stdout:
        sys.exit(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    with database.connect() as connection:
        size = connection.execute("select pg_database_size(current_database())").fetchone()
    return report | {
        "run": run,
        "process_seconds": round(wall, 2),
        "server_cpu_seconds": round(server_cpu_seconds(settings) - before, 2),
        "database_mb": round(size[0] / 1e6, 1) if size else 0,
    }


def _environment(settings: Settings) -> dict[str, str]:
    import os

    return os.environ | {"GITSTRATA_HOME": str(settings.home), "GITSTRATA_DSN": ""}


def server_cpu_seconds(settings: Settings) -> float:
    """Return user and system seconds of the embedded server, ended backends included (Linux; 0 elsewhere)."""
    from flows.store.embedded import EmbeddedServer

    postmaster = EmbeddedServer(settings.server_dir).status().pid
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / 100


def line(row: dict[str, Any]) -> str:
    """Return one run as a few lines of text."""
    chunks, files, vectors = row["chunks"], row["files"], row["vectors"]
    cpu = row["cpu_seconds"]
    rate = f"{chunks['added'] / cpu:.0f} chunks per CPU s" if chunks["added"] and cpu else "no chunk written"
    return (
        f"{row['repo']} {row['commit'][:10]} {row['run']}: {row['outcome']}\n"
        f"  files {files['seen']} (skipped {sum(files['skipped'].values())}), chunks {chunks['total']} "
        f"{chunks['by_level']}, vectors computed {vectors['computed']}\n"
        f"  process {row['process_seconds']} s wall; stages {row['seconds']}\n"
        f"  CPU s: client {cpu}, server {row['server_cpu_seconds']}; {rate}; peak {row['peak_memory_mb']} MB; "
        f"database {row['database_mb']} MB"
    )


if __name__ == "__main__":
    main()
