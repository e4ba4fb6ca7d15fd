"""A sieve for each piece of text: it tells which strings of six characters the piece may hold.

It is a Bloom filter with one hash and three bits for each different string, over the text as the trigram index sees it.
So a name made of common trigrams, which thousands of pieces have, is looked for in those alone that may have the name.
A change of what a sieve is made of needs a migration that takes all of them away; runs make them anew.
"""

from __future__ import annotations

import re
import time

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from flows.store.connect import Connection
from flows.store.rarity import ALPHABET, rarest
from flows.store.trigrams import EDGE, LONG, VARIANTS, Need, fold

BITS = 3  # for each string
SIZES = (8, 2_000)  # bytes, at least and at most: a row fits into a page
MAX_TESTED = 32  # strings of one set, until one is missing: mostly the first or second
FILL_SECONDS = 60  # of a run, while pieces of an older schema are without a sieve: about 100 MB
_BATCH = 500  # pieces
_BASE = np.uint64(len(ALPHABET))
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(33)  # hashing by the golden ratio, to 31 bits
_CODES = bytes(ALPHABET.index(fold(chr(code)) if code < 128 else EDGE) for code in range(256))
_EDGE = ALPHABET.index(EDGE)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")

Numbers = NDArray[np.uint32]


def make(text: str) -> bytes:
    """Return the sieve of a text."""
    found = np.sort(_numbers(text))
    different = int(np.count_nonzero(np.diff(found))) + 1  # np.unique() takes ten times as long
    size = min(max(SIZES[0], -(-BITS * different // 8)), SIZES[1])
    bits = np.zeros(8 * size, np.uint8)
    bits[found % np.uint32(len(bits))] = 1
    return np.packbits(bits, bitorder="little").tobytes()  # in the order of get_bit()


def _numbers(text: str) -> Numbers:
    """Return a number for each string of LONG characters within a word, as they follow each other."""
    body = text.encode()
    for old, new in VARIANTS.items():
        body = body.replace(old.encode(), new.encode())
    body = _BEYOND_ASCII.sub(lambda byte: b"q%03o" % byte.group()[0], body)
    codes = np.frombuffer(body.translate(_CODES), np.uint8)
    count = max(0, len(codes) - LONG + 1)
    values, is_word = np.zeros(count, np.uint64), np.ones(count, bool)
    for n in range(LONG):
        part = codes[n : n + count]
        values *= _BASE
        values += part
        is_word &= part != _EDGE
    return ((values[is_word] * _FACTOR) >> _SHIFT).astype(np.uint32)


def condition(need: Need) -> sql.Composable | None:
    """Return the condition on a piece that its sieve lets through what is needed; None if it has no say."""
    clauses: list[sql.Composable] = []
    if longs := [gram for gram in need.grams if len(gram) == LONG]:
        numbers = _numbers(" ".join(rarest(longs, MAX_TESTED))).tolist()
        test = sql.SQL("get_bit(sieve, {} %% (8 * octet_length(sieve))) = 1")
        clauses += [test.format(sql.Literal(number)) for number in numbers]
    for group in need.either:
        parts = [part for one in group if (part := condition(one))]
        if len(parts) == len(group):
            clauses.append(sql.SQL("({})").format(sql.SQL(" or ").join(parts)))
    return sql.SQL("({})").format(sql.SQL(" and ").join(clauses)) if clauses else None


def fill(connection: Connection, seconds: float = FILL_SECONDS) -> None:
    """Give sieves to pieces that were stored without one; after ``seconds`` the rest is left to the next run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with connection.transaction():
            rows = connection.execute(
                "select blob_id, line, body from piece where sieve is null order by blob_id, line limit %s"
                " for update skip locked",
                [_BATCH],
            ).fetchall()
            if not rows:
                return
            connection.execute(
                "update piece p set sieve = s.sieve from unnest(%b::int8[], %b::int4[], %b::bytea[])"
                " s (blob_id, line, sieve) where p.blob_id = s.blob_id and p.line = s.line",
                [[row[0] for row in rows], [row[1] for row in rows], [make(row[2]) for row in rows]],
            )


def rebuild(connection: Connection, branch_id: int) -> int:
    """Put right the sieves of what a branch shows, and return how many pieces that took; a wrong one hides matches."""
    query = (
        "select blob_id, line, body, sieve from piece where (blob_id, line) > (%s, %s) and sieve is not null and"
        " blob_id in (select blob_id from file join cut using (cut_id) where branch_id = %s) order by 1, 2 limit %s"
    )
    last, count = (0, 0), 0
    while rows := connection.execute(query, [*last, branch_id, _BATCH]).fetchall():
        wrong = [(blob_id, line, found, made) for blob_id, line, body, found in rows if found != (made := make(body))]
        if wrong:
            connection.execute(
                "update piece p set sieve = s.made from unnest(%b::int8[], %b::int4[], %b::bytea[], %b::bytea[])"
                " s (blob_id, line, found, made)"
                " where p.blob_id = s.blob_id and p.line = s.line and p.sieve = s.found",  # nobody has changed it
                [list(values) for values in zip(*wrong, strict=True)],
            )
        last, count = rows[-1][:2], count + len(wrong)
    return count
