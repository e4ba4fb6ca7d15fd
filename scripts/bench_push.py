"""Measures the way of a push: from `git push` of a one-file commit to a search that finds it, with the job's start.

    python scripts/bench_push.py REPOSITORY [--pushes N]

REPOSITORY is any git repository on disk; it is copied. Postgres is an embedded one in a folder that is removed at the
end, and runs already, as a team's does. Each job has a checkout of depth 1 and an empty disk. CPU seconds are those of
the job and its children, without Postgres.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flows import settings
from flows.store.connect import open_database

ROOT = Path(__file__).resolve().parent.parent
AUTHOR = ["-c", "user.name=Bench", "-c", "user.email=bench@example.com"]


def git(folder: Path, *arguments: str) -> str:
    """Run git and return what it printed."""
    done = subprocess.run(["git", "-C", str(folder), *AUTHOR, *arguments], capture_output=True, check=True)
    return done.stdout.decode(errors="replace").strip()


def measured(command: list[str], cwd: Path, env: dict[str, str]) -> tuple[float, float, str]:
    """Run a command; return its wall seconds, its CPU seconds and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def main() -> None:
    """Set up a remote, index it, push, and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--pushes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gitstrata-push-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        kept = settings.load({"GITSTRATA_HOME": str(folder / "server")})
        try:
            with open_database(kept) as database:
                run(folder, options.repository, options.pushes, database.conninfo)
        finally:
            shutil.rmtree(kept.server_dir, ignore_errors=True)


def run(folder: Path, repository: Path, pushes: int, dsn: str) -> None:
    """Measure a first sync and some pushes."""
    git(folder, "clone", "-q", "--bare", str(repository), "remote.git")
    git(folder, "clone", "-q", "remote.git", "work")
    branch = git(folder / "work", "symbolic-ref", "--short", "HEAD")
    program = folder / "gitstrata"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m mcp_tools.cli "$@"\n')
    program.chmod(0o755)
    (folder / "repos.d").mkdir()
    (folder / "repos.d" / "app.yaml").write_text(f"name: app\nurl: {(folder / 'remote.git').as_uri()}\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GITSTRATA_BIN": str(program), "GITSTRATA_DSN": dsn}
    ci = str(ROOT / "scripts" / "ci")
    for command in (["config"], ["config"], ["nightly", "repos.d"]):
        wall, cpu, _ = measured([ci, *command], folder, env)
        print(f"scripts/ci {' '.join(command):16} {wall:6.1f} s wall {cpu:6.1f} s CPU", flush=True)
    for number in range(pushes):
        start = time.perf_counter()
        (folder / "work" / "bench_push.py").write_text(
            f"def pushed_number_{number}(value):\n    return value + {number}\n"
        )
        git(folder / "work", "add", "-A")
        git(folder / "work", "commit", "-q", "-m", "push")
        git(folder / "work", "push", "-q", "origin", branch)
        checkout = folder / f"checkout-{number}"
        git(folder, "clone", "-q", "--depth", "1", (folder / "remote.git").as_uri(), str(checkout))
        sha = git(checkout, "rev-parse", "HEAD")
        told = {"GITSTRATA_CI_BRANCH": branch, "GITSTRATA_CI_COMMIT": sha}
        before = time.perf_counter() - start
        wall, cpu, output = measured([ci, "push", "app"], checkout, env | told)
        asked, asked_cpu, found = measured([str(program), "search", f"pushed_number_{number}", "-n", "1"], folder, env)
        assert f"pushed_number_{number}" in found, found
        stages = re.search(r"seconds +(.*); peak", output)
        print(
            f"push {number}: commit, push and checkout {before:.1f} s; job {wall:.1f} s wall {cpu:.2f} s CPU"
            f" ({stages.group(1) if stages else ''}); first search {asked:.1f} s wall {asked_cpu:.2f} s CPU",
            flush=True,
        )


if __name__ == "__main__":
    main()
