"""Which places this process gave out, and of which content: lines mean little once a newer commit is published."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

REMEMBERED = 10_000  # places: about 300 bytes each


@dataclass(frozen=True, slots=True)
class Given:
    """What a place was when it was given out last."""

    cut_id: int
    commit: str


class Seen:
    """Places by branch and url, the oldest forgotten first. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[tuple[int, str], Given] = OrderedDict()

    def give(self, branch_id: int, url: str, cut_id: int, commit: str) -> None:
        """Remember a place that an answer names."""
        with self._lock:
            self._places[branch_id, url] = Given(cut_id, commit)
            self._places.move_to_end((branch_id, url))
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)

    def last(self, branch_id: int, url: str) -> Given | None:
        """Return what a place was when it was given out, if it was."""
        with self._lock:
            return self._places.get((branch_id, url))
