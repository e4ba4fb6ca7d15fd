"""The static model: a text is the sum of its pieces' vectors by the root of their counts. Numpy only, package data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from flows.embed import Vectors
from flows.embed.wordpiece import WordPiece
from flows.errors import EmbedderError

MODEL_FOLDER = Path(__file__).parent / "model"
CODE_VERSION = 2
"""Part of the fingerprint: raise it whenever the code here or in wordpiece.py changes any vector."""

_CONFIG, _VOCABULARY, _ROWS, _SCALES = "config.json", "vocab.txt", "rows.npy", "scales.npy"


class StaticEmbedder:
    """Embeds documents and queries alike: sum of piece vectors times the root of their counts, scaled to length 1.

    A vector depends on its own text only, bit for bit, whatever else is in the batch. A text without any known piece
    gets the same fixed vector as any other such text.
    """

    def __init__(self, vocabulary: Sequence[str], table: Vectors, *, name: str, fingerprint: str) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.dimension = int(table.shape[1])
        self._pieces = WordPiece(vocabulary)
        self._table = table

    @classmethod
    def load(cls, directory: Path | None = None) -> Self:
        """Load a model folder, by default the shipped one. Raises EmbedderError."""
        folder = directory or MODEL_FOLDER
        try:
            config, vocabulary, table = read_model(folder)
            name, settings = str(config["name"]), json.dumps([CODE_VERSION, config], sort_keys=True)
        except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
            raise EmbedderError(f"cannot load the static model in {folder}: {_reason(error)}; reinstall it") from error
        return cls(vocabulary, table, name=name, fingerprint=hashlib.sha256(settings.encode()).hexdigest())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimension), each row of length 1."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            self._embed(text, row)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimension,), length 1."""
        return self.embed_documents([text]).reshape(self.dimension)

    def _embed(self, text: str, row: Vectors) -> None:
        # np.add.reduce and not a matrix product: its result does not depend on threads or memory alignment.
        pieces, counts = np.unique(self._pieces.ids(text), return_counts=True)
        np.add.reduce(self._table.take(pieces, axis=0) * np.sqrt(counts, dtype=np.float32)[:, None], axis=0, out=row)
        length = np.sqrt(np.add.reduce(row * row))
        if length > 0:
            row /= length
        else:
            row.fill(self.dimension**-0.5)


def read_model(folder: Path) -> tuple[dict[str, Any], list[str], Vectors]:
    """Return the settings, the pieces and their float32 vectors. Raises OSError, ValueError, KeyError and the like."""
    config: dict[str, Any] = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    vocabulary = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")[:-1]
    rows: npt.NDArray[np.int8] = np.load(folder / _ROWS, mmap_mode="r", allow_pickle=False)
    scales: npt.NDArray[np.float32] = np.load(folder / _SCALES, allow_pickle=False)
    expected = (len(vocabulary), config["dimension"])
    if rows.dtype != np.int8 or rows.shape != expected or scales.shape != (len(vocabulary), 1):
        raise ValueError(f"{_ROWS} is {rows.dtype} {rows.shape}, expected int8 {expected}")
    table: Vectors = np.array(rows, dtype=np.float32)  # a plain array: memory maps are slow to slice
    table *= scales
    return config, vocabulary, table


def write_model(folder: Path, vocabulary: Sequence[str], table: Vectors, *, recipe: dict[str, object]) -> str:
    """Write a model folder with rows rounded to 8 bits; return the digest of its files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    largest = np.abs(table).max(axis=1, keepdims=True)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    np.save(folder / _ROWS, np.rint(table / scales).astype(np.int8))
    np.save(folder / _SCALES, scales)
    (folder / _VOCABULARY).write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8", newline="\n")
    config = {
        "name": f"gitstrata-static-{table.shape[1]}",
        "dimension": table.shape[1],
        "pooling": "sum over distinct pieces of vector times square root of count; weights are in the vectors",
        "normalisation": "length 1",
        "storage": "rows.npy int8 times scales.npy float32",
        "recipe": recipe,
        "digest": files_digest(folder),
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / _CONFIG).write_text(text, encoding="utf-8", newline="\n")
    return files_digest(folder)


def files_digest(folder: Path) -> str:
    """Return the sha256 over vocabulary, rows and scales, which ``config.json`` records as ``digest``."""
    digest = hashlib.sha256()
    for name in (_VOCABULARY, _ROWS, _SCALES):
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    text = f"no {error}" if isinstance(error, KeyError) else str(getattr(error, "strerror", None) or error)
    return " ".join(text.split()) or type(error).__name__
