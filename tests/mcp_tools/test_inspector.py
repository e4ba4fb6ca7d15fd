"""Every tool through the inspector's command line, whose client of another make checks answers against their schemas.

Skipped where it is not installed. MCP_INSPECTOR is the path of its program; CONTRIBUTING.md says how to get it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.settings import Settings
from mcp_tools.server import TOOLSETS
from tests.mcp_tools.conftest import ROOT
from tests.mcp_tools.http_server import process
from tests.mcp_tools.test_serve_http import ALL, ROWS, write_tokens

INSPECTOR = os.environ.get("MCP_INSPECTOR") or shutil.which("mcp-inspector")
pytestmark = pytest.mark.skipif(INSPECTOR is None, reason="the inspector is not installed")

CALLS = {
    "code_search": ["query=settle an amount", "limit=2", 'paths=["src/**"]'],
    "search_code": ["pattern=def settle", "literal=true"],
    "get_chunk": ["source_id=src/charge.py#Charge.settle", "context=1"],
    "find_related": ["source_id=src/charge.py#Charge.settle"],
    "who_knows": ["topic=settle an amount"],
    "list_repos": [],
    "index_status": ["repo=acme/pay"],
    "add_case_reference": ["concept=settle fails", "solution=settle twice"],
    "query_knowledge_base": ["query=settle fails"],
    "cerebrum_run_free_energy_loop": ['observation={"sensor": 1}'],
}


def inspect(target: Sequence[str], method: str, *options: str) -> dict[str, Any]:
    """Return what the inspector prints; fail if it does."""
    assert INSPECTOR
    command = [INSPECTOR, "--cli", *target, "--method", method, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def check(target: Sequence[str]) -> None:
    assert {tool["name"] for tool in inspect(target, "tools/list")["tools"]} == set(CALLS)
    for tool, arguments in CALLS.items():
        given = ["--tool-name", tool, *(["--tool-arg", *arguments] if arguments else [])]
        answer = inspect(target, "tools/call", *given)
        assert not answer.get("isError") and answer["structuredContent"] and answer["content"][0]["text"], answer
    (template,) = inspect(target, "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"].startswith("code://")
    (branch,) = inspect(target, "tools/call", "--tool-name", "index_status", "--tool-arg", "repo=acme/pay")[
        "structuredContent"
    ]["branches"]
    uri = f"code://acme%2Fpay/{branch['commit']}/src/charge.py?start=1&end=1"
    assert inspect(target, "resources/read", "--uri", uri)["contents"][0]["text"] == "class Charge:"


def test_over_stdio(filled: Settings) -> None:
    variables = {"PYTHONPATH": str(ROOT), "GITSTRATA_DSN": filled.dsn or ""}
    given = [part for name, value in variables.items() for part in ("-e", f"{name}={value}")]
    check([*given, sys.executable, "-m", "mcp_tools.cli", "serve", "--toolsets", ",".join(TOOLSETS)])


def test_over_http_with_a_token(filled: Settings, tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens", ROWS)
    variables = {"GITSTRATA_DSN": filled.dsn or "", "GITSTRATA_TOKENS_FILE": str(tmp_path / "tokens")}
    with process(tmp_path / "log", "--toolsets", ",".join(TOOLSETS), **variables) as (address, _):
        check([f"{address}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {ALL[0]}"])
