"""The command line: ``gitstrata``. Parses, calls, prints; every error is one line and an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from flows import settings as settings_module
from flows import urls
from flows.errors import GitstrataError, Interrupted, UsageError
from flows.settings import Settings
from mcp_tools import cli_agents, cli_cases, cli_eval, cli_explain, cli_grep, cli_model, cli_repos, cli_sync, surface
from mcp_tools.summary import printable, summary

if TYPE_CHECKING:
    from flows.report import Report

app = typer.Typer(
    name="gitstrata",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Search the code of many git repositories by meaning and by words, commit by commit.",
)
db = typer.Typer(no_args_is_help=True, help="Look after the database.")
app.add_typer(db, name="db")
cli_sync.register(app)
cli_repos.register(app)
cli_explain.register(app)
cli_model.register(app)
cli_eval.register(app)
cli_grep.register(app)
cli_cases.register(app)
cli_agents.register(app)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]
RepoOption = Annotated[str, typer.Option("--repo", "-r", help="Only this repository.")]
BranchOption = Annotated[str, typer.Option("--branch", "-b", help="Branch or tag; by default each repository's own.")]


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    run_to_exit(lambda: app(prog_name="gitstrata", standalone_mode=False))


def run_to_exit(command: Callable[[], object]) -> NoReturn:
    """Run ``command`` and exit with its code; what goes wrong is one line on standard error."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        result = command()  # typer returns the code of its Exit, and that of Ctrl-C
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
        if code == Interrupted.exit_code:
            raise KeyboardInterrupt
    except typer.Exit as exit_:
        code = exit_.exit_code
    except GitstrataError as error:
        code = error.exit_code
        print(f"gitstrata: {printable(urls.redact(str(error)))}", file=sys.stderr)
    except (KeyboardInterrupt, typer.Abort):
        code = Interrupted.exit_code
        print("gitstrata: stopped; finished work is kept, run it again to go on", file=sys.stderr)
    except BrokenPipeError:
        code = 0
        _discard_output()
    except OSError as error:
        code = _refused(error)
        _discard_output()
    except Exception as error:
        code = _usage(error)
    sys.exit(code)


