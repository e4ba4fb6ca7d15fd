"""Since when something has not answered, so that every caller hears the same sentence."""

from __future__ import annotations

import threading
from datetime import UTC, datetime


class Outage:
    """The first failure after the last success. Safe to share between threads."""

    def __init__(self, what: str = "the database is unreachable") -> None:
        self._what = what
        self._lock = threading.Lock()
        self._since: datetime | None = None

    def ended(self) -> None:
        """Note that it has answered."""
        if self._since is not None:
            with self._lock:
                self._since = None

    def describe(self, cause: str) -> str:
        """Note a failure and return what to say of it."""
        with self._lock:
            self._since = self._since or datetime.now(UTC)
            since = self._since
        return f"{self._what} since {since:%H:%M:%S} UTC ({cause}): try again in a moment"
