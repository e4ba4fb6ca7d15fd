"""Lines, and how long runs of them are cut so that cuts re-synchronise after an insertion.

A run is split at its best border (the smallest key), then each half again, until the parts fit. A key depends on the
border's own line and never on its position, so an inserted line moves only the borders next to it. All sizes live here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

TEXT_CHARS = 4_000  # no chunk's text is longer
WHOLE_CHARS = 2_000  # a method up to this size stays in one chunk; one more character makes exactly two of it
TINY_CHARS = 120  # smaller neighbours share a chunk
CROWD = 200  # members of one container; beyond it neighbours share larger chunks
CROWD_TINY_CHARS = 400
ATTACH_CHARS = 100  # smaller lines between two methods go with the next one
LONG_LINE_CHARS = 10_000  # of a longer line only the first LINE_PIECES pieces are text
LINE_PIECES = 8
HUGE_CHARS = 60_000  # a single run beyond this is cut coarsely: data or generated code in all but name


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bounds of one part in characters; only a single line may break them."""

    least: int
    most: int


USUAL = Sizes(400, WHOLE_CHARS)
MERGED = Sizes(120, 800)
COARSE = Sizes(1_500, 3_300)  # plus breadcrumb and signature still under TEXT_CHARS

_CLOSERS = (")", "]", "}", "else", "elif", "except", "finally", "catch", "case", "end", "</", "#endif", "|", ">", "*")
_COMMENTS = ("#", "//", "/*", "*", "--", ";", "%", "@")
_NO_BORDER = 31
_OTHER = 8  # how much worse other lines are where a language has its borders
_DEPTHS = 8  # deeper statements are all alike


def split_lines(text: str) -> list[str]:
    """Return the lines without their LF; a final LF ends the last line instead of starting another."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def border_key(rank: int, content: str) -> int:
    """Return the sort key of a border: lower ranks first, then an arbitrary but lasting order by content."""
    return rank << 32 | crc32(content.encode("utf-8", "surrogatepass"))


def text_ranks(lines: Sequence[str], first: int, last: int) -> list[int]:
    """Rank rows ``first..last`` as places to cut before, by blank lines and indentation alone (0 is best)."""
    ranks = []
    was_blank, was_comment = True, False
    for row in range(first, last + 1):
        stripped = lines[row].lstrip()
        if not stripped or stripped.isspace():
            ranks.append(_NO_BORDER)
            was_blank, was_comment = True, False
            continue
        depth = min((len(lines[row]) - len(stripped)) // 2, 5)
        ranks.append(_rank(depth, stripped, was_blank=was_blank, was_comment=was_comment))
        was_blank, was_comment = False, stripped.startswith(_COMMENTS)
    return ranks


def bordered(lines: Sequence[str], ranks: Sequence[int], border: re.Pattern[str]) -> list[int]:
    """Return ranks that prefer lines which match ``border``, and comments directly above them, to all others."""
    made = [min(rank + _OTHER, _NO_BORDER) for rank in ranks]
    for row, line in enumerate(lines):
        if border.match(line):
            while row and lines[row - 1].lstrip().startswith(_COMMENTS) and not border.match(lines[row - 1]):
                row -= 1
            made[row] = 0
    return made


def statement_ranks(lines: Sequence[str], first: int, last: int, depths: dict[int, int]) -> list[int]:
    """Rank rows by the depth of the statement that begins there; a row inside a statement is a poor place."""
    ranks = []
    base = min((depths[row] for row in range(first, last + 1) if row in depths), default=0)
    for row in range(first, last + 1):
        depth = depths.get(row)
        if depth is None:
            ranks.append(_NO_BORDER)
            continue
        before = lines[row - 1].strip() if row > first else ""
        stripped = lines[row].lstrip()
        ranks.append(
            _rank(min(depth - base, _DEPTHS), stripped, was_blank=not before, was_comment=before.startswith(_COMMENTS))
        )
    return ranks


def _rank(depth: int, stripped: str, *, was_blank: bool, was_comment: bool) -> int:
    rank = depth * 2 + (0 if was_blank else 3)
    return min(rank + 4 if was_comment or stripped.startswith(_CLOSERS) else rank, _NO_BORDER - 1)


def split_units(sizes: Sequence[int], keys: Sequence[int], bounds: Sizes) -> list[tuple[int, int]]:
    """Cut units into half-open ranges of at most ``bounds.most``; ``keys[i]`` is the border before unit i."""
    ends = [0, *accumulate(sizes)]
    done: list[tuple[int, int]] = []
    todo = [(0, len(sizes))]
    while todo:
        low, high = todo.pop()
        if high - low < 2 or ends[high] - ends[low] <= bounds.most:
            done.append((low, high))
            continue
        a = bisect_left(ends, ends[low] + bounds.least, low + 1, high)
        b = bisect_right(ends, ends[high] - bounds.least, low + 1, high) - 1
        middle = _best(keys, a, b, low) if a <= b else _best(keys, low + 1, high - 1, low)
        todo.append((middle, high))
        todo.append((low, middle))
    return done


def _best(keys: Sequence[int], a: int, b: int, low: int) -> int:
    """Return the row of the smallest key in ``a..b``; of equal ones the middle one, so that depth stays small."""
    window = keys[a : b + 1]
    key = min(window)
    if window.count(key) == 1:
        return a + window.index(key)
    equal = [i for i, other in enumerate(window) if other == key]
    return a + equal[len(equal) // 2]


def bounds_for(size: int, usual: Sizes = USUAL) -> Sizes:
    """Return the bounds for a run of that many characters."""
    return COARSE if size > HUGE_CHARS else usual


def split_rows(lines: Sequence[str], first: int, last: int, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Cut rows ``first..last`` into inclusive row ranges of bounded size."""
    rows = range(first, last + 1)
    sizes = [len(lines[row]) + 1 for row in rows]
    keys = [border_key(rank, lines[row].strip()) for rank, row in zip(ranks, rows, strict=True)]
    return [(first + a, first + b - 1) for a, b in split_units(sizes, keys, bounds_for(sum(sizes)))]


def size_of(lines: Sequence[str], first: int, last: int) -> int:
    """Return the characters of rows ``first..last``, line ends included."""
    return sum(map(len, lines[first : last + 1])) + last + 1 - first


def text_of(lines: Sequence[str], first: int, last: int) -> str:
    """Return rows ``first..last`` without blank lines at either end; CR stays."""
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last].strip():
        last -= 1
    return "\n".join(lines[first : last + 1])


def bounded_texts(text: str) -> list[str]:
    """Return a text as it is, or the first pieces of one that a single long line makes too large."""
    if len(text) <= COARSE.most:
        return [text]
    starts = range(0, len(text), COARSE.most)[:LINE_PIECES]
    return [piece for piece in (text[i : i + COARSE.most] for i in starts) if piece.strip()]


def long_line_note(lines: Sequence[str]) -> str:
    """Return why some text is missing from the chunks, "" if none is."""
    long = sum(1 for line in lines if len(line) > LONG_LINE_CHARS)
    return f"{long} line(s) over {LONG_LINE_CHARS} characters: only their beginning is text" if long else ""


def clip(text: str, most: int) -> str:
    """Return the text in one line with single spaces, at most ``most`` characters."""
    flat = " ".join(text[: most * 8].split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
