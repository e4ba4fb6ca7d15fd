"""chunkers is pure: it imports neither git, a database, CocoIndex, nor the layers above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import chunkers

FORBIDDEN = {"git", "subprocess", "psycopg", "pgvector", "cocoindex", "flows", "mcp_tools", "os", "socket", "sqlite3"}
MODULES = sorted(Path(chunkers.__path__[0]).rglob("*.py"))


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_module_knows_the_world_outside(path: Path) -> None:
    assert not imported(path) & FORBIDDEN