def _discard_output() -> None:
    """Let the flush at exit not fail once more on an output that is gone or full."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> int:
    """Print what the system refused; a GITSTRATA_HOME that can be no folder of ours is a wrong setting."""
    where = f"{error.filename}: " if error.filename else ""
    is_home = bool(error.filename) and Path(os.fsdecode(error.filename)).is_relative_to(settings_module.load().home)
    remedy = "check space and permissions" + (", or choose another folder with GITSTRATA_HOME" if is_home else "")
    print(f"gitstrata: {printable(f'{where}{error.strerror or error}: {remedy}')}", file=sys.stderr)
    return UsageError.exit_code if is_home and error.errno in settings_module.NOT_A_PLACE else 1


def _usage(error: Exception) -> int:
    """Print what typer says of a bad command line; anything else is a fault of ours."""
    say: Callable[[], str] | None = getattr(error, "format_message", None)  # of click, or of typer's own copy of it
    show: Callable[[], None] | None = getattr(error, "show", None)
    if say is None or show is None:
        print(f"gitstrata: unexpected {type(error).__name__}: {error}. Please report this", file=sys.stderr)
        return 1
    if said := " ".join(say().split()):
        command = getattr(getattr(error, "ctx", None), "command_path", "gitstrata")
        print(f"gitstrata: {said}{'' if said[-1] in '.?' else '.'} See {command} --help", file=sys.stderr)
    else:
        show()  # no arguments at all: the help
    return int(getattr(error, "exit_code", 2))


def _on_sigterm(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Print the version if that was asked for."""
    context.with_resource(surface.spoken(at_command_line=True))
    if version:
        import importlib.metadata

        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            print(importlib.metadata.version("gitstrata"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def index(
    source: Annotated[str, typer.Argument(help="A folder in a git repository, or a URL.")] = ".",
    rev: Annotated[str, typer.Option("--rev", help="Branch, tag or commit; by default what is checked out.")] = "",
    name: Annotated[str, typer.Option("--name", help="Name of the repository; by default taken from its origin.")] = "",
    wait: Annotated[bool, typer.Option(help="Wait for another run on the same branch, or fail at once.")] = True,
    as_json: Json = False,
) -> None:
    """Index a repository at a commit, without any configuration."""
    if name:
        _check_name(name)
    report = run_index(settings_module.load(), source, rev=rev, name=name, wait=wait, quiet=as_json)
    if as_json:
        print(json.dumps(report.to_json()))
    else:
        print(printable(summary(report)))
    raise typer.Exit(1 if report.outcome in ("partial", "failed") else 0)


def _check_name(name: str) -> None:
    from pydantic_core import PydanticCustomError

    from flows.config.values import check_name

    try:
        check_name(name)
    except PydanticCustomError as error:
        raise UsageError(f"--name {name[:80]!r}: {error}") from error


def run_index(
    settings: Settings, source: str, *, rev: str = "", name: str = "", wait: bool = True, quiet: bool = False
) -> Report:
    """Index ``source``, a path or URL, and return the report."""
    from flows import adhoc, urls
    from flows.embed.shelf import Shelf
    from flows.store.connect import open_database
    from mcp_tools import checkout, progress

    with progress.shown(urls.redact(source), quiet=quiet) as update:
        opened = adhoc.open_source(settings, source, update)
    shelf = Shelf(settings.model)
    with open_database(settings) as database, progress.shown(urls.redact(source), quiet=quiet) as update:
        report = adhoc.index(database, settings, shelf, opened, rev=rev, name=name, wait=wait, progress=update)
    if note := checkout.describe(opened.repository, report.commit, report.repo):
        report.notes.append(note)
    return report


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What the code does, or identifiers in it.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Rows, 1 to 50.")] = 10,
    repo: RepoOption = "",
    project: Annotated[str, typer.Option("--project", help="Only the repositories of this project.")] = "",
    branch: BranchOption = "",
    language: Annotated[list[str], typer.Option("--language", "-l", help="Only this language; may be repeated.")] = [],  # noqa: B006
    path: Annotated[
        list[str], typer.Option("--path", "-p", help="Glob from the root; ! excludes; may be repeated.")
    ] = [],  # noqa: B006
    level: Annotated[str, typer.Option("--level", help="any, file, class, method or block.")] = "any",
    cursor: Annotated[str, typer.Option("--cursor", help="next_cursor of an earlier answer.")] = "",
    as_json: Json = False,
) -> None:
    """Find code by meaning and words."""
    from mcp_tools import render
    from mcp_tools.code_search import code_search

    with _index() as opened:
        answer = code_search(
            opened,
            query,
            limit=limit,
            repo=repo,
            project=project,
            branch=branch,
            languages=language,
            paths=path,
            level=level,
            cursor=cursor,
        )
    _print(answer.model_dump(), render.search_text(answer), as_json)


@app.command()
def who(
    topic: Annotated[str, typer.Argument(help="What the code does, identifiers in it, or a path.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="People, 1 to 20.")] = 5,
    repo: RepoOption = "",
    project: Annotated[str, typer.Option("--project", help="Only the repositories of this project.")] = "",
    as_json: Json = False,
) -> None:
    """Find the people who know a topic, by who changed the code behind it."""
    from mcp_tools import render
    from mcp_tools.who_knows import who_knows

    with _index() as opened:
        answer = who_knows(opened, topic, limit=limit, repo=repo, project=project)
    _print(answer.model_dump(), render.who_text(answer), as_json)


@app.command()
def show(
    source_id: Annotated[str, typer.Argument(help="source_id (path#Symbol) or url (path#L10-L42) of a row.")],
    repo: RepoOption = "",
    branch: BranchOption = "",
    context: Annotated[int, typer.Option("--context", "-c", help="Neighbouring chunks, 0 to 3.")] = 0,
    level: Annotated[str, typer.Option("--level", help="Widen to method, class or file.")] = "",
    max_chars: Annotated[int, typer.Option("--max-chars", help="Characters of code, up to 40000.")] = 8000,
    as_json: Json = False,
) -> None:
    """Print the code behind a row."""
    from mcp_tools import render
    from mcp_tools.chunks import get_chunk

    with _index() as opened:
        answer = get_chunk(
            opened, source_id, repo=repo, branch=branch, context=context, level=level, max_chars=max_chars
        )
    _print(answer.model_dump(), render.chunk_text(answer), as_json)


@app.command()
def related(
    source_id: Annotated[str, typer.Argument(help="source_id (path#Symbol) or url (path#L10-L42) of a row.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Rows, 1 to 50.")] = 10,
    repo: RepoOption = "",
    project: Annotated[str, typer.Option("--project", help="Only the repositories of this project.")] = "",
    as_json: Json = False,
) -> None:
    """Find code that resembles a row."""
    from mcp_tools import render
    from mcp_tools.related import find_related

    with _index() as opened:
        answer = find_related(opened, source_id, limit=limit, repo=repo, project=project)
    _print(answer.model_dump(), render.search_text(answer), as_json)


@app.command()
def status(repo: RepoOption = "", as_json: Json = False) -> None:
    """Say what is indexed, how fresh it is, and what was left out and why."""
    from mcp_tools import checkout, render
    from mcp_tools.status import index_status

    with _index() as opened:
        answer = index_status(opened, repo=repo)
        here = "" if as_json else checkout.compare(opened, Path())
    _print(answer.model_dump(), "\n".join(filter(None, [render.status_text(answer), here])), as_json)


@app.command()
def serve(
    toolsets: Annotated[
        str, typer.Option("--toolsets", help="Tools to offer, separated by commas: code, cases, cerebrum.")
    ] = "code,cases",
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, for a team.")] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than this machine need tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any.")] = 8765,
    workers: Annotated[int, typer.Option("--workers", help="Processes that answer.")] = 1,
    allow_host: Annotated[
        list[str], typer.Option("--allow-host", help="Name that requests may call this server by; may be repeated.")
    ] = [],  # noqa: B006
    rate: Annotated[int, typer.Option("--rate", help="Requests a minute for each token.")] = 600,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="Log what is asked, too.")] = False,
    project: Annotated[
        list[str], typer.Option("--project", help="Serve only the repositories of this project; may be repeated.")
    ] = [],  # noqa: B006
) -> None:
    """Serve agents over MCP: on standard input and output, or over HTTP."""
    from mcp_tools.server import parse_toolsets

    settings, chosen = settings_module.load(), parse_toolsets(toolsets)
    with surface.spoken(at_command_line=False):
        if http:
            from mcp_tools import serve_http

            allowed, projects = tuple(allow_host), tuple(project)
            options = serve_http.Options(host, port, workers, allowed, rate, log_queries, projects, chosen)
            return serve_http.serve(settings, options)
        from mcp_tools.server import serve as run

        return run(settings, chosen, projects=project)


