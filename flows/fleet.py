"""``gitstrata sync``: bring configured repositories to their remotes' tips, or one of them to a given commit.

The configuration in force is the one in Postgres. Who owns a folder of repository files publishes it there; everyone
else reads it. An older checkout of the folder changes nothing, and no configuration touches another's repositories.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from flows import adhoc, foresee, git, past, paths, plan, urls
from flows.config import Configuration, RepoConfig, places
from flows.embed import Embedder
from flows.embed.shelf import Shelf
from flows.errors import GitstrataError, SourceError, UsageError
from flows.foresee import Ledger
from flows.remotes import Remote
from flows.report import Report
from flows.settings import Settings, secret
from flows.store import branches, repos, runs
from flows.store.connect import Connection, Database
from flows.store.repos import Version
from flows.sync import Progress, Target, failure, sync

MOST_TIPS = 200  # beyond, history has hardly more than they
TAGS = "tags/"  # a pattern that begins with it is for tags; so is the name of what it finds


@dataclass(frozen=True, slots=True)
class Options:
    """What a call of ``sync`` asks for, the same for all its repositories."""

    branch: str = ""  # only this one
    commit: str = ""  # of ``branch``
    checkout: Path | None = None  # read objects from here instead of from a mirror
    force: bool = False
    ledger: Ledger | None = None  # a dry run; one for all repositories, so that each finds what those before it bring
    verify: bool = False
    wait: bool = True
    history: int = past.BUDGET  # commits whose facts are read at most, a branch
    folder: Path | None = None  # where the configuration was read from, to say where a rule stands
    builds_index: bool = True  # of vectors after each repository; False: the caller does, after all


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing a configuration did."""

    names: list[str]
    removed: list[str] = field(default_factory=list)
    note: str = ""


def publish(
    connection: Connection,
    configuration: Configuration,
    *,
    force: bool = False,
    is_ancestor: Callable[[str, str], bool | None] = lambda older, newer: None,
) -> Published:
    """Make ``configuration`` the one in force for its source, unless a newer one is.

    Which of two commits is newer, their history says where ``is_ancestor`` knows it, and their dates where not.

    Raises:
        UsageError: a name belongs to another configuration or to another repository.
    """
    version = Version(configuration.version.sha, configuration.version.committed_at)
    known = repos.published_version(connection, configuration.source)
    names = [repo.name for repo in configuration.repos]
    if known is not None and not force and _is_older(version, known, is_ancestor):
        newer = f"{known.sha[:12] or 'files'} of {known.at:%Y-%m-%d %H:%M}Z"
        note = f"this checkout of {configuration.source} is older than the published one ({newer}): that one is used"
        in_force = [item.name for item in repos.configured(connection) if item.source == configuration.source]
        return Published(in_force, note=note)
    entries = {repo.name: (urls.canonical_url(repo.url), repo.to_json()) for repo in configuration.repos}
    return Published(names, repos.publish_configuration(connection, configuration.source, version, entries))


def _is_older(version: Version, known: Version, is_ancestor: Callable[[str, str], bool | None]) -> bool:
    if version.sha == known.sha and version.sha:
        return False
    if version.sha and known.sha:
        if is_ancestor(known.sha, version.sha):
            return False
        if is_ancestor(version.sha, known.sha):
            return True
    return version.at < known.at


def in_force(connection: Connection, names: Sequence[str]) -> list[RepoConfig]:
    """Return the named repositories' configuration, or that of all.

    Raises:
        UsageError: a name that no configuration has.
    """
    return pick({item.name: RepoConfig.from_json(item.config) for item in repos.configured(connection)}, names)


