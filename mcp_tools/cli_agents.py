"""Commands that set agents and their server up: token new, install-agent, doctor. Added by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import settings as settings_module
from flows.errors import UsageError
from mcp_tools.summary import printable

if TYPE_CHECKING:
    from mcp_tools.agent_configs import Client


def token_new(
    name: Annotated[str, typer.Argument(help="Who will use it; it stands in the access log.")],
    projects: Annotated[str, typer.Option("--projects", help="Projects it may see, separated by commas; * for all.")],
    expires: Annotated[str, typer.Option("--expires", help="90d, 12h, 4w, a day YYYY-MM-DD, or never.")] = "90d",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")] = False,
) -> None:
    """Make a bearer token: it is shown once; what is printed below it is the row for the tokens file."""
    from mcp_tools import tokens

    named = [project.strip() for project in projects.split(",") if project.strip()]
    token, row = tokens.new(name, named, expires)
    if note := _unknown(named):
        print(printable(note), file=sys.stderr)
    if as_json:
        print(json.dumps({"token": token, "row": row}))
        return
    where = settings_module.load().tokens_file or "a file that GITSTRATA_TOKENS_FILE names, below a line `tokens:`"
    print(f"The token, shown only now:\n\n  {token}\n\nAdd to {where}:\n\n{tokens.as_yaml(row)}", end="")


def _unknown(named: Sequence[str]) -> str:
    """Say which projects no repository is in, where that can be seen from here: a token may come before they are."""
    settings = settings_module.load()
    if not settings.dsn and not settings.server_dir.exists():
        return ""
    from mcp_tools import scope
    from mcp_tools.access import ALL_PROJECTS
    from mcp_tools.index import Index

    try:
        with Index(settings) as index:
            scope.check_projects(index, [name for name in named if name != ALL_PROJECTS])
    except UsageError as error:
        return f"note: {error}"
    return ""


def install_agent(
    client: Annotated[str, typer.Argument(help="claude-code, codex, cursor, vscode, gemini or claude-desktop.")] = "",
    write: Annotated[
        bool, typer.Option("--write", help="Write the file, keeping a copy, instead of printing.")
    ] = False,
    http: Annotated[str, typer.Option("--http", metavar="URL", help="Address of a team's server, /mcp included.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")] = False,
) -> None:
    """Print, or write, the MCP configuration of an agent's client; without a client, list them."""
    from mcp_tools import agent_configs as configs

    if not client:
        if as_json:
            print(json.dumps({"clients": [_named(known) for known in configs.CLIENTS.values()]}))
            return
        for known in configs.CLIENTS.values():
            print(f"{known.name:15} {known.title:15} {known.path(Path(), Path('~'))}")
        return
    if client not in configs.CLIENTS:
        raise UsageError(f"unknown client {client!r}: there are {', '.join(configs.CLIENTS)}")
    if http and not http.startswith(("http://", "https://")):
        raise UsageError(f"--http {http!r} is no address: give it whole, such as https://code.example.org/mcp")
    chosen = configs.CLIENTS[client]
    launch = configs.Launch(url=http) if http else configs.launch_here(_environment())
    path = chosen.path(Path.cwd(), Path.home())
    if as_json:
        backup = configs.write(chosen, launch, path) if write else None
        entry = configs.render(chosen, launch, "")
        fields = {"client": client, "file": str(path), "entry": entry, "written": write, "hint_file": chosen.hint_file}
        print(json.dumps(fields | {"hint": configs.HINT, "backup": str(backup or "")}))
        return
    if write:
        backup = configs.write(chosen, launch, path)
        print(f"{path} has gitstrata now" + (f"; what it was is in {backup}" if backup else ""))
    else:
        print(f"Add to {path}:\n\n{configs.render(chosen, launch, '')}")
    print(f"\nFor {chosen.hint_file}, so that agents and their sub-agents use it:\n\n{configs.HINT}", end="")
    if http:
        print(f"\nThe token comes from {configs.TOKEN} or the client's prompt: make one with gitstrata token new.")
    elif settings_module.load().dsn:
        print("\nGITSTRATA_DSN is set here and not written down: set it where the client is started, too.")


def _named(client: Client) -> dict[str, str]:
    return {"name": client.name, "title": client.title, "file": str(client.path(Path(), Path("~")))}


def _environment() -> tuple[tuple[str, str], ...]:
    """Return what the started server must be told: a home other than the usual one."""
    home = settings_module.load().home
    return () if home == settings_module.load({}).home else (("GITSTRATA_HOME", str(home)),)


def doctor(
    folder: Annotated[Path, typer.Option("--config", help="Folder of repository files.")] = Path("repos.d"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")] = False,
) -> None:
    """Check settings, database, model, tokens, index and repository files; say how to put right what is wrong."""
    from mcp_tools import doctor as checks

    findings = checks.examine(folder)
    if as_json:
        print(json.dumps(checks.to_json(findings)))
    else:
        print(printable("\n".join(checks.shown(findings))))
    sys.stdout.flush()
    raise typer.Exit(1 if any(finding.state == "failed" for finding in findings) else 0)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    token = typer.Typer(no_args_is_help=True, help="Tokens for the HTTP server.")
    token.command("new")(token_new)

    @token.callback()
    def group() -> None:
        """Tokens for the HTTP server."""

    app.add_typer(token, name="token")
    app.command("install-agent")(install_agent)
    app.command("doctor")(doctor)
