"""Paths of a commit: bytes in git, one reversible text form everywhere else.

The text form is the path itself where it is valid UTF-8 without invisible characters. A backslash becomes ``\\\\``,
a control or formatting character ``\\u{hex}``, a byte that is not UTF-8 ``\\xhh``: no two paths share a form, and what
a user sees is what a user may type.
"""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ESCAPE = re.compile(r"\\(?:(\\)|x([0-9a-f]{2})|u\{([0-9a-f]{1,6})\})")


def to_text(path: bytes) -> str:
    """Return the text form of ``path``."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return "".join(_show(c) for c in path.decode(errors="surrogateescape"))
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(_show(c) for c in text)


def to_bytes(text: str) -> bytes:
    """Return the path whose text form is ``text``; the inverse of :func:`to_text`."""

    def restore(match: re.Match[str]) -> str:
        backslash, byte, point = match.groups()
        if backslash:
            return "\\"
        return chr(0xDC00 + int(byte, 16)) if byte else chr(int(point, 16))

    return _ESCAPE.sub(restore, text).encode(errors="surrogateescape")


def _show(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return f"\\u{{{ord(char):x}}}" if unicodedata.category(char) in _HIDDEN else char
