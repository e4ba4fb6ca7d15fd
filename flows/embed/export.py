"""Writes the static model as a sentence-transformers folder, for tools that read that format. Needs extra ``train``."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

from flows.embed.static import MODEL_FOLDER, read_model
from flows.embed.wordpiece import CAMEL_PATTERN, CONTINUATION, LOWER_WORD_PATTERN, MARKS_PATTERN, MAX_WORD_CHARS
from flows.errors import EmbedderError


def tokenizer_json(vocabulary: Sequence[str]) -> str:
    """Return a Hugging Face ``tokenizer.json`` that splits texts as flows.embed.wordpiece does.

    Its first piece stands for unknown words, which the static model leaves out: that piece's vector is zero.
    """
    normalizers = [
        {"type": "NFD"},
        {"type": "Replace", "pattern": {"Regex": MARKS_PATTERN}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": CAMEL_PATTERN}, "content": " "},
        {"type": "Lowercase"},
    ]
    words = {"type": "Split", "pattern": {"Regex": LOWER_WORD_PATTERN}, "behavior": "Removed", "invert": True}
    model = {
        "type": "WordPiece",
        "unk_token": vocabulary[0],
        "continuing_subword_prefix": CONTINUATION,
        "max_input_chars_per_word": MAX_WORD_CHARS,
        "vocab": {piece: number for number, piece in enumerate(vocabulary)},
    }
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": words,
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": False},
        "model": model,
    }
    return json.dumps(tokenizer, ensure_ascii=False)


def export_sentence_transformer(directory: Path, model: Path = MODEL_FOLDER) -> None:
    """Write ``model`` as a folder that sentence-transformers loads, with the same vectors.

    ``SentenceTransformer(folder, trust_remote_code=True)``: its own static module counts a repeated piece in full, so
    the folder names ``flows.embed.counted.CountedEmbedding`` of this package instead. Only a text without any known
    piece differs: zeros there, a fixed unit vector here. Raises EmbedderError.
    """
    try:
        library = importlib.import_module("sentence_transformers")
        modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
        tokenizers = importlib.import_module("tokenizers")
    except ImportError as error:
        raise EmbedderError(f"the export needs {error.name}: run pip install 'gitstrata[train]'") from error
    _, vocabulary, table = read_model(model)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(vocabulary))
    counted = importlib.import_module("flows.embed.counted")
    static = counted.CountedEmbedding(tokenizer, embedding_weights=table)
    library.SentenceTransformer(modules=[static, modules.Normalize()], device="cpu").save_pretrained(str(directory))
