"""The one entry: text and language in, a cut out. Pure, deterministic, and total: no text makes it raise."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from hashlib import sha256

from chunkers.chunk import Cut
from chunkers.component import script_of
from chunkers.definitions import query_source
from chunkers.languages import Language, get, grammar_version
from chunkers.lines import LONG_LINE_CHARS, split_lines
from chunkers.notebook import cut_notebook
from chunkers.plain import cut_plain
from chunkers.prose import cut_prose
from chunkers.tree import cut_tree, defines

CUTTER_VERSION = 4  # raise it with every change that can alter a chunk
BEGINNING = 16_000  # characters of a large file that tell whether it is code at all


def cut(text: str, language: Language | str) -> Cut:
    """Cut a text as its language is cut; fall back to line windows, saying why, where that fails.

    Raises KeyError for the name of an unknown language and nothing else, whatever the text.
    """
    row = get(language) if isinstance(language, str) else language
    if row.grammar is not None:
        return _cut_code(text, row)
    if row.how == "markdown" or row.how == "rst" or row.how == "asciidoc":
        return cut_prose(text, row.how)
    if row.how == "notebook":
        return cut_notebook(text)
    if row.how == "component":
        language, script = script_of(split_lines(text))
        return _cut_code(text, get(language), script)
    return cut_plain(text, border=row.border)


def _cut_code(text: str, row: Language, script: bytes | None = None) -> Cut:
    if row.grammar is None or _is_mostly_long(text):
        return cut_plain(text, "most of it stands in lines too long to be written by hand")
    try:
        if row.grammar.loses_itself and len(text) > BEGINNING * 4 and not defines(text[:BEGINNING], row.grammar):
            return cut_plain(text, f"large, and its first {BEGINNING} characters define nothing in {row.name}")
        return cut_tree(text, row.grammar, script)
    except ModuleNotFoundError:
        return cut_plain(text, f"no grammar for {row.name}: install gitstrata[{row.grammar.extra}]")
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
        parts += [row.grammar.module, row.grammar.function, grammar_version(row.grammar)]
        parts += [importlib.metadata.version("tree-sitter"), query_source(row.grammar)]
    if row.how == "component":
        parts += [fingerprint("javascript"), fingerprint("typescript")]
    if row.border:
        parts.append(row.border)
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
