"""A database of its own for a test of the schema."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo


@pytest.fixture
def dsn(server: str) -> Iterator[str]:
    """A database without a schema."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database bare")
        yield make_conninfo(server, dbname="bare")
        connection.execute("drop database bare with (force)")
