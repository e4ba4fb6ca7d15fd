"""What a definition is called: names, one-line signatures, first sentences.

Works on text around offsets that the caller found, never on syntax nodes.
"""

from __future__ import annotations

import re
from hashlib import sha256

from chunkers.lines import clip

NAME_CHARS = 300
SIGNATURE_CHARS = 300
DOC_CHARS = 300

_SENTENCE = re.compile(r"(.+?[.!?。！？])(?:\s|$)|(.+)", re.DOTALL)
_ANNOTATION = re.compile(r"@(?!(?:interface|implementation|protocol)\b)[\w.:]+\s*")
_BETWEEN = re.compile(r"(?:\s|//[^\n]*\n)*")
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
    if kind == "namespace":
        name = name.replace("\\", ".")
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


def signature_of(
    source: bytes, start: int, body: int | None, end: int, *, is_type: bool, noise: re.Pattern[str] | None
) -> str:
    """Return one line from the definition's start, modifiers before it on its line included, to its body.

    ``noise`` finds attributes and comments that are no part of it.
    """
    near = max(0, start - 80)
    before = _WORD_BEFORE.search(source, max(source.rfind(b"\n", near, start) + 1, near), start)
    begin = before.start() if before else start
    limit = (body if body is not None else end) if body != start else end
    window = (16 if source[begin : begin + 1] == b"@" else 4) * SIGNATURE_CHARS
    text = source[begin : min(limit, begin + window)].decode("utf-8", "replace")
    text = text.lstrip()
    if noise is not None:
        text = noise.sub("", text)
    text = _without_annotations(text)
    if body is None and is_type:
        text = text.partition("\n")[0]
    if "#" in text:
        text = _TRAILING_COMMENT.sub("", text)
    return clip(text.rstrip().rstrip("{:;,\\").rstrip(), SIGNATURE_CHARS)


def _without_annotations(text: str) -> str:
    """Return a definition without the annotations before it, unless nothing would be left."""
    at = 0
    while found := _ANNOTATION.match(text, at):
        at = found.end()
        if text[at : at + 1] == "(":
            depth = 0
            while at < len(text):
                depth += (text[at] == "(") - (text[at] == ")")
                at += 1
                if not depth:
                    break
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
    return text[at:] or text


def first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph in one line, bounded."""
    paragraph = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    flat = clip(paragraph, 4 * DOC_CHARS)
    match = _SENTENCE.match(flat)
    return clip(match[0], DOC_CHARS) if match else ""
