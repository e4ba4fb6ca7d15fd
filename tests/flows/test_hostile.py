"""The repository of odd files: what becomes of each, in a golden file, and what must never get into the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Indexer
from tests.flows.test_secrets import dump
from tests.hostile import make_hostile

GOLDEN = Path(__file__).parent / "golden" / "hostile.txt"
MOST_CHUNKS = 600
JUNK = ("web/", "data/", "gen/", "vendor/", "third_party/", "package-lock.json")  # at most 1 % of the chunks


def test_the_hostile_repository(index: Indexer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    report = index(make_hostile(tmp_path / "hostile"), name="hostile")
    assert (report.outcome, report.errors) == ("done", [])
    with index.database.connect() as connection:
        rows = connection.execute(
            "select f.path, coalesce(f.skip, f.language), coalesce(o.facts ->> 'encoding', ''), k.levels, k.fallback"
            " from file f left join cut k using (cut_id) left join blob o on o.oid = f.oid"
            ' order by f.path collate "C"'
        ).fetchall()
    chunks = {path: sum(levels or []) for path, *_, levels, _ in rows}
    assert sum(chunks.values()) == report.chunks.total < MOST_CHUNKS
    junk = sum(n for path, n in chunks.items() if path.startswith(JUNK))
    assert junk <= report.chunks.total / 100

    stored, embedded = dump(index), "\n".join(index.embedder.texts)
    for secret in ("ghp_xxxx", "AKIAFAKE", "hunter2", "ZmFrZQ"):
        assert secret not in stored and secret not in embedded
    assert "root:x:0:0" not in stored  # /etc/passwd, which a link points to

    table = "".join(f"{path:34} {what:12} {encoding}\n" for path, what, encoding, *_ in rows if "copy_" not in path)
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(table)
    assert table == GOLDEN.read_text(), "run pytest with --update-golden if this is as it should be"
