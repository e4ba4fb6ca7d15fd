"""What ``scripts/index`` runs: index a repository, show two searches, say how to connect an agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from flows import settings as settings_module  # noqa: E402
from flows.settings import Settings  # noqa: E402
from mcp_tools import cli, render  # noqa: E402
from mcp_tools.code_search import code_search  # noqa: E402
from mcp_tools.index import Index  # noqa: E402
from mcp_tools.summary import summary  # noqa: E402

USAGE = """\
usage: scripts/index [PATH | URL] [--rev REVISION] [--name NAME]

Index a git repository (by default this project) at a commit into the embedded Postgres, or into GITSTRATA_DSN, and
show what a search answers. PATH is a folder in a checkout or a bare repository; nothing but git objects is read."""
QUESTIONS = ("where are errors turned into messages for the user", "read settings from the environment")
NOT_ITSELF = ["!scripts/index_tour.py"]  # else the questions above would be the best answer to themselves


def main(arguments: list[str]) -> None:
    """Index, search twice and print the lines for an agent's configuration."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE)
        return
    source, rev, name = _parse(arguments)
    settings = settings_module.load()
    report = cli.run_index(settings, source, rev=rev, name=name)
    print(summary(report), flush=True)
    with Index(settings) as index:
        for question in QUESTIONS:
            answer = code_search(index, question, limit=3, repo=report.repo, branch=report.branch, paths=NOT_ITSELF)
            print(f'\n$ gitstrata search --repo {report.repo} "{question}"\n{render.search_text(answer)}')
    print("\n" + connect(settings))


def _parse(arguments: list[str]) -> tuple[str, str, str]:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/index", usage=USAGE.splitlines()[0].removeprefix("usage: "))
    parser.add_argument("source", nargs="?", default=str(PROJECT))
    parser.add_argument("--rev", default="")
    parser.add_argument("--name", default="")
    given = parser.parse_args(arguments)
    return given.source, given.rev, given.name


def connect(settings: Settings) -> str:
    """Return the lines that connect an agent to this index."""
    command = Path(sys.executable).parent / "gitstrata"
    environment = {"GITSTRATA_HOME": str(settings.home)} | ({"GITSTRATA_DSN": settings.dsn} if settings.dsn else {})
    server: dict[str, object] = {"command": str(command), "args": ["serve"], "env": environment}
    config = json.dumps({"mcpServers": {"gitstrata": server}}, indent=2, ensure_ascii=False)
    return f"Connect an agent: paste this into its MCP configuration\n{config}\n\nSearch from a shell: {command} --help"


if __name__ == "__main__":
    cli.run_to_exit(lambda: main(sys.argv[1:]))
