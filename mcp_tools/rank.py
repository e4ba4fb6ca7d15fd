"""From two pools of hits to one list: reciprocal rank fusion, rules, then one row a place and few rows a file.

Everything here is a pure function with a total order: the same hits give the same list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.store.read import Hit
from mcp_tools import rules
from mcp_tools.rules import Question

POOL = 200  # texts that each list contributes; 200 measured better than 50 and 100
RRF_K = 60  # Cormack, Clarke, Büttcher 2009: score = sum over lists of weight / (k + rank)
WEIGHTS = {"near": 1.0, "worded": 1.0}
COHERENCE = 0.4  # of what the file's next best rows score, added to its best one
COHERENT_ROWS = 3
FILE_CAP = 3  # rows a file
FILE_DECAY = 0.5  # of the n-th row of a file: n - 1 times


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit and its final score."""

    hit: Hit
    score: float


def rank(hits: Iterable[Hit], question: Question) -> list[Ranked]:
    """Return hits best first: each text once, no two overlapping places, at most FILE_CAP rows a file."""
    fused = one_place_a_text(sorted((Ranked(hit, fuse(hit)) for hit in hits), key=_order))
    weighed = [Ranked(row.hit, row.score * rules.factor(row.hit, question)) for row in fused]
    apart = drop_overlaps(sorted(weighed, key=_order))
    return saturate_files(sorted(cohere(apart), key=_order))


def fuse(hit: Hit) -> float:
    """Return the reciprocal rank fusion of a hit's ranks."""
    near = WEIGHTS["near"] / (RRF_K + hit.near) if hit.near else 0.0
    worded = WEIGHTS["worded"] / (RRF_K + hit.worded) if hit.worded else 0.0
    return near + worded


def _order(row: Ranked) -> tuple[float, str, int, int]:
    return -row.score, row.hit.path, row.hit.branch_id, row.hit.ord


def one_place_a_text(rows: Sequence[Ranked]) -> list[Ranked]:
    """Keep the first place of each text: copies of a file, in branches and forks too, say nothing new."""
    first: dict[int, Ranked] = {}
    for row in rows:
        first.setdefault(row.hit.text_id, row)
    return list(first.values())


def drop_overlaps(rows: Sequence[Ranked]) -> list[Ranked]:
    """Keep the better of two rows that share lines: a method over its class, or the class over its method."""
    kept: list[Ranked] = []
    taken: dict[tuple[int, str], list[Hit]] = {}
    for row in rows:
        hit = row.hit
        others = taken.setdefault((hit.branch_id, hit.path), [])
        if all(hit.start_line > other.end_line or hit.end_line < other.start_line for other in others):
            others.append(hit)
            kept.append(row)
    return kept


def cohere(rows: Sequence[Ranked]) -> list[Ranked]:
    """Add to each file's best row a share of its next best ones: a file that answers in several places is the place."""
    files: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        files.setdefault((row.hit.branch_id, row.hit.path), []).append(row.score)
    seen: set[tuple[int, str]] = set()
    result = []
    for row in rows:
        file = (row.hit.branch_id, row.hit.path)
        bonus = COHERENCE * sum(files[file][1 : 1 + COHERENT_ROWS]) if file not in seen else 0.0
        seen.add(file)
        result.append(Ranked(row.hit, row.score + bonus))
    return result


def saturate_files(rows: Sequence[Ranked]) -> list[Ranked]:
    """Let each further row of a file count half as much as the one before, and cap them."""
    counts: dict[tuple[int, str], int] = {}
    kept = []
    for row in rows:
        file = (row.hit.branch_id, row.hit.path)
        n = counts.get(file, 0)
        counts[file] = n + 1
        if n < FILE_CAP:
            kept.append(Ranked(row.hit, row.score * FILE_DECAY**n))
    return sorted(kept, key=_order)
