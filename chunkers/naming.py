"""What a definition is called and says of itself: names, one-line signatures, documentation.

Works on text around offsets that the caller found, never on syntax nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from chunkers.lines import clip

NAME_CHARS = 300
SIGNATURE_CHARS = 300
DOC_CHARS = 300
_LEAD_ROWS = 400  # comments longer than this before a definition are not read as its documentation

_PREFIXES = {"slash": ("//", "#[", "@", "[[", "template"), "hash": ("#", "@")}
_MARKER = re.compile(r"^\s*(?:/{2,}!?|/\*+!?|\*+/|\*+|#+!?)?\s?")
_NOT_DOC = ("@", "eslint", "prettier-", "noqa", "nolint", "go:", "SPDX", "type:", "pylint:")
_SENTENCE = re.compile(r"(.+?[.!?。！？])(?:\s|$)|(.+)", re.DOTALL)
DOCSTRING = re.compile(rb"[rRuUbB]{0,2}(\"\"\"|'''|\"|')(.{0,4000}?)(?:\1|$)", re.DOTALL)
_ANNOTATIONS = re.compile(r"^(?:@(?!interface\b)[\w.]+(?:\s*\((?:[^()]|\([^()]*\))*\))?\s+)+")
_TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>(?=::)")
_JS_PREFIX = re.compile(r"^exports\.|^(?:this|self|window|globalThis)\.")
_TRAILING_COMMENT = re.compile(r":\s*#.*\Z", re.DOTALL)
_CALLED = re.compile(r"([A-Za-z_~][\w:~]*)\s*\(")
_WORD_BEFORE = re.compile(rb"[\w \t]{0,80}\Z")


def clean_name(raw: str, kind: str) -> str:
    """Return one part of a qualified name: no ``#``, ``:``, ``@`` or white space, dots only where the source joins."""
    if kind == "test":
        return re.sub(r"\W+", "-", raw).strip("-")[:80] or "test"
    if raw.isidentifier() and raw.isascii():
        return raw
    name = raw.strip("\"'`")
    if "::" in name:
        while _TEMPLATE_ARGUMENTS.search(name):
            name = _TEMPLATE_ARGUMENTS.sub("", name)
        name = name.replace("::", ".")
    name = _JS_PREFIX.sub("", name.removeprefix("module.")).replace(".prototype.", ".")
    name = re.sub(r"[\s:@\x00]+", "-", name.replace("#", "").replace("\ufffd", "-"))
    return name.strip(".-") or "anonymous"


def qualify(*parts: str) -> str:
    """Join the parts with dots; a longer name than NAME_CHARS ends with ``~`` and 8 hex of its hash."""
    name = ".".join(part for part in parts if part)
    if len(name) <= NAME_CHARS:
        return name
    return f"{name[: NAME_CHARS - 9]}~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def name_from_signature(signature: str, kind: str) -> str:
    """Guess a name where no query pattern reached it: what stands before the parameters."""
    if kind == "default":
        return "default"
    called = _CALLED.search(signature)
    return called[1] if called else "anonymous"


def signature_of(source: bytes, start: int, body: int | None, end: int, *, is_type: bool) -> str:
    """Return one line from the definition's start, modifiers before it on its line included, to its body."""
    near = max(0, start - 80)
    before = _WORD_BEFORE.search(source, max(source.rfind(b"\n", near, start) + 1, near), start)
    begin = before.start() if before else start
    limit = (body if body is not None else end) if body != start else end
    text = source[begin : min(limit, begin + 4 * SIGNATURE_CHARS)].decode("utf-8", "replace")
    if body is None and is_type:
        text = text.strip().partition("\n")[0]
    text = text.lstrip()
    if text.startswith("@"):
        text = _ANNOTATIONS.sub("", text)
    if "#" in text:
        text = _TRAILING_COMMENT.sub("", text)
    return clip(text.rstrip().rstrip("{:;,").rstrip(), SIGNATURE_CHARS)


def lead_row(lines: Sequence[str], row: int, floor: int, style: Literal["slash", "hash"]) -> int:
    """Return the first of the comment, decorator and attribute rows directly above a row, not above ``floor``."""
    floor = max(floor, row - _LEAD_ROWS)
    while row > floor:
        above = lines[row - 1].strip()
        if above.startswith(_PREFIXES[style]):
            row -= 1
        elif style == "slash" and above.endswith(("*/", ")]")):
            opening = _opening_row(lines, row - 1, floor, "/*" if above.endswith("*/") else "#[")
            if opening is None:
                break
            row = opening
        else:
            break
    return row


def _opening_row(lines: Sequence[str], row: int, floor: int, opener: str) -> int | None:
    """Return the row that opens the block closed in ``row`` if nothing stands before the opener, else None."""
    for candidate in range(row, floor - 1, -1):
        if opener in lines[candidate]:
            return candidate if lines[candidate].lstrip().startswith(opener) else None
    return None


def doc_of(lines: Sequence[str], lead: int, first: int, source: bytes, body: int | None, style: str) -> str:
    """Return the first sentence of a Python docstring or of the comment rows ``lead..first``."""
    if style == "hash" and body is not None:
        docstring = docstring_at(source, body)
        if docstring:
            return first_sentence(docstring)
    return first_sentence(comment_text(lines[lead:first])) if lead < first else ""


def docstring_at(source: bytes, offset: int) -> str:
    """Return the text of a string literal that begins at a byte offset, "" if none does."""
    match = DOCSTRING.match(source, offset)
    return match[2].decode("utf-8", "replace").strip() if match else ""


def comment_text(rows: Sequence[str]) -> str:
    """Return what the first paragraph of comment rows says, without markers, decorators, tags and tool directives."""
    said: list[str] = []
    in_block = False
    for row in rows:
        bare = row.strip()
        in_block = in_block or bare.startswith("/*")
        if not in_block and (not bare.startswith(("//", "#")) or bare.startswith("#[")):
            continue
        text = _MARKER.sub("", bare, count=1).removesuffix("*/").strip()
        in_block = in_block and "*/" not in bare
        if text.startswith(_NOT_DOC):
            continue
        if text and any(map(str.isalnum, text)):
            said.append(text)
        elif said:
            break
    return "\n".join(said)


def first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph in one line, bounded."""
    paragraph = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    flat = clip(paragraph, 4 * DOC_CHARS)
    match = _SENTENCE.match(flat)
    return clip(match[0], DOC_CHARS) if match else ""
