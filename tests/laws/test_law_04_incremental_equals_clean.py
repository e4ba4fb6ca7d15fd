"""Law 4: after any sequence of commits, faults and rule changes the published snapshot equals a build from nothing.

The long mode is ``python scripts/check_histories.py --count 300``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from flows.settings import Settings
from flows.store.connect import Database, connect
from tests.histories import History


# 1241, 1260 and 1274 found faults in the long mode.
@pytest.mark.parametrize("seed", [*range(8), 1241, 1260, 1274])
def test_random_histories(seed: int, database: Database, config: Settings, server: str, tmp_path: Path) -> None:
    name = f"{conninfo_to_dict(database.conninfo)['dbname']}_oracle"
    with connect(server) as connection:
        connection.execute(f"create database {name} template template_gitstrata")  # type: ignore[arg-type]
    oracle = Database(make_conninfo(server, dbname=name))
    History(random.Random(seed), tmp_path / "repo", database, oracle, config).run(steps=8)
