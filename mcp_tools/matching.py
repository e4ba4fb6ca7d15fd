"""A pattern that finds lines: RE2 over a whole text, with the lines that ``git grep`` finds line by line.

RE2 takes time linear in the text for every pattern there is. Only LF ends a line; a line that matches counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import re2

from flows.errors import UsageError
from flows.store.grep import Piece
from flows.store.trigrams import Need
from mcp_tools import required
from mcp_tools.surface import argument

MAX_PATTERN = 2_000  # characters
MAX_MEMORY = 32 << 20  # bytes of a compiled pattern and its automata
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_ANY_CASE = re.compile(r"\(\?[msU-]*i")
_OF_WHOLE_TEXTS = re.compile(r"\\[Az]|\(\?[imsU]*-")  # the ends of a text; ^ and $, which are them without the flag m
_QUALIFIED = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)+")


# The first match of a line: the line's number and first byte, and where the match begins and ends. A plain tuple, since
# there are hundreds of thousands of them in a search.
Match = tuple[int, int, int, int]


class Pattern:
    """A compiled pattern."""

    def __init__(self, pattern: str, *, literal: bool = False, ignore_case: bool = False, multiline: bool = False):
        """Compile ``pattern``.

        Raises:
            UsageError: it is no RE2 expression, or cannot match any stored text.
        """
        _check(pattern, multiline)
        if literal:
            text = re2.escape(pattern)
            self.need: Need = required.bounded(required.literal(pattern, any_case=ignore_case))
        else:
            _compile(pattern, pattern, ignore_case=ignore_case, multiline=multiline)
            any_case = ignore_case or bool(_ANY_CASE.search(pattern))
            self.need, text = required.read(pattern, any_case=any_case), pattern
        # Whether it sees more of a text than one line: then it cannot be searched for in a part of the text.
        self.is_whole = multiline or (not literal and bool(_OF_WHOLE_TEXTS.search(pattern)))
        self._regexp = _compile(f"(?m){text}", pattern, ignore_case=ignore_case, multiline=multiline)
        self.ignores_case = ignore_case
        self.plain = pattern if literal or not re.search(r"[\\^$.|?*+()\[\]{}]", pattern) else ""
        self.written = pattern

    @property
    def name(self) -> str:
        """The identifier that the pattern ends with, if it is text as it stands: of ``def wait``, ``wait``."""
        return next(reversed(_IDENTIFIER.findall(self.plain)), "")

    @property
    def qualified(self) -> str:
        """The symbol that the pattern is the full name of, with dots: of ``Policy::wait``, ``Policy.wait``."""
        return re.sub(r"::|#|->", ".", self.written) if _QUALIFIED.fullmatch(self.written) else ""

    def searched(self, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """Return the pieces of a text as they are to be searched: one by one, or the whole that they make."""
        return [Piece(1, b"".join(piece.body for piece in pieces))] if self.is_whole else pieces

    def lines(self, body: bytes) -> Iterator[Match]:
        """Yield the lines of a text in which a match begins, in their order, each with its first match."""
        end = len(body) - body.endswith(b"\n")
        find, anchor = self._regexp._regexp.Match, re2._Anchor.UNANCHORED  # search() takes three times as long
        at, counted, line = 0, 0, 1
        while at <= end and body:
            start, stop = find(anchor, body, at, end)[0]
            if start < 0:
                return
            line_start = body.rfind(b"\n", at, start) + 1 or at
            line += body.count(b"\n", counted, line_start)
            counted = line_start
            yield line, line_start, start, stop
            at = body.find(b"\n", start, end) + 1
            if not at:
                return


def _check(pattern: str, multiline: bool) -> None:
    if len(pattern) > MAX_PATTERN:
        raise UsageError(f"the pattern has {len(pattern)} characters: {MAX_PATTERN} are allowed")
    if "\0" in pattern:
        raise UsageError(f"the pattern holds a NUL at character {pattern.index(chr(0)) + 1}: no stored text has one")
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the pattern holds half a surrogate pair at character {error.start + 1}, which is no character"
        ) from error
    if "\n" in pattern and not multiline:
        raise UsageError(
            f"the pattern holds a line end at character {pattern.index(chr(10)) + 1}, and lines are searched one by"
            f" one: set {argument('multiline')}, or search for one of its lines"
        )


def _compile(text: str, given: str, *, ignore_case: bool, multiline: bool) -> re2._Regexp:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.never_nl = not multiline  # no part of a match is a line end, not even by [^x] or \s
    options.never_capture = True
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise UsageError(_said(error, given)) from error


def _said(error: re2.error, pattern: str) -> str:
    """Return what is wrong with a pattern, and where."""
    reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error.args[0])
    what, _, fragment = reason.partition(": ")
    if what == "missing )" or (what == "missing ]" and fragment not in pattern):
        at = _unclosed(pattern)
    elif what.startswith("trailing"):
        at = len(pattern) - 1
    else:
        at = pattern.find(fragment) if fragment else -1
    place = f" at character {at + 1}" if at >= 0 else ""
    hint = (
        "; RE2 has neither look-around nor back-references" if what.startswith(("invalid perl", "invalid esc")) else ""
    )
    shown = f", {fragment[:40]!r}" if fragment and fragment != pattern else ""
    said = f"the pattern is no regular expression{place}: {what}{shown}{hint}"
    return f"{said}. Set {argument('literal')} to search for it as it is"


def _unclosed(pattern: str) -> int:
    """Return where the last parenthesis stands that nothing closes."""
    opened: list[int] = []
    for found in re.finditer(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|[()]", pattern, re.S):
        if found.group() == "(":
            opened.append(found.start())
        elif found.group() == ")" and opened:
            opened.pop()
    return opened[-1] if opened else -1
