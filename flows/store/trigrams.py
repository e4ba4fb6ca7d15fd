"""What the trigram index sees of a text, and which trigrams and longer strings a text must have to hold a string.

The index has the trigrams of words as pg_trgm makes them, over a folded text: ASCII in lower case, punctuation read as
digits, each byte of a character beyond ASCII as the letter q with the byte's three octal digits. What is indexed is
ASCII, so that no locale has a say. Three characters of a word in a row are a trigram; so are two blanks with its first
character, a blank with its first two, and its last two with a blank.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from flows.store.connect import Connection

PUNCTUATION = "_-+*/=<>(){}[].,;:!?&|^%$#@~`'\"\\"
DIGITS = "01234567890123456789012345678901"
# Letters beyond ASCII that a search without case takes for ASCII: the long s and the Kelvin sign.
VARIANTS = {"ſ": "s", "\u212a": "k"}
_BYTE = "q"  # stands before the digits of a byte beyond ASCII
EDGE = " "  # of a word: white space, a control character, or an end of the text
LONG = 6  # characters of the strings that a sieve knows

_FOLDED = dict(zip(PUNCTUATION, DIGITS, strict=True)) | VARIANTS
_WORD = re.compile(r"[a-z0-9]+")


def _replaced(text: str, replacements: Iterable[tuple[str, str]]) -> str:
    """Return SQL that replaces one character after another: a sixth of what ``translate`` takes."""
    for old, new in replacements:
        quoted = old.replace("'", "''")
        text = f"replace({text}, '{quoted}', '{new}')"
    return text


def _expression() -> str:
    """Return the indexed expression as the migration has it: only the very same one uses the index."""
    backslash = "\\"
    variants = _replaced('lower(body collate "C")', (*VARIANTS.items(), (backslash, _FOLDED[backslash])))
    escaped = f"encode(decode({variants}, 'escape'), 'escape')"  # now backslashes stand before a byte's digits alone
    rest = [(old, new) for old, new in _FOLDED.items() if old not in VARIANTS and old != backslash]
    return f"show_trgm({_replaced(escaped, ((backslash, _BYTE), *rest))})"


EXPRESSION = sql.SQL(_expression().replace("%", "%%"))  # since it stands beside parameters


def fold(character: str, *, any_case: bool = False) -> str:
    """Return how a character is indexed: letters and digits, EDGE, or "" for what must not be asked for.

    With ``any_case`` the character may stand for its other cases: beyond ASCII, where the index knows no case, these
    are left to the search.
    """
    if character in _FOLDED:
        return _FOLDED[character]
    if not character.isascii():
        return "" if any_case else "".join(f"{_BYTE}{byte:03o}" for byte in character.encode())
    return character.lower() if character.isalnum() else EDGE


def grams(folded: str) -> frozenset[str]:
    """Return the trigrams of every text that holds ``folded``, and its strings of LONG characters within a word.

    What stands before and after it is unknown.
    """
    found: set[str] = set()
    for word in _WORD.finditer(folded):
        found.update(word.group()[i : i + LONG] for i in range(len(word.group()) - LONG + 1))
        padded = ("  " if word.start() else "") + word.group() + (" " if word.end() < len(folded) else "")
        found.update(padded[i : i + 3] for i in range(len(padded) - 2))
    return frozenset(found)


def settle(connection: Connection) -> None:
    """Merge what runs added to the index, which searches must otherwise go through one by one."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # not ours: autovacuum does it, sooner or later
        connection.execute("select gin_clean_pending_list('piece_trigram'::regclass)")


@dataclass(frozen=True, slots=True)
class Need:
    """What a text needs to be looked at: all of ``grams``, and one alternative of each group in ``either``.

    Grams have three characters, which the index knows, or LONG, which the sieves know.
    """

    grams: frozenset[str] = frozenset()
    either: tuple[tuple[Need, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.grams or self.either)

    def __and__(self, other: Need) -> Need:
        groups = dict.fromkeys((*self.either, *other.either))
        return Need(self.grams | other.grams, tuple(groups))

    @property
    def size(self) -> int:
        """Count the conditions."""
        return bool(self.grams) + sum(need.size for group in self.either for need in group)

    def met_by(self, grams: frozenset[str]) -> bool:
        """Say whether a text with these grams is looked at."""
        return self.grams <= grams and all(any(need.met_by(grams) for need in group) for group in self.either)


NOTHING = Need()


def one_of(needs: Iterable[Need]) -> Need:
    """Return the need for one of several: nothing, if one of them needs nothing."""
    different = tuple(dict.fromkeys(needs))
    if not different or not all(different):
        return NOTHING
    return different[0] if len(different) == 1 else Need(either=(different,))
