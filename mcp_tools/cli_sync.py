"""The commands of CI and operators: sync, gc, purge. Added to the command line by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import settings as settings_module
from flows.errors import UsageError
from flows.settings import Settings
from flows.wording import counted
from mcp_tools.summary import printable, summary

if TYPE_CHECKING:
    from concurrent.futures import Future

    from flows.config import RepoConfig
    from flows.fleet import Options
    from flows.report import Report
    from flows.store.collect import Collected

log = logging.getLogger("gitstrata")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]
GRACE_DAYS = 14
GC_WAIT = 60.0  # seconds that gc waits for runs to end before it gives up
HISTORY = 20_000  # commits, as in flows/past.py


def sync(
    names: Annotated[list[str] | None, typer.Argument(metavar="[REPO]...", help="Configured repositories.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All configured repositories.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Publish this folder first; without it the published files count.",
        ),
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="Only this branch.")] = "",
    commit: Annotated[
        str, typer.Option("--commit", help="Bring --branch to this commit, if it still is its tip.")
    ] = "",
    checkout: Annotated[
        Path | None, typer.Option("--checkout", help="Read objects from this clone instead of fetching a mirror.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Publish an older commit or configuration, too.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare everything shown with git and the model.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")] = False,
    history: Annotated[
        int, typer.Option("--history", min=0, help="Commits to read for who_knows at most in this run; 0 = none.")
    ] = HISTORY,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Repositories worked on at once.")] = 1,
    wait: Annotated[bool, typer.Option(help="Wait for another run on the same branch, or fail at once.")] = True,
    summary_file: Annotated[
        Path | None,
        typer.Option("--summary", help="Append the counts and what is shown now to this file, as Markdown."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring configured repositories to their remotes' tips: what CI calls on each push and every night.

    Exit code 0: done, unchanged or superseded; 1: partial or failed; 2: wrong configuration or request.
    """
    from flows.fleet import Options
    from flows.foresee import Ledger

    if bool(names) == all_ and not (config and not names):
        raise UsageError("say which repositories to sync, or --all")
    if (branch or commit or checkout) and len(names or []) != 1:
        raise UsageError("--branch, --commit and --checkout go with one repository")
    if commit and not branch:
        raise UsageError("--commit needs --branch: the branch whose tip it is")
    if commit and not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", commit):
        raise UsageError(f"--commit {commit!r}: give the whole id of a commit, 40 or 64 lower-case hex digits")
    if dry_run and verify:
        raise UsageError("--dry-run writes nothing, and --verify puts right what it finds: leave one of them out")
    if checkout is not None:
        _check_checkout(checkout)
    if summary_file is not None:
        _check_appendable(summary_file)
    ledger = Ledger() if dry_run else None
    options = Options(branch or _checked_out(checkout), commit, checkout, force, ledger, verify, wait, history, config)
    settings = settings_module.load()
    chosen, notes = _chosen(settings, names or [], options)
    if not chosen and not notes:
        notes = ["no repository is configured: publish a folder of repository files with `gitstrata sync --config DIR`"]
    reports = run(settings, chosen, options, jobs=1 if dry_run else jobs, quiet=as_json)
    if summary_file is not None:
        from mcp_tools import job

        with summary_file.open("a", encoding="utf-8") as file:
            file.write(job.summary(settings, reports, notes))
    if as_json:
        print("\n".join(notes), end="\n" * bool(notes), file=sys.stderr)
        print(json.dumps([report.to_json() for report in reports]))
    else:
        print(printable("\n".join([*notes, *map(summary, reports)])))
    raise typer.Exit(1 if any(report.outcome in ("partial", "failed") for report in reports) else 0)


def _check_checkout(checkout: Path) -> None:
    """Raise NoSuchSource now, rather than count a folder that is none as a run that failed."""
    from flows import git

    git.open_repository(checkout)


def _check_appendable(file: Path) -> None:
    """Raise UsageError before any work is done for a summary that cannot be written."""
    try:
        file.open("a").close()
    except OSError as error:
        raise UsageError(f"--summary {file} cannot be written: {error.strerror or error}") from error


def _checked_out(checkout: Path | None) -> str:
    if checkout is None:
        return ""
    from flows import git

    name = git.head_branch(git.open_repository(checkout))
    if name == "HEAD":
        raise UsageError(f"{checkout} is not on a branch: say --branch")
    return name


def _chosen(settings: Settings, names: Sequence[str], options: Options) -> tuple[list[RepoConfig], list[str]]:
    """Publish the configuration, if one is given, and return the repositories to sync and what is to be said."""
    from flows import fleet, git
    from flows.config import load
    from flows.store import repos as stored
    from flows.store.connect import open_database

    folder = options.folder
    configuration = load(folder) if folder else None
    with open_database(settings) as database, database.connect() as connection:
        if folder is None or configuration is None:
            return fleet.in_force(connection, names), []
        if options.ledger is not None:
            wanted = {repo.name: repo for repo in configuration.repos}
            return fleet.pick(wanted, names), [
                f"{item.name} is not configured any more: would be removed"
                for item in stored.configured(connection)
                if item.source == configuration.source and item.name not in wanted
            ]

        def is_ancestor(older: str, newer: str) -> bool | None:
            return git.is_ancestor(git.open_repository(folder), older, newer)

        if names:  # a name that nobody has is no reason to publish anything
            known = {repo.name for repo in configuration.repos}
            fleet.in_force(connection, [name for name in names if name not in known])
        published = fleet.publish(connection, configuration, force=options.force, is_ancestor=is_ancestor)
        notes = [published.note] if published.note else []
        notes += [f"{name} is not configured any more: removed" for name in published.removed]
        return fleet.in_force(connection, names or published.names) if names or published.names else [], notes


