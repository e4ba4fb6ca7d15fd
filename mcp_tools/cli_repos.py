"""``gitstrata repos``: check, plan, add and remove. Added to the command line by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import settings as settings_module
from flows.errors import ConfigError, UsageError
from flows.wording import counted
from mcp_tools.summary import printable

if TYPE_CHECKING:
    from flows.config import Configuration
    from flows.errors import Problem
    from flows.proposal import Proposal

repos = typer.Typer(no_args_is_help=True, help="Look after the configured repositories.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]
FOLDER = Path("repos.d")
Folder = Annotated[Path, typer.Option("--config", help="Folder of repository files.")]


@repos.command("check")
def check(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder of repository files; the same as --config DIR.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Folder of repository files; repos.d without it.")
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Ask each remote, too: is it there, and has it the branches?")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Fetch each repository, too, and name globs that match nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check repository files: every problem with file, line, column and how to fix it.

    Exit code 0: right, perhaps with warnings; 1: a remote does not answer; 2: something is wrong.
    """
    from flows.config import load
    from flows.probe import Probe

    if folder and config and folder != config:
        raise UsageError(f"two folders are given, {folder} and --config {config}: leave one of them out")
    folder = folder or config or FOLDER
    try:
        configuration = load(folder)
    except ConfigError as error:
        if not as_json:
            raise
        print(json.dumps({"problems": [asdict(problem) for problem in error.problems], "warnings": [], "repos": []}))
        raise typer.Exit(error.exit_code) from error
    probe = Probe(settings_module.load(), folder, configuration)
    if online or deep:
        probe.ask(deep=deep)
    warnings = [*configuration.hints, *probe.warnings]
    if as_json:
        print(json.dumps(_checked(configuration, probe.problems, warnings)))
    else:
        names = [repo.name for repo in configuration.repos]
        lines = [*map(str, probe.problems), *(_warning(warning) for warning in warnings)]
        count = counted(len(names), "repository", "repositories")
        print(printable("\n".join([*lines, f"{count}: {', '.join(names) or 'none'}"])))
    raise typer.Exit(1 if probe.problems else 0)


def _warning(problem: Problem) -> str:
    place, message = str(problem).removesuffix(problem.message), problem.message
    return f"{place}warning: {message}"


def _checked(configuration: Configuration, problems: list[Problem], warnings: list[Problem]) -> dict[str, object]:
    return {
        "source": configuration.source,
        "problems": [asdict(problem) for problem in problems],
        "warnings": [asdict(warning) for warning in warnings],
        "repos": [repo.to_json() for repo in configuration.repos],
    }


@repos.command("plan")
def plan(
    names: Annotated[list[str] | None, typer.Argument(metavar="[REPO]...", help="Only these repositories.")] = None,
    folder: Folder = FOLDER,
    all_: Annotated[bool, typer.Option("--all", help="Also those that the change does not touch.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
    as_json: Json = False,
) -> None:
    """Say what publishing the repository files would index and remove; change nothing.

    Files, chunks and vectors are those of the sync that follows: new content is fetched and cut, but not embedded.
    Exit code 0; 1: a repository cannot be fetched; 2: wrong configuration.
    """
    from mcp_tools import proposal

    if as_json and as_markdown:
        raise UsageError("--json and --markdown: choose one")
    if names and all_:
        raise UsageError("say which repositories to plan, or --all")
    found = _propose(folder, names or [], everything=all_, quiet=as_json or as_markdown)
    if as_json:
        print(json.dumps(proposal.to_json(found)))
    else:
        print(proposal.markdown(found) if as_markdown else proposal.text(found), end="" if as_markdown else "\n")
    raise typer.Exit(1 if found.is_failed else 0)


def _propose(folder: Path, names: list[str], *, everything: bool, quiet: bool) -> Proposal:
    from flows.config import load
    from flows.embed.shelf import Shelf
    from flows.fleet import Options, Workshop
    from flows.proposal import propose
    from flows.store.connect import open_database
    from mcp_tools import progress

    configuration, settings = load(folder), settings_module.load()
    with open_database(settings) as database, progress.shown("plan", quiet=quiet) as update:
        shop = Workshop(database, settings, Shelf(settings.model), update)
        return propose(shop, configuration, names, Options(folder=folder), everything=everything)


@repos.command("add")
def add(
    url: Annotated[str, typer.Argument(help="Where git fetches it.")],
    folder: Folder = FOLDER,
    name: Annotated[str, typer.Option("--name", help="Name in searches; by default taken from the URL.")] = "",
    branch: Annotated[list[str], typer.Option("--branch", help="Branch or glob; may be repeated.")] = [],  # noqa: B006
    project: Annotated[list[str], typer.Option("--project", help="Project; may be repeated.")] = [],  # noqa: B006
    deny: Annotated[list[str], typer.Option("--deny", help="Glob that is left out; may be repeated.")] = [],  # noqa: B006
    owner: Annotated[str, typer.Option("--owner", help="Team or person who answers for it.")] = "",
    credentials_env: Annotated[
        str, typer.Option("--credentials-env", help="NAME of the variable that holds the token.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write the file of a repository after looking at it, or add to the file that it has; comments stay as they are."""
    from flows.config import edit
    from flows.newcomer import look

    wanted = edit.Wanted(url, name, tuple(branch), tuple(project), tuple(deny), owner, credentials_env)
    path = edit.find(folder, wanted)
    if path is not None:
        changed = edit.change(path, wanted)
        _print({"file": str(path), "outcome": "changed", "said": changed}, f"{path}: {changed}", as_json)
        return
    seen = look(settings_module.load(), wanted)
    path = edit.create(folder, wanted, seen)
    text = f"{path}: written; {seen.summary}. Read it, then run gitstrata repos plan"
    _print({"file": str(path), "outcome": "written", "said": seen.summary}, text, as_json)


@repos.command("list")
def list_(
    name_contains: Annotated[str, typer.Argument(metavar="[PART]", help="Part of a name; all without it.")] = "",
    project: Annotated[str, typer.Option("--project", help="Only the repositories of this project.")] = "",
    cursor: Annotated[str, typer.Option("--cursor", help="next_cursor of an earlier answer.")] = "",
    as_json: Json = False,
) -> None:
    """List the repositories of the index: branches, commit, size, languages and projects."""
    from mcp_tools.index import Index
    from mcp_tools.repos import as_text, list_repos

    with Index(settings_module.load()) as index:
        answer = list_repos(index, name_contains=name_contains, project=project, cursor=cursor)
    print(json.dumps(answer.model_dump()) if as_json else printable(as_text(answer)))


@repos.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="REPO", help="The repository.")], as_json: Json = False) -> None:
    """Take a repository out of the index; its content stays for gc's grace period.

    A configured repository comes back with the next sync of its configuration: delete its file there instead.
    """
    from flows.store import repos as stored
    from flows.store.connect import open_database

    with open_database(settings_module.load()) as database, database.connect() as connection:
        owner = {item.name: item.source for item in stored.configured(connection)}.get(name)
        if not stored.remove(connection, name):
            raise UsageError(f"unknown repo {name!r}: gitstrata status lists what there is")
    again = f"; it is configured by {owner} and comes back with its next sync" if owner else ""
    _print({"removed": name, "configured_by": owner or ""}, f"removed {name}{again}", as_json)


def _print(value: dict[str, object], text: str, as_json: bool) -> None:
    print(json.dumps(value) if as_json else printable(text))


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(repos, name="repos")
