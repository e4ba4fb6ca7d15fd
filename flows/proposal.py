"""What a change of the repository files would do to the index: each branch it touches, in the order of a sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flows import fleet, foresee
from flows.config import Configuration, RepoConfig
from flows.fleet import Options, Workshop
from flows.foresee import Ledger
from flows.report import Report
from flows.store import branches, repos, runs
from flows.store.connect import Connection

CHUNKS_A_SECOND = 600  # of one process, when the index has no runs yet to tell
START = 2.0  # seconds of a run beside that


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be done. ``reports`` are dry runs, one a branch; those of what leaves stand first."""

    source: str
    commit: str
    added: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: list[str]
    reports: list[Report] = field(default_factory=list)
    rate: float = CHUNKS_A_SECOND
    is_measured: bool = False  # whether ``rate`` comes from runs of this index
    notes: list[str] = field(default_factory=list)

    @property
    def is_failed(self) -> bool:
        """Say whether a part of it could not be foreseen."""
        return any(report.outcome == "failed" for report in self.reports)


@dataclass(slots=True)
class Totals:
    """Sums over the branches of a proposal."""

    files_new: int = 0
    files_removed: int = 0
    chunks_added: int = 0
    chunks_removed: int = 0
    computed: int = 0
    reused: int = 0
    bytes: int = 0
    tokens: int = 0
    seconds: float = 0.0


def totals(reports: Sequence[Report]) -> Totals:
    """Return the sums of some reports."""
    total = Totals()
    for report in reports:
        total.files_new += report.files.new
        total.files_removed += report.files.removed
        total.chunks_added += report.chunks.added
        total.chunks_removed += report.chunks.removed
        total.computed += report.vectors.computed
        total.reused += report.vectors.reused
        if report.forecast:
            total.bytes += report.forecast.bytes
            total.tokens += report.forecast.tokens
            total.seconds += report.forecast.seconds
    return total


def propose(
    shop: Workshop, configuration: Configuration, names: Sequence[str], options: Options, *, everything: bool = False
) -> Proposal:
    """Return what publishing ``configuration`` and then syncing it would do.

    Looked at are the named repositories, or those that the change touches, or with ``everything`` all of them.

    Raises:
        UsageError: a name that the configuration does not have.
    """
    with shop.database.connect() as connection:
        proposal = _compare(connection, configuration)
        removed = [] if names else proposal.removed
        leaving = [report for name in removed for report in _leaving(connection, name)]
        rate = runs.chunks_a_second(connection)
    known = {repo.name: repo for repo in configuration.repos}
    wanted = names or (sorted(known) if everything else sorted([*proposal.added, *proposal.changed]))
    chosen = fleet.pick(known, wanted) if wanted else []
    options = replace(options, ledger=Ledger())
    reports = [report for repo in chosen for report in fleet.sync_repo(shop, repo, options)]
    proposal = replace(proposal, reports=[*leaving, *reports], rate=rate or CHUNKS_A_SECOND, is_measured=bool(rate))
    for report in reports:
        if report.forecast and report.chunks.added:
            report.forecast.seconds = round(START + report.chunks.added / proposal.rate, 1)
    return proposal


def _compare(connection: Connection, configuration: Configuration) -> Proposal:
    """Sort the repositories of a configuration by what it does to them."""
    owned = {item.name: item for item in repos.configured(connection)}
    mine = {name for name, item in owned.items() if item.source == configuration.source}
    groups: dict[str, list[str]] = {"added": [], "changed": [], "unchanged": []}
    notes = []
    for repo in configuration.repos:
        if repo.name in owned and repo.name not in mine:
            notes.append(f"{repo.name} is configured by {owned[repo.name].source} already: a sync would be refused")
        groups[_group(connection, repo, owned[repo.name].config if repo.name in mine else None)].append(repo.name)
    removed = sorted(mine - {repo.name for repo in configuration.repos})
    sha = configuration.version.sha
    return Proposal(
        configuration.source, sha, groups["added"], groups["changed"], removed, groups["unchanged"], notes=notes
    )


def _group(connection: Connection, repo: RepoConfig, published: dict[str, Any] | None) -> str:
    if published is None:
        return "added"
    is_indexed = bool(branches.names(connection, repo.name))
    return "unchanged" if published == repo.to_json() and is_indexed else "changed"


def _leaving(connection: Connection, name: str) -> list[Report]:
    why = "its repository file is gone"
    found = foresee.removal(connection, name, branches.names(connection, name), why)
    return found or [Report(name, "*", outcome="planned", notes=[why])]
