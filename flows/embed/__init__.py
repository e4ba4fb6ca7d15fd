"""Embedding models: an interface and its implementations. Knows nothing of Postgres or CocoIndex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors.

    ``fingerprint`` changes whenever any vector could: model files, revision, prompts, length limit, pooling,
    normalisation. Documents and queries may be embedded differently.
    """

    @property
    def name(self) -> str:
        """Human-readable name, for status and errors."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything a vector depends on, besides the text."""

    @property
    def dimension(self) -> int:
        """Length of each vector, 1 to 4,000."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimension), each row of length 1. Raises EmbedderError."""

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimension,), length 1. Raises EmbedderError."""


def load_embedder(model: str = "") -> Embedder:
    """Load the shipped static model ("") or a sentence-transformers model by name or folder.

    Raises:
        EmbedderError: the model is not there, or the extra ``transformers`` is not installed.
    """
    if not model:
        from flows.embed.static import StaticEmbedder

        return StaticEmbedder.load()
    from flows.embed.transformers import TransformerEmbedder

    return TransformerEmbedder(model)
