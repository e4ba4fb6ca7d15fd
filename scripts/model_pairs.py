"""Pairs of a question and the code that answers it, out of the training text: what the shipped model learns from.

A question is what people wrote beside the code: its documentation, its name, a comment, the name of its file, a
heading. Code is what gitstrata itself would store: the chunks of ``chunkers``, with the question taken out of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from chunkers import languages
from chunkers.chunk import Cut, Level, Symbol
from chunkers.cut import cut
from chunkers.words import parts

MIN_CODE, MAX_CODE = 40, 2_500  # characters
MIN_WORDS, MAX_WORDS = 3, 48  # of a question
COMMENT_WORDS = 4
COMMENT_LINES = 10  # of code after a comment
COMMENTS = 3  # a chunk
TOPICS = 2  # chunks a file that its name alone asks for
KEEP_DOC = 0.2  # share of code that keeps the documentation it was asked by, as stored code does

_COMMENT = re.compile(
    r"^\s*(?:///?!?|#(?!\[|include|define|if|endif|else|pragma|!)|/\*+|\*+/?|--|;;+|%+)\s?(.*?)(?:\*/)?\s*$"
)
_DOCSTRING = re.compile(r'[rRuU]?("""|\'\'\')(.*?)\1', re.DOTALL)
_MARKUP = re.compile(r"</?\w+[^>]*>|\{@\w+ ([^}]*)\}|[`*]{1,3}|:\w+:`|@\w+\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, the code that answers it, and the kind of question."""

    kind: str
    question: str
    code: str


def pairs_of(name: str, text: str) -> Iterator[Pair]:
    """Yield the pairs of one file, in its order."""
    language = languages.detect(name)
    if language.grammar is None and language.category != "docs":
        return
    pieces = cut(text, language)
    if language.category == "docs":
        yield from _sections(pieces)
        return
    yield from _definitions(pieces)
    yield from _topics(name, pieces)


def _definitions(pieces: Cut) -> Iterator[Pair]:
    symbols: dict[str, Symbol] = {}
    for symbol in pieces.symbols:
        symbols.setdefault(symbol.name, symbol)
    for chunk in pieces.chunks:
        if chunk.level not in (Level.CLASS, Level.METHOD) or not MIN_CODE <= len(chunk.text) <= MAX_CODE:
            continue
        if chunk.symbol not in symbols:
            continue
        symbol = symbols[chunk.symbol]
        bare = without_documentation(chunk.text)
        if len(bare) < MIN_CODE:
            continue
        doc = _question(symbol.doc)
        if doc:
            yield Pair("doc", doc, chunk.text if _chance(chunk.text) < KEEP_DOC else bare)
        asked = " ".join(parts(symbol.name))
        nameless = _without_name(bare, symbol.name)
        if len(asked.split()) >= MIN_WORDS - 1 and len(nameless) >= MIN_CODE:
            yield Pair("name", asked, nameless)
        if chunk.parent is not None and (owner := symbols.get(pieces.chunks[chunk.parent].symbol)) and owner.doc:
            of_owner = _question(owner.doc)
            if of_owner and owner is not symbol and _chance(bare) < 0.3:
                yield Pair("owner", of_owner, bare)
        yield from _comments(bare)


def _topics(name: str, pieces: Cut) -> Iterator[Pair]:
    """Ask for a file by its own name and its folder's, as questions about a part of a system do."""
    folders, _, file = name.rpartition("/")
    asked = " ".join([*parts(folders.rpartition("/")[2]), *parts(file.partition(".")[0])])
    if len(asked.split()) < 2:
        return
    bodies = [
        c for c in pieces.chunks if c.level in (Level.CLASS, Level.METHOD) and MIN_CODE <= len(c.text) <= MAX_CODE
    ]
    for chunk in sorted(bodies, key=lambda chunk: _chance(chunk.text))[:TOPICS]:
        yield Pair("topic", asked, chunk.text)


def _sections(pieces: Cut) -> Iterator[Pair]:
    for chunk in pieces.chunks:
        if chunk.level == Level.METHOD and chunk.symbol and MIN_CODE <= len(chunk.text) <= MAX_CODE:
            asked = _question(chunk.symbol.replace(".", " "))
            body = chunk.text.partition("\n")[2]
            if asked and len(body) >= MIN_CODE:
                yield Pair("section", asked, body)


def _comments(code: str) -> Iterator[Pair]:
    """Ask for the lines that follow a comment by the comment."""
    lines = code.split("\n")
    found, at = 0, 1
    while at < len(lines) and found < COMMENTS:
        said = []
        while at < len(lines) and (comment := _COMMENT.match(lines[at])):
            said.append(comment[1])
            at += 1
        at += not said
        asked = _question(" ".join(said)) if said else ""
        following = [line for line in lines[at : at + COMMENT_LINES] if not _COMMENT.match(line)]
        block = "\n".join(following)
        if asked and len(_WORD.findall(asked)) >= COMMENT_WORDS and len(block) >= MIN_CODE:
            found += 1
            yield Pair("comment", asked, block)


def without_documentation(text: str) -> str:
    """Return a chunk's text without comments that open it and without its docstring."""
    lines = text.split("\n")
    kept = [line for n, line in enumerate(lines) if n > 40 or not (_COMMENT.match(line) and _opens(lines, n))]
    return _DOCSTRING.sub("", "\n".join(kept), count=1)


def _opens(lines: list[str], n: int) -> bool:
    """Say whether nothing but comments, decorators and the chunk's own first line stands before line ``n``."""
    return all(
        _COMMENT.match(line) or not line.strip() or line.lstrip().startswith(("@", "[", "#[")) for line in lines[1:n]
    )


def _without_name(code: str, name: str) -> str:
    last = name.rpartition(".")[2]
    return re.sub(rf"\b{re.escape(last)}\b", "", code) if last else code


def _question(text: str) -> str:
    """Return documentation as a question: one sentence of plain words, "" if too little is left."""
    plain = " ".join(_MARKUP.sub(lambda found: found[1] or " ", text).split())
    first = _SENTENCE.split(plain, maxsplit=1)[0]
    number = len(_WORD.findall(first))
    if not number >= MIN_WORDS or len(first) > 400:
        return ""
    return " ".join(first.split()[:MAX_WORDS])


def _chance(text: str) -> float:
    """Return a number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=4).digest()) / 2**32
