"""The only stand-in of the suite: an embedder that counts its calls and fails on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from flows.embed import Vectors

DIMENSION = 16


class StubEmbedder:
    """Hashes words into a few dimensions: equal texts give equal vectors, shared words give near ones."""

    def __init__(self, fingerprint: str = "5" * 64, *, name: str = "stub", dimension: int = DIMENSION) -> None:
        self.fingerprint, self.name, self.dimension = fingerprint, name, dimension
        self.texts: list[str] = []
        self.spoil: Callable[[Sequence[str], Vectors], Vectors] | None = None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        vectors = np.stack([self.embed_query(text) for text in texts])
        return self.spoil(texts, vectors) if self.spoil else vectors

    def embed_query(self, text: str) -> Vectors:
        vector = np.full(self.dimension, 1e-3, np.float32)
        for word in text.lower().split():
            vector[hashlib.blake2b(word.encode(), digest_size=1).digest()[0] % self.dimension] += 1
        return vector / np.linalg.norm(vector)
