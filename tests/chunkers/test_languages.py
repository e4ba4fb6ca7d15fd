"""The table of languages: names, categories, shebangs, fingerprints."""

from __future__ import annotations

import pytest

from chunkers import cut as cutting
from chunkers import languages
from chunkers.definitions import load
from chunkers.languages import by_shebang, detect, get, names

TABLE = [
    # file name, language, category, how
    ("app.py", "python", "code", "tree"),
    ("UPPER.PY", "python", "code", "tree"),
    ("stubs.pyi", "python", "code", "tree"),
    ("src/a b/ü.mjs", "javascript", "code", "tree"),
    ("a.jsx", "jsx", "code", "tree"),
    ("a.ts", "typescript", "code", "tree"),
    ("a.mts", "typescript", "code", "tree"),
    ("a.tsx", "tsx", "code", "tree"),
    ("a.go", "go", "code", "tree"),
    ("A.java", "java", "code", "tree"),
    ("a.rs", "rust", "code", "tree"),
    ("a.c", "c", "code", "tree"),
    ("a.h", "c", "code", "tree"),
    ("a.hpp", "cpp", "code", "tree"),
    ("a.CC", "cpp", "code", "tree"),
    ("a.rb", "ruby", "code", "plain"),
    ("a.cs", "csharp", "code", "plain"),
    ("a.kt", "kotlin", "code", "plain"),
    ("run.sh", "shell", "code", "plain"),
    ("Dockerfile", "dockerfile", "code", "plain"),
    ("Makefile", "makefile", "code", "plain"),
    ("a.json", "json", "data", "plain"),
    ("a.yaml", "yaml", "data", "plain"),
    ("Cargo.lock", "toml", "data", "plain"),
    ("pyproject.toml", "toml", "data", "plain"),
    ("README.md", "markdown", "docs", "markdown"),
    ("a.rst", "rst", "docs", "rst"),
    ("a.adoc", "asciidoc", "docs", "asciidoc"),
    ("a.ipynb", "jupyter", "data", "plain"),
    ("LICENSE", "text", "other text", "plain"),
    (".gitignore", "gitignore", "other text", "plain"),
    ("no_extension", "text", "other text", "plain"),
    ("a.unknown", "text", "other text", "plain"),
    ("", "text", "other text", "plain"),
    ("..", "text", "other text", "plain"),
]
SHEBANGS = [
    ("#!/usr/bin/env python3", "python"),
    ("#!/usr/bin/env -S FOO=1 node --flag", "javascript"),
    ("#!/bin/bash -e", "shell"),
    ("#! /usr/bin/ruby", "ruby"),
    ("#!/opt/unknown-thing", None),
    ("#!", None),
    ("# no shebang", None),
]


@pytest.mark.parametrize(("name", "language", "category", "how"), TABLE)
def test_a_name_tells_the_language(name: str, language: str, category: str, how: str) -> None:
    row = detect(name)
    assert (row.name, row.category, row.how) == (language, category, how)


@pytest.mark.parametrize(("line", "language"), SHEBANGS)
def test_a_shebang_tells_the_language(line: str, language: str | None) -> None:
    row = by_shebang(line)
    assert (row.name if row else None) == language


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'python'"):
        get("pyhton")


@pytest.mark.parametrize("name", [name for name in names() if get(name).grammar])
def test_every_grammar_fits_its_queries(name: str) -> None:
    grammar = get(name).grammar
    assert grammar is not None
    load(grammar)
    assert languages.grammar_version(grammar) != "absent"


def test_a_grammar_bump_changes_only_its_own_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: cutting.fingerprint(name) for name in names()}
    version = languages.grammar_version
    monkeypatch.setattr(cutting, "grammar_version", lambda g: "9.9" if g.module.endswith("_go") else version(g))
    cutting.fingerprint.cache_clear()
    after = {name: cutting.fingerprint(name) for name in names()}
    cutting.fingerprint.cache_clear()
    assert [name for name in names() if before[name] != after[name]] == ["go"]
    assert before["c"] != before["cpp"] and before["typescript"] != before["tsx"]
    assert all(len(value) == 32 and int(value, 16) for value in before.values())
