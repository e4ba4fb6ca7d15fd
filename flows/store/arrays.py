"""Arrays of many numbers from and to the database, without a Python object for each."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format

from flows.store.connect import Connection

Integers = NDArray[np.int64]
NONE: Integers = np.empty(0, np.int64)
_HEADER = struct.Struct(">5i")  # dimensions, has nulls, type, length, first index
_INT8, _INT8_ARRAY, _INT4_ARRAY = 20, 1016, 1007
_FLOAT8, _FLOAT8_ARRAY = 701, 1022


class Packed(bytes):
    """An int8[] or float8[] in the database's binary format."""


def pack(values: Integers | NDArray[np.float64]) -> Packed:
    """Return numbers as a parameter; the statement must cast it to int8[] or float8[]."""
    kind, number = (_FLOAT8, ">f8") if values.dtype.kind == "f" else (_INT8, ">i8")
    elements = np.empty(len(values), [("size", ">i4"), ("value", number)])
    elements["size"] = 8
    elements["value"] = values
    return Packed(_HEADER.pack(1, 0, kind, len(values), 1) + elements.tobytes())


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed) -> bytes:
        return obj


class _Loader(Loader):
    format = Format.BINARY
    width = 8

    def load(self, data: Buffer) -> Integers:
        if not _HEADER.unpack_from(data)[0]:  # no dimension: empty
            return NONE
        elements = np.frombuffer(data, [("size", ">i4"), ("value", f">i{self.width}")], offset=_HEADER.size)
        return elements["value"].astype(np.int64)


class _ShortLoader(_Loader):
    width = 4


class _FloatLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> NDArray[np.float64]:
        if not _HEADER.unpack_from(data)[0]:
            return np.empty(0, np.float64)
        elements = np.frombuffer(data, [("size", ">i4"), ("value", ">f8")], offset=_HEADER.size)
        return elements["value"].astype(np.float64)


def fetch(connection: Connection, query: sql.Composed, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, their arrays of numbers as numpy's; parameters may be packed."""
    with ask(connection, query, parameters) as cursor:
        return cursor.fetchall()


def ask(connection: Connection, query: sql.Composed, parameters: dict[str, Any]) -> psycopg.Cursor[Any]:
    """Return a cursor that has sent the statement, and fetches rows as :func:`fetch` does; in a pipeline, meanwhile."""
    cursor = connection.cursor(binary=True)
    cursor.adapters.register_loader(_INT8_ARRAY, _Loader)
    cursor.adapters.register_loader(_INT4_ARRAY, _ShortLoader)
    cursor.adapters.register_loader(_FLOAT8_ARRAY, _FloatLoader)
    cursor.adapters.register_dumper(Packed, _Dumper)
    return cursor.execute(query, parameters)
