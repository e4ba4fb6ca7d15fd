"""Imports run one way: mcp_tools -> flows -> chunkers; git, SQL and the environment each have one home."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("chunkers", "flows", "mcp_tools")
FILES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def top(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downwards(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    assert not top(imported(path)) & above


def test_chunkers_know_nothing_of_git_postgres_or_cocoindex() -> None:
    used = set().union(*(top(imported(path)) for path in FILES if path.is_relative_to(ROOT / "chunkers")))
    assert not used & {"git", "psycopg", "cocoindex", "subprocess", "os"}


def test_only_the_flow_imports_cocoindex() -> None:
    assert [p.name for p in FILES if "cocoindex" in top(imported(p))] == ["flow.py"]


def test_the_server_imports_no_cocoindex_and_no_torch() -> None:
    used = set().union(*(imported(path) for path in FILES if path.is_relative_to(ROOT / "mcp_tools")))
    assert "flows.flow" not in used
    assert not top(used) & {"cocoindex", "torch", "sentence_transformers"}


def test_only_git_py_runs_git() -> None:
    users = {p.relative_to(ROOT).as_posix() for p in FILES if "git" in top(imported(p))}
    assert users == {"flows/git.py", "flows/remotes.py"}
    # The server's launcher runs Postgres; nothing else runs anything.
    runners = {p.relative_to(ROOT).as_posix() for p in FILES if "subprocess" in top(imported(p))}
    assert all(
        runner in ("flows/git.py", "flows/remotes.py") or runner.startswith("flows/store/") for runner in runners
    )


def test_only_settings_reads_the_environment() -> None:
    readers = {p.relative_to(ROOT).as_posix() for p in FILES if re.search(r"os\.environ\b(?!\[)|getenv", p.read_text())}
    assert readers <= {"flows/settings.py", "flows/store/postgres_process.py", "flows/store/postgres_files.py"}


def test_only_the_store_holds_sql() -> None:
    statement = re.compile(r"\b(select\s.+\sfrom|insert\s+into|delete\s+from|update\s+\w+\s+set)\s", re.I)
    for path in FILES:
        if not path.is_relative_to(ROOT / "flows/store"):
            strings = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
            assert not [s for s in strings if isinstance(s, str) and statement.search(s)], path
