"""Splitting of text into words and pieces, as a table; and the exported tokenizer splits alike."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from flows.embed import wordpiece
from flows.embed.export import tokenizer_json
from flows.embed.static import MODEL_FOLDER, read_model
from flows.embed.wordpiece import WordPiece, words_of

WORDS = {
    "parseHTTPResponse": ["parse", "http", "response"],  # an acronym ends where a capitalised word begins
    "HTTPServer": ["http", "server"],
    "XMLHttpRequest": ["xml", "http", "request"],
    "getURLs allIDs": ["get", "urls", "all", "ids"],  # the plural of an acronym is one word
    "URLset": ["ur", "lset"],  # nothing tells an acronym from a capital here
    "snake_case_name": ["snake", "case", "name"],
    "SCREAMING_SNAKE": ["screaming", "snake"],
    "kebab-case --dry-run": ["kebab", "case", "dry", "run"],
    "utf8 sha256sum v1.2": ["utf", "8", "sha", "256", "sum", "v", "1", "2"],
    "0xDEADbeef": ["0", "x", "dea", "dbeef"],
    "a->b != c[i]; // done": ["a", "b", "c", "i", "done"],
    "don't": ["don", "t"],
    "Café naïve Ångström": ["cafe", "naive", "angstrom"],
    "Cafe\u0301": ["cafe"],  # a composed and a decomposed accent are the same
    "Привет, Мир": ["привет", "мир"],
    "ΣΟΦΟΣ": ["σοφοσ"],  # no final sigma: letters are lowered one by one
    "读取文件 file": ["读", "取", "文", "件", "file"],
    "ガード": ["カ", "ー", "ト"],
    "🚀 — │ … ©": [],
    "\x00\ud800\n\t ": [],
    "": [],
}
PIECES = {
    "readfile": ["read", "##file"],  # the longest piece first
    "READ": ["read"],
    "rea": ["r", "##ea"],
    "zebra": [],  # cannot be spelled: no pieces at all, not half a word
    "r" * 101: [],
}
VOCABULARY = ["[UNK]", "r", "read", "##ea", "##file", "##r"]


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_words(text: str, expected: list[str]) -> None:
    assert words_of(text) == expected


@pytest.mark.parametrize(("word", "expected"), PIECES.items())
def test_pieces(word: str, expected: list[str]) -> None:
    pieces = WordPiece(VOCABULARY)

    assert [VOCABULARY[number] for number in pieces[word]] == expected


def test_long_text_is_read_in_blocks_with_the_same_pieces() -> None:
    pieces = WordPiece(VOCABULARY)
    text = "read readFile\n" * 20_000

    assert pieces.ids(text).tolist() == [*pieces["read"], *pieces["read"], *pieces["File"]] * 20_000


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "_CACHED_WORDS", 10)
    pieces = WordPiece(VOCABULARY)

    for number in range(100):
        assert pieces["read" + "r" * (number % 50)][0] == 2

    assert len(pieces) <= 10


def _odd_text() -> str:
    """Return every letter and mark of the basic plane, in words of mixed case."""
    kinds = ("L", "M", "N")
    points = (chr(point) for point in range(sys.maxunicode // 16) if unicodedata.category(chr(point))[0] in kinds)
    return " ".join(f"aB{point}cD{point}" for point in points)


def test_exported_tokenizer_splits_alike() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the exported tokenizer needs the package tokenizers")
    _, vocabulary, _ = read_model(MODEL_FOLDER)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(vocabulary))
    pieces = WordPiece(vocabulary)
    here = [path.read_text(encoding="utf-8") for path in sorted(MODEL_FOLDER.parent.glob("*.py"))]
    valid = [text for text in WORDS if "\ud800" not in text]

    for text in [*valid, *here, *_odd_text().split(" "), "x" * 200]:
        theirs = [number for number in tokenizer.encode(text, add_special_tokens=False).ids if number]
        assert pieces.ids(text).tolist() == theirs, text
