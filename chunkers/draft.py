"""Chunks in the making: cutters add drafts in any order, ``finish`` sorts, anchors and links them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chunkers.chunk import Chunk, Cut, Level, Symbol
from chunkers.lines import TEXT_CHARS

_RANK = {level: rank for rank, level in enumerate(Level)}
MODULE = "module"
FILE = "file"


@dataclass(slots=True, eq=False)
class Draft:
    """A chunk without its final anchor. Rows are 0-based and inclusive; a piece's anchor gets a number."""

    level: Level
    base: str
    symbol: str
    signature: str
    first: int
    last: int
    text: str
    parent: Draft | None
    is_piece: bool = False


def coarser(level: Level, owner: Draft | None) -> Draft | None:
    """Return the nearest of ``owner`` and its ancestors that is coarser than ``level``."""
    while owner is not None and _RANK[owner.level] >= _RANK[level]:
        owner = owner.parent
    return owner


def finish(drafts: Iterable[Draft], symbols: Iterable[Symbol], lines: int, fallback: str = "") -> Cut:
    """Return the cut: chunks coarse to fine, then by line, each with a unique anchor."""
    ordered = sorted(drafts, key=lambda draft: (_RANK[draft.level], draft.first, draft.last))
    index = {id(draft): i for i, draft in enumerate(ordered)}
    anchors = _anchors(ordered)
    chunks = tuple(
        Chunk(
            level=draft.level,
            anchor=anchors[i],
            symbol=draft.symbol,
            signature=draft.signature,
            start_line=draft.first + 1,
            end_line=draft.last + 1,
            text=draft.text[:TEXT_CHARS],
            parent=None if draft.parent is None else index[id(draft.parent)],
        )
        for i, draft in enumerate(ordered)
    )
    return Cut(chunks, tuple(symbols), lines, fallback)


def _anchors(ordered: list[Draft]) -> list[str]:
    """Name whole symbols first, so that no file or module chunk takes a symbol's name."""
    anchors = [""] * len(ordered)
    used: set[str] = set()
    counts: dict[str, int] = {}
    by_claim = sorted(range(len(ordered)), key=lambda i: (ordered[i].is_piece, not ordered[i].symbol))
    heads = {draft.base for draft in ordered if not draft.is_piece}
    for i in by_claim:
        draft = ordered[i]
        anchor = draft.base
        if draft.is_piece:
            number = counts[anchor] = counts.get(anchor, 0) + 1
            anchor = anchor if number == 1 and anchor not in heads else f"{anchor}:{number}"
        while anchor in used:
            anchor += "+"
        used.add(anchor)
        anchors[i] = anchor
    return anchors
