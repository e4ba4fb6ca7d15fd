"""Models through sentence-transformers. Most tests need that extra and are skipped without it."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.embed import load_embedder, transformers
from flows.embed.export import export_sentence_transformer, tokenizer_json
from flows.embed.static import MODEL_FOLDER, StaticEmbedder, read_model
from flows.errors import EmbedderError

ROOT = Path(__file__).parents[2]
TEXTS = [
    "def openFile(path): return open(path).read()",
    "HTTPServer URLs ÀéÎ Ünïcode ΣΑΣ 中文 x" * 30,
    "a",
    "SELECT count(*) FROM account WHERE id = 42;",
]


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("sentence_transformers", reason="needs the extra transformers")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that sentence-transformers loads by its own modules: the shipped table, plainly pooled."""
    library = pytest.importorskip("sentence_transformers", reason="needs the extra transformers")
    modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    tokenizers = importlib.import_module("tokenizers")
    folder = tmp_path_factory.mktemp("exported") / "model"
    _, vocabulary, table = read_model(MODEL_FOLDER)
    static = modules.StaticEmbedding(tokenizers.Tokenizer.from_str(tokenizer_json(vocabulary)), embedding_weights=table)
    library.SentenceTransformer(modules=[static, modules.Normalize()], device="cpu").save_pretrained(str(folder))
    return folder


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", refuse)

    with pytest.raises(EmbedderError, match=r"pip install 'gitstrata\[transformers\]'"):
        load_embedder("owner/model")


def test_shipped_model_needs_only_numpy() -> None:
    code = "import sys; from flows.embed import load_embedder; load_embedder(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert not {"torch", "sentence_transformers", "transformers", "tokenizers", "scipy"}.intersection(
        done.stdout.split()
    )


def test_export_gives_the_same_vectors(library: Any, tmp_path: Path) -> None:
    export_sentence_transformer(tmp_path / "model")
    ours = StaticEmbedder.load()
    theirs = library.SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)

    assert theirs.get_embedding_dimension() == ours.dimension
    texts = [*TEXTS, "read read read_file"]
    np.testing.assert_allclose(theirs.encode(texts), ours.embed_documents(texts), atol=1e-6)


def test_vectors_have_length_one(exported: Path) -> None:
    vectors = load_embedder(str(exported)).embed_documents([*TEXTS, "", "🚀"])

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert load_embedder(str(exported)).embed_documents([]).shape == (0, 256)


def test_prompts_of_the_model_are_used(exported: Path, tmp_path: Path) -> None:
    plain = load_embedder(str(exported))
    folder = Path(shutil.copytree(exported, tmp_path / "prompted"))
    _change(folder / "config_sentence_transformers.json", prompts={"query": "find code: ", "document": ""})
    prompted = load_embedder(str(folder))

    np.testing.assert_array_equal(prompted.embed_query("read"), plain.embed_query("find code: read"))
    np.testing.assert_array_equal(prompted.embed_documents(["read"]), plain.embed_documents(["read"]))
    assert prompted.fingerprint != plain.fingerprint


def test_fingerprint_is_that_of_the_files_wherever_they_are(exported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))

    assert load_embedder(str(copy)).fingerprint == load_embedder(str(exported)).fingerprint


def test_too_many_dimensions(library: Any, tmp_path: Path) -> None:
    modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    tokenizers = importlib.import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    wide = modules.StaticEmbedding(tokenizer, embedding_weights=np.ones((1, 4_001), np.float32))
    library.SentenceTransformer(modules=[wide], device="cpu").save_pretrained(str(tmp_path / "wide"))

    with pytest.raises(EmbedderError, match="has 4001 dimensions, expected 1 to 4000"):
        load_embedder(str(tmp_path / "wide"))


def test_folder_without_a_model(library: Any, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"no sentence-transformers model in .*expected modules\.json"):
        load_embedder(str(tmp_path))


def test_broken_folder(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "broken"))
    (folder / "model.safetensors").write_bytes(b"nothing")

    with pytest.raises(EmbedderError, match="cannot load model") as caught:
        load_embedder(str(folder))

    assert "\n" not in str(caught.value)


def test_name_that_cannot_be_had(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = importlib.import_module("huggingface_hub")

    def offline(name: str, *, timeout: float) -> None:
        raise OSError(f"Name or service not known while asking for {name}")

    monkeypatch.setattr(hub, "model_info", offline)

    with pytest.raises(EmbedderError, match=r"cannot load model none-such: Name or service not known.*; give a folder"):
        load_embedder("none-such")


def test_nan_is_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = load_embedder(str(exported))
    table = embedder._model[0].embedding.weight  # type: ignore[attr-defined]
    table.data.fill_(float("nan"))

    with pytest.raises(EmbedderError, match="returned unusable vectors"):
        embedder.embed_query("read")


def _change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def test_one_text_without_a_vector_concerns_no_other(exported: Path) -> None:
    # P80
    embedder = load_embedder(str(exported))
    table = embedder._model[0].embedding.weight  # type: ignore[attr-defined]
    (row,) = set(embedder._model.tokenize(["zebra"])["input_ids"].tolist())  # type: ignore[attr-defined]
    table.data[row] = float("nan")

    vectors = embedder.embed_documents(["read a file", "zebra", "write"])

    assert np.isfinite(vectors).all(axis=1).tolist() == [True, False, True]


def test_all_prompts_are_in_the_fingerprint(exported: Path) -> None:
    embedder = load_embedder(str(exported))
    before = transformers._fingerprint(embedder._model, "name")  # type: ignore[attr-defined]
    embedder._model.prompts["passage"] = "passage: "  # type: ignore[attr-defined]

    assert transformers._fingerprint(embedder._model, "name") != before  # type: ignore[attr-defined]


def test_a_model_too_large_for_half_precision_runs_in_full(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = load_embedder(str(exported))
    expected = embedder.embed_documents(TEXTS)
    monkeypatch.setattr(embedder, "_halves", True)
    encode = embedder._model.encode_document  # type: ignore[attr-defined]
    overflows = [True, False]

    def overflow(*args: Any, **options: Any) -> Any:
        vectors = encode(*args, **options)
        return np.full_like(vectors, np.inf) if overflows.pop(0) else vectors

    monkeypatch.setattr(embedder._model, "encode_document", overflow)  # type: ignore[attr-defined]

    np.testing.assert_array_equal(embedder.embed_documents(TEXTS), expected)
    assert not overflows and embedder._halves is False  # type: ignore[attr-defined]
