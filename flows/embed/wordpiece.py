"""Splits source text into words and words into vocabulary pieces. Knows nothing of their vectors.

It splits as the tokenizer that ``flows.embed.export`` writes for sentence-transformers; a test keeps them equal.
Classes of letters are spelled out as ranges, since Python, Rust and Oniguruma ship different Unicode versions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

CONTINUATION = "##"
MAX_WORD_CHARS = 100
"""A longer word (base64, a hash, a long dash of letters) has no pieces, as in the BERT family."""

# Latin, Greek to Vietnamese Latin, and the blocks that hold the lower case of letters from those ranges.
_LETTERS = "ªµºÀ-ÖØ-öø-˯Ͱ-\u1fff\u2c00-\u2dff\ua640-\ua7ff\uab30-\uabbf"
# Kana and Han: one character is one word.
_IDEOGRAPHS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"

MARKS_PATTERN = "[\u0300-\u036f\u3099\u309a]"
CAMEL_PATTERN = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])"
"""Where camelCase and HTTPServer break; a plural such as URLs does not."""
LOWER_WORD_PATTERN = f"[a-z]+|[0-9]+|[{_LETTERS}]+|[{_IDEOGRAPHS}]"
"""What is a word once CAMEL_PATTERN has put spaces in and case is gone."""

_MARKS = re.compile(MARKS_PATTERN)
_WORDS = re.compile(rf"[A-Z]?[a-z]+|[A-Z]{{2,}}s(?![a-z])|[A-Z]+(?![a-z])|[0-9]+|[{_LETTERS}]+|[{_IDEOGRAPHS}]")
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_CACHED_WORDS = 65_536
_BLOCK_WORDS = 4_096
_STREAMED_CHARS = 100_000


def _normal(text: str) -> str:
    return text if text.isascii() else _MARKS.sub("", unicodedata.normalize("NFD", text))


def _lower(word: str) -> str:
    # Letter by letter: str.lower() looks around a capital sigma, the exported tokenizer does not.
    return word.lower() if word.isascii() else "".join(letter.lower() for letter in word)


def words_of(text: str) -> list[str]:
    """Return the lower-case words of a text, in order: identifiers split, accents and punctuation gone."""
    return [_lower(word) for word in _WORDS.findall(_normal(text))]


def is_ideograph(letter: str) -> bool:
    """Is this letter a word of its own, never the continuation of one?"""
    return _IDEOGRAPH.match(letter) is not None


def _raw_blocks(text: str) -> Iterator[list[str]]:
    """Yield the words in blocks of at most _BLOCK_WORDS, which bounds the memory of a huge text."""
    text = _normal(text)
    if len(text) <= _STREAMED_CHARS:  # findall is twice as fast as finditer
        words = _WORDS.findall(text)
        yield from (words[start : start + _BLOCK_WORDS] for start in range(0, len(words), _BLOCK_WORDS))
        return
    stream = (match.group() for match in _WORDS.finditer(text))
    while block := list(islice(stream, _BLOCK_WORDS)):
        yield block


class WordPiece(dict[str, tuple[int, ...]]):
    """A vocabulary with a bounded cache: maps a word as written to the ids of its pieces, longest piece first.

    A word that the vocabulary cannot spell has no pieces.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        super().__init__()
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._longest = max(map(len, self._ids), default=0)

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= _CACHED_WORDS:
            self.clear()
        pieces = self[word] = self._split(_lower(word))
        return pieces

    def ids(self, text: str) -> npt.NDArray[np.intp]:
        """Return the piece ids of a text in order; shape (number of pieces,)."""
        blocks = []
        for words in _raw_blocks(text):
            block: list[int] = []
            for word in words:
                block += self[word]
            blocks.append(np.array(block, np.intp))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks) if blocks else np.empty(0, np.intp)

    def _split(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD_CHARS:
            return ()
        found: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._ids.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            found.append(number)
            start, prefix = end, CONTINUATION
        return tuple(found)
