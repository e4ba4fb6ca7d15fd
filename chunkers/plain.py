"""Cuts text without a grammar into windows at blank-line borders, and is what every other cutter falls back to."""

from __future__ import annotations

import re

from chunkers.chunk import Cut, Level
from chunkers.draft import FILE, MODULE, Draft, finish
from chunkers.lines import bordered, bounded_texts, long_line_note, split_lines, split_rows, text_of, text_ranks

HEAD_CHARS = 800  # how much of a file's beginning stands for the whole of it


def cut_plain(text: str, fallback: str = "", border: str = "") -> Cut:
    """Cut by lines: block chunks that cover every line, and a file chunk above them if there are several.

    ``border`` is a pattern for the beginning of lines that chunks should rather begin with.
    """
    lines = split_lines(text)
    if not text.strip():
        return Cut((), (), len(lines), fallback)
    blocks: list[Draft] = []
    ranks = text_ranks(lines, 0, len(lines) - 1)
    if border:
        ranks = bordered(lines, ranks, re.compile(border))
    for first, last in split_rows(lines, 0, len(lines) - 1, ranks):
        window = text_of(lines, first, last)
        if not window.strip():
            _extend(blocks, last)
            continue
        first = blocks[-1].last + 1 if blocks else 0
        for piece in bounded_texts(window):
            blocks.append(Draft(Level.BLOCK, MODULE, "", "", first, last, piece, None, is_piece=True))
    if len(blocks) > 1:
        file = Draft(Level.FILE, FILE, "", "", 0, len(lines) - 1, beginning(lines), None)
        for block in blocks:
            block.parent = file
        blocks.append(file)
    return finish(blocks, (), len(lines), fallback or long_line_note(lines))


def _extend(blocks: list[Draft], last: int) -> None:
    """Let the last window also cover blank lines that follow it."""
    if blocks:
        blocks[-1].last = last


def beginning(lines: list[str]) -> str:
    """Return the first lines that are not blank, bounded."""
    start = next(row for row, line in enumerate(lines) if line.strip())
    kept: list[str] = []
    size = 0
    for line in lines[start : start + 40]:
        kept.append(line[: HEAD_CHARS - size])
        size += len(line) + 1
        if size >= HEAD_CHARS:
            break
    return "\n".join(kept).rstrip()
