"""Signs of vectors in the memory of a process that searches, and which of them lie in a scope.

To compare them takes a hundredth of what it takes in the database (compare.py). What is kept follows
from what is published and cannot be stale: cuts never change, but for those that are put right (``Model.rewrites``),
and a scope is known by its filters together with what its branches show. Whatever is found here is looked up again,
with all filters, in the snapshot of the search: this proposes, the database disposes.

Memory: SIZE bytes for signs (41 bytes a chunk of 256 dimensions), and more only for a scope that is larger by itself;
SCOPES bytes for the scopes that were asked for last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from flows.store.arrays import NONE, Integers, fetch, pack
from flows.store.compare import Chunks, Rows
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters
from flows.store.sizes import Size, cuts_of, measure

SIZE = 64 << 20
SCOPES = 32 << 20
BESIDES = 9  # bytes of a chunk, besides its signs: its text's number and its level
KNOWN, PUBLISHED = 1_000, 300  # bytes, about, of a scope besides its arrays and patterns, and of one of its branches
BATCH = 2_000  # cuts read at once


def most(model: Model) -> int:
    """Return how many chunks of a model fit."""
    return SIZE // (8 * _words(model.dimension) + BESIDES)


def _words(dimension: int) -> int:
    return -(-dimension // 64)


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
                cuts = known.cuts if known.cuts is not None else cuts_of(connection, filters, None)[1]
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
        size, cuts = measure(connection, filters, most(model))
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
