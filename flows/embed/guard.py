"""Keeps a model or provider that misbehaves from spoiling a run: one that hangs, or returns what it should not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

import numpy as np

from flows.embed import Embedder, Vectors
from flows.errors import EmbedderError

BATCH = 256  # texts handed over at once
TIMEOUT = 300.0  # seconds for one batch: a transformer on one slow core needs about 15


def embed(embedder: Embedder, texts: Sequence[str], *, timeout: float = TIMEOUT) -> Vectors:
    """Return float32 of shape (len(texts), dimension); a row may hold NaN where the model had none to give.

    Raises:
        EmbedderError: the model failed, hung, or returned other vectors than it was asked for.
    """
    vectors = np.empty((len(texts), embedder.dimension), np.float32)
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        found = _in_time(embedder, batch, timeout)
        expected = (len(batch), embedder.dimension)
        if found.shape != expected:
            raise EmbedderError(f"{embedder.name} returned vectors of shape {found.shape}, not {expected}")
        vectors[start : start + len(batch)] = found
    return vectors


def _in_time(embedder: Embedder, batch: Sequence[str], timeout: float) -> Vectors:
    """Run one batch in a thread of its own, which is left behind if it never comes back."""
    answer: queue.SimpleQueue[Vectors | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer.put(embedder.embed_documents(batch))
        except BaseException as error:  # handed to the caller's thread
            answer.put(error)

    threading.Thread(target=work, daemon=True, name="embed").start()
    try:
        found = answer.get(timeout=timeout)
    except queue.Empty:
        raise EmbedderError(
            f"{embedder.name} did not answer within {timeout:g} s for {len(batch)} texts: check the model or provider"
        ) from None
    if isinstance(found, EmbedderError):
        raise found
    if isinstance(found, Exception):
        raise EmbedderError(f"{embedder.name} failed: {type(found).__name__}: {found}") from found
    if isinstance(found, BaseException):
        raise found
    return found
