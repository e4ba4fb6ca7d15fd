"""What a cut consists of: the values that chunkers return and everything else reads.

Lines are 1-based and inclusive; only LF ends a line, so that numbers equal those of ``git show``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How coarse a chunk is, coarsest first."""

    FILE = "file"
    CLASS = "class"
    METHOD = "method"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One definition of a file, exactly where it stands (never merged with its neighbours).

    ``name`` is qualified with dots (``Class.method``) and holds neither ``#`` nor white space. ``signature`` is one
    line without the body, ``doc`` the first sentence of its documentation or "".
    """

    name: str
    kind: str  # "class", "function", "method", "interface", "enum", "module", ... as the language calls it
    start_line: int
    end_line: int
    signature: str
    doc: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One searchable piece of a file.

    ``text`` is what is hashed, embedded and counted: breadcrumb, signature and lines, but never a path or a line
    number, so that equal code anywhere is the same text. ``anchor`` names the chunk inside its file and is unique
    there: ``Class.method``, ``Class.method@2`` (second of that name), ``Class.method:3`` (third piece), ``module``.
    """

    level: Level
    anchor: str
    symbol: str  # qualified name of the innermost symbol it belongs to, "" outside any
    signature: str  # one line: what a result shows; "" where there is none
    start_line: int
    end_line: int
    text: str
    parent: int | None  # index into Cut.chunks of the chunk one level up


@dataclass(frozen=True, slots=True)
class Cut:
    """A file cut coarse to fine. ``fallback`` says why the language's own cutter was not used, "" if it was."""

    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...]
    lines: int
    fallback: str = ""
