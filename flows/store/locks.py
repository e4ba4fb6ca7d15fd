"""Advisory locks. All die with their connection: nothing is ever left to be removed by hand."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from flows.errors import Busy
from flows.store.connect import Connection

_MODEL = 7_242_011
_COLLECTION = 7_242_010  # shared by runs, exclusive for one batch of gc


def branch_key(repo: str, branch: str) -> int:
    """Return the key of the lock that a run on a branch holds: a signed 64-bit integer."""
    digest = hashlib.blake2b(f"{repo}\0{branch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@contextlib.contextmanager
def branch(connection: Connection, repo: str, name: str, *, wait: bool) -> Iterator[None]:
    """Keep other runs off a branch.

    Raises:
        Busy: another run works on it and ``wait`` is not set.
    """
    key = [branch_key(repo, name)]
    if wait:
        connection.execute("select pg_advisory_lock(%s)", key)
    elif connection.execute("select pg_try_advisory_lock(%s)", key).fetchone() != (True,):
        raise Busy(f"another run is indexing {repo} {name}: wait for it, or leave out --no-wait")
    with _released(connection, "select pg_advisory_unlock(%s)", key):
        yield


@contextlib.contextmanager
def content(connection: Connection) -> Iterator[None]:
    """Keep gc from taking what this run has found or written but not yet published."""
    connection.execute("select pg_advisory_lock_shared(%s)", [_COLLECTION])
    with _released(connection, "select pg_advisory_unlock_shared(%s)", [_COLLECTION]):
        yield


@contextlib.contextmanager
def model(connection: Connection) -> Iterator[None]:
    """Keep other processes from changing the models of the index.

    Raises:
        Busy: one is at it.
    """
    if connection.execute("select pg_try_advisory_lock(%s)", [_MODEL]).fetchone() != (True,):
        raise Busy("another process changes the model of this index: `gitstrata model list` says how far it is")
    with _released(connection, "select pg_advisory_unlock(%s)", [_MODEL]):
        yield


@contextlib.contextmanager
def collection(connection: Connection) -> Iterator[bool]:
    """Say whether no run is at work, and keep new ones waiting meanwhile. Never queues, so as not to hold up runs."""
    row = connection.execute("select pg_try_advisory_lock(%s)", [_COLLECTION]).fetchone()
    if row != (True,):
        yield False
        return
    with _released(connection, "select pg_advisory_unlock(%s)", [_COLLECTION]):
        yield True


def is_held(connection: Connection, repo: str, name: str) -> bool:
    """Say whether a run holds a branch of the current database."""
    key = branch_key(repo, name) & (2**64 - 1)
    row = connection.execute(
        "select 1 from pg_locks where locktype = 'advisory' and classid = %s and objid = %s and objsubid = 1"
        " and granted and database = (select oid from pg_database where datname = current_database()) limit 1",
        [key >> 32, key & 0xFFFFFFFF],
    ).fetchone()
    return row is not None


@contextlib.contextmanager
def _released(connection: Connection, unlock: str, key: list[int]) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # a dead connection has given the lock up already
            connection.execute(unlock, key)
