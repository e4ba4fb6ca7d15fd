"""Reads a regular expression as RE2 does, to learn what every text that matches it must hold.

The answer may ask for too little, never for too much: a text that matches is never left out. After Russ Cox, "Regular
Expression Matching with a Trigram Index" (2012): each part of the pattern has the set of all strings that it matches,
or, where these are too many, sets of their beginnings and endings; what joins two parts yields trigrams as well.
Upper and lower case of ASCII are one, whatever the flags say; an end of a line is an edge of a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from flows.store.trigrams import EDGE, LONG, NOTHING, Need, fold, grams, one_of

MAX_STRINGS = 64  # in a set
MAX_CHARACTERS = 12  # of a class, as indexed
MAX_LENGTH = 600  # of a string in a set
MAX_COPIES = 4  # of a repeated part
MAX_CONDITIONS = 256  # beyond them the database is asked for everything
# Characters of a beginning or ending: with the next one they are a string that a sieve knows, or at least a trigram.
KEPT = (LONG - 1, 2)
_ANY: Final = frozenset({""})


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of the strings that a part of a pattern matches.

    ``exact`` holds all of them, or is None; ``begin`` and ``end`` then hold how each of them begins and ends.
    """

    exact: frozenset[str] | None
    begin: frozenset[str] = _ANY
    end: frozenset[str] = _ANY
    need: Need = NOTHING

    def loose(self) -> Part:
        """Return the part without its set of all strings: what that says has become needs, beginnings and endings."""
        if self.exact is None:
            return self
        need = one_of(Need(grams(string)) for string in self.exact)
        return Part(None, _begin(self.exact), _end(self.exact), self.need & need)


EMPTY = Part(frozenset({""}))
UNKNOWN = Part(None)  # any string at all
LINE_EDGE = Part(frozenset({EDGE}))


def _begin(strings: frozenset[str]) -> frozenset[str]:
    return _cut(strings, (slice(kept) for kept in KEPT))


def _end(strings: frozenset[str]) -> frozenset[str]:
    return _cut(strings, (slice(-kept, None) for kept in KEPT))


def _cut(strings: frozenset[str], parts: Iterable[slice]) -> frozenset[str]:
    """Shorten strings until they are not too many; a set with the empty string, or with too many, says nothing."""
    for part in parts:
        short = frozenset(string[part] for string in strings)
        if "" not in short and len(short) <= MAX_STRINGS:
            return short
    return _ANY


def _cross(left: frozenset[str], right: frozenset[str]) -> frozenset[str] | None:
    """Return each string of ``left`` with each of ``right``, None if these are too many or too long."""
    if len(left) * len(right) > MAX_STRINGS or max(map(len, left)) + max(map(len, right)) > MAX_LENGTH:
        return None
    return frozenset(a + b for a in left for b in right)


def join(left: Part, right: Part) -> Part:
    """Return ``left`` followed by ``right``."""
    if left.exact is not None and right.exact is not None and (both := _cross(left.exact, right.exact)):
        return Part(both, need=left.need & right.need)
    a, b = left.loose(), right.loose()
    seam = _cross(left.exact or a.end, right.exact or b.begin)
    if seam is None:
        ends, begins = _cut(a.end, [slice(-KEPT[1], None)]), _cut(b.begin, [slice(KEPT[1])])
        seam = _cross(left.exact or ends, right.exact or begins)
    need = a.need & b.need
    if seam is None:
        return Part(None, a.begin, b.end, need)
    need = need & one_of(Need(grams(string)) for string in seam)
    begin = _begin(seam) if left.exact is not None else a.begin
    end = _end(seam) if right.exact is not None else b.end
    return Part(None, begin, end, need)


