"""The table of languages: names, categories, shebangs, fingerprints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
    ("a.rb", "ruby", "code", "tree"),
    ("a.cs", "csharp", "code", "tree"),
    ("a.kt", "kotlin", "code", "tree"),
    ("run.sh", "shell", "code", "tree"),
    ("Dockerfile", "dockerfile", "code", "plain"),
    ("Makefile", "makefile", "code", "plain"),
    ("a.json", "json", "data", "plain"),
    ("a.yaml", "yaml", "data", "plain"),
    ("Cargo.lock", "toml", "data", "plain"),
    ("pyproject.toml", "toml", "data", "plain"),
    ("README.md", "markdown", "docs", "markdown"),
    ("a.rst", "rst", "docs", "rst"),
    ("a.adoc", "asciidoc", "docs", "asciidoc"),
    ("a.ipynb", "jupyter", "docs", "notebook"),
    ("a.exs", "elixir", "code", "tree"),
    ("main.tf", "terraform", "code", "tree"),
    ("a.m", "objective-c", "code", "tree"),
    ("a.sql", "sql", "code", "tree"),
    ("a.R", "r", "code", "tree"),
    (".Rprofile", "r", "code", "tree"),
    ("a.Rmd", "markdown", "docs", "markdown"),
    ("a.pm", "perl", "code", "tree"),
    ("Makefile.PL", "perl", "code", "tree"),
    ("a.sol", "solidity", "code", "tree"),
    ("a.hrl", "erlang", "code", "tree"),
    ("a.cljc", "clojure", "code", "tree"),
    ("a.edn", "edn", "data", "plain"),
    ("a.vue", "vue", "code", "component"),
    ("a.svelte", "svelte", "code", "component"),
    ("a.proto", "proto", "code", "plain"),
    ("CMakeLists.txt", "cmake", "code", "plain"),
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
    ("#!/usr/bin/env Rscript", "r"),
    ("#!/usr/bin/perl -w", "perl"),
    ("#!/usr/bin/env bb", "clojure"),
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


@pytest.mark.parametrize("name", languages._BORDERS)
def test_every_border_is_a_pattern_of_a_language_that_a_name_tells(name: str) -> None:
    re.compile(get(name).border)
    assert get(name).how == "plain"


def test_every_grammar_is_pinned_once_by_default_or_by_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pins = [
        pin
        for pin in project["dependencies"] + extras["languages"] + extras["languages-all"]
        if pin.startswith("tree-sitter-")
    ]
    wheels = {grammar.wheel for name in names() if (grammar := get(name).grammar)}
    assert sorted(pin.partition("==")[0] for pin in pins) == sorted(wheels)
    assert {*extras["languages"], *extras["languages-all"]} - {"gitstrata[languages]"} <= set(extras["dev"])


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