@db.command("upgrade")
def db_upgrade(as_json: Json = False) -> None:
    """Bring the schema of a database up to this program's."""
    from flows.store import connect

    with connect.open_database(settings_module.load(), upgrade=True) as database:
        where, schema = connect.describe(database.conninfo), connect.schema_version()
    _print({"database": where, "schema": schema}, f"{where} has schema {schema}", as_json)


@db.command("dump")
def db_dump(
    file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")], as_json: Json = False
) -> None:
    """Write the whole database to a file, beside runs and searches; restore reads it."""
    from flows.store import backup

    size = backup.dump(settings_module.load(), file)
    _print({"file": str(file), "bytes": size}, f"{file}: {size / 1e6:.1f} MB", as_json)


@db.command("restore")
def db_restore(file: Annotated[Path, typer.Argument(help="A file that dump wrote.")], as_json: Json = False) -> None:
    """Fill an empty database from a dump, whole or not at all."""
    from flows.store import backup, connect

    settings = settings_module.load()
    backup.restore(settings, file)
    where = connect.describe(settings.dsn) if settings.dsn else "the embedded server"
    _print({"database": where, "file": str(file)}, f"{where} holds {file} now", as_json)


@db.command("stop")
def db_stop(as_json: Json = False) -> None:
    """Stop the embedded server, whoever uses it."""
    settings = settings_module.load()
    if settings.dsn:
        raise UsageError("GITSTRATA_DSN is set: only the embedded server can be stopped here")
    from flows.store.embedded import EmbeddedServer

    stopped = EmbeddedServer(settings.server_dir, postgres_bin=settings.postgres_bin).stop()
    _print({"stopped": stopped}, "stopped" if stopped else "it was not running", as_json)


def _index() -> Any:
    from mcp_tools.index import Index

    return Index(settings_module.load())


def _print(value: dict[str, Any], text: str, as_json: bool) -> None:
    print(json.dumps(value) if as_json else printable(text))


if __name__ == "__main__":
    main()
