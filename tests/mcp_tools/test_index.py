"""Vectors of paths that are remembered: what is new is embedded at once, and remembering changes no vector."""

from __future__ import annotations

import numpy as np
import pytest

from flows.embed.static import StaticEmbedder
from mcp_tools import index
from tests.stubs import StubEmbedder

PATHS = ["src app py", "src flows git py", "docs guide md", "src app py", "README"]


def test_vectors_of_paths_are_those_of_the_model() -> None:
    model = StaticEmbedder.load()
    embed = index._remembering(model)
    some = embed(PATHS[1:3])
    np.testing.assert_array_equal(some, model.embed_documents(PATHS[1:3]))
    np.testing.assert_array_equal(embed(PATHS), model.embed_documents(PATHS))  # two of them remembered
    np.testing.assert_array_equal(embed(PATHS), np.stack([model.embed_query(path) for path in PATHS]))


def test_only_new_paths_are_embedded_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = StubEmbedder()
    calls: list[list[str]] = []
    model.spoil = lambda texts, vectors: (calls.append(list(texts)), vectors)[1]
    monkeypatch.setattr(index, "REMEMBERED", 4)
    embed = index._remembering(model)
    embed(PATHS[:2])
    embed(PATHS)
    embed(PATHS)
    assert calls == [["src app py", "src flows git py"], ["docs guide md", "README"]]
    embed(["a fifth"])  # there is room for four: all are forgotten
    embed(PATHS[:1])
    assert calls[2:] == [["a fifth"], ["src app py"]]
