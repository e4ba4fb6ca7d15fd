"""Does the comment at the top of a file say that a program wrote it?

Only what stands before the first line of code counts: a generator holds such sentences in its templates.
"""

from __future__ import annotations

import re

_TOP = 6_000  # characters looked at
_LINE_COMMENT = re.compile(r"(?://|#|--|;|%|'|\.\.|\*|!|<\?|REM\b|\"use strict\")")
_BLOCKS = (
    ("/*", "*/"),
    ("<!--", "-->"),
    ('"""', '"""'),
    ("'''", "'''"),
    ("(*", "*)"),
    ("{-", "-}"),
    ("=begin", "=end"),
)

_AUTO = r"(?:auto(?:matically)?[- ]?)?generated"
_WHAT = r"(?:file|code|source|header|class|module|document|script)"
_HANDS_OFF = r"\b(?:do not|don't|never) (?:edit|modify|change)(?:\W*$|[.!;*]| (?:it|this|by hand|manually|directly)\b)"
_SAYS = re.compile(
    "|".join(
        (
            r"@generated\b",
            r"<auto-?generated",
            rf"\bcode {_AUTO}\b.{{0,200}}\bdo not edit",
            rf"\bthis (?:[\w.-]+ ){{0,2}}{_WHAT} (?:is|was|has been|were) (?:\w+ )?{_AUTO}\b",
            rf"\b{_AUTO} (?:by|from|with|using|file|code)\b.{{0,200}}{_HANDS_OFF}",
            rf"\b(?:do not|don't|never) (?:edit|modify|change)\b.{{0,100}}\b{_AUTO}\b",
            r"^\W*(?-i:Generated|Auto-?[Gg]enerated|AUTO-?GENERATED|Automatically [Gg]enerated)"
            r" (?:by|from)\b(?! Django)",  # whose migrations people edit
        )
    ),
    re.IGNORECASE,
)


def generated_line(text: str) -> int:
    """Return the 1-based line of the comment that says so, 0 if none does."""
    closing = ""
    for number, line in enumerate(text[:_TOP].split("\n"), 1):
        stripped = line.strip("\ufeff \t\r\f")
        if not closing and stripped and not _LINE_COMMENT.match(stripped):
            opened = next((pair for pair in _BLOCKS if stripped.startswith(pair[0])), None)
            if opened is None:
                return 0
            closing = opened[1]
            stripped = stripped[len(opened[0]) :]
        if _SAYS.search(stripped):
            return number
        if closing and closing in stripped:
            closing = ""
    return 0
