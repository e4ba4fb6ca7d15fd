"""From a tool's arguments to what is searched: repositories and branches, languages, paths, level.

A wrong name is an error that lists the valid ones; a filter that is not set is "" or [].
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkers import languages as language_table
from chunkers.chunk import Level
from flows.errors import DatabaseError, UsageError
from flows.store import read, repos, runs
from flows.store.read import BranchInfo, Filters
from mcp_tools import render
from mcp_tools.surface import argument

if TYPE_CHECKING:
    from flows.store.connect import Connection
    from mcp_tools.index import Index

LEVELS = [level.value for level in Level]
MAX_NAMES = 12  # listed in an error
MAX_FILTERS = 100  # paths or languages: each costs a look at every file in scope


@dataclass(frozen=True, slots=True)
class Scope:
    """The branches that a request is about, and its filters."""

    branches: tuple[BranchInfo, ...]
    filters: Filters
    repo: str = ""  # that was asked for

    def branch(self, branch_id: int) -> BranchInfo:
        """Return the branch of a row."""
        return next(branch for branch in self.branches if branch.branch_id == branch_id)


def resolve(
    connection: Connection,
    *,
    repo: str = "",
    project: str = "",
    branch: str = "",
    languages: Sequence[str] = (),
    paths: Sequence[str] = (),
    level: str = "any",
) -> Scope:
    """Return what the arguments name.

    Raises:
        UsageError: an unknown repository, project, branch, language or level; the message lists valid ones.
    """
    for name, given in (("paths", paths), ("languages", languages)):
        if len(given) > MAX_FILTERS:
            raise UsageError(f"{len(given)} {name} are too many: {MAX_FILTERS} are allowed")
    found = read.branches(connection, repo, branch)
    if project:
        members = _members(connection, project, repo)
        found = [info for info in found if info.repo in members]
    if not found:
        _explain_missing(connection, repo, branch)
    include, exclude, likely = path_patterns(paths)
    filters = Filters(
        tuple(info.branch_id for info in found),
        tuple(_language(name) for name in languages if name.strip()),
        tuple(include),
        tuple(exclude),
        _level(level),
        tuple(likely),
        tuple((info.generation, info.commit_sha, info.published_at) for info in found),
    )
    return Scope(tuple(found), filters, repo)


def _explain_missing(connection: Connection, repo: str, branch: str) -> None:
    """Raise if a name is wrong; return if there simply is nothing yet."""
    everything = read.branches(connection, "", "*")
    repos = sorted({info.repo for info in everything})
    if repo and repo not in repos:
        if repo in read.repo_names(connection):
            return
        raise UsageError(f"unknown repo {repo!r}: {_choices(repo, repos, 'no repository is indexed yet')}")
    names = sorted({info.name for info in everything if not repo or info.repo == repo})
    of_repo = f" of {repo}" if repo else ""
    if branch and branch not in names:
        unpublished = [run for run in runs.unpublished(connection, repo) if run.branch == branch]
        if said := render.warming_up(unpublished):
            raise UsageError(said)
    if branch:
        raise UsageError(f"unknown branch {branch!r}{of_repo}: {_choices(branch, names, 'none is indexed yet')}")
    if names:
        raise UsageError(
            f"no default branch{of_repo} is indexed: say which in {argument('branch')}. {_choices('', names, '')}"
        )


def _members(connection: Connection, project: str, repo: str) -> list[str]:
    """Return the repositories of a project; raise if there is none, or ``repo`` is not one of them."""
    members = repos.matching(connection, "", project)
    if not members:
        none = f"no projects are configured; use {argument('repo')} instead"
        raise UsageError(_unknown_project(project, repos.projects(connection), none))
    if repo and repo not in members:
        raise UsageError(f"{repo} is not in the project {project}: it has {', '.join(members[:MAX_NAMES])}")
    return members


def _unknown_project(project: str, known: Sequence[str], none: str) -> str:
    nearest = difflib.get_close_matches(project, known, 1, 0.6)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    there = f"There are {', '.join(known[:MAX_NAMES])}" if known else none
    return f"unknown project {project!r}: {hint}{there}"


NO_PROJECT = "no projects are configured: publish repository files first, or leave --project out"


def check_projects(index: Index, names: Sequence[str], none: str = "") -> None:
    """Raise UsageError for a project that no repository is in; a database that is away says so to whoever asks.

    ``none`` is what to say where there is no project at all; without it nothing is said there.
    """
    with contextlib.suppress(DatabaseError), index.snapshot() as connection:
        known = repos.projects(connection)
        for name in names:
            if name not in known and (known or none):
                raise UsageError(_unknown_project(name, known, none))


def _choices(given: str, names: Sequence[str], none: str) -> str:
    if not names:
        return none
    nearest = difflib.get_close_matches(given, names, 1, 0.6)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{hint}Indexed: {', '.join(names[:MAX_NAMES])}{more}"


def _language(name: str) -> str:
    try:
        return language_table.get(name.strip().lower()).name
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error


def _level(level: str) -> int | None:
    if level in ("", "any"):
        return None
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}: use any, {', '.join(LEVELS)}")
    return LEVELS.index(level)


def path_patterns(paths: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return (include, exclude, likely) for globs on paths from the repository's root.

    The first two are PostgreSQL regular expressions; ``likely`` has a LIKE pattern for each that includes, which lets
    through what that one matches, and more.

    ``src``, ``src/``, ``./src``, ``/src`` and ``src/**`` all mean everything below src; ``*.py`` any such file; a
    leading ``!`` excludes. A path never leaves the repository. A backslash is one: paths are given as rows show them.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    include: list[str] = []
    exclude: list[str] = []
    likely: list[str] = []
    for given in paths:
        negative, glob = given.startswith("!"), given.removeprefix("!").strip()
        if not glob:
            continue
        try:
            pattern = _anchored(glob, given)
            regex, _ = GitIgnoreSpecPattern.pattern_to_regex(pattern.replace("\\", "\\\\"))
        except ValueError as error:
            raise UsageError(f"{given!r} is no glob: {error}") from error
        text = regex.decode() if isinstance(regex, bytes) else str(regex)
        (exclude if negative else include).append(text.replace("(?P<ps_d>", "(?:"))
        if not negative:
            likely.append(_likely(pattern))
    return include, exclude, likely


def _likely(pattern: str) -> str:
    """Return a LIKE pattern: how the paths begin, or the longest piece before any [ that has no wildcard."""
    pieces = re.split(r"[*?]+", pattern.partition("[")[0])
    start = pieces[0].removeprefix("/") if pattern.startswith("/") else ""
    literal = start or max(pieces, key=len).strip("/")
    escaped = re.sub(r"([\\%_])", r"\\\1", literal)
    return f"{escaped}%" if start else f"%{escaped}%"


def _anchored(glob: str, given: str) -> str:
    """Return a gitignore pattern: a name with wildcards may stand anywhere, all else begins at the root."""
    while glob.startswith("./"):
        glob = glob[2:]
    if ".." in glob.split("/"):
        raise UsageError(f"{given!r} leaves the repository; give a path or glob from its root")
    if glob in ("", ".", "/", "**", "/**"):
        return "**"
    body = glob.removesuffix("/**").rstrip("/")
    wild = any(char in body for char in "*?[")
    return f"**/{body}" if wild and "/" not in body else "/" + body.lstrip("/")
