"""The models that a process has loaded. Which one an index uses says the index; see flows/store/models.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flows.embed import Embedder, canonical, load_embedder
from flows.errors import EmbedderError, GitstrataError, SchemaMismatch, UsageError

KEPT = 2  # models in memory: the one in use, and the one that it is being replaced by
RETRY_SECONDS = 30.0  # until a model that could not be loaded is tried again


class Loading(EmbedderError):
    """Another thread has been loading a model for longer than the caller waits."""


class Shelf:
    """Loads models when they are first asked for and keeps the two last used ones. Safe to share between threads.

    ``setting`` is what an index without a model begins with; ``loaded`` is that model, if it is there already.
    """

    def __init__(
        self, setting: str = "", loaded: Embedder | None = None, *, load: Callable[..., Embedder] = load_embedder
    ) -> None:
        self.setting = canonical(setting)
        self._load = load
        self._lock = threading.Lock()
        self._loaded: dict[str, Embedder] = {self.setting: loaded} if loaded is not None else {}
        self._failed: dict[str, tuple[float, GitstrataError]] = {}  # by setting and fingerprint

    def load(self, setting: str) -> Embedder:
        """Return the model that a setting stands for. Raises EmbedderError."""
        with self._lock:
            if setting not in self._loaded:
                self._keep(setting, self._load(setting))
            return self._loaded[setting]

    def find(self, setting: str, fingerprint: str, dimension: int, *, patience: float = -1) -> Embedder:
        """Return a model of which vectors are stored; wait ``patience`` seconds while a thread loads one, or (-1) on.

        Raises:
            Loading: that took longer.
            EmbedderError, UsageError: it cannot be loaded.
            SchemaMismatch: what its setting loads is another model now.
        """
        if not self._lock.acquire(timeout=patience):
            raise Loading("the model is being loaded: ask again in a moment")
        try:
            for key, embedder in self._loaded.items():
                if embedder.fingerprint == fingerprint:
                    self._keep(key, embedder)
                    return embedder
            return self._find_anew(setting, fingerprint, dimension)
        finally:
            self._lock.release()

    def _find_anew(self, setting: str, fingerprint: str, dimension: int) -> Embedder:
        key = f"{setting} {fingerprint}"
        since, known = self._failed.get(key, (0.0, None))
        if known is not None and time.monotonic() - since < RETRY_SECONDS:
            raise known
        try:
            embedder = self._load(setting, dimension=dimension)
            if embedder.fingerprint != fingerprint:
                raise SchemaMismatch(_changed(setting, fingerprint, embedder))
        except (EmbedderError, UsageError) as error:
            self._failed[key] = (time.monotonic(), error)
            raise
        self._keep(setting, embedder)
        return embedder

    def _keep(self, setting: str, embedder: Embedder) -> None:
        """Make a model the last used one, and let go of those that were not used for longest."""
        self._loaded.pop(setting, None)
        self._loaded[setting] = embedder
        while len(self._loaded) > KEPT:
            del self._loaded[next(iter(self._loaded))]


def _changed(setting: str, fingerprint: str, embedder: Embedder) -> str:
    return (
        f"the index has vectors of a model {fingerprint[:12]}, but {setting or 'this version of gitstrata'} has "
        f"{embedder.name} ({embedder.fingerprint[:12]}) now: run `gitstrata model set {setting or 'default'}` to "
        "compute the vectors of that one, or bring the old one back"
    )
