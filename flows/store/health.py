"""How an index does as a whole: for probes and for the doctor. Says no repository's name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flows.store.connect import EXTENSIONS, Connection


@dataclass(frozen=True, slots=True)
class Health:
    """How much is published, and how new it is."""

    branches: int
    chunks: int
    published_at: datetime | None  # of the newest publish
    behind: int  # branches whose head, as last seen, is another commit
    failed_files: int


def health(connection: Connection) -> Health:
    """Return how the index does."""
    row = connection.execute(
        "select count(*), coalesce(sum((select sum(n) from unnest(chunks) n)), 0)::int8, max(published_at),"
        " count(*) filter (where head_sha <> commit_sha), coalesce(sum(failed), 0)::int8 from branch"
    ).fetchone()
    assert row is not None
    return Health(*row)


def versions(connection: Connection) -> list[tuple[str, str]]:
    """Return the versions of the server and of the extensions that search needs."""
    number = connection.info.server_version
    rows = connection.execute(
        "select extname, extversion from pg_extension where extname = any(%s) order by extname desc", [list(EXTENSIONS)]
    ).fetchall()
    named = [(EXTENSIONS[name][0], str(version)) for name, version in rows]
    return [("PostgreSQL", f"{number // 10_000}.{number % 10_000}"), *named]
