"""The text of a blob, kept in pieces of some lines, so that exact search reads of a large file what may match alone."""

from __future__ import annotations

from collections.abc import Mapping

from flows.store import sieve
from flows.store.connect import Connection, copy_rows

SIZE = 32 << 10  # bytes; as in the migration

# The text of a blob ``b``; null if there is none to show.
TEXT = "(select string_agg(p.body, '' order by p.line) from piece p where p.blob_id = b.blob_id)"


def cut(text: str) -> list[tuple[int, str]]:
    """Return the pieces of a text, each with the number of its first line; an empty text is one piece.

    A line belongs to the piece in which it begins: piece k has those that begin in bytes k * SIZE to (k + 1) * SIZE.
    """
    body = text.encode()
    result: list[tuple[int, str]] = []
    start, line = 0, 1
    while start < len(body) or not result:
        end = body.find(b"\n", (start // SIZE + 1) * SIZE - 1) + 1 or len(body)
        result.append((line, body[start:end].decode()))
        line += body.count(b"\n", start, end)
        start = end
    return result


def write(connection: Connection, texts: Mapping[int, str | None], kept: Mapping[int, str | None]) -> None:
    """Store texts by blob; of ``kept``, only where the blob has a text already. None takes it away.

    The caller holds locks on the blobs.
    """
    ids = [*texts, *kept]
    rows = connection.execute(
        "select blob_id, string_agg(body, '' order by line) from piece where blob_id = any(%s) group by 1", [ids]
    )
    stored: dict[int, str] = dict(rows.fetchall())
    wanted = {**texts, **{blob_id: text for blob_id, text in kept.items() if blob_id in stored}}
    changed = {blob_id: text for blob_id, text in wanted.items() if stored.get(blob_id) != text}
    if old := [blob_id for blob_id in changed if blob_id in stored]:
        connection.execute("delete from piece where blob_id = any(%s)", [old])
    new = [
        (blob_id, line, piece, sieve.make(piece))
        for blob_id, text in changed.items()
        if text is not None
        for line, piece in cut(text)
    ]
    if new:
        copy_rows(connection, "piece", ["int8", "int4", "text", "bytea"], new)