def pick(known: Mapping[str, RepoConfig], names: Sequence[str]) -> list[RepoConfig]:
    """Return the named ones of some repositories, or all of them."""
    if unknown := [name for name in names if name not in known]:
        have = ", ".join(sorted(known)) or "none; publish a configuration with --config first"
        raise UsageError(f"{', '.join(unknown)} is not configured. Configured: {have}")
    return [known[name] for name in (names or sorted(known))]


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every sync needs."""

    database: Database
    settings: Settings
    embedder: Embedder | Shelf  # what an index without a model begins with
    progress: Progress | None = None


def sync_repo(shop: Workshop, config: RepoConfig, options: Options) -> list[Report]:
    """Bring the branches of one repository up to date; a branch that fails does not keep the others from it.

    Raises nothing that concerns this repository alone: each failure is a report.
    """
    try:
        opened = _open(shop, config, options)
    except Exception as error:
        return [_fetch_failed(shop.database, config.name, options, _as_ours(error))]
    if options.branch and not matches(options.branch, opened.patterns):
        note = f"not configured: {config.name} has {', '.join(opened.patterns)}"
        return [Report(config.name, options.branch, options.commit, "ignored", notes=[note])]
    wanted = opened.wanted(options)
    reports = [_sync_branch(shop, opened, options, name, revision) for name, revision in wanted]
    if not wanted:
        missing = f"no branch of {urls.redact(config.url)} matches {', '.join(opened.patterns)}"
        reports = [_fetch_failed(shop.database, config.name, options, SourceError(missing))]
    if not options.branch:
        _remove_others(shop.database, config.name, [name for name, _ in wanted], reports, options)
    return reports


def _as_ours(error: Exception) -> GitstrataError:
    """Return an error in our words: whatever one odd repository raises, the others are not to suffer."""
    return error if isinstance(error, GitstrataError) else SourceError(f"unexpected {type(error).__name__}: {error}")


def _fetch_failed(database: Database, repo: str, options: Options, error: GitstrataError) -> Report:
    """Record a run that did not get as far as a commit; nothing that is published changes."""
    report = failure(repo, options.branch or "*", error)
    if options.ledger is None and not isinstance(error, UsageError):
        with database.connect() as connection:
            run_id = runs.start(connection, repo, report.branch, options.commit)
        runs.finish(database, run_id, report)
    return report


def _remove_others(database: Database, repo: str, kept: Sequence[str], reports: list[Report], options: Options) -> None:
    """Take away branches that are gone from the remote or not configured any more."""
    with database.connect() as connection:
        gone = sorted(set(branches.names(connection, repo)) - set(kept))
        if options.ledger is not None:
            reports += foresee.removal(connection, repo, gone, "this branch is gone or not configured any more")
        elif gone:
            branches.remove(connection, repo, gone)
            reports[0].notes += [f"branch {name} is gone or not configured any more: removed" for name in gone]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A repository's objects, and how to ask its remote."""

    config: RepoConfig
    repository: git.Repository
    remote: Remote
    refs: Mapping[str, str]
    head: str  # name of the default branch

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.config.branches or (self.head,)

    def wanted(self, options: Options) -> list[tuple[str, str]]:
        """Return (branch, revision) of what is to be synced, the default branch first."""
        if options.branch:
            return [(options.branch, options.commit or options.branch)]
        found = [(name, ref) for name, ref in names_of(self.refs) if matches(name, self.patterns)]
        return sorted(found, key=lambda pair: (pair[0] != self.head, pair[0]))


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Say whether a branch is configured: some pattern matches it and no ``!pattern`` does; ``*`` crosses slashes."""
    positive = [pattern for pattern in patterns if not pattern.startswith("!")]
    negative = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in negative):
        return False
    return any(fnmatch.fnmatchcase(name, p) and name.startswith(TAGS) == p.startswith(TAGS) for p in positive)


def names_of(refs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, full ref) of every branch and tag; a name is text, whatever bytes the ref has."""
    for ref in refs:
        name = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else ref.removeprefix("refs/")
        yield (name if name.isprintable() else paths.to_text(os.fsencode(name))), ref


def _tips(config: RepoConfig, options: Options, remote: Remote, head: str) -> list[str]:
    """Return the refs of which only the tips need be fetched; [] to fetch all with their history, for who_knows."""
    patterns = (options.branch,) if options.branch else config.branches or (head,)
    found = [ref for name, ref in names_of(remote.refs()) if matches(name, patterns)]
    is_anywhere = options.force and options.commit
    return [] if options.history or is_anywhere or len(found) > MOST_TIPS else found


def head_of(remote: Remote) -> list[str]:
    """Return the default branch as a list of refs to fetch, [] if it has none."""
    head = remote.head()
    return [head] if head and head in remote.refs() else []


def remote_of(config: RepoConfig) -> Remote:
    """Return where a repository is fetched, with the token that its file names."""
    return Remote(config.url, secret(config.credentials_env) if config.credentials_env else "")


def _open(shop: Workshop, config: RepoConfig, options: Options) -> _Opened:
    remote = remote_of(config)
    origin = urls.canonical_url(config.url)
    if options.checkout is None:
        head = remote.head().removeprefix("refs/heads/")
        only = _tips(config, options, remote, head)
        mirror = remote.mirror(adhoc.mirror_folder(shop.settings, config.url), shop.progress, only=only)
        refs = {ref: sha for ref, sha in git.list_refs(mirror).items() if not only or ref in only}
        return _Opened(config, replace(mirror, origin=origin), remote, refs, head or git.head_branch(mirror))
    checkout = git.open_repository(options.checkout)
    return _Opened(config, replace(checkout, origin=origin), remote, {}, remote.head().removeprefix("refs/heads/"))


def _sync_branch(shop: Workshop, opened: _Opened, options: Options, name: str, revision: str) -> Report:
    config = opened.config
    try:
        ref = revision.removeprefix("refs/heads/") if revision.startswith("refs/heads/") else name
        tip = _newer_tip(opened, name, options)
        if tip is not None:
            where = f"stands at {tip[:12]}" if tip else "is gone"
            note = f"{name} {where} now: {options.commit[:12]} was not published"
            return Report(config.name, name, options.commit, "superseded", notes=[note])
        target = Target(
            config.name,
            opened.repository,
            git.resolve(opened.repository, revision, branch=name, full=revision in opened.refs),
            config.rules,
            make_default=name == opened.head,
            wait=options.wait,
            tip=None if name.startswith(TAGS) else partial(opened.remote.tip, ref),
            force=options.force,
            ledger=options.ledger,
            verify=options.verify,
            history=options.history,
            builds_index=options.builds_index,
            place=partial(places.find, options.folder, config.name) if options.folder else plan.nowhere,
        )
        return sync(shop.database, shop.settings, shop.embedder, target, shop.progress)
    except Exception as error:
        return failure(config.name, name, _as_ours(error))


def _newer_tip(opened: _Opened, name: str, options: Options) -> str | None:
    """Return the branch's tip if a commit was asked for that is not it any more: its objects may be gone, too."""
    if not options.commit or options.force or name.startswith(TAGS):
        return None
    tip = opened.remote.tip(name)
    return None if tip.startswith(options.commit) else tip
