"""Any sentence-transformers model by name or folder. The library (extra ``transformers``) is imported at first use."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.embed import Vectors, is_path
from flows.errors import EmbedderError, NoSuchModel

MAX_DIMENSION = 4_000  # what halfvec of pgvector holds
CODE_VERSION = 2
"""Part of the fingerprint: raise it whenever the code here changes any vector."""

_BATCH = 32  # measured: on a CPU larger batches fall out of the cache


class TransformerEmbedder:
    """Embeds with a sentence-transformers model, on CUDA or MPS if there is one, else on the CPU.

    The library sorts texts by length, cuts them at the model's own limit, and puts the model's query or document
    prompt before them where it has one. On CUDA the matrix products run in half precision; what that changes is less
    than what the database rounds away, so that machines with and without a GPU may fill one index.
    """

    def __init__(self, name_or_folder: str) -> None:
        """Load the model. Raises EmbedderError: no library, no such model, or vectors too long for the database."""
        self.name = name_or_folder
        self._model = _load(name_or_folder)
        self.dimension = _dimension(self._model, name_or_folder)
        self.fingerprint = _fingerprint(self._model, name_or_folder)
        self._device = self._model.device.type
        self._halves = self._device == "cuda"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimension), each row of length 1, or NaN where the model has none.

        Raises EmbedderError.
        """
        vectors = self._embed(self._model.encode_document, texts)
        if len(texts) and not np.isfinite(vectors).any():
            raise EmbedderError(f"model {self.name} returned unusable vectors: check its files")
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimension,), length 1. Raises EmbedderError."""
        vectors = self._embed(self._model.encode_query, [text])
        if not np.isfinite(vectors).all():
            raise EmbedderError(f"model {self.name} returned unusable vectors: check its files")
        return vectors.reshape(self.dimension)

    def _embed(self, encode: Any, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        vectors = self._encode(encode, texts)
        if self._halves and not np.isfinite(vectors).all():
            self._halves = False  # a model whose numbers are too large for half precision
            vectors = self._encode(encode, texts)
        if vectors.shape != (len(texts), self.dimension):
            raise EmbedderError(f"model {self.name} returned vectors of shape {vectors.shape}: check its files")
        lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
        # A text without any known token has no direction: give it a fixed one.
        units: Vectors = np.divide(
            vectors, lengths, out=np.full_like(vectors, self.dimension**-0.5), where=lengths != 0
        )
        return units

    def _encode(self, encode: Any, texts: Sequence[str]) -> Vectors:
        try:
            with self._precision():
                found = encode(list(texts), batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True)
        except (RuntimeError, ValueError, IndexError) as error:  # out of memory, a device lost, an unusable tokenizer
            raise EmbedderError(f"model {self.name} failed on {len(texts)} texts: {_one_line(error)}") from error
        return np.asarray(found, np.float32)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if not self._halves:
            return contextlib.nullcontext()
        torch = importlib.import_module("torch")
        precision: contextlib.AbstractContextManager[Any] = torch.autocast(self._device, dtype=torch.float16)
        return precision


def _load(name: str) -> Any:
    if is_path(name):
        _check_folder(Path(name).expanduser())  # before the library: it would not help there
    try:
        library = importlib.import_module("sentence_transformers")
        importlib.import_module("transformers.utils.logging").disable_progress_bar()
    except ImportError as error:
        raise EmbedderError(
            f"model {name} needs sentence-transformers: run pip install 'gitstrata[transformers]', or set `default`, "
            "the shipped one"
        ) from error
    try:
        if is_path(name):
            return library.SentenceTransformer(str(Path(name).expanduser()), local_files_only=True)
        return _from_hub(library, name)
    except Exception as error:  # the loaders behind it raise whatever they like: network, JSON, missing code, torch
        raise EmbedderError(
            f"cannot load model {name}: {_one_line(error)}; give a folder, or a name that this machine can download"
        ) from error


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise NoSuchModel(f"{folder} is no folder: name one that holds a model")
    if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
        raise NoSuchModel(f"no sentence-transformers model in {folder}: expected modules.json or config.json there")


def _from_hub(library: Any, name: str) -> Any:
    """Load from the machine's cache, else from the hub. A name without owner is one of sentence-transformers' own."""
    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return library.SentenceTransformer(full, local_files_only=True)
    except OSError:  # not in the cache
        # One question with a short timeout first: the loader itself retries for more than a minute when offline.
        importlib.import_module("huggingface_hub").model_info(full, timeout=10)
        return library.SentenceTransformer(full)


def _dimension(model: Any, name: str) -> int:
    dimension = model.get_embedding_dimension()
    if not dimension or dimension > MAX_DIMENSION:
        raise EmbedderError(f"model {name} has {dimension} dimensions, expected 1 to {MAX_DIMENSION}: choose another")
    return int(dimension)


def _fingerprint(model: Any, name: str) -> str:
    settings = {
        "code": CODE_VERSION,
        "content": _content(model, name),
        "default_prompt": model.default_prompt_name,
        "dimension": model.get_embedding_dimension(),
        "max_length": model.max_seq_length if np.isfinite(model.max_seq_length or 0) else None,
        "modules": [type(module).__name__ for module in model],
        "normalisation": "length 1",
        "prompts": dict(model.prompts),
        "truncation": getattr(getattr(model, "tokenizer", None), "truncation_side", "right"),
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _content(model: Any, name: str) -> str:
    """Return what identifies the weights: hashes of the files, or name and commit, or a hash of the loaded weights."""
    if is_path(name):
        return _folder_digest(Path(name).expanduser())
    commit = getattr(getattr(getattr(model[0], "auto_model", None), "config", None), "_commit_hash", None)
    return f"{name}@{commit}" if commit else _weights_digest(model)


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts) and path.name != "README.md":
            with path.open("rb") as stream:
                digest.update(f"{relative.as_posix()} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _weights_digest(model: Any) -> str:
    torch = importlib.import_module("torch")
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _one_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
