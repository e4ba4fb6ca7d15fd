"""The one entry: text and language in, a cut out. Pure, deterministic, and total: no text makes it raise."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from hashlib import sha256

from chunkers.chunk import Cut
from chunkers.definitions import query_source
from chunkers.languages import Language, get, grammar_version
from chunkers.lines import LONG_LINE_CHARS, split_lines
from chunkers.plain import cut_plain
from chunkers.prose import cut_prose
from chunkers.tree import cut_tree

CUTTER_VERSION = 2  # raise it with every change that can alter a chunk


def cut(text: str, language: Language | str) -> Cut:
    """Cut a text as its language is cut; fall back to line windows, saying why, where that fails.

    Raises KeyError for the name of an unknown language and nothing else, whatever the text.
    """
    row = get(language) if isinstance(language, str) else language
    if row.grammar is not None:
        return _cut_code(text, row)
    if row.how == "markdown" or row.how == "rst" or row.how == "asciidoc":
        return cut_prose(text, row.how)
    return cut_plain(text)


def _cut_code(text: str, row: Language) -> Cut:
    if row.grammar is None or _is_mostly_long(text):
        return cut_plain(text, "most of it stands in lines too long to be written by hand")
    try:
        return cut_tree(text, row.grammar)
    except Exception as error:  # the edge of the grammars' native code: whatever it is, the file stays searchable
        return cut_plain(text, f"{row.name} cutter failed: {type(error).__name__}: {error}"[:300])


def _is_mostly_long(text: str) -> bool:
    if len(text) <= LONG_LINE_CHARS:
        return False
    long = sum(len(line) for line in split_lines(text) if len(line) > LONG_LINE_CHARS)
    return long * 2 > len(text)


@cache
def fingerprint(language: Language | str) -> str:
    """Return hex that changes when a cut of this language may: cutter, grammar, tree-sitter or its queries."""
    row = get(language) if isinstance(language, str) else language
    parts = [str(CUTTER_VERSION), row.how]
    if row.grammar is not None:
        parts += [row.grammar.wheel, row.grammar.function, grammar_version(row.grammar)]
        parts += [importlib.metadata.version("tree-sitter"), query_source(row.grammar)]
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
