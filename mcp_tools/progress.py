"""Progress for people: a bar on a terminal, a plain line every few seconds elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flows.sync import Progress

EVERY = 5.0  # seconds between plain lines


@contextmanager
def shown(label: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Give a callback that shows how far a run is."""
    if quiet:
        yield lambda stage, done, total: None
    elif sys.stderr.isatty():
        with _bar(label) as update:
            yield update
    else:
        yield _Lines(label)


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5) as bar:
        task = bar.add_task(label, total=None)

        def update(stage: str, done: int, total: int) -> None:
            bar.update(task, description=f"{label}: {stage}", completed=done, total=total or None)

        yield update


class _Lines:
    """Prints stage, share, rate and time left at most every EVERY seconds, without carriage returns."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stage = ""
        self._began = self._last = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began = stage, now
        if now - self._last < EVERY:
            return
        self._last = now
        rate = done / max(now - self._began, 1e-9)
        left = f", about {(total - done) / rate:.0f} s left" if total and rate else ""
        print(f"{self._label}: {stage} {done} of {total or '?'}, {rate:.0f}/s{left}", file=sys.stderr, flush=True)
