"""Where statements begin inside long stretches of code."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import tree_sitter

_LONG_ROWS = 8  # a statement of fewer rows is never cut inside unless it must


def statement_depths(root: tree_sitter.Node, spans: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return row -> depth of the shallowest statement that begins there, for rows in the sorted spans.

    Only nodes that reach into a span and are long themselves are entered, so the walk costs what is cut, not the file.
    """
    depths: dict[int, int] = {}
    if not spans:
        return depths
    ends = [last for _, last in spans]
    level, depth = [root], 0
    while level:
        deeper = []
        for node in level:
            previous = node.start_point.row if depth else -1
            for child in node.named_children:
                first, last = child.start_point.row, child.end_point.row
                if first > previous:
                    depths.setdefault(first, depth)
                previous = max(previous, last if child.end_point.column else last - 1)
                at = bisect_left(ends, first)
                if last - first >= _LONG_ROWS and at < len(spans) and spans[at][0] <= last:
                    deeper.append(child)
        level, depth = deeper, depth + 1
    return depths
