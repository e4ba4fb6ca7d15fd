"""Measure exact search by kind of pattern: wall and CPU time of client and database, beside ripgrep on the same files.

    python scripts/bench_grep.py [--repo NAME] [--checkout FOLDER] [--rounds 3]

Without --repo all indexed repositories are searched. ``--checkout`` names a folder that holds the files, for ``rg -c``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flows import settings
from flows.store import read
from flows.store.pieces import TEXT
from mcp_tools.index import Index
from mcp_tools.search_code import search_code

SEED = 7
DRAWN = 20  # identifiers
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{13,30}")
KINDS: dict[str, list[str]] = {
    "common words": ["return", "import", "self", "error", "function", "value", "the", "static", "None", "if"],
    "expressions with text": [
        r"def \w+_handler", r"class \w+Error\b", r"fn \w+<T>", r"raise \w+Error\(", r"#include <sys/\w+",
        r"\bTODO\b.*fix",
        r"import (os|sys|re)$", r"return (true|false);", r"async (fn|def) \w+", r"if \w+ == nullptr",
    ],
    "punctuation": ["->next", "!= nil", "()->", "=> {", "[0]", "++i", "&&", "->", "::<", "**kwargs"],
    "little to go by": [
        r"\d{5}", r"[A-Z]{12}", r"^\s+x$", r"\w+\s+\w+\s+q", r"[^\x00-\x7f]{4}", "e", ".*", r"^$", "z", "--",
    ],
}  # fmt: skip


def drawn(index: Index, repo: str) -> list[str]:
    """Return identifiers of some length from texts in scope, by a fixed seed."""
    draw = random.Random(SEED)
    with index.snapshot() as connection:
        branches = [info.branch_id for info in read.branches(connection, repo)]
        oids = [row[0] for row in connection.execute(
            "select distinct oid from file where branch_id = any(%s) and cut_id is not null order by 1", [branches]
        )]  # fmt: skip
        chosen = draw.sample(oids, min(len(oids), 4 * DRAWN))
        bodies = connection.execute(f"select {TEXT} from blob b where oid = any(%s) order by oid", [chosen]).fetchall()
    found = [names for (body,) in bodies if (names := sorted(set(_IDENTIFIER.findall(body))))]
    return [draw.choice(names) for names in found[:DRAWN]]


def server_cpu(index: Index) -> float:
    """Return the CPU seconds of the index's connections, which may become more; 0 on another machine."""
    with index.snapshot() as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and application_name = 'gitstrata'"
        ).fetchall()
    total = 0
    for (pid,) in rows:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return total / 1e9


def timed(action: Callable[[], object], index: Index, rounds: int) -> tuple[float, float, float]:
    """Return the least wall time of some rounds, and the mean CPU time of client and database, in milliseconds."""
    action()
    walls = []
    server, client = server_cpu(index), time.process_time()
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        walls.append(time.perf_counter() - start)
    client = time.process_time() - client
    return min(walls) * 1e3, client / rounds * 1e3, (server_cpu(index) - server) / rounds * 1e3


def ripgrep(pattern: str, folder: str) -> float:
    """Return the wall time of ripgrep in milliseconds."""
    start = time.perf_counter()
    subprocess.run(["rg", "-c", "--no-ignore", "--hidden", "-e", pattern, folder], capture_output=True, check=False)
    return (time.perf_counter() - start) * 1e3


def percentiles(values: list[float]) -> str:
    """Return median and 95th percentile."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):8.1f} {ordered[max(0, round(0.95 * len(ordered)) - 1)]:8.1f}"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", default="")
    parser.add_argument("--checkout", default="")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    beside = bool(given.checkout and shutil.which("rg"))
    with Index(settings.load()) as index:
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(
            f"{'kind':24}{'wall p50':>9}{'p95':>9}{'client':>9}{'p95':>9}{'server':>9}{'p95':>9}{'rg p50':>9}{'p95':>9}"
        )
        for kind, patterns in {"identifiers": drawn(index, given.repo), **KINDS}.items():
            literal = kind in ("punctuation", "identifiers", "common words")
            calls = [partial(search_code, index, p, repo=given.repo, literal=literal, limit=30) for p in patterns]
            rows = [timed(call, index, given.rounds) for call in calls]
            walls, client, server = (percentiles(list(column)) for column in zip(*rows, strict=True))
            other = [ripgrep(re.escape(p) if literal else p, given.checkout) for p in patterns] if beside else []
            print(f"{kind:24}{walls} {client} {server} {percentiles(other) if other else ''}")
            inexact = [p for p in patterns if not search_code(index, p, repo=given.repo, literal=literal).totals.exact]
            if inexact:
                print(f"    at least so many: {' '.join(inexact)}")


if __name__ == "__main__":
    main()
