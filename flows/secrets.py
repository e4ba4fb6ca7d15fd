"""Secrets in text: found by their well-known shapes, and masked before anything is cut, stored or embedded.

Masking is a pure function of the text and :data:`MASK_VERSION`: it keeps the number of characters and every line end,
and what is masked once stays as it is. It must not know paths, repositories or settings: there is no switch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MASK_VERSION = 3  # raise it with every change that can alter a masked text
MASK = "*"

Span = tuple[int, int]
Find = Callable[[str], Iterator[Span]]


@dataclass(frozen=True, slots=True)
class Detector:
    """One shape of a secret: ``find`` is called only on texts that hold one of ``hints``."""

    name: str
    hints: tuple[str, ...]
    find: Find


def mask(text: str) -> tuple[str, int]:
    """Return ``text`` with its secrets masked character by character, and how many there were."""
    spans = sorted({span for detector in DETECTORS if _hinted(text, detector) for span in detector.find(text)})
    if not spans:
        return text, 0
    parts, end, count = [], 0, 0
    for start, stop in spans:
        if stop <= end:
            continue
        count += start >= end  # what overlaps the one before is a part of it
        start = max(_with_escape(text, start), end)
        parts += [text[end:start], MASK * (stop - start)]
        end = stop
    return "".join([*parts, text[end:]]), count


def mask_note(text: str) -> str:
    """Return prose with its secrets masked, those too that are only told by being called a password or the like.

    In code that would hide too much, for there a password is mostly a variable; whoever writes a note means the value.
    """
    masked = mask(text)[0]
    return _TOLD.sub(
        lambda found: found.group(1) + MASK * len(found.group(3)) if _is_told(found) else found.group(), masked
    )


def _with_escape(text: str, start: int) -> int:
    """Return where a mask begins: with the backslash of an escape, half of which would break JSON and strings."""
    first = start
    while text[first - 1 : first] == "\\":
        first -= 1
    return start - (start - first) % 2


def _hinted(text: str, detector: Detector) -> bool:
    return any(hint in text for hint in detector.hints)


def mask_name(name: str) -> str:
    """Return a path or another name with the tokens in it masked."""
    return mask(name)[0] if _TOKEN_HINTS.search(name) else name


def is_key_file(text: str) -> bool:
    """Say whether a text is nothing but keys: a PEM or PuTTY file with a private one."""
    start = text[:200].lstrip("\ufeff \t\r\n")
    if start.startswith("PuTTY-User-Key-File-"):
        return True
    return start.startswith("-----BEGIN ") and bool(_KEY_HEAD.search(text)) and any(_key_material(text))


# --- tokens that their first characters tell ------------------------------------------------------------------------


def _token(name: str, pattern: str, *hints: str) -> Detector:
    """Return a detector of a pattern of bounded length; its group 1 is what is masked.

    It never begins amid letters nor right after a mask: what is left of a text after masking holds no new token. An
    underscore before it is no letter: names are made of it.
    """
    compiled = re.compile(r"(?<![^\W_]|\*)" + pattern)

    def find(text: str) -> Iterator[Span]:
        for match in compiled.finditer(text):
            yield match.span(1)

    return Detector(name, hints, find)


_TOKENS = (
    _token("AWS access key", r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])", "AKIA", "ASIA", "ABIA", "ACCA"),
    _token(
        "AWS secret key",
        r"(?:[A-Za-z]{1,10}_)?(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,4}(?:=>|:=|[=:])\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        "ecret",
        "ECRET",
    ),
    _token("GitHub", r"(gh[pousr]_[A-Za-z0-9]{36,255})(?![A-Za-z0-9])", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _token("GitHub", r"(github_pat_[A-Za-z0-9_]{36,255})\b", "github_pat_"),
    _token("GitLab", r"(gl(?:pat|ptt|dt|rt)-[\w-]{20,300})", "glpat-", "glptt-", "gldt-", "glrt-"),
    _token("Slack", r"(xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,300})", "xox"),
    _token("Slack", r"(xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[a-f0-9]{32,80})(?![A-Za-z0-9])", "xapp-"),
    _token("Slack webhook", r"hooks\.slack\.com/services/(T\w{6,14}/B\w{6,14}/\w{20,30})", "hooks.slack.com"),
    _token("Stripe", r"([sr]k_(?:live|test)_[A-Za-z0-9]{16,255})(?![A-Za-z0-9])", "k_live_", "k_test_"),
    _token("Stripe webhook", r"(whsec_[A-Za-z0-9+/=]{24,100})", "whsec_"),
    _token("Google API key", r"(AIza[\w-]{35})(?![\w-])", "AIza"),
    _token("Google OAuth", r"(GOCSPX-[\w-]{28}|ya29\.[\w-]{30,1000})", "GOCSPX-", "ya29."),
    _token("OpenAI", r"(sk-(?:[a-z]{3,10}-)?[\w-]{16,200}T3BlbkFJ[\w-]{16,200})", "T3BlbkFJ"),
    _token("Anthropic", r"(sk-ant-[\w-]{24,200})", "sk-ant-"),
    _token("npm", r"(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])", "npm_"),
    _token("npmrc", r":_(?:authToken|password|auth)\s{0,4}=\s{0,4}\"?([^\s\"$*][^\s\"*]{7,500})", ":_auth", ":_pass"),
    _token("PyPI", r"(pypi-AgE[\w-]{50,1000})", "pypi-AgE"),
    _token("Hugging Face", r"(hf_[A-Za-z]{34})(?![A-Za-z0-9])", "hf_"),
    _token("DigitalOcean", r"(do[opr]_v1_[a-f0-9]{64})(?![A-Za-z0-9])", "_v1_"),
    _token("SendGrid", r"(SG\.[\w-]{22}\.[\w-]{43})(?![\w-])", "SG."),
    _token("Shopify", r"(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})(?![A-Za-z0-9])", "shp"),
    _token("Telegram bot", r"(\d{8,10}:AA[\w-]{33})(?![\w-])", ":AA"),
    _token("Databricks", r"(dapi[a-f0-9]{32})(?![A-Za-z0-9])", "dapi"),
    _token("Vault", r"(hv[sb]\.[\w-]{24,300})", "hvs.", "hvb."),
    _token("age", r"(AGE-SECRET-KEY-1[A-Z0-9]{58})(?![A-Za-z0-9])", "AGE-SECRET-KEY-1"),
    _token("Azure storage", r"AccountKey=([A-Za-z0-9+/]{86}==)", "AccountKey="),
    _token("JWT", r"(eyJ[\w-]{10,500}\.eyJ[\w-]{10,2000}\.[\w-]{10,2000})", "eyJ"),
)
_TOKEN_HINTS = re.compile("|".join(re.escape(hint) for token in _TOKENS for hint in token.hints))


# --- private keys ---------------------------------------------------------------------------------------------------

_KEY_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d:")
_PIECE = re.compile(r"(?:[^\n\\]|\\(?![nr]))*(?:\\[nr]|\n|\Z)")  # up to a line end, real or written as \n in a string
_BARE = re.compile(r"[\s\"'`,;+\\|#>*()./:{}\[\]-]*([A-Za-z0-9+/=]+)(?:\\[nr]|[\s\"'`,;+\\|#>*(){}\[\]])*")
_PEM_FIELD = re.compile(r"[\s\"'`+#>*]*[A-Z][A-Za-z-]{2,20}: ")
_NOTHING = re.compile(r"(?:\\[nr]|[\s\"'`,;+\\|#>()*{}\[\]])*")
_LONGEST_KEY = 16_000
_SHORT = 16  # characters of a piece that may be a word of code; longer ones are key material


def _key_material(text: str) -> Iterator[Span]:
    """Yield what follows a key's first line: pieces of base64, each a line of its own or a part of a string."""
    for head in _KEY_HEAD.finditer(text):
        found: list[Span] = []
        at, end = head.end(), text.find("-----END", head.end(), head.end() + _LONGEST_KEY)
        limit = end if end >= 0 else min(len(text), head.end() + _LONGEST_KEY)
        while at < limit and (piece := _PIECE.match(text, at, limit)):
            if bare := _BARE.fullmatch(text, at, piece.end()):
                found.append(bare.span(1))
            elif not (_NOTHING.fullmatch(text, at, piece.end()) or _PEM_FIELD.match(text, at, piece.end())):
                break
            at = piece.end()
        if (end >= 0 and at >= end) or any(stop - start >= _SHORT for start, stop in found):
            yield from found


