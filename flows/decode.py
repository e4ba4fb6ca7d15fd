"""Bytes of a blob to text and facts. Only LF ends a line; a NUL is removed, secrets are masked, all else stays.

No text leaves this module unmasked, so that nothing that is cut, stored, embedded or shown ever held a secret.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import asdict, dataclass
from typing import Any

from chunkers import modeline
from flows.generated import generated_line
from flows.secrets import MASK_VERSION, is_key_file, mask

DECODE_VERSION = 3
FACTS_VERSION = DECODE_VERSION * 1000 + MASK_VERSION  # one number: whatever alters it has every blob read again
_SAMPLE = 8000  # bytes that git looks at, too
_GUESSED = 65_536  # bytes that an encoding is guessed from
_CHAOS = 0.2  # share of mess above which a guess counts for nothing
_HIGH = re.compile(rb"[\x80-\xff]+")
_RUN = 1.5  # bytes beyond ASCII in a row, on average: fewer are Western European
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_ASCII = "\n\r\t aZ09+&~{"
_NUMBERS_SAMPLE = 200_000  # characters
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COOKIE = re.compile(rb"^[ \t\f]*(?:#|//|/\*|--|;|%|\").*?coding[:=][ \t]*([-\w.]+)")
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\r\f\x08\x1b")
_LFS = b"version https://git-lfs.github.com/spec/v1\n"


@dataclass(frozen=True, slots=True)
class Facts:
    """What selection needs to know of a blob, so that it need not be read again."""

    version: int = FACTS_VERSION
    read: bool = True  # False: only its size is known
    binary: bool = False
    lfs: bool = False
    encoding: str = "utf-8"
    replaced: int = 0  # undecodable bytes, each shown as U+FFFD
    characters: int = 0
    lines: int = 0
    longest_line: int = 0  # in characters
    shebang: str = ""  # the first line, if it names an interpreter
    modeline: str = ""  # what it calls its language to an editor
    numbers: int = 0  # digits and the signs within numbers, in percent of what is not white space
    generated: int = 0  # the line of the comment at its top that says so, 0 = none
    key_file: bool = False  # nothing but private keys
    masked: int = 0  # secrets

    def to_json(self) -> dict[str, Any]:
        """Return a value for a jsonb column."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Facts | None:
        """Return the facts, or None if another version of this program wrote them."""
        return cls(**value) if value.get("version") == FACTS_VERSION else None


def decode(raw: bytes) -> tuple[str, Facts]:
    """Return the text of ``raw`` and its facts; the text is "" where the facts say binary or LFS."""
    if raw.startswith(_LFS) and len(raw) < 1024:
        return "", Facts(lfs=True)
    encoding, start = _encoding(raw)
    if not encoding:
        return "", Facts(binary=True, encoding="")
    text = raw[start:].decode(encoding, errors="replace")
    replaced = text.count("\ufffd")
    if encoding == "utf-8":
        replaced = max(0, replaced - raw.count("\ufffd".encode()))  # what was written so is not undecodable
    text = text.replace("\0", "")
    key_file = is_key_file(text)
    text, masked = mask(text)
    lines = text.split("\n")
    return text, Facts(
        encoding=encoding,
        replaced=replaced,
        characters=len(text),
        lines=len(lines) - (lines[-1] == ""),
        longest_line=max(map(len, lines)),
        shebang=lines[0][:200].rstrip("\r") if text.startswith("#!") else "",
        modeline=modeline.declared(lines),
        numbers=_numbers(text),
        generated=generated_line(text),
        key_file=key_file,
        masked=masked,
    )


def _numbers(text: str) -> int:
    sample = text[:_NUMBERS_SAMPLE].encode()
    solid = len(sample.translate(None, b" \t\r\n"))
    return 100 * (len(sample) - len(sample.translate(None, b"0123456789.,-"))) // solid if solid else 0


def _encoding(raw: bytes) -> tuple[str, int]:
    """Return (encoding, bytes of its mark); ("", 0) for what is no text."""
    for mark, name in _BOMS:
        if raw.startswith(mark):
            return name, len(mark)
    sample = raw[:_SAMPLE]
    if sample.count(0) and (wide := _unmarked_utf16(sample)):
        return wide, 0
    if len(sample) - len(sample.translate(None, _CONTROL)) > len(sample) // 20:
        return "", 0
    try:
        raw.decode()
    except UnicodeDecodeError:
        return _legacy(raw), 0
    return "utf-8", 0


def _unmarked_utf16(sample: bytes) -> str:
    half = len(sample) // 2
    for name, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if half and zeros.count(0) > half * 0.7 and sample.count(0) - zeros.count(0) < half // 50 + 1:
            return name
    return ""


def _legacy(raw: bytes) -> str:
    """Return the declared encoding, else the likeliest one, else UTF-8 with replacements."""
    for line in raw.split(b"\n", 2)[:2]:
        if (cookie := _COOKIE.match(line)) and (name := _usable(cookie.group(1).decode("ascii", "replace"))):
            return name
    sample = raw[:_GUESSED]
    runs = _HIGH.findall(sample)
    if sum(map(len, runs)) < _RUN * len(runs):  # single letters with accents: too little to guess from
        return "cp1252" if not _NOT_CP1252.search(raw) else "iso8859-1"
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, threshold=_CHAOS)
    return next((name for match in matches if (name := _usable(match.encoding))), "utf-8")


def _usable(name: str) -> str:
    """Return the normal name of an encoding that writes ASCII as ASCII; "" for one that would move line ends."""
    try:
        normal = codecs.lookup(name).name
        return normal if _ASCII.encode(normal) == _ASCII.encode() else ""
    except (LookupError, UnicodeError, TypeError):
        return ""
