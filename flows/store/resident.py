"""Signs of vectors in the memory of a process that searches, and which of them lie in a scope.

A scan of a million of them takes some milliseconds here, and a hundred times that in the database. What is kept follows
from what is published and cannot be stale: cuts never change, but for those that are put right (``Model.rewrites``),
and a scope is known by its filters together with what its branches show. Whatever is found here is looked up again,
with all filters, in the snapshot of the search: this proposes, the database disposes.

Memory: SIZE bytes for signs (41 bytes a chunk of 256 dimensions), and more only for a scope that is larger by itself;
SCOPES bytes for the scopes that were asked for last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from flows.embed import Vectors
from flows.store.arrays import NONE, Integers, fetch, pack
from flows.store.conditions import parameters, where_file
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters

SIZE = 64 << 20
SCOPES = 32 << 20
BESIDES = 9  # bytes of a chunk, besides its signs: its text's number and its level
KNOWN, PUBLISHED = 1_000, 300  # bytes, about, of a scope besides its arrays and patterns, and of one of its branches
LARGE = 300_000  # chunks of a scope: beyond, what is nearest stands out more, and fewer need to be looked at
# In a scope that is not so large, and in a large one: chunks that a comparison of signs leaves, then texts that the
# inner product of the query with those signs leaves, whose whole vectors are compared.
ROUGHLY, NEAREST = (16_000, 7_000), (1_500, 700)
COPIES = 4  # chunks looked at for each text that is wanted: one text may stand in many files
BATCH = 2_000  # cuts read at once
BLOCK = 1 << 14  # chunks compared at once, as many as fit in a processor's cache
LEAST_RUN = 1_000  # chunks of a run on the average, where a scope is kept by its runs
SAMPLE = 1 << 16  # chunks of which it is seen how far the nearest ones are
MAX_PLANE = 1 << 27  # highest number of a text of which a bit says whether it is in scope
WIDEST = 64  # bytes of those bits for each chunk of the scope: a small one is searched for a text's number instead
_COMPARING = threading.Lock()  # several at once would push one another's chunks out of the processor's cache
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1  # (256, 8): -1 or 1


def most(model: Model) -> int:
    """Return how many chunks of a model fit."""
    return SIZE // (8 * _words(model.dimension) + BESIDES)


def _words(dimension: int) -> int:
    return -(-dimension // 64)


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


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scope is, about: chunks of its level, of all levels, and the first one's share of all there are."""

    chunks: int
    of_all_levels: int
    share: float


@dataclass(slots=True)
class _Known:
    """What is known of a scope: its size, then its cuts until their chunks are here, which of all they are then."""

    size: Size
    cuts: Integers | None
    besides: int  # bytes, about, of its filters and of what its branches show
    rows: Rows | None = None
    plane: NDArray[np.uint8] | None = None

    @property
    def bytes(self) -> int:
        held: list[object] = [self.cuts, self.plane, self.rows and self.rows.numbers]
        arrays = sum(one.nbytes for one in held if isinstance(one, np.ndarray))
        return arrays + self.besides


