"""Finds the scripts of single-file components (Vue, Svelte): what of a file is JavaScript or TypeScript."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPENING = re.compile(r"^<script\b([^>]*)>[ \t\r]*$")
_CLOSING = re.compile(r"^</script\s*>")
_TYPED = re.compile(r"\blang\s*=\s*[\"']?tsx?\b")


def script_of(lines: Sequence[str]) -> tuple[str, bytes]:
    """Return the scripts' language and, of the same rows and lengths as the file, a source blank but for them."""
    kept: list[bytes] = []
    language, in_script = "javascript", False
    for line in lines:
        opening = None if in_script else _OPENING.match(line)
        if opening is not None and _TYPED.search(opening[1]):
            language = "typescript"
        if _CLOSING.match(line):
            in_script = False
        raw = line.encode("utf-8", "surrogatepass")
        kept.append(raw if in_script else b" " * len(raw))
        in_script = in_script or opening is not None
    return language, b"\n".join(kept)
