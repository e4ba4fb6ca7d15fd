"""Index the repositories of a query file at their commits, measure what code_search finds, and what each rule is worth.

    .venv/bin/python scripts/eval_search.py QUERIES.jsonl FOLDER [--home DIR] [--model NAME] [--ablate]

docs/evaluation.md describes query files and figures. FOLDER holds a bare or other repository for each, as owner+name or
owner+name/repo. Figures are given for all repositories and for two halves of them, every second one by name: constants
are chosen on the first half, the second half only reports. With --ablate each signal and rule is left out in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from flows import git  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.settings import Settings  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools import code_search, evaluation, rank, rules, scope  # noqa: E402
from mcp_tools.code_search import Found  # noqa: E402
from mcp_tools.evaluation import Place, Query  # noqa: E402
from mcp_tools.index import Index  # noqa: E402

SCOPES = ("root", "whole")
RULES = ("defines", "is_called_so", "mentions", "says_symbol", "says_path", "stands_aside")


def _alone(pool: str) -> dict[str, Any]:
    return {
        "WEIGHTS": {name: float(name == pool) for name in rank.WEIGHTS},
        "SHARE": 0.0,
        "PAST": 0.0,
        "COHERENCE": 0.0,
        "COHERENCE_OF_NAMES": 0.0,
        "factors": lambda hits, _question: [1.0] * len(hits),
    }


WITHOUT: dict[str, dict[str, Any]] = {  # name of what is left out -> attributes of rank, and of rules, to change
    "meaning": {"WEIGHTS": {**rank.WEIGHTS, "near": 0.0}},
    "words": {"WEIGHTS": {**rank.WEIGHTS, "worded": 0.0}, "SHARE": 0.0},
    "share of the best word score": {"SHARE": 0.0},
    "definitions by name": {"WEIGHTS": {**rank.WEIGHTS, "named": 0.0}},
    "files as a whole": {"WEIGHTS": {**rank.WEIGHTS, "file": 0.0}},
    "history": {"PAST": 0.0},
    "coherence": {"COHERENCE": 0.0, "COHERENCE_OF_NAMES": 0.0},
    "saturation": {"FILE_DECAY": 1.0},
    **{f"rule {name}": {name: lambda _hit, _question: 1.0} for name in RULES},
    "all rules": {"factors": lambda hits, _question: [1.0] * len(hits)},
    "all but words (BM25 alone)": _alone("worded"),
    "all but meaning (vectors alone)": _alone("near"),
}
RESAMPLES = 2_000


def main() -> None:
    """Index, search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", default=tempfile.gettempdir() + "/gs-eval", help="the index is kept here")
    parser.add_argument("--model", default="", help="the model that a new index begins with")
    parser.add_argument("--ablate", action="store_true", help="leave each signal and rule out in turn")
    given = parser.parse_args()
    queries = evaluation.read_queries(given.queries)
    settings = settings_module.load({"GITSTRATA_HOME": given.home, "GITSTRATA_MODEL": given.model})
    index_all(settings, given.folder, queries)
    with Index(settings) as index:
        for where in SCOPES if any(query.root for query in queries) else SCOPES[1:]:
            found = {query.id: look_up(index, query, where) for query in queries}
            print_scope(where, queries, found)
            if given.ablate:
                print_ablation(queries, found)


def index_all(settings: Settings, folder: Path, queries: Sequence[Query]) -> None:
    """Bring every repository of the queries to its commit."""
    from flows.embed.shelf import Shelf

    shelf = Shelf(settings.model)
    with open_database(settings) as database:
        for repo, commit in sorted({(query.repo, query.commit) for query in queries}):
            place = folder / repo.replace("/", "+")
            repository = git.open_repository(place / "repo" if (place / "repo").exists() else place)
            target = Target(repo, repository, git.resolve(repository, commit, branch="eval"), make_default=True)
            done = sync(database, settings, shelf, target)
            if done.outcome != "unchanged":
                print(f"{repo}: {done.outcome}, {done.files.seen} files, {done.chunks.total} chunks", file=sys.stderr)


def look_up(index: Index, query: Query, where: str) -> Found:
    """Return what a query finds, before it is ranked."""
    text = code_search.check_query(query.query)
    paths = [f"/{query.root}"] if where == "root" and query.root else []
    with index.search(text) as search:
        assert search.model is not None
        filters = scope.resolve(search.connection, repo=query.repo, paths=paths).filters
        return code_search.gather(search, search.model, filters, text)


def scores(queries: Sequence[Query], found: Mapping[str, Found]) -> dict[str, float]:
    """Return NDCG@10 by query."""
    result = {}
    for query in queries:
        rows = found[query.id].ranked()[: evaluation.K]
        places = [Place(row.hit.path, row.hit.start_line, row.hit.end_line) for row in rows]
        result[query.id] = evaluation.ndcg(places, query.targets)
    return result


def means(queries: Sequence[Query], values: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the mean over repositories: of all, of the half that chooses, of the half that reports."""
    by_repo: dict[str, list[float]] = defaultdict(list)
    for query in queries:
        by_repo[query.repo].append(values[query.id])
    each = [statistics.mean(by_repo[repo]) for repo in sorted(by_repo)]
    return statistics.mean(each), statistics.mean(each[::2]), statistics.mean(each[1::2] or each)


def print_scope(where: str, queries: Sequence[Query], found: Mapping[str, Found]) -> None:
    """Print the figures of one scope."""
    values = scores(queries, found)
    for key in ("repo", "category"):
        for name in sorted({getattr(query, key) for query in queries}):
            some = [values[query.id] for query in queries if getattr(query, key) == name]
            print(f"  {name or 'none':34} {statistics.mean(some):.3f} ({len(some)})")
    every, choosing, reporting = means(queries, values)
    print(
        f"scope {where}: NDCG@10, mean of repositories {every:.3f};"
        f" choosing half {choosing:.3f}, reporting half {reporting:.3f}",
        flush=True,
    )


def print_ablation(queries: Sequence[Query], found: Mapping[str, Found]) -> None:
    """Print what leaving something out changes, with the standard error of the paired difference."""
    base = scores(queries, found)
    print("| without | all | choosing | reporting | change | standard error |\n| --- | --- | --- | --- | --- | --- |")
    for name, changes in WITHOUT.items():
        with changed(changes):
            values = scores(queries, found)
        all_, choosing, reporting = means(queries, values)
        change = all_ - means(queries, base)[0]
        error = standard_error([values[query.id] - base[query.id] for query in queries])
        print(f"| {name} | {all_:.3f} | {choosing:.3f} | {reporting:.3f} | {change:+.3f} | {error:.3f} |", flush=True)


def standard_error(differences: Sequence[float]) -> float:
    """Return the bootstrap standard error of a mean of paired differences."""
    random = np.random.default_rng(1)
    drawn = random.choice(np.array(differences), (RESAMPLES, len(differences)))
    return float(drawn.mean(axis=1).std())


@contextlib.contextmanager
def changed(attributes: Mapping[str, Any]) -> Iterator[None]:
    """Change attributes of the rank or rules module while the block runs."""
    kept = {name: (rank if hasattr(rank, name) else rules) for name in attributes}
    before = {name: getattr(module, name) for name, module in kept.items()}
    try:
        for name, module in kept.items():
            setattr(module, name, attributes[name])
        yield
    finally:
        for name, module in kept.items():
            setattr(module, name, before[name])


if __name__ == "__main__":
    main()