class Resident:
    """What a process keeps. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of what is kept, for moments
        self._reading = threading.Lock()  # of who reads the database, and alone changes what is kept
        self._forget(("", 0, 0))

    def clear(self) -> None:
        """Forget everything: the database may be another one now."""
        with self._reading, self._lock:
            self._forget(("", 0, 0))

    def size(self, connection: Connection, model: Model, filters: Filters) -> Size:
        """Return how large a scope is."""
        with self._lock:
            if known := self._known(model, filters):
                return known.size
        with self._reading:
            return self._look_up(connection, model, filters).size

    def chunks(self, connection: Connection, model: Model, filters: Filters) -> Chunks:
        """Return the chunks of a scope, after reading those that are not here."""
        with self._lock:
            if (known := self._known(model, filters)) and known.rows:
                return self._chunks(known, filters.level)
        with self._reading:
            known = self._look_up(connection, model, filters)
            if known.rows is None:
                cuts = known.cuts if known.cuts is not None else _cuts(connection, filters, None)[1]
                assert cuts is not None
                rows = self._load(connection, model, cuts)
                with self._lock:
                    known.rows, known.cuts = Rows.of(rows), None
                    known.plane = self._chunks(known, filters.level).with_plane().plane
                    self._make_room()
            return self._chunks(known, filters.level)

    def _chunks(self, known: _Known, level: int | None) -> Chunks:
        assert known.rows is not None
        return Chunks(self._signs, self._texts, self._levels, known.rows, level, known.plane)

    def _forget(self, of: tuple[str, int, int]) -> None:
        self._of = of  # fingerprint of the model, its dimension, and how often its signs were written anew
        self._signs = np.empty((_words(of[1]), 0), np.uint64)
        self._texts, self._levels = NONE, np.empty(0, np.uint8)
        self._count = 0  # of chunks; there is room for some more
        self._cuts, self._starts, self._counts = NONE, NONE, NONE  # of the cuts that are here, by their numbers
        self._scopes: OrderedDict[Filters, _Known] = OrderedDict()

    def _known(self, model: Model, filters: Filters) -> _Known | None:
        known = self._scopes.get(filters) if self._of == _identity(model) else None
        if known is not None:
            self._scopes.move_to_end(filters)
        return known

    def _look_up(self, connection: Connection, model: Model, filters: Filters) -> _Known:
        with self._lock:
            if self._of != _identity(model):
                self._forget(_identity(model))
            known = self._known(model, filters)
        if known is not None:
            return known
        size, cuts = _measure(connection, filters, most(model))
        patterns = (*filters.languages, *filters.include, *filters.likely, *filters.exclude)
        besides = KNOWN + PUBLISHED * len(filters.branch_ids) + sum(100 + len(text) for text in patterns)
        known = _Known(size, cuts, besides)
        if filters.published:  # without, what the branches show may change
            with self._lock:
                self._scopes[filters] = known
                self._make_room()
        return known

    def _make_room(self) -> None:
        size = sum(known.bytes for known in self._scopes.values())
        while size > SCOPES and len(self._scopes) > 1:
            size -= self._scopes.popitem(last=False)[1].bytes

    def _load(self, connection: Connection, model: Model, cuts: Integers) -> NDArray[np.int32]:
        """Return the rows of cuts, in their order, after reading what is missing; ``cuts`` are in order."""
        missing = cuts[~self._are_here(cuts)]
        if len(missing):
            loaded = _read(connection, model, missing)
            if self._count + len(loaded.levels) > most(model) and self._count:
                loaded = _read(connection, model, cuts)
                with self._lock:
                    kept = self._scopes
                    self._forget(self._of)
                    for known in kept.values():  # their sizes still hold
                        known.rows = None
                    self._scopes = kept
            with self._lock:
                self._append(loaded)
        at = np.searchsorted(self._cuts, cuts)
        starts, counts = self._starts[at], self._counts[at]
        before = np.cumsum(counts) - counts
        rows: NDArray[np.int32] = (np.arange(counts.sum()) + np.repeat(starts - before, counts)).astype(np.int32)
        rows.sort()
        return rows

    def _are_here(self, cuts: Integers) -> NDArray[np.bool_]:
        if not len(self._cuts):
            return np.zeros(len(cuts), np.bool_)
        at = np.minimum(np.searchsorted(self._cuts, cuts), len(self._cuts) - 1)
        here: NDArray[np.bool_] = self._cuts[at] == cuts
        return here

    def _append(self, new: _Loaded) -> None:
        """Add chunks. Whoever searches meanwhile has arrays of before, whose rows stay as they are."""
        count = self._count + len(new.levels)
        if count > len(self._levels):
            room = max(count, self._count * 5 // 4)
            self._signs = _grown(self._signs, room)
            self._texts, self._levels = _grown(self._texts, room), _grown(self._levels, room)
        self._signs[:, self._count : count] = new.signs
        self._texts[self._count : count] = new.texts
        self._levels[self._count : count] = new.levels
        starts = np.cumsum(new.counts) - new.counts + self._count
        cuts = np.concatenate([self._cuts, new.cuts])
        order = np.argsort(cuts, kind="stable")
        self._cuts = cuts[order]
        self._starts = np.concatenate([self._starts, starts])[order]
        self._counts = np.concatenate([self._counts, new.counts])[order]
        self._count = count


def _identity(model: Model) -> tuple[str, int, int]:
    return model.fingerprint, model.dimension, model.rewrites


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    new = np.empty((*array.shape[:-1], room), array.dtype)
    new[..., : array.shape[-1]] = array
    return new


# --- the database --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What was read: cuts, how many chunks each has, and their signs, texts and levels one after the other."""

    cuts: Integers
    counts: Integers
    signs: NDArray[np.uint64]
    texts: Integers
    levels: NDArray[np.uint8]


