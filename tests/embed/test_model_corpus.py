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
    path.write_text(f'excluded = ["flask"]\n[[package]]\n{row}', encoding="utf-8")
    return path


def test_shipped_manifest_is_permitted(corpus: Any) -> None:
    packages = corpus.read_manifest(MANIFEST)

    assert len(packages) > 50
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
        corpus.fetch(corpus.read_manifest(_manifest(tmp_path)), tmp_path)


def test_fetched_file_with_the_right_hash_is_kept(corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"same")
    packages = corpus.read_manifest(_manifest(tmp_path, sha256=hashlib.sha256(b"same").hexdigest()))

    corpus.fetch(packages, tmp_path)


def test_copied_minified_and_repeated_files_are_left_out(corpus: Any, tmp_path: Path) -> None:
    files = {
        "pkg/a.py": "a = 1\n",
        "pkg/copy.py": "a = 1\n",
        "pkg/_vendor/requests/api.py": "b = 2\n",
        "pkg/bundle.js": "c" * 500,
        "pkg/site.min.js": "d\n",
        "pkg/data.json": "{}",
        "pkg-1.dist-info/METADATA.md": "e\n",
        "pkg/View.swift": "let f = 6\n",
    }
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)

    assert sorted(corpus.source_texts(tmp_path / "a.whl")) == ["a = 1\n", "let f = 6\n"]
