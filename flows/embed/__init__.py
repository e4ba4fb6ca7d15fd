"""Embedding models: an interface and its implementations. Knows nothing of Postgres or CocoIndex."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from flows.settings import model_key

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


def canonical(setting: str) -> str:
    """Return the form of a model's setting that is stored: "" for the shipped one, an absolute path for a folder."""
    if setting in ("", "default"):
        return ""
    if is_path(setting):
        return str(Path(setting).expanduser().absolute())
    return setting


def is_path(setting: str) -> bool:
    """Say whether a setting is a folder and not the name of a model or an endpoint."""
    return setting.startswith((".", "/", "~")) or Path(setting).is_dir()


def load_embedder(setting: str = "", *, dimension: int = 0) -> Embedder:
    """Load the model that a setting stands for.

    "" or ``default`` is the static model that is shipped; ``https://host/v1#name`` one of an endpoint, which is asked
    for a first vector unless ``dimension`` is known; anything else a folder, or a sentence-transformers model's name.

    Raises:
        EmbedderError: the model is not there, or the extra ``transformers`` is not installed.
        UsageError: the setting cannot be read.
    """
    setting = canonical(setting)
    if not setting:
        from flows.embed.static import StaticEmbedder

        return StaticEmbedder.load()
    if setting.startswith(("https://", "http://")):
        from flows.embed.endpoint import EndpointEmbedder

        return EndpointEmbedder(setting, key=model_key(), dimension=dimension)
    if _is_static(setting):
        from flows.embed.static import StaticEmbedder

        return StaticEmbedder.load(Path(setting))
    from flows.embed.transformers import TransformerEmbedder

    return TransformerEmbedder(setting)


def _is_static(setting: str) -> bool:
    """Say whether a folder holds a static model of ours: one that needs neither torch nor a library."""
    try:
        config = json.loads((Path(setting) / "config.json").read_text(encoding="utf-8"))
        return str(config.get("name", "")).startswith("gitstrata-static-")
    except (OSError, ValueError, AttributeError):
        return False