# --- passwords ------------------------------------------------------------------------------------------------------

_PLACEHOLDER_WORDS = """
password passwd pass pwd pw secret token user username admin changeme example test guest root xxx xxxx none null
mypassword yourpassword your_password my_password placeholder default
"""
_PLACEHOLDERS = frozenset(_PLACEHOLDER_WORDS.split())
# A password may hold an @ itself: it ends at the last one before the path, the query or the next of a list.
_URL = re.compile(
    r"://[^\s/:@\"'<>{}$%()\[\]*]{0,100}:"
    r"([^\s/@\"'<>{}$()\[\]*]{1,200}(?:@[^\s/@\"'<>{}$()\[\]*?#&,;=|\\]{0,200}){0,4})@[\w\[]"
)
_SHORTEST_PASSWORD = 3


def _url_passwords(text: str) -> Iterator[Span]:
    for match in _URL.finditer(text):
        password = match.group(1)
        if len(password) < _SHORTEST_PASSWORD or password.startswith("%"):
            continue
        if password.lower().partition("@")[0] not in _PLACEHOLDERS:
            yield match.span(1)


_LITERALS = (
    re.compile(r"([\"'`])([A-Za-z0-9+/=_.~!@#$%^&-]{16,200})\1"),
    re.compile(r"([=:][ \t]?)([A-Za-z0-9+/=_-]{20,200})[ \t\r]?(?=\n|\Z)"),  # of configuration files
)
_NAMED = re.compile(
    r"(?i:passw(?:or)?d|passphrase|secret|token|api_?key|access_?key|auth_?key|private_?key|secret_?key|credential)"
    r"[\w-]{0,20}[\"']?\]?\s{0,4}(?::\s{0,2}\w{1,20}\s{0,2}=|=>|:=|==?|[:,(]|)\s{0,4}[bBrRuU]?\Z"
)
_BEFORE = 80  # characters before a literal in which its name stands
_BITS = 3.5  # entropy a character: words and paths stay below, random hex of 32 digits lies at 3.6
_WORD = re.compile(r"[A-Z]?[a-z]{5,}|[A-Z]{6,}|[-_./][A-Za-z]{3,}[-_./]")


