"""The manifest of training text: only permitted packages, checked by hash, read without copied code."""

from __future__ import annotations

import hashlib
import importlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
MANIFEST = SCRIPTS / "model_manifest.toml"
ROW = 'registry = "pypi"\nname = "{name}"\nversion = "1"\nlicence = "{licence}"\nfile = "a.whl"\nsha256 = "{sha256}"\n'


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("model_corpus")


def _manifest(folder: Path, *, name: str = "tidy", licence: str = "MIT", sha256: str = "0") -> Path:
    path = folder / "manifest.toml"
    row = ROW.format(name=name, licence=licence, sha256=sha256)
    (folder / "model_excluded_files.txt").write_text("", encoding="ascii")
    path.write_text(f'excluded = ["flask"]\n[[package]]\n{row}', encoding="utf-8")
    return path


def test_shipped_manifest_is_permitted(corpus: Any) -> None:
    packages, excluded = corpus.read_manifest(MANIFEST)

    assert len(packages) > 500
    assert len(excluded) > 1_000
    assert all(len(package.sha256) == 64 for package in packages)
    assert len({package.file for package in packages}) == len(packages)


def test_evaluated_project_is_refused(corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(corpus.CorpusError, match="Flask belongs to an evaluation set"):
        corpus.read_manifest(_manifest(tmp_path, name="Flask"))


def test_other_licence_is_refused(corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(corpus.CorpusError, match=r"licence 'GPL-3\.0' is not one of"):
        corpus.read_manifest(_manifest(tmp_path, licence="GPL-3.0"))


def test_wrong_hash_is_refused(corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"changed")

    with pytest.raises(corpus.CorpusError, match=r"a\.whl: sha256 is .*, expected 0; delete the file"):
        corpus.fetch(corpus.read_manifest(_manifest(tmp_path))[0], tmp_path)


def test_fetched_file_with_the_right_hash_is_kept(corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"same")
    packages, _ = corpus.read_manifest(_manifest(tmp_path, sha256=hashlib.sha256(b"same").hexdigest()))

    corpus.fetch(packages, tmp_path)


def test_copied_minified_excluded_and_repeated_files_are_left_out(corpus: Any, tmp_path: Path) -> None:
    files = {
        "pkg-1/a.py": "a = 1\n",
        "pkg-1/copy.py": "a = 1\n",
        "pkg-1/_vendor/requests/api.py": "b = 2\n",
        "pkg-1/dist/bundle.js": "c\n",
        "pkg-1/long.js": "c" * 500,
        "pkg-1/site.min.js": "d\n",
        "pkg-1/data.json": "{}",
        "pkg-1/judged.py": "e = 5\n",
        "pkg-1/View.swift": "let f = 6\n",
        "pkg-1/types.d.ts": "let g\n",
    }
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    judged = frozenset({corpus.blob_id(b"e = 5\n")})

    found = dict(corpus.source_files(tmp_path / "a.whl", judged))
    assert sorted(found.values()) == ["a = 1\n", "let f = 6\n"]
    assert "View.swift" in found


def test_questions_are_taken_out_of_the_code_that_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    pairs = importlib.import_module("model_pairs")
    monkeypatch.setattr(pairs, "KEEP_DOC", 0)
    text = '''class RetryPolicy:
    """Decides when a request is sent again."""

    def parse_retry_after(self, header: str) -> float:
        """Return the seconds that a server asks us to wait."""
        # dates are given in the format of HTTP
        moment = parsedate_to_datetime(header)
        return (moment - datetime.now(UTC)).total_seconds()
'''
    found = {(pair.kind, pair.question): pair.code for pair in pairs.pairs_of("src/http/retry.py", text)}

    body = found["doc", "Return the seconds that a server asks us to wait."]
    assert "asks us to wait" not in body
    assert "parse_retry_after" not in found["name", "retry policy parse retry after"]
    assert "format of HTTP" not in found["comment", "dates are given in the format of HTTP"]
    assert ("topic", "http retry") in found
