"""From pools of hits to one list: reciprocal rank fusion, rules, then one row a place and few rows a file.

Everything here is a pure function with a total order: the same hits give the same list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from flows.store.read import Hit
from mcp_tools import rules
from mcp_tools.rules import Question

POOL = 200  # texts that each list contributes; 200 measured better than 50 and 100
RRF_K = 60  # Cormack, Clarke, Büttcher 2009: score = sum over lists of weight / (k + rank)
WEIGHTS = {"near": 1.0, "worded": 1.0, "named": 1.0, "file": 0.5}
SHARE = 0.5  # of its word score compared with the best one: ranks do not say that nothing else has the words
PAST = 2.0  # of what earlier commits of a file say of the question, 0 to 1
PATH = 0.3  # of the likeness of a file's path, added to that of its text
COHERENCE = 0.4  # of what the file's next best rows score, added to its best one
COHERENCE_OF_NAMES = 0.04  # ... where one name is asked for: its definition is in one place
COHERENT_ROWS = 3
FILE_CAP = 3  # rows a file
FILE_DECAY = 0.5  # of the n-th row of a file: n - 1 times


@dataclass(slots=True)  # not frozen: that would make the thousand of a search two and a half times as dear
class Ranked:
    """A hit and its score."""

    hit: Hit
    score: float


def rank(
    hits: Iterable[Hit],
    question: Question,
    likeness: Mapping[int, float] | None = None,
    past: Mapping[tuple[int, str], float] | None = None,
) -> list[Ranked]:
    """Return hits best first: each text once, no two overlapping places, at most FILE_CAP rows a file.

    ``likeness`` says of files, by their cuts, how alike they are to the question as a whole, ``past``, by branch and
    path, what earlier commits of them say of it.
    """
    weighed = weigh(one_place_a_text(fuse(hits, likeness or {}, past or {})), question)
    share = COHERENCE_OF_NAMES if question.is_identifier else COHERENCE
    files = by_file(sorted(weighed, key=_order))
    kept = [rows if len(rows) == 1 else saturate(drop_overlaps(cohere(rows, share))) for rows in files]
    return sorted(chain.from_iterable(kept), key=_order)


def add_named(hits: Iterable[Hit], named: Iterable[Hit]) -> list[Hit]:
    """Return both, each place once: definitions that were found by name keep their ranks in the other pools."""
    places = {(hit.branch_id, hit.path, hit.ord): hit for hit in hits}
    for hit in named:
        place = (hit.branch_id, hit.path, hit.ord)
        found = places.get(place)
        if found is None:
            places[place] = hit
        elif not found.named:
            places[place] = replace(found, named=hit.named, symbol=hit.symbol, signature=hit.signature)
    return list(places.values())


def leading_files(hits: Iterable[Hit], most: int) -> list[Hit]:
    """Return the best hit of each of the ``most`` best files, by the pools alone."""
    best: dict[int, Hit] = {}
    for row in fuse(hits, {}, {}):
        best.setdefault(row.hit.cut_id, row.hit)
        if len(best) == most:
            break
    return list(best.values())


def fuse(hits: Iterable[Hit], likeness: Mapping[int, float], past: Mapping[tuple[int, str], float]) -> list[Ranked]:
    """Return hits by reciprocal rank fusion of their ranks in the pools, of their files' likeness and of their past."""
    order = sorted(likeness.values(), reverse=True)
    files = {cut_id: order.index(value) + 1 for cut_id, value in likeness.items()}  # equals share a rank

    near, worded, named, file = (WEIGHTS[pool] for pool in ("near", "worded", "named", "file"))

    def score(hit: Hit) -> float:
        fused = near / (RRF_K + hit.near) if hit.near else 0.0
        fused += worded / (RRF_K + hit.worded) if hit.worded else 0.0
        fused += named / (RRF_K + hit.named) if hit.named else 0.0
        of_file = files.get(hit.cut_id)
        fused += file / (RRF_K + of_file) if of_file else 0.0
        return fused + (SHARE * hit.share + PAST * past.get((hit.branch_id, hit.path), 0.0)) / RRF_K

    return sorted((Ranked(hit, score(hit)) for hit in hits), key=_order)


def _order(row: Ranked) -> tuple[float, str, int, int]:
    return -row.score, row.hit.path, row.hit.branch_id, row.hit.ord


def one_place_a_text(rows: Sequence[Ranked]) -> list[Ranked]:
    """Keep the first place of each text: copies of a file, in branches and forks too, say nothing new."""
    first: dict[int, Ranked] = {}
    for row in rows:
        first.setdefault(row.hit.text_id, row)
    return list(first.values())


def weigh(rows: Sequence[Ranked], question: Question) -> list[Ranked]:
    """Multiply scores by what the rules say."""
    factors = rules.factors([row.hit for row in rows], question)
    return [Ranked(row.hit, row.score * factor) for row, factor in zip(rows, factors, strict=True)]


def by_file(rows: Iterable[Ranked]) -> Iterable[list[Ranked]]:
    """Return the rows of each file, in their order."""
    files: dict[tuple[int, str], list[Ranked]] = {}
    for row in rows:
        files.setdefault((row.hit.branch_id, row.hit.path), []).append(row)
    return files.values()


def cohere(rows: Sequence[Ranked], share: float = COHERENCE) -> list[Ranked]:
    """Add to a file's best row a share of its next best ones: a file that answers in several places is the place.

    Rows that share lines count, too: a method, its class and its file that all answer say more than the method alone.
    """
    best, *others = rows
    return [Ranked(best.hit, best.score + share * sum(row.score for row in others[:COHERENT_ROWS])), *others]


def drop_overlaps(rows: Sequence[Ranked]) -> list[Ranked]:
    """Keep the better of two rows of a file that share lines: a method over its class, or the class over its method."""
    best, *others = rows
    kept = [best]
    for row in others:
        hit = row.hit
        if all(hit.start_line > other.hit.end_line or hit.end_line < other.hit.start_line for other in kept):
            kept.append(row)
    return kept


def saturate(rows: Sequence[Ranked]) -> list[Ranked]:
    """Let each further row of a file count half as much as the one before, and cap them."""
    return [Ranked(row.hit, row.score * FILE_DECAY**n) for n, row in enumerate(rows[:FILE_CAP])]