def run(settings: Settings, configs: Sequence[RepoConfig], options: Options, *, jobs: int, quiet: bool) -> list[Report]:
    """Sync repositories, several at once in processes of their own; return a report a branch."""
    if len(configs) < 2:
        return [report for config in configs for report in _one(settings, config, options, quiet)]
    options = replace(options, builds_index=False)  # once, at the end: it costs a third of what growing it would
    if jobs == 1:
        reports = [report for config in configs for report in _one(settings, config, options, quiet)]
    else:
        reports = _at_once(settings, configs, options, jobs, quiet)
    if options.ledger is None:
        _build_index(settings, quiet)
    return reports


def _at_once(
    settings: Settings, configs: Sequence[RepoConfig], options: Options, jobs: int, quiet: bool
) -> list[Report]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(min(jobs, len(configs)), multiprocessing.get_context("spawn")) as pool:
        futures = [(config, pool.submit(_one, settings, config, options, quiet)) for config in configs]
        return [report for config, future in futures for report in _result(config, future)]


def _build_index(settings: Settings, quiet: bool) -> None:
    """Build the vector index if it is due; without it searches scan until a later run has built it."""
    import psycopg

    from flows.store import vector_index
    from flows.store.connect import open_database
    from flows.store.models import active_model
    from mcp_tools import progress

    with open_database(settings) as database, progress.shown("all repositories", quiet=quiet) as update:
        with database.connect() as connection:
            model = active_model(connection)
        try:
            if model is not None:
                vector_index.build_if_large(database, model, update)
        except psycopg.Error as error:
            log.warning(vector_index.failure(error))


def _result(config: RepoConfig, future: Future[list[Report]]) -> list[Report]:
    """Return a worker's reports; one that was killed has none."""
    from concurrent.futures.process import BrokenProcessPool

    from flows.errors import SourceError
    from flows.sync import failure

    try:
        return future.result()
    except BrokenProcessPool:
        return [failure(config.name, "*", SourceError("a worker process was killed: run this again"))]


def _one(settings: Settings, config: RepoConfig, options: Options, quiet: bool) -> list[Report]:
    from flows.embed.shelf import Shelf
    from flows.fleet import Workshop, sync_repo
    from flows.store.connect import open_database
    from mcp_tools import progress

    with open_database(settings) as database, progress.shown(config.name, quiet=quiet) as update:
        return sync_repo(Workshop(database, settings, Shelf(settings.model), update), config, options)


def gc(
    grace: Annotated[
        float, typer.Option("--grace-days", min=0, max=3650, help="Keep what was shown or written within these days.")
    ] = GRACE_DAYS,
    as_json: Json = False,
) -> None:
    """Delete content that no commit has shown for a while."""
    from dataclasses import asdict

    from flows.store import collect
    from flows.store.connect import open_database

    deadline = time.monotonic() + GC_WAIT

    def wait() -> bool:
        time.sleep(0.5)
        return time.monotonic() < deadline

    with open_database(settings_module.load()) as database, database.connect() as connection:
        gone = collect.collect(connection, timedelta(days=grace), wait)
    text = f"deleted {_gone(gone)}" + (f", {counted(gone.models, 'model')}" if gone.models else "")
    busy = "; runs are at work, so that not everything was looked at: try again later" if gone.busy else ""
    print(json.dumps(asdict(gone)) if as_json else text + busy)
    raise typer.Exit(1 if gone.busy else 0)


def _gone(gone: Collected) -> str:
    cuts = f"{counted(gone.cuts, 'cut')} with {counted(gone.chunks, 'chunk')}"
    return f"{cuts}, {counted(gone.texts, 'text')}, {counted(gone.blobs, 'blob')}"


def purge(
    name: Annotated[str, typer.Argument(metavar="REPO", help="The repository.")],
    path: Annotated[
        str | None, typer.Argument(metavar="[GLOB]", help="Glob from the repository's root; everything without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete a repository, or the files of it that a glob names, with their content, at once.

    What a glob took away comes back with the next run unless the repository's rules deny it; facts of all commits are
    read again by it. A whole repository loses its published configuration, too.
    """
    from dataclasses import asdict

    from flows import adhoc
    from flows.store import branches, collect, history, lexicon
    from flows.store import repos as stored
    from flows.store.connect import open_database
    from flows.store.models import active_model
    from mcp_tools.scope import path_patterns

    patterns = path_patterns([path])[0] if path is not None else []
    if path is not None and not patterns:
        raise UsageError(f"purge: {path!r} names no file; leave it out to delete the whole repository")
    settings = settings_module.load()
    with open_database(settings) as database, database.connect() as connection:
        if name not in stored.names(connection):
            raise UsageError(f"unknown repo {name!r}: gitstrata status lists what there is")
        if patterns:
            history.forget(connection, name)  # subjects may speak of the files; the next run reads them again
            oids = branches.remove_files(connection, name, patterns[0])
        else:
            oids = branches.blobs_of(connection, name)
            shutil.rmtree(adhoc.mirror_of(settings, stored.origin(connection, name)), ignore_errors=True)
            stored.remove(connection, name)
        gone = collect.purge(connection, oids)
        model = active_model(connection)
        if model is not None:
            lexicon.refresh_if_moved(connection, model, force=True)
    if as_json:
        print(
            json.dumps(
                {"repo": name, "purged": len(oids), "history_forgotten": bool(patterns), "deleted": asdict(gone)}
            )
        )
        return
    print(f"purged {counted(len(oids), 'blob')} of {name}: {_gone(gone)} deleted")
    if patterns:
        print(f"the history of {name} is forgotten, too, since subjects may speak of the files: a sync reads it again")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (sync, gc, purge):
        app.command()(command)
