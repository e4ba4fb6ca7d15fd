"""How good answers are: a query file is searched and scored. docs/evaluation.md describes file and figures.

A row of the file is a JSON object: ``id``, ``repo``, ``query``, ``relevant`` [{path, start, end}], and optionally
``secondary`` (likewise), ``category``, ``language``, ``root`` (search only this folder), ``commit``.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.errors import UsageError

K = 10
BUDGETS = (500, 1_000, 2_000, 4_000)  # tokens that a reader spends on the answer's rows, best first
CHARS_A_TOKEN = 4
BYTES = 50_000_000  # of a query file


class Target(BaseModel):
    """A place that answers: a file, or lines of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    path: str = Field(min_length=1)
    start: int | None = Field(default=None, ge=0)
    end: int | None = Field(default=None, ge=0)


class Query(BaseModel):
    """A row of a query file."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    id: str = Field(min_length=1)
    repo: str = Field(min_length=1)
    query: str = Field(min_length=1)
    relevant: list[Target]
    secondary: list[Target] = []
    category: str = ""
    language: str = ""
    root: str = ""
    commit: str = ""

    @property
    def targets(self) -> list[Target]:
        """All places that count."""
        return [*self.relevant, *self.secondary]


@dataclass(frozen=True, slots=True)
class Place:
    """Lines that an answer points to, and how many tokens its row takes."""

    path: str
    start: int
    end: int
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """What one query got."""

    query: Query
    ndcg: float
    recall: float
    reciprocal_rank: float
    by_budget: dict[int, float]  # recall of what fits into so many tokens
    milliseconds: float = 0.0


def read_queries(path: Path) -> list[Query]:
    """Read a query file; raises UsageError with the line that is wrong."""
    try:
        if path.stat().st_size > BYTES:
            raise UsageError(f"{path} is larger than {BYTES // 1_000_000} MB: split it")
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
    queries: dict[str, Query] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            query = _query(f"{path}, line {number}", line)
            if query.id in queries:
                raise UsageError(f"{path}, line {number}: the id {query.id!r} is there already")
            queries[query.id] = query
    if not queries:
        raise UsageError(f"{path} has no query")
    return list(queries.values())


def _query(where: str, line: str) -> Query:
    try:
        query = Query.model_validate(json.loads(line))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: no JSON object: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{where}: {'.'.join(map(str, first['loc'])) or 'row'}: {first['msg']}") from error
    if not query.targets:
        raise UsageError(f"{where}: relevant is empty: nothing could be found")
    return query


def covers(place: Place, target: Target) -> bool:
    """Say whether a row's file ends like the target's, and shares a line with it where the target has lines."""
    ours, theirs = place.path, target.path
    if ours != theirs and not ours.endswith("/" + theirs) and not theirs.endswith("/" + ours):
        return False
    if target.start is None or target.end is None:
        return True
    return place.end >= target.start and place.start <= target.end


def first_ranks(places: Sequence[Place], targets: Iterable[Target]) -> list[int]:
    """Return, for each target that is found, the rank (from 1) of the first row that covers it."""
    ranks = (next((n for n, place in enumerate(places, 1) if covers(place, target)), 0) for target in targets)
    return [rank for rank in ranks if rank]


def ndcg(places: Sequence[Place], targets: Sequence[Target], k: int = K) -> float:
    """Return NDCG@k with binary gain over the ranks at which targets are first covered (1.0 is perfect).

    Järvelin and Kekäläinen 2002. Two targets that one row covers count once; a file's second row earns nothing.
    """
    gain = sum(1 / math.log2(rank + 1) for rank in set(first_ranks(places, targets)) if rank <= k)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(targets)) + 1))


def score(query: Query, places: Sequence[Place], milliseconds: float = 0.0) -> Score:
    """Score one answer; none at all scores 0."""
    targets, top = query.targets, places[:K]
    ranks = first_ranks(top, targets)
    spent, budgets = 0, dict.fromkeys(BUDGETS, 0.0)
    for number, place in enumerate(places, 1):
        spent += place.tokens
        for budget in BUDGETS:
            if spent <= budget:
                budgets[budget] = len(first_ranks(places[:number], targets)) / len(targets)
    return Score(
        query,
        ndcg(top, targets),
        len(ranks) / len(targets),
        1 / min(ranks) if ranks else 0.0,
        budgets,
        milliseconds,
    )


def run(queries: Sequence[Query], search: Callable[[Query], Sequence[Place]]) -> list[Score]:
    """Search and score all queries."""
    scores = []
    for query in queries:
        began = time.perf_counter()
        places = search(query)
        scores.append(score(query, places, (time.perf_counter() - began) * 1000))
    return scores


def report(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the means of all queries, and by repository, category and language; latencies in milliseconds."""
    times = sorted(item.milliseconds for item in scores)
    groups = {key: _grouped(scores, key) for key in ("repo", "category", "language")}
    return {
        "all": _means(scores),
        "ndcg_mean_of_repositories": round(statistics.mean(g["ndcg"] for g in groups["repo"].values()), 4),
        "latency_ms": {f"p{p}": round(times[min(len(times) - 1, len(times) * p // 100)], 1) for p in (50, 95, 99)},
        **{f"by_{key}": group for key, group in groups.items()},
    }


def _grouped(scores: Sequence[Score], key: str) -> dict[str, dict[str, Any]]:
    names = sorted({getattr(item.query, key) for item in scores})
    return {name or "none": _means([s for s in scores if getattr(s.query, key) == name]) for name in names}


def _means(scores: Sequence[Score]) -> dict[str, Any]:
    return {
        "queries": len(scores),
        "ndcg": round(statistics.mean(s.ndcg for s in scores), 4),
        "recall": round(statistics.mean(s.recall for s in scores), 4),
        "mrr": round(statistics.mean(s.reciprocal_rank for s in scores), 4),
        "recall_by_tokens": {
            str(budget): round(statistics.mean(s.by_budget[budget] for s in scores), 4) for budget in BUDGETS
        },
    }


def text(found: dict[str, Any]) -> str:
    """Return a report as a table."""
    lines = [f"{'':32} queries  NDCG@10  recall     MRR  " + "  ".join(f"@{budget} tok" for budget in BUDGETS)]
    for title, group in (("all", {"all": found["all"]}), *((k, found[f"by_{k}"]) for k in _KEYS)):
        lines += [] if title == "all" else [f"by {title}"]
        lines += [_line(name, row) for name, row in group.items()]
    latency = ", ".join(f"{name} {value:g} ms" for name, value in found["latency_ms"].items())
    return "\n".join([*lines, f"mean of repositories: NDCG@10 {found['ndcg_mean_of_repositories']:.3f}; {latency}"])


_KEYS = ("repo", "category", "language")


def _line(name: str, row: dict[str, Any]) -> str:
    budgets = "  ".join(f"{row['recall_by_tokens'][str(b)]:>{len(str(b)) + 5}.3f}" for b in BUDGETS)
    head = f"{name[:32]:32} {row['queries']:7}  {row['ndcg']:7.3f}"
    return f"{head}  {row['recall']:6.3f}  {row['mrr']:6.3f}  {budgets}"
