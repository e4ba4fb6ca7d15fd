"""Texts in pieces: how they are cut, that an upgrade cuts as a run does, and what is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import settings
from flows.store import connect as module
from flows.store import pieces
from flows.store.connect import MIGRATIONS, Connection, Database, connect, open_database
from tests.store.test_connect import only

SIZE = pieces.SIZE
BEFORE = [path.stem for path in MIGRATIONS.glob("*.sql") if path.stem < "0011"]
TEXTS = [
    "",
    "\n",
    "no line end",
    "x" * SIZE,  # one line, of the size of a piece
    "x" * (SIZE - 1) + "\n" + "the next piece begins with a line",
    "x" * SIZE + "\n" + "this line begins in the second piece\n",
    "a\n" * SIZE,
    "\n" * (2 * SIZE + 7),
    "first\n" + "é" * 3 * SIZE + "\r\n" + "last\n",  # pieces that no line begins in
    "".join(f"line {n} \N{SNOWMAN}\n" for n in range(9_000)) + "the end",
]


def test_a_line_stands_in_the_piece_in_which_it_begins() -> None:
    assert [(line, len(text)) for line, text in pieces.cut("x" * SIZE + "\n" + "ab\n" * SIZE)] == [
        (1, SIZE + 1),
        (2, SIZE + 1),
        (10925, SIZE - 2),
        (21847, SIZE + 1),
    ]


@given(st.lists(st.sampled_from(["a", "é\n", "\n", "x" * SIZE, "ab\n" * 9_000, "y" * 40_000 + "\n"]), max_size=8))
def test_pieces_are_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    found = pieces.cut(text)
    assert "".join(piece for _, piece in found) == text
    lines = 1
    for line, piece in found:
        assert line == lines and (piece.endswith("\n") or piece == found[-1][1])
        assert len(piece.encode().removesuffix(b"\n").rpartition(b"\n")[0]) < SIZE  # no line but the last is beyond
        lines += piece.count("\n")


def test_an_upgrade_cuts_as_a_run_does(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings.load({"GITSTRATA_DSN": dsn})
    monkeypatch.setattr(module, "MIGRATIONS", only(tmp_path / "old", *BEFORE))
    open_database(config).close()
    with connect(dsn) as connection:
        connection.execute("insert into blob (oid, size, facts, body) values ('binary', 1, '{}', null)")
        for n, text in enumerate(TEXTS):
            connection.execute("insert into blob (oid, size, facts, body) values (%s, 1, '{}', %s)", [str(n), text])
    monkeypatch.setattr(module, "MIGRATIONS", MIGRATIONS)
    open_database(config, upgrade=True).close()
    with connect(dsn) as connection:
        rows = connection.execute(
            "select oid::int, line, body from piece join blob using (blob_id) order by blob_id, line"
        ).fetchall()
        assert connection.execute("select count(*) from blob").fetchone() == (len(TEXTS) + 1,)
    assert rows == [(n, line, piece) for n, text in enumerate(TEXTS) for line, piece in pieces.cut(text)]


@pytest.fixture
def blobs(database: Database) -> Iterator[Connection]:
    with database.connect() as connection:
        connection.execute("insert into blob (oid, size, facts) select n, 0, '{}' from generate_series(1, 3) n")
        yield connection


def texts(connection: Connection) -> dict[int, str | None]:
    return dict(connection.execute(f"select oid::int, {pieces.TEXT} from blob b order by 1").fetchall())


def ids(connection: Connection) -> list[int]:
    return [row[0] for row in connection.execute("select blob_id from blob order by oid")]


def test_what_is_written_is_what_is_read(blobs: Connection) -> None:
    a, b, c = ids(blobs)
    pieces.write(blobs, {a: TEXTS[-1], b: ""}, kept={c: "never shown"})
    assert texts(blobs) == {1: TEXTS[-1], 2: "", 3: None}
    pieces.write(blobs, {a: "short", b: ""}, kept={})
    assert texts(blobs) == {1: "short", 2: "", 3: None}
    pieces.write(blobs, {}, kept={a: "other", b: None, c: None})
    assert texts(blobs) == {1: "other", 2: None, 3: None}
    pieces.write(blobs, {}, kept={})
    assert blobs.execute("select count(*) from piece").fetchone() == (1,)


def test_what_is_there_stays_untouched(blobs: Connection) -> None:
    a, b, _ = ids(blobs)
    pieces.write(blobs, {a: TEXTS[-1], b: "x"}, kept={})
    before = blobs.execute("select ctid, xmin from piece order by 1").fetchall()
    pieces.write(blobs, {a: TEXTS[-1]}, kept={b: "x"})
    assert blobs.execute("select ctid, xmin from piece order by 1").fetchall() == before


def test_pieces_go_with_their_blob(blobs: Connection) -> None:
    (a, *_) = ids(blobs)
    pieces.write(blobs, {a: "x"}, kept={})
    blobs.execute("delete from blob where blob_id = %s", [a])
    assert blobs.execute("select count(*) from piece").fetchone() == (0,)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        pieces.write(blobs, {a: "x"}, kept={})
