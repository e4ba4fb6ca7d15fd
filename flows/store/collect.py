"""Taking content away: what nothing shows any more after a grace period (gc), or at once (purge).

Publishing never deletes content: a revert, a rename or a branch that comes back finds it again. Deleting goes in
batches, each a transaction of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from flows.store import locks, models
from flows.store.connect import Connection

BATCH = 5_000
_OLD = "added_at < coalesce(%s, 'infinity'::timestamptz)"
_UNSHOWN = "not exists (select 1 from file where file.cut_id = cut.cut_id)"


@dataclass(slots=True)
class Collected:
    """How many rows went."""

    cuts: int = 0
    chunks: int = 0
    texts: int = 0
    blobs: int = 0
    models: int = 0
    busy: bool = False  # runs were at work all the time, so that not everything was looked at


def collect(connection: Connection, grace: timedelta, wait: Callable[[], bool]) -> Collected:
    """Delete what nothing has shown for longer than ``grace``; ``wait`` pauses while runs work, False to give up."""
    gone = Collected()
    _mark(connection)
    steps: list[tuple[str, Callable[[], int]]] = [
        ("cuts", lambda: _delete_cuts(connection, grace, gone)),
        ("texts", lambda: _delete_texts(connection, grace)),
        ("blobs", lambda: _delete_blobs(connection, grace)),
        ("models", lambda: models.drop_retired(connection, grace)),
    ]
    for name, step in steps:
        while not gone.busy:
            with locks.collection(connection) as alone:
                count = step() if alone else -1
            if count >= 0:
                setattr(gone, name, getattr(gone, name) + count)
            elif not wait():
                gone.busy = True
            if 0 <= count < BATCH:
                break
    return gone


def _mark(connection: Connection) -> None:
    connection.execute(
        "update cut set orphaned_at = now() where orphaned_at is null"
        " and not exists (select 1 from file where file.cut_id = cut.cut_id)"
    )
    connection.execute(
        "update cut set orphaned_at = null where orphaned_at is not null"
        " and exists (select 1 from file where file.cut_id = cut.cut_id)"
    )


def _delete_cuts(connection: Connection, grace: timedelta, gone: Collected) -> int:
    row = connection.execute(
        "with old as (select cut_id from cut where orphaned_at <= now() - %s::interval"
        " and not exists (select 1 from file where file.cut_id = cut.cut_id) limit %s),"
        " dropped as (delete from cut using old where cut.cut_id = old.cut_id returning levels)"
        " select count(*), coalesce(sum((select sum(n) from unnest(levels) n)), 0) from dropped",
        [grace, BATCH],
    ).fetchone()
    assert row is not None
    gone.chunks += int(row[1])
    return int(row[0])


def _delete_texts(connection: Connection, grace: timedelta) -> int:
    return connection.execute(
        "delete from text where text_id in (select text_id from text where added_at <= now() - %s::interval"
        " and not exists (select 1 from chunk where chunk.text_id = text.text_id) limit %s)",
        [grace, BATCH],
    ).rowcount


def _delete_blobs(connection: Connection, grace: timedelta) -> int:
    return connection.execute(
        "delete from blob where blob_id in (select blob_id from blob where added_at <= now() - %s::interval"
        " and not exists (select 1 from file where file.oid = blob.oid)"
        " and not exists (select 1 from cut where cut.blob_id = blob.blob_id) limit %s)",
        [grace, BATCH],
    ).rowcount


def purge_unshown(connection: Connection, keep_since: datetime | None) -> Collected:
    """Delete at once all content that nothing shows, but for what was written since ``keep_since``.

    After a change of rules: versions of a file that were shown once have no path any more by which a rule could be
    asked about them, so that everything goes that only gc's grace would have kept.
    """
    gone = Collected()
    old = f"select blob_id from blob where {_OLD} and not exists (select 1 from file where file.oid = blob.oid)"
    while True:
        ids = [row[0] for row in connection.execute(f"{old} limit %s", [keep_since, BATCH])]
        count = _delete(
            connection,
            "delete from blob where blob_id = any(%s) and not exists (select 1 from file where file.oid = blob.oid)",
            ids,
        )
        gone.blobs += count
        if count < BATCH:
            break
    aged = f"select cut_id from cut join blob using (blob_id) where {_OLD}"
    cuts = [row[0] for row in connection.execute(f"{aged} and {_UNSHOWN}", [keep_since])]
    _delete_unshown(connection, cuts, gone)
    _forget_text(connection, _OLD, keep_since)
    gone.texts = connection.execute(
        f"delete from text where {_OLD} and not exists (select 1 from chunk where chunk.text_id = text.text_id)",
        [keep_since],
    ).rowcount
    return gone


def purge(connection: Connection, oids: Collection[str]) -> Collected:
    """Delete at once what only the given blobs held and nothing shows any more.

    A run that is about to publish the same content for another repository fails on its foreign key and starts again.
    """
    gone = Collected()
    ordered = sorted(oids)
    for start in range(0, len(ordered), BATCH):
        _purge_batch(connection, ordered[start : start + BATCH], gone)
    return gone


def _purge_batch(connection: Connection, oids: list[str], gone: Collected) -> None:
    cuts = [
        row[0]
        for row in connection.execute(
            f"select cut_id from cut join blob using (blob_id) where oid = any(%s) and {_UNSHOWN}",
            [oids],
        )
    ]
    texts = [row[0] for row in connection.execute("select distinct text_id from chunk where cut_id = any(%s)", [cuts])]
    _delete_unshown(connection, cuts, gone)
    gone.texts += _delete(
        connection,
        "delete from text where text_id = any(%s)"
        " and not exists (select 1 from chunk where chunk.text_id = text.text_id)",
        texts,
    )
    _forget_text(connection, "oid = any(%s)", oids)
    gone.blobs += _delete(
        connection,
        "delete from blob where oid = any(%s) and not exists (select 1 from file where file.oid = blob.oid)"
        " and not exists (select 1 from cut where cut.blob_id = blob.blob_id)",
        oids,
    )


def _forget_text(connection: Connection, which: str, given: object) -> None:
    """Take away the texts of blobs that have no cut, but for what another run cuts in that very moment."""
    uncut = "not exists (select 1 from cut where cut.blob_id = {}.blob_id)".format
    stored = "exists (select 1 from piece where piece.blob_id = blob.blob_id)"
    with connection.transaction():
        query = f"select blob_id from blob where {which} and {uncut('blob')} and {stored} order by oid for update"
        ids = [row[0] for row in connection.execute(query, [given])]
        connection.execute(f"delete from piece where blob_id = any(%s) and {uncut('piece')}", [ids])


def _delete_unshown(connection: Connection, cuts: list[int], gone: Collected) -> None:
    """Delete those of ``cuts`` that nothing shows; what another run begins to show meanwhile stays."""
    sizes: dict[int, int] = dict(
        connection.execute(
            "select cut_id, (select coalesce(sum(n), 0)::int from unnest(levels) n) from cut where cut_id = any(%s)",
            [cuts],
        ).fetchall()
    )
    gone.cuts += _delete(connection, f"delete from cut where cut_id = any(%s) and {_UNSHOWN}", cuts)
    for (kept,) in connection.execute("select cut_id from cut where cut_id = any(%s)", [cuts]):
        sizes.pop(kept, None)
    gone.chunks += sum(sizes.values())


def _delete(connection: Connection, statement: str, keys: list[int] | list[str]) -> int:
    """Delete in one statement; if another run begins to show a row in that very moment, look again without it."""
    for _ in range(3):
        with contextlib.suppress(psycopg.errors.ForeignKeyViolation):
            return connection.execute(statement, [keys]).rowcount
    return 0