def either(parts: list[Part]) -> Part:
    """Return a choice of several."""
    if len(parts) == 1:
        return parts[0]
    sets = [part.exact for part in parts if part.exact is not None]
    if len(sets) == len(parts) and not any(part.need for part in parts) and sum(map(len, sets)) <= MAX_STRINGS:
        return Part(frozenset().union(*sets))
    loose = [part.loose() for part in parts]
    begin = _begin(frozenset().union(*(part.begin for part in loose)))
    end = _end(frozenset().union(*(part.end for part in loose)))
    return Part(None, begin, end, one_of(part.need for part in loose))


def repeat(part: Part, least: int, most: int | None) -> Part:
    """Return a part that stands ``least`` to ``most`` times in a row (None = any number)."""
    if least == 0:
        return either([part, EMPTY]) if most == 1 else EMPTY if most == 0 else UNKNOWN
    copies = reduce(join, [part] * min(least, MAX_COPIES))
    if least == most and least <= MAX_COPIES:
        return copies
    loose = copies.loose()
    return Part(None, loose.begin, loose.end, loose.need)


def characters(found: set[str] | None, *, any_case: bool) -> Part:
    """Return one character of a set; None = a set that holds too much to tell."""
    if found is None:
        return UNKNOWN
    folded = {fold(character, any_case=any_case) for character in found}
    return Part(frozenset(folded)) if folded and "" not in folded and len(folded) <= MAX_CHARACTERS else UNKNOWN


def literal(text: str, *, any_case: bool) -> Part:
    """Return a string as it is, or in any case."""
    return reduce(join, (characters({character}, any_case=any_case) for character in text), EMPTY)


def read(pattern: str, *, any_case: bool) -> Need:
    """Return what a text needs to match a pattern that RE2 accepts; ``any_case``: some of it ignores case."""
    reader = _Reader(pattern, any_case=any_case)
    try:
        part = reader.choice()
    except (IndexError, ValueError):  # RE2 knows something that we do not
        return NOTHING
    return bounded(part) if reader.at == len(pattern) else NOTHING


def bounded(part: Part) -> Need:
    """Return what a text needs to match ``part``: nothing, where that is too much to ask a database for."""
    need = part.loose().need
    return need if need.size <= MAX_CONDITIONS else NOTHING


_FLAGS = re.compile(r"\(\?[imsU]*(?:-[imsU]+)?[:)]")
_NAME = re.compile(r"\(\?P?<\w+>")
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})")
_PROPERTY = re.compile(r"[pP](?:\{[^}]*\}|.)", re.S)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PERL = {"d": set("0123456789"), "s": set("\t\n\f\r ")}
_POSIX_SETS = {"digit": _PERL["d"], "space": {*"\t\n\v\f\r "}, "blank": {*"\t "}}


