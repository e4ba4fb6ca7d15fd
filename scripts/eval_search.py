"""Index the repositories of a query file at their commits and measure what code_search finds.

    .venv/bin/python scripts/eval_search.py QUERIES.jsonl FOLDER [--scope root|whole] [--home DIR] [--limit 10]

A row of the query file: id, repo (owner/name), commit, root, category, query, relevant [{path, start, end}], secondary.
FOLDER holds a bare or other repository for each, as owner+name or owner+name/repo. Prints NDCG@10 (binary gain; the
rank of a target is that of the first row that covers it) by repository and category, their mean, and latency.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from flows import git  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.embed import load_embedder  # noqa: E402
from flows.settings import Settings  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools.code_search import code_search  # noqa: E402
from mcp_tools.index import Index  # noqa: E402

Place = tuple[str, int, int]


def main() -> None:
    """Index, search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scope", choices=("root", "whole"), default="root")
    parser.add_argument("--home", default=tempfile.gettempdir() + "/gs-eval")
    parser.add_argument("--limit", type=int, default=10)
    given = parser.parse_args()
    queries = [json.loads(line) for line in given.queries.read_text().splitlines() if line]
    settings = settings_module.load({"GITSTRATA_HOME": given.home})
    index_all(settings, given.folder, queries)
    scores: dict[str, list[float]] = defaultdict(list)
    by_category: dict[str, list[float]] = defaultdict(list)
    latencies = []
    with Index(settings) as index:
        for query in queries:
            paths = [f"/{query['root']}"] if given.scope == "root" and query.get("root") else []
            began = time.perf_counter()
            rows = code_search(index, query["query"], limit=given.limit, repo=query["repo"], paths=paths).result
            latencies.append(time.perf_counter() - began)
            score = ndcg([_place(row.url) for row in rows], query["relevant"] + query.get("secondary", []), given.limit)
            scores[query["repo"]].append(score)
            by_category[query["category"]].append(score)
    report(scores, by_category, latencies, given.scope)


def index_all(settings: Settings, folder: Path, queries: list[dict[str, Any]]) -> None:
    """Bring every repository of the queries to its commit."""
    embedder = load_embedder()
    with open_database(settings) as database:
        for repo, commit in sorted({(query["repo"], query["commit"]) for query in queries}):
            place = folder / repo.replace("/", "+")
            repository = git.open_repository(place / "repo" if (place / "repo").exists() else place)
            target = Target(repo, repository, git.resolve(repository, commit, branch="eval"), make_default=True)
            done = sync(database, settings, embedder, target)
            print(f"{repo}: {done.outcome}, {done.files.seen} files, {done.chunks.total} chunks", file=sys.stderr)


def _place(url: str) -> Place:
    path, _, lines = url.rpartition("#L")
    start, _, end = lines.partition("-L")
    return path, int(start), int(end or start)


def ndcg(places: list[Place], targets: list[dict[str, Any]], k: int) -> float:
    """Return NDCG@k with binary gain over the ranks at which targets are first covered (1.0 is perfect)."""
    found = {next((n for n, place in enumerate(places, 1) if covers(place, target)), 0) for target in targets} - {0}
    gain = sum(1 / math.log2(rank + 1) for rank in found if rank <= k)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(targets)) + 1))


def covers(place: Place, target: dict[str, Any]) -> bool:
    """Say whether a row's file ends like the target's, and shares a line with it where the target has lines."""
    path, start, end = place
    if path != target["path"] and not path.endswith("/" + target["path"]) and not target["path"].endswith("/" + path):
        return False
    return not target.get("start") or not (end < target["start"] or start > target["end"])


def report(
    scores: dict[str, list[float]], by_category: dict[str, list[float]], latencies: list[float], scope: str
) -> None:
    """Print the tables."""
    for repo, values in sorted(scores.items()):
        print(f"{repo:32} {statistics.mean(values):.3f} ({len(values)})")
    for category, values in sorted(by_category.items()):
        print(f"  {category:30} {statistics.mean(values):.3f} ({len(values)})")
    mean = statistics.mean(statistics.mean(values) for values in scores.values())
    ordered = sorted(latencies)
    p50, p95 = ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.95)] * 1000
    print(
        f"scope {scope}: NDCG@10, mean over {len(scores)} repositories {mean:.3f}; p50 {p50:.0f} ms, p95 {p95:.0f} ms"
    )


if __name__ == "__main__":
    main()
