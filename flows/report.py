"""What a run did: the counts and seconds that every summary, JSON report and run history shows."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["done", "unchanged", "partial", "superseded", "planned", "ignored", "failed"]


@dataclass(slots=True)
class Files:
    seen: int = 0
    new: int = 0
    removed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Chunks:
    total: int = 0
    added: int = 0
    reused: int = 0
    removed: int = 0
    by_level: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class VectorCounts:
    computed: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a branch is in one language."""

    files: int = 0
    chunks: int = 0


@dataclass(slots=True)
class Forecast:
    """What only a plan says. Bytes, tokens and seconds are estimates, the others exact."""

    languages: dict[str, Share] = field(default_factory=dict)  # of the branch afterwards
    largest: dict[str, int] = field(default_factory=dict)  # of the new files that are indexed: path -> bytes
    characters: int = 0  # of the texts to embed
    tokens: int = 0
    bytes: int = 0  # that Postgres grows by
    seconds: float = 0.0


@dataclass(slots=True)
class Report:
    """One run on one branch. ``seconds`` are wall seconds by stage; ``cpu_seconds`` count this process and its git
    children; ``peak_memory_mb`` is this process's largest resident size.
    """

    repo: str
    branch: str
    commit: str = ""
    outcome: Outcome = "failed"
    files: Files = field(default_factory=Files)
    chunks: Chunks = field(default_factory=Chunks)
    vectors: VectorCounts = field(default_factory=VectorCounts)
    healed: int = 0  # broken cuts that were written anew
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    peak_memory_mb: float = 0.0
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    forecast: Forecast | None = None  # of a dry run

    def to_json(self) -> dict[str, Any]:
        """Return the report as the command line prints it."""
        value = asdict(self)
        if self.forecast is None:
            del value["forecast"]
        return value

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the wall seconds of the block to ``seconds[name]``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)


def cpu_seconds() -> float:
    """Return user and system seconds of this process and its ended children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_memory_mb() -> float:
    """Return the largest resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