class _Reader:
    """A recursive descent over RE2's syntax."""

    def __init__(self, pattern: str, *, any_case: bool) -> None:
        self.pattern = pattern
        self.any_case = any_case
        self.at = 0

    def _starts(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def _take(self, length: int) -> str:
        """Move over ``length`` characters and return them."""
        taken = self.pattern[self.at : self.at + length]
        if len(taken) < length:
            raise IndexError
        self.at += length
        return taken

    def choice(self) -> Part:
        """Read alternatives up to a closing parenthesis or the end."""
        parts = [self._sequence()]
        while self._starts("|"):
            self._take(1)
            parts.append(self._sequence())
        return either(parts)

    def _sequence(self) -> Part:
        result = EMPTY
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            result = join(result, self._quoted() if self._starts("\\Q") else self._repeated())
        return result

    def _quoted(self) -> Part:
        """Read a quotation. A repetition after it is of its last character alone."""
        end = self.pattern.find("\\E", self.at + 2)
        text = self.pattern[self.at + 2 : end if end >= 0 else len(self.pattern)]
        self._take(2 + len(text) + (2 if end >= 0 else 0))
        if not text:
            return EMPTY
        return join(self._literal(text[:-1]), self._counted(self._literal(text[-1])))

    def _repeated(self) -> Part:
        return self._counted(self._atom())

    def _counted(self, part: Part) -> Part:
        """Read the repetitions that follow a part."""
        while self.at < len(self.pattern):
            sign = self.pattern[self.at]
            if sign in "*+?":
                self._take(1)
                part = repeat(part, int(sign == "+"), 1 if sign == "?" else None)
            elif count := _COUNT.match(self.pattern, self.at):
                self._take(len(count.group()))
                least = int(count.group(1))
                most = least if not count.group(2) else int(count.group(3)) if count.group(3) else None
                part = repeat(part, least, most)
            else:
                return part
            if self._starts("?"):  # reluctant: the same strings
                self._take(1)
        return part

    def _atom(self) -> Part:
        sign = self.pattern[self.at]
        if sign == "(":
            return self._group()
        if sign == "[":
            return characters(self._class(), any_case=self.any_case)
        if sign == "\\":
            return self._escaped()
        self._take(1)
        if sign == ".":
            return UNKNOWN
        return LINE_EDGE if sign in "^$" else self._literal(sign)

    def _literal(self, text: str) -> Part:
        return literal(text, any_case=self.any_case)

    def _group(self) -> Part:
        if flags := _FLAGS.match(self.pattern, self.at):
            self._take(len(flags.group()))
            if flags.group().endswith(")"):
                return EMPTY
        elif name := _NAME.match(self.pattern, self.at):
            self._take(len(name.group()))
        else:
            self._take(1)
        part = self.choice()
        if self._take(1) != ")":
            raise ValueError
        return part

    def _escaped(self) -> Part:
        sign = self.pattern[self.at + 1]
        if sign in "Az":
            self._take(2)
            return LINE_EDGE
        if sign in "bB":
            self._take(2)
            return EMPTY
        if sign in "DSWwC":
            self._take(2)
            return UNKNOWN
        return characters(self._escape(), any_case=self.any_case)

    def _escape(self) -> set[str] | None:
        """Read an escape that stands for characters, in a class or outside."""
        sign = self.pattern[self.at + 1]
        rest = self.at + 1
        if sign in _PERL:
            self._take(2)
            return _PERL[sign]
        if sign in "DSWw":
            self._take(2)
            return None
        if sign in "pP" and (found := _PROPERTY.match(self.pattern, rest)):
            self._take(1 + len(found.group()))
            return None
        if found := _OCTAL.match(self.pattern, rest):
            self._take(1 + len(found.group()))
            return {chr(int(found.group(), 8))}
        if found := _HEX.match(self.pattern, rest):
            self._take(1 + len(found.group()))
            return {chr(int(found.group(1) or found.group(2), 16))}
        self._take(2)
        if sign in _CONTROLS:
            return {_CONTROLS[sign]}
        if sign.isascii() and sign.isalnum():
            raise ValueError  # not one that we know
        return {sign}

    def _class(self) -> set[str] | None:
        """Read a class in brackets; None = everything that it does not exclude, or too much."""
        self._take(1)
        negated = self._starts("^")
        if negated:
            self._take(1)
        found: set[str] | None = set()
        first = True
        while first or not self._starts("]"):
            first = False
            member = self._member()
            found = None if found is None or member is None else found | member
        self._take(1)
        return None if negated else found

    def _member(self) -> set[str] | None:
        if posix := _POSIX.match(self.pattern, self.at):
            self._take(len(posix.group()))
            return None if posix.group(1) else _POSIX_SETS.get(posix.group(2))
        low = self._escape() if self._starts("\\") else {self._take(1)}
        if not self._starts("-") or self.pattern[self.at + 1] == "]" or low is None or len(low) > 1:
            return low
        self._take(1)
        high = self._escape() if self._starts("\\") else {self._take(1)}
        if high is None or len(high) > 1:
            raise ValueError
        span = range(ord(min(low)), ord(min(high)) + 1)
        return {chr(code) for code in span} if len(span) <= 128 else None
