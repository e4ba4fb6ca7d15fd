"""The shipped model: vectors of length 1, the same in any batch, sensible neighbours, clear errors."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from flows.embed import load_embedder
from flows.embed.static import MODEL_FOLDER, StaticEmbedder, files_digest
from flows.errors import EmbedderError

READ_FILE = """def load_text(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()"""
ROUTE = """@app.route("/users/<int:user_id>", methods=["GET"])
def get_user(user_id):
    return jsonify(service.find_user(user_id))"""
RETRY = """async function retry(call, attempts, delayMs) {
  for (let i = 0; i < attempts; i++) {
    try { return await call(); } catch (error) { await sleep(delayMs * 2 ** i); }
  }
}"""
POOL = """func (p *Pool) Acquire(ctx context.Context) (*Conn, error) {
    p.mu.Lock()
    defer p.mu.Unlock()
    return p.idle.pop(), nil
}"""
SQL = """CREATE TABLE account (id bigint PRIMARY KEY, email text NOT NULL UNIQUE);
CREATE INDEX account_email ON account (email);"""
PASSWORD = """public boolean verify(String password, byte[] salt, byte[] hash) {
    return MessageDigest.isEqual(pbkdf2(password, salt), hash);
}"""
DATES = """def parse_timestamp(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)"""
SNIPPETS = [READ_FILE, ROUTE, RETRY, POOL, SQL, PASSWORD, DATES]
MEANINGS = {
    "open a file for reading": READ_FILE,
    "http endpoint that returns a user": ROUTE,
    "try again with exponential backoff when a call fails": RETRY,
    "take a connection from the pool under a mutex": POOL,
    "database schema of accounts with unique email": SQL,
    "check a user's password against the salted hash": PASSWORD,
    "convert an ISO string to a datetime in UTC": DATES,
}
ODD = {
    "empty": "",
    "blank": " \n\t",
    "emoji": "🚀🔥",
    "nul": "\x00\x00",
    "lone surrogate": "\ud800",
    "CJK": "读取文件",
    "one letter": "x",
    "long word": "a" * 100_000,
    "huge": "def read_file(path): return path\n" * 40_000,
}


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder.load()


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_any_text_has_a_vector_of_length_one(embedder: StaticEmbedder, text: str) -> None:
    vector = embedder.embed_query(text)

    assert vector.dtype == np.float32
    assert vector.shape == (embedder.dimension,)
    assert np.linalg.norm(vector.astype(np.float64)) == pytest.approx(1, abs=1e-6)


def test_texts_without_a_known_piece_share_a_vector(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed_documents(["", "🚀", "a" * 1_000])

    assert (vectors == vectors[0]).all()


def test_no_texts_give_no_vectors(embedder: StaticEmbedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def test_a_vector_is_the_same_bits_in_any_batch(embedder: StaticEmbedder) -> None:
    texts = [*SNIPPETS, *MEANINGS, *ODD.values()]
    alone = {text: embedder.embed_query(text).tobytes() for text in texts}
    chance = random.Random(7)

    for _ in range(5):
        batch = chance.choices(texts, k=chance.randrange(1, 20))
        vectors = embedder.embed_documents(batch)
        assert [vector.tobytes() for vector in vectors] == [alone[text] for text in batch]


def test_a_fresh_embedder_gives_the_same_bits(embedder: StaticEmbedder) -> None:
    again = load_embedder()

    assert again.fingerprint == embedder.fingerprint
    assert again.embed_documents(SNIPPETS).tobytes() == embedder.embed_documents(SNIPPETS).tobytes()


@pytest.mark.parametrize(("query", "expected"), MEANINGS.items())
def test_a_description_is_nearest_to_its_code(embedder: StaticEmbedder, query: str, expected: str) -> None:
    nearness = embedder.embed_documents(SNIPPETS) @ embedder.embed_query(query)

    assert SNIPPETS[int(nearness.argmax())] == expected


def test_recorded_digest_is_that_of_the_files() -> None:
    config = json.loads((MODEL_FOLDER / "config.json").read_text(encoding="utf-8"))

    assert config["digest"] == files_digest(MODEL_FOLDER)


def test_recorded_manifest_is_the_one_in_the_repository() -> None:
    config = json.loads((MODEL_FOLDER / "config.json").read_text(encoding="utf-8"))
    manifest = Path(__file__).parents[2] / "scripts" / "model_manifest.toml"

    assert config["recipe"]["manifest_sha256"] == hashlib.sha256(manifest.read_bytes()).hexdigest()


def test_model_is_small_enough_to_ship() -> None:
    assert sum(path.stat().st_size for path in MODEL_FOLDER.iterdir()) <= 9_000_000


def test_fingerprint_follows_the_settings(tmp_path: Path, embedder: StaticEmbedder) -> None:
    folder = _copy(tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"pooling": "mean"}), encoding="utf-8")

    assert StaticEmbedder.load(folder).fingerprint != embedder.fingerprint


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"cannot load the static model in .*nowhere: No such file") as caught:
        StaticEmbedder.load(tmp_path / "nowhere")

    assert "\n" not in str(caught.value)


DAMAGE = {
    "config.json": ["", "[]", "{}", '{"name": "x"}', '{"name": "x", "dimension": 64}'],
    "vocab.txt": ["", "[UNK]\n"],
    "rows.npy": ["", "no array", "\x93NUMPY\x01"],
    "scales.npy": [""],
}


@pytest.mark.parametrize(("file", "content"), [(file, text) for file, texts in DAMAGE.items() for text in texts])
def test_damaged_folder(tmp_path: Path, file: str, content: str) -> None:
    folder = _copy(tmp_path)
    (folder / file).write_text(content, encoding="latin-1")

    with pytest.raises(EmbedderError, match="cannot load the static model") as caught:
        StaticEmbedder.load(folder)

    assert "\n" not in str(caught.value)


def test_truncated_rows(tmp_path: Path) -> None:
    folder = _copy(tmp_path)
    rows = folder / "rows.npy"
    rows.write_bytes(rows.read_bytes()[:1_000_000])

    with pytest.raises(EmbedderError, match="cannot load the static model"):
        StaticEmbedder.load(folder)


def _copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODEL_FOLDER, tmp_path / "model"))
