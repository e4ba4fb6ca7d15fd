"""A generated repository of many files: first index, no change, one file, many renames.

    python scripts/bench_scale.py [--files 50000]

About two chunks a file. CPU is the client's and its git children's, after imports; Postgres's stands beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench_index import server_cpu_seconds  # noqa: E402

from flows import git  # noqa: E402
from flows.embed import load_embedder  # noqa: E402
from flows.report import Report  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

IDENTITY = ["-c", "user.name=Ann Example", "-c", "user.email=ann@example.com"]


def main() -> None:
    """Measure each kind of change and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    count = parser.parse_args().files
    with temporary_home("gs-scale-") as settings, open_database(settings) as database:
        work = settings.home / "repo"
        _generate(work, count)
        repository, embedder = git.open_repository(work), load_embedder()
        for name, change in (("first", None), ("no change", None), ("one file", _edit), ("1,000 renames", _rename)):
            if change:
                change(work)
            before = server_cpu_seconds(settings)
            report = sync(database, settings, embedder, Target("scale", repository, git.resolve(repository)))
            print(line(name, report, server_cpu_seconds(settings) - before), flush=True)


def line(name: str, report: Report, server: float) -> str:
    """Return one run as one line."""
    return (
        f"{name}: {report.outcome}; files +{report.files.new} -{report.files.removed} of {report.files.seen}; "
        f"chunks {report.chunks.total}; vectors computed {report.vectors.computed}; CPU s: client "
        f"{report.cpu_seconds}, Postgres {server:.2f}; wall {report.seconds}; peak {report.peak_memory_mb} MB"
    )


def _git(work: Path, *arguments: str, stdin: bytes = b"") -> None:
    subprocess.run(["git", "-C", str(work), *IDENTITY, *arguments], input=stdin, check=True, capture_output=True)


def _generate(work: Path, count: int) -> None:
    """Commit ``count`` small Python files by fast-import."""
    work.mkdir()
    _git(work, "init", "-q", "-b", "main")
    parts = [b"commit refs/heads/main\ncommitter Ann Example <ann@example.com> 1700000000 +0000\ndata 5\nfirst\n"]
    for n in range(count):
        body = (
            f'def compute_{n}(value):\n    """Return value {n} times {n % 97}."""\n    return value * {n} + {n % 97}\n'
        )
        parts.append(f"M 100644 inline pkg{n // 1000}/mod{n}.py\ndata {len(body)}\n{body}\n".encode())
    _git(work, "fast-import", "--quiet", stdin=b"".join(parts))
    _git(work, "reset", "-q", "--hard")


def _edit(work: Path) -> None:
    (work / "pkg0" / "mod7.py").write_text("def compute_7(value):\n    return value - 7\n")
    _git(work, "commit", "-qam", "one file")


def _rename(work: Path) -> None:
    _git(work, "mv", "pkg1", "renamed")
    _git(work, "commit", "-qam", "rename")


if __name__ == "__main__":
    main()
