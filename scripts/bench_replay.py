"""Replay the last commits of repositories, one sync each with nothing kept on disk between them.

    python scripts/bench_replay.py PATH ... [--commits 200] [--json]

Prints for each repository: vectors computed, CPU seconds of the client and its git children per commit (median, p90,
after imports) and CPU seconds of Postgres per commit. Uses the shipped model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench_index import server_cpu_seconds  # noqa: E402

from flows import git  # noqa: E402
from flows.embed import load_embedder  # noqa: E402
from flows.report import Report  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from tests.servers import temporary_home  # noqa: E402


def main() -> None:
    """Replay each repository and print one line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    rows = [replay(path, given.commits) for path in given.paths]
    print(json.dumps(rows, indent=1) if given.as_json else "\n".join(map(line, rows)))


def replay(path: str, count: int) -> dict[str, Any]:
    """Sync the oldest of the last ``count`` first-parent commits, then each later one."""
    repository = git.open_repository(Path(path))
    command = ["git", f"--git-dir={repository.git_dir}", "rev-list", "--first-parent", f"-{count + 1}", "HEAD"]
    commits = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[::-1]
    embedder = load_embedder()
    reports: list[Report] = []
    before = 0.0
    with temporary_home("gs-replay-") as settings, open_database(settings) as database:
        for sha in commits:
            shutil.rmtree(settings.scratch, ignore_errors=True)
            commit = replace(git.resolve(repository, sha), branch="main")
            reports.append(sync(database, settings, embedder, Target("replay", repository, commit)))
            if len(reports) == 1:
                before = server_cpu_seconds(settings)
        server = server_cpu_seconds(settings) - before
    return _row(Path(path), reports[0], reports[1:], server)


def _row(path: Path, first: Report, rest: list[Report], server: float) -> dict[str, Any]:
    cpu = sorted(report.cpu_seconds for report in rest)
    return {
        "repository": path.parent.name if path.name == "repo" else path.name,
        "files": rest[-1].files.seen,
        "chunks": rest[-1].chunks.total,
        "commits": len(rest),
        "outcomes": sorted({report.outcome for report in rest}),
        "vectors_first": first.vectors.computed,
        "vectors_later": sum(report.vectors.computed for report in rest),
        "files_changed": sum(report.files.new for report in rest),
        "cpu_median": round(statistics.median(cpu), 4),
        "cpu_p90": round(cpu[int(len(cpu) * 0.9)], 4),
        "server_cpu_mean": round(server / len(rest), 4),
    }


def line(row: dict[str, Any]) -> str:
    """Return a replay as one line."""
    return (
        f"{row['repository']}: {row['files']} files, {row['chunks']} chunks, {row['commits']} commits "
        f"{row['outcomes']}, {row['files_changed']} files changed; vectors {row['vectors_first']} first, "
        f"{row['vectors_later']} later; client CPU s a commit: median {row['cpu_median']}, p90 {row['cpu_p90']}; "
        f"Postgres mean {row['server_cpu_mean']}"
    )


if __name__ == "__main__":
    main()
