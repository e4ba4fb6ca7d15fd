"""Identifier splitting: one table of what goes in and what comes out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers.words import TOKEN_CHARS, parts, words

TABLE = [
    # text, words, parts
    ("parseRetryAfter", ["parseretryafter", "parse", "retry", "after"], ["parse", "retry", "after"]),
    ("ParseRetryAfter", ["parseretryafter", "parse", "retry", "after"], ["parse", "retry", "after"]),
    (
        "parse_retry_after",
        ["parse_retry_after", "parseretryafter", "parse", "retry", "after"],
        ["parse", "retry", "after"],
    ),
    ("max-width", ["max-width", "maxwidth", "max", "width"], ["max", "width"]),
    ("HTTPServer2", ["httpserver2", "http", "server", "2"], ["http", "server", "2"]),
    ("utf8", ["utf8", "utf", "8"], ["utf", "8"]),
    ("ServeHTTP", ["servehttp", "serve", "http"], ["serve", "http"]),
    ("simple", ["simple"], ["simple"]),
    ("__init__", ["__init__", "init"], ["init"]),
    ("_private", ["_private", "private"], ["private"]),
    ("a.b(c)", ["a", "b", "c"], ["a", "b", "c"]),
    ("x - y", ["x", "y"], ["x", "y"]),
    ("42", ["42"], ["42"]),
    ("___ -- ::", [], []),
    ("日本語", ["日本", "本語"], ["日本", "本語"]),
    ("字", ["字"], ["字"]),
    ("get日本Name", ["get", "日本", "name"], ["get", "日本", "name"]),
    ("Größe", ["grösse"], ["grösse"]),
    ("größeÄndern", ["grösseändern", "grösse", "ändern"], ["grösse", "ändern"]),
    ("ﬁnd", ["find"], ["find"]),  # a ligature, by NFKC
    ("Привет", ["привет"], ["привет"]),
    ("\ud800 lone", ["lone"], ["lone"]),
]


@pytest.mark.parametrize(("text", "whole", "split"), TABLE)
def test_text_is_split(text: str, whole: list[str], split: list[str]) -> None:
    assert words(text) == whole
    assert parts(text) == split


def test_conventions_share_the_joined_token() -> None:
    spellings = ["parse_retry_after", "ParseRetryAfter", "parseRetryAfter", "PARSE_RETRY_AFTER", "parse-retry-after"]
    assert all("parseretryafter" in words(spelling) for spelling in spellings)


def test_long_tokens_are_bounded() -> None:
    tokens = words("a" * 5_000 + " " + "aB3" * 5_000 + " " + "字" * 300)
    assert max(map(len, tokens)) <= TOKEN_CHARS
    assert len(tokens) < 400


@given(st.text(st.characters(codec=None)))
def test_any_text_gives_clean_tokens_twice(text: str) -> None:
    tokens = words(text)
    assert tokens == words(text)
    assert all(token and len(token) <= TOKEN_CHARS and not token.isspace() for token in tokens + parts(text))


def test_splitting_is_fast_enough_for_every_chunk() -> None:
    text = "\n".join(
        f"    result_{i % 500} = parseRetryAfter(self.headers, HTTPServer{i % 300})" for i in range(20_000)
    )
    begun = time.process_time()
    words(text)
    assert len(text) / (time.process_time() - begun) > 4e6  # 10 MB/s on a quiet machine
