"""The MCP configuration files of agents' clients: where they lie, what stands in them, and how to add to them.

Forms as their makers document them: Claude Code and Claude Desktop, Cursor and Gemini CLI keep ``mcpServers`` in JSON,
VS Code ``servers``, Codex tables ``mcp_servers`` in TOML. Tokens are named in them, never written down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.errors import UsageError

NAME = "gitstrata"
TOKEN = "GITSTRATA_TOKEN"  # the environment variable that clients take the token from
_INPUT = {"type": "promptString", "id": "gitstrata-token", "description": "Token for gitstrata", "password": True}

HINT = """\
## Finding code

The MCP server `gitstrata` searches whole repositories at published commits, also ones that are not checked out here.
- Use its `code_search` when you know what code does but not its name or place, before you read files one by one.
- Use its `search_code` for every line with a text or pattern across repositories; read hits with `get_chunk`.
- Use plain grep for uncommitted changes and for exact strings in the working tree.
- Sub-agents have the same tools: say so when you hand over a task.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a client reaches the server: by starting it, or at an address."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""

    @property
    def local(self) -> dict[str, Any]:
        """The fields by which all clients start a server."""
        entry: dict[str, Any] = {"command": self.command, "args": list(self.args)}
        return entry | ({"env": dict(self.env)} if self.env else {})


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its file, the key that holds servers, and what an entry is."""

    name: str
    title: str
    path: Callable[[Path, Path], Path]  # of the project's folder and of the user's home
    key: str
    entry: Callable[[Launch], dict[str, Any]]
    hint_file: str  # where its agents, and their sub-agents, read instructions
    is_toml: bool = False
    inputs: tuple[dict[str, Any], ...] = ()  # what it asks its user for, with an address


def _typed(launch: Launch, variable: str) -> dict[str, Any]:
    if launch.url:
        return {"type": "http", "url": launch.url, "headers": {"Authorization": f"Bearer {variable}"}}
    return {"type": "stdio"} | launch.local


def _cursor(launch: Launch) -> dict[str, Any]:
    header = {"Authorization": f"Bearer ${{env:{TOKEN}}}"}
    return {"url": launch.url, "headers": header} if launch.url else launch.local


def _gemini(launch: Launch) -> dict[str, Any]:
    header = {"Authorization": f"Bearer ${TOKEN}"}
    return {"httpUrl": launch.url, "headers": header} if launch.url else launch.local


def _codex(launch: Launch) -> dict[str, Any]:
    return {"url": launch.url, "bearer_token_env_var": TOKEN} if launch.url else launch.local


def _desktop(launch: Launch) -> dict[str, Any]:
    """Claude Desktop's file knows programs only: mcp-remote is the usual bridge (no blank in its arguments)."""
    if not launch.url:
        return launch.local
    args = ["-y", "mcp-remote", launch.url, "--header", "Authorization:${GITSTRATA_AUTHORIZATION}"]
    return {"command": "npx", "args": args, "env": {"GITSTRATA_AUTHORIZATION": "Bearer PUT-THE-TOKEN-HERE"}}


def _desktop_path(project: Path, home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library/Application Support/Claude/claude_desktop_config.json"
    return home / ".config/Claude/claude_desktop_config.json"


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            lambda project, home: project / ".mcp.json",
            "mcpServers",
            lambda launch: _typed(launch, f"${{{TOKEN}}}"),
            "CLAUDE.md",
        ),
        Client("codex", "Codex", lambda p, home: home / ".codex/config.toml", "mcp_servers", _codex, "AGENTS.md", True),
        Client("cursor", "Cursor", lambda p, home: p / ".cursor/mcp.json", "mcpServers", _cursor, "AGENTS.md"),
        Client(
            "vscode",
            "VS Code",
            lambda project, home: project / ".vscode/mcp.json",
            "servers",
            lambda launch: _typed(launch, f"${{input:{_INPUT['id']}}}"),
            ".github/copilot-instructions.md",
            inputs=(_INPUT,),
        ),
        Client("gemini", "Gemini CLI", lambda p, home: p / ".gemini/settings.json", "mcpServers", _gemini, "GEMINI.md"),
        Client("claude-desktop", "Claude Desktop", _desktop_path, "mcpServers", _desktop, "a project's instructions"),
    )
}


def launch_here(environment: tuple[tuple[str, str], ...] = ()) -> Launch:
    """Return how this very installation is started, whatever the PATH of a client."""
    script = Path(sys.executable).with_name(NAME)
    if script.is_file():
        return Launch(str(script), ("serve",), environment)
    return Launch(sys.executable, ("-m", "mcp_tools.cli", "serve"), environment)


def render(client: Client, launch: Launch, existing: str) -> str:
    """Return the text of the client's file with our entry in it; all else in it stays.

    Raises:
        UsageError: the text is not what the client's file should be.
    """
    return _render_toml(client, launch, existing) if client.is_toml else _render_json(client, launch, existing)


def _render_json(client: Client, launch: Launch, existing: str) -> str:
    try:
        root = json.loads(existing) if existing.strip() else {}
    except ValueError as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "it"
        raise UsageError(f"is not plain JSON ({where}; comments and trailing commas are not)") from error
    servers = root.setdefault(client.key, {}) if isinstance(root, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(f"has no object {client.key!r} at its top")
    servers[NAME] = client.entry(launch)
    if client.inputs and launch.url:
        inputs = root.setdefault("inputs", [])
        if not isinstance(inputs, list):
            raise UsageError("has no list 'inputs' at its top")
        known = {part.get("id") for part in inputs if isinstance(part, dict)}
        inputs += [part for part in client.inputs if part["id"] not in known]
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def _render_toml(client: Client, launch: Launch, existing: str) -> str:
    """Replace our table, or add it at the end; comments and order of the rest stay."""
    before = _toml(existing)
    table = f"{client.key}.{NAME}"
    kept = re.sub(rf"(?m)^\[{re.escape(table)}(\.[^\]\n]*)?\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", "", existing).rstrip()
    entry = client.entry(launch)
    env = entry.pop("env", None)
    lines = [f"[{table}]", *(f"{key} = {_toml_value(value)}" for key, value in entry.items())]
    if env:
        lines += ["", f"[{table}.env]", *(f"{key} = {_toml_value(value)}" for key, value in env.items())]
    text = "\n".join([*([kept, ""] if kept else []), *lines, ""])
    after = _toml(text)
    expected = {**before, client.key: {**before.get(client.key, {}), NAME: client.entry(launch)}}
    if after != expected:
        raise UsageError(f"has {table} in a form that cannot be replaced safely: change it by hand")
    return text


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"is not valid TOML ({error})") from error


def _toml_value(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # strings and lists of strings are written alike


def write(client: Client, launch: Launch, path: Path) -> Path | None:
    """Add our entry to the client's file; return the copy of what it was, None if there was none or nothing changed.

    Raises:
        UsageError: the file is not what it should be; it is left as it is.
    """
    path = path.resolve()
    existing = _read(path)
    try:
        text = render(client, launch, existing or "")
    except UsageError as error:
        raise UsageError(f"{path} {error}: it is left as it is; without --write the entry is printed") from error
    if text == existing:
        return None
    backup = None
    if existing is not None:
        backup = path.with_name(f"{path.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
        shutil.copy2(path, backup)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    if backup is not None:
        shutil.copymode(path, temporary)
    else:
        Path(temporary).chmod(0o644)
    Path(temporary).replace(path)
    return backup


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: it is left as it is") from error