def _read(connection: Connection, model: Model, cuts: Integers) -> _Loaded:
    query = sql.SQL(
        "select array_agg(cut_id order by cut_id), array_agg(length(levels) order by cut_id),"
        " string_agg(signs, '' order by cut_id), string_agg(texts, '' order by cut_id),"
        " string_agg(levels, '' order by cut_id) from {} where cut_id = any(%(cuts)s::int8[])"
    ).format(model.signs)
    counts = np.zeros(len(cuts), np.int64)  # none, of a cut that has no row: an empty file
    pieces: list[tuple[bytes, bytes, bytes]] = []
    for start in range(0, len(cuts), BATCH):
        ((found, lengths, *bodies),) = fetch(connection, query, {"cuts": pack(cuts[start : start + BATCH])})
        if found is not None:
            counts[np.searchsorted(cuts, found)] = lengths
            pieces.append(tuple(bodies))
    signs, texts, levels = (b"".join(parts) for parts in zip(*pieces, strict=True)) if pieces else (b"", b"", b"")
    octets = -(-model.dimension // 8)
    padded = np.zeros((len(levels), 8 * _words(model.dimension)), np.uint8)
    padded[:, :octets] = np.frombuffer(signs, np.uint8).reshape(-1, octets)
    return _Loaded(
        cuts,
        counts,
        padded.view(np.uint64).T,
        np.frombuffer(texts, ">i8").astype(np.int64),
        np.frombuffer(levels, np.uint8),
    )


def _measure(connection: Connection, filters: Filters, room: int) -> tuple[Size, Integers | None]:
    """Return the size of a scope, and its cuts if their chunks are no more than ``room``."""
    row = connection.execute(
        "select coalesce(sum(n), 0)::int8, coalesce(sum(l) filter (where hit), 0)::int8,"
        " coalesce(sum(n) filter (where hit), 0)::int8, coalesce(sum(files) filter (where hit), 0)::int8"
        " from (select files, branch_id = any(%s) as hit, (select sum(x) from unnest(chunks) x) as n,"
        " case when %s::int is null then (select sum(x) from unnest(chunks) x) else chunks[%s::int + 1] end as l"
        " from branch) b",
        [list(filters.branch_ids), filters.level, filters.level],
    ).fetchone()
    assert row is not None
    everything, of_level, chunks, files = row
    fitting = room * files // max(1, chunks)
    left, cuts = files, None
    if filters.languages or filters.include or filters.exclude:
        left, cuts = _cuts(connection, filters, fitting)
    elif files <= fitting:
        left, cuts = _cuts(connection, filters, None)
    in_scope = of_level * left // max(1, files)
    return Size(in_scope, chunks * left // max(1, files), min(1.0, in_scope / max(1, everything))), cuts


def _cuts(connection: Connection, filters: Filters, most: int | None) -> tuple[int, Integers | None]:
    """Return how many files filters leave, and their cuts in order if they are no more than ``most``."""
    query = sql.SQL(
        "select n, case when %(most)s::int8 is null or n <= %(most)s then cuts end from"
        " (select count(*) as n, array_agg(f.cut_id) as cuts from file f where {}) x"
    ).format(where_file(filters))
    ((count, cuts),) = fetch(connection, query, parameters(filters) | {"most": most})
    if cuts is None:
        return count, NONE if not count else None
    return count, np.unique(cuts)


def count_files(connection: Connection, filters: Filters) -> int:
    """Return how many indexed files the filters leave, levels aside."""
    return _cuts(connection, filters, -1)[0]
