"""``gitstrata index``: bring one repository, given by path or URL, to a commit without any configuration.

A name that a configuration owns keeps that configuration's rules: an ad hoc run never lets in what they keep out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows import git, urls
from flows.config import RepoConfig
from flows.embed import Embedder
from flows.embed.shelf import Shelf
from flows.remotes import Remote
from flows.report import Report
from flows.select import Rules
from flows.settings import Settings
from flows.store import repos
from flows.store.connect import Database
from flows.sync import Progress, Target, sync

FOLLOWED = 3  # times that a branch which moves while it is indexed is followed


@dataclass(frozen=True, slots=True)
class Source:
    """An opened repository and the way to ask where its branches stand."""

    repository: git.Repository
    tip: Callable[[str], str]


def open_source(settings: Settings, source: str, progress: Progress | None = None) -> Source:
    """Open a folder, or bring the mirror of a URL up to date.

    Raises:
        SourceError: no repository there, or it cannot be fetched.
        UsageError: a URL that may not be fetched.
    """
    if urls.is_url(source):
        remote = Remote(source)
        return Source(remote.mirror(mirror_folder(settings, source), progress), remote.tip)
    repository = git.open_repository(Path(source).expanduser())
    return Source(repository, lambda branch: git.branch_tip(repository, branch))


def mirror_folder(settings: Settings, url: str) -> Path:
    """Return where the mirror of a URL is kept: one for all spellings of a remote."""
    return mirror_of(settings, urls.canonical_url(urls.check_url(url)))


def mirror_of(settings: Settings, origin: str) -> Path:
    """Return where the mirror of a remote is kept, by its canonical form."""
    digest = hashlib.sha256(origin.encode()).hexdigest()[:8]
    return settings.mirrors / f"{urls.short_name(origin or '-').replace('/', '+')[:80]}-{digest}.git"


def index(
    database: Database,
    settings: Settings,
    embedder: Embedder | Shelf,
    source: Source,
    *,
    rev: str = "",
    name: str = "",
    wait: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Index what is checked out, or ``rev``; a branch that moves meanwhile is followed a few times."""
    repo = name or urls.short_name(source.repository.origin)
    for _ in range(FOLLOWED):
        commit = git.resolve(source.repository, rev)
        is_branch = bool(git.branch_tip(source.repository, commit.branch))
        target = Target(
            repo,
            source.repository,
            commit,
            _rules(database, repo),
            make_default=not rev,
            rename=bool(name),
            wait=wait,
            tip=partial(source.tip, commit.branch) if is_branch else None,
        )
        report = sync(database, settings, embedder, target, progress)
        if report.outcome != "superseded":
            break
    return report


def _rules(database: Database, repo: str) -> Rules:
    with database.connect() as connection:
        configured = repos.configured(connection, repo)
    return RepoConfig.from_json(configured[0].config).rules if configured else Rules()
