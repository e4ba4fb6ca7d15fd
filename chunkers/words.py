"""Splits text into the words that the index stores and queries ask for; both sides call this and nothing else.

An identifier gives its lower-cased self, itself without separators (so that ``parse_retry_after``, ``ParseRetryAfter``
and ``parseRetryAfter`` meet) and its parts. CJK text, which has no spaces, gives pairs of characters. There is no
stemming: it would go into ``_parts_of`` and raise WORDS_VERSION.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import chain

WORDS_VERSION = 1
TOKEN_CHARS = 64
_CACHED = 100_000  # identifiers; about 30 MB at most
_MOST_PARTS = 32  # of one identifier: longer ones are encoded data

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_IDENTIFIER = re.compile(r"\w+(?:-[^\W\d_]\w+)*")
_CJK_RUN = re.compile(f"[{_CJK}]+|[^{_CJK}]+")
_IS_CJK = re.compile(f"[{_CJK}]")
_ASCII_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PART = re.compile(r"\d+|[^\W\d_]+")


class _Cache(dict[str, tuple[str, ...]]):
    """Identifier -> tokens, filled on demand and emptied when full; a long identifier is never kept."""

    def __init__(self, split: Callable[[str], tuple[str, ...]]) -> None:
        self.split = split

    def __missing__(self, identifier: str) -> tuple[str, ...]:
        tokens = self.split(identifier)
        if len(identifier) <= TOKEN_CHARS:
            if len(self) >= _CACHED:
                self.clear()
            self[identifier] = tokens
        return tokens


def words(text: str) -> list[str]:
    """Return the tokens of a text in order: whole identifiers, joined forms and parts, at most TOKEN_CHARS each."""
    return _split(text, _WORDS)


def parts(text: str) -> list[str]:
    """Return only the parts, as an embedding model reads them."""
    return _split(text, _PARTS)


def _split(text: str, cached: _Cache) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return list(chain.from_iterable(map(cached.__getitem__, _IDENTIFIER.findall(text))))


def _words_of(identifier: str) -> tuple[str, ...]:
    tokens: list[str] = []
    for run in _runs(identifier):
        if _IS_CJK.match(run):
            tokens += _pairs(run)
            continue
        whole = run.strip("-").casefold()
        forms = [whole, re.sub(r"[_-]+", "", whole)]
        split = _parts_of(run)
        if len(split) == 1:
            forms += split
        tokens += dict.fromkeys(form[:TOKEN_CHARS] for form in forms if form.strip("_"))
        tokens += split if len(split) > 1 else ()
    return tuple(tokens)


def _only_parts(identifier: str) -> tuple[str, ...]:
    if identifier.isascii():
        return tuple(_parts_of(identifier))
    tokens: list[str] = []
    for run in _runs(identifier):
        tokens += _pairs(run) if _IS_CJK.match(run) else _parts_of(run)
    return tuple(tokens)


def _runs(identifier: str) -> list[str]:
    return [identifier] if identifier.isascii() else _CJK_RUN.findall(identifier)


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _parts_of(run: str) -> list[str]:
    """Split at case changes, digits and separators."""
    if run.isascii():
        found = _ASCII_PART.findall(run[: 4 * TOKEN_CHARS])
    else:
        found = [piece for part in _PART.findall(run[: 4 * TOKEN_CHARS]) for piece in _camel(part)]
    return [part.casefold()[:TOKEN_CHARS] for part in found[:_MOST_PARTS]]


def _camel(part: str) -> list[str]:
    """Split letters of any script at case changes: before an upper-case letter that follows or leads lower case."""
    starts = [0]
    for i in range(1, len(part)):
        begins = part[i].isupper() and (not part[i - 1].isupper() or part[i + 1 : i + 2].islower())
        if begins:
            starts.append(i)
    return [part[a:b] for a, b in zip(starts, [*starts[1:], len(part)], strict=True)]


_WORDS = _Cache(_words_of)
_PARTS = _Cache(_only_parts)