def _assignments(text: str) -> Iterator[Span]:
    """Yield literals with the entropy of a key that are given to what is named like one."""
    for literal in _LITERALS:
        for match in literal.finditer(text):
            if _is_random(match.group(2)):
                start = match.start()
                if _NAMED.search(text[max(0, start - _BEFORE) : start]):
                    yield match.span(2)


def _is_random(value: str) -> bool:
    digits = sum(c.isdigit() for c in value)
    if digits < 2 or digits == len(value) or (digits * 6 < len(value) and len(_WORD.findall(value)) > 1):
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= _BITS


# --- secrets in prose ------------------------------------------------------------------------------------------------

_TOLD = re.compile(
    r"((?i:[\w-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_ -]?key|access[_ -]?key|credential)[\w-]{0,20}"
    r"[\"'`]?)(\s{0,4}(?:=|:|\bis\b)\s{0,4})[\"'`]?)([^\s\"'`,;<>{}()\[\]$*|]{6,200})(?![\w(\[])"
)
_VALUES = frozenset({"none", "null", "true", "false", "undefined"})


def _is_told(found: re.Match[str]) -> bool:
    """Say whether what follows the name of a secret is its value and not a word, a number, a path or a variable."""
    how, value = found.group(2), found.group(3).rstrip(".!?")
    plain = value.lower()
    if plain in _PLACEHOLDERS | _VALUES or plain.startswith(("/", "./", "~", "%")) or plain.replace(".", "").isdigit():
        return False
    if any(char.isdigit() for char in plain):
        return True
    return how == "=" and not re.search(r"[._]|passw|secret|token|key", plain)


DETECTORS = (
    *_TOKENS,
    Detector("private key", ("PRIVATE KEY", "PuTTY-User-Key-File-"), _key_material),
    Detector("password in a URL", ("://",), _url_passwords),
    Detector("assigned literal", ("=", ":", "(", ","), _assignments),
)
