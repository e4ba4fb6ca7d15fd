"""The language that a file's own lines name to an editor: ``vim: set ft=ruby:`` or ``-*- mode: ruby -*-``.

Read where the editors read them and nowhere else: Vim the first and last five lines, Emacs the first, or the second
below a ``#!``. Pygments has such a reader, but for Vim's form only, and it takes any line of a file for one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

VIM_LINES = 5
LINE_CHARS = 500  # of a longer line no more is read
_VIM = re.compile(
    r"(?:(?:^|\s)(?:vi|[vV]im(?:[<=>]?\d{1,4})?)|\sex):.*?\b(?:ft|filetype|syn|syntax)\s*=\s*([\w+#-]{1,40})"
)
_EMACS = re.compile(r"-\*-(.{1,200}?)-\*-")
_MODE = re.compile(r"(?:^|;)\s*mode\s*:\s*([\w+#-]{1,40})\s*(?:;|$)", re.IGNORECASE)
_BARE = re.compile(r"\s*([\w+#-]{1,40})\s*")


def declared(lines: Sequence[str]) -> str:
    """Return what the lines of a file call its language, in lower case, "" if they do not say; Vim's word first."""
    count = len(lines) - (bool(lines) and not lines[-1])  # what follows the last LF is no line
    ends = [*range(min(VIM_LINES, count)), *range(max(VIM_LINES, count - VIM_LINES), count)]
    for row in ends:
        line = lines[row][:LINE_CHARS]
        if ":" in line and (found := _VIM.search(line)):
            return found[1].lower()
    for line in lines[: 2 if lines and lines[0].startswith("#!") else 1]:
        if found := _EMACS.search(line[:LINE_CHARS]):
            named = _MODE.search(found[1]) or _BARE.fullmatch(found[1])
            return named[1].lower() if named else ""
    return ""
