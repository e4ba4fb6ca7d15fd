"""Signs of vectors compared with a query's, in memory, and which texts are among those of a scope.

All of a scope is compared, and no index is asked: a million chunks take some milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.embed import Vectors
from flows.store.arrays import NONE, Integers

LARGE = 300_000  # chunks of a scope: beyond, what is nearest stands out more, and fewer need to be looked at
# In a scope that is not so large, and in a large one: chunks that a comparison of signs leaves, then texts that the
# inner product of the query with those signs leaves, whose whole vectors are compared.
ROUGHLY, NEAREST = (16_000, 7_000), (1_500, 700)
COPIES = 4  # chunks looked at for each text that is wanted: one text may stand in many files
BLOCK = 1 << 14  # chunks compared at once, as many as fit in a processor's cache
LEAST_RUN = 1_000  # chunks of a run on the average, where a scope is kept by its runs
SAMPLE = 1 << 16  # chunks of which it is seen how far the nearest ones are
MAX_PLANE = 1 << 27  # highest number of a text of which a bit says whether it is in scope
WIDEST = 64  # bytes of those bits for each chunk of the scope: a small one is searched for a text's number instead
_COMPARING = threading.Lock()  # several at once would push one another's chunks out of the processor's cache
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1  # (256, 8): -1 or 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Which of the chunks in memory: runs of them one after the other, or each by its number if the runs are short."""

    count: int
    runs: list[slice]
    numbers: NDArray[np.int32] | None

    @classmethod
    def of(cls, numbers: NDArray[np.int32]) -> Rows:
        """Return some chunks by their numbers, which are in order."""
        ends = np.flatnonzero(np.diff(numbers) != 1) + 1 if len(numbers) else NONE
        if LEAST_RUN * len(ends) > len(numbers):
            return cls(len(numbers), [], numbers)
        runs = np.split(numbers, ends) if len(numbers) else []
        return cls(len(numbers), [slice(int(run[0]), int(run[-1]) + 1) for run in runs], None)

    def blocks(self) -> Iterator[slice | NDArray[np.int32]]:
        """Yield what indexes the arrays of all chunks, a few at a time."""
        for run in self.runs:
            for start in range(run.start, run.stop, BLOCK):
                yield slice(start, min(start + BLOCK, run.stop))
        if self.numbers is not None:
            for start in range(0, len(self.numbers), BLOCK):
                yield self.numbers[start : start + BLOCK]

    def at(self, places: Integers) -> Integers:
        """Return the numbers of those chunks that stand at some places among these."""
        if self.numbers is not None:
            return self.numbers[places].astype(np.int64)
        lengths = np.array([run.stop - run.start for run in self.runs])
        before = np.cumsum(lengths) - lengths
        run = np.searchsorted(before, places, side="right") - 1
        found: Integers = places - before[run] + np.array([run.start for run in self.runs])[run]
        return found


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of a scope, in memory: an array each for their signs (words of 64 bits, chunks), texts and levels."""

    signs: NDArray[np.uint64]
    texts: Integers
    levels: NDArray[np.uint8]
    rows: Rows
    level: int | None  # the one that is in scope
    plane: NDArray[np.uint8] | None = None  # a bit for each number of a text: it is in scope; None if too high

    def all_texts(self) -> Integers:
        """Return the texts in scope, each once, in the order of their numbers."""
        return np.unique(self._every_text())

    def with_plane(self) -> Chunks:
        """Return these chunks with a bit for each number of a text."""
        texts = self._every_text()
        highest = int(texts.max(initial=0))
        if highest >= min(MAX_PLANE, 8 * WIDEST * len(texts)):
            return self
        bits = np.zeros(highest + 1, np.bool_)
        bits[texts] = True
        return replace(self, plane=np.packbits(bits))

    def _every_text(self) -> Integers:
        found = [
            self.texts[some] if self.level is None else self.texts[some][self.levels[some] == self.level]
            for some in self.rows.blocks()
        ]
        return np.concatenate(found) if found else NONE

    def holds(self, texts: Integers) -> NDArray[np.bool_]:
        """Say of each text whether it is in scope."""
        if self.plane is None:
            return np.isin(texts, self.all_texts())
        octet = texts >> 3
        inside = octet < len(self.plane)
        return inside & ((self.plane[np.where(inside, octet, 0)] << (texts & 7).astype(np.uint8) & 128) > 0)

    def nearest(self, vector: Vectors, least: int) -> Integers:
        """Return the texts whose vectors are most like one, the most alike first, by their signs: ``least`` or more.

        First the chunks are found whose signs agree most with the query's; of those, the ones whose signs have the
        largest inner product with the query itself.
        """
        padded = np.zeros(64 * len(self.signs), np.float32)
        padded[: len(vector)] = vector
        with _COMPARING:
            far = self._far(np.packbits(padded > 0).view(np.uint64))
        if not len(far):
            return NONE
        is_large = len(far) > LARGE
        roughly, count = ROUGHLY[is_large], max(least, NEAREST[is_large])
        some = far[:: max(1, len(far) // SAMPLE)]
        last = min(-(-roughly * len(some) // len(far)), len(some)) - 1
        limit = np.partition(some.astype(np.uint16), last)[last]  # of bytes it takes ten times as long
        if self.level is not None:
            limit = min(limit, np.iinfo(far.dtype).max - 1)
        rows = self.rows.at(np.flatnonzero(far <= limit))
        if not len(rows):  # nothing is of the level in scope
            return NONE
        products = self._products(rows, padded)
        for copies in (COPIES, len(rows)):
            passed = max(0, len(rows) - copies * count)
            leading = np.flatnonzero(products >= np.partition(products, passed)[passed])
            texts = self.texts[rows[leading]]
            texts = texts[np.lexsort((texts, -products[leading]))]
            _, first = np.unique(texts, return_index=True)
            if len(first) >= count:
                break
        return texts[np.sort(first)][:count]

    def _far(self, asked: NDArray[np.uint64]) -> NDArray[Any]:
        """Return in how many signs each chunk differs; the highest number for those that are not of the level in scope.

        Of 256 signs that all differ, 0 is said: what is most unlike the query does no harm among the nearest.
        """
        result: NDArray[Any] = np.zeros(self.rows.count, np.uint8 if len(self.signs) <= 4 else np.uint16)
        different, many = np.empty((len(asked), BLOCK), np.uint64), np.empty((len(asked), BLOCK), np.uint8)
        start = 0
        for some in self.rows.blocks():
            levels = self.levels[some]
            size = len(levels)
            sums = result[start : start + size]
            # Few calls, each for all words: threads pass one another the interpreter at each.
            np.bitwise_xor(self.signs[:, some], asked[:, None], out=different[:, :size])
            np.bitwise_count(different[:, :size], out=many[:, :size])
            np.add.reduce(many[:, :size], axis=0, dtype=result.dtype, out=sums)
            if self.level is not None:
                np.copyto(sums, np.iinfo(result.dtype).max, where=levels != self.level)
            start += size
        return result

    def _products(self, rows: Integers, vector: Vectors) -> NDArray[np.float32]:
        """Return the inner product of a vector with the signs of some chunks, as -1 and 1."""
        octets = np.ascontiguousarray(self.signs[:, rows].T).view(np.uint8)
        table = vector.reshape(-1, 8) @ _BITS.T  # (octets, 256): what each octet of signs adds
        products = np.zeros(len(rows), np.float32)
        for place, values in enumerate(table):
            products += values.take(octets[:, place])
        return products
