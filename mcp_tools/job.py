"""The summary of a CI job, as Markdown: what each run did, what failed, and what the index shows now."""

from __future__ import annotations

from collections.abc import Sequence

from flows.errors import GitstrataError
from flows.report import Report
from flows.settings import Settings
from mcp_tools.index import Index
from mcp_tools.results import BranchStatus
from mcp_tools.status import index_status
from mcp_tools.summary import code

MOST = 200  # branches that are listed
_WORST = {"failed": 0, "partial": 1}


def summary(settings: Settings, reports: Sequence[Report], notes: Sequence[str]) -> str:
    """Return the counts of some runs, the worst first, and how fresh their branches are."""
    ordered = sorted(reports, key=lambda report: _WORST.get(report.outcome, 2))[:MOST]
    lines = ["### gitstrata", "", *(f"- {code(note)}" for note in notes)]
    head = (
        "| repository | branch | commit | outcome | files new | removed | chunks added | removed | vectors | seconds |"
    )
    lines += [head, "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines += [_row(report) for report in ordered]
    if len(reports) > MOST:
        lines += ["", f"{len(reports) - MOST} more are in the log."]
    said = [_said(report, f"**failed** {code(error)}") for report in ordered for error in report.errors]
    said += [_said(report, code(note)) for report in ordered for note in report.notes]
    fresh = _freshness(settings, {report.repo for report in ordered})
    return "\n".join([*lines, "", *said, "", *fresh, ""]) + "\n"


def _row(report: Report) -> str:
    cells = [code(report.repo), code(report.branch), code(report.commit[:12] or "-"), report.outcome]
    if report.outcome in ("failed", "superseded", "ignored"):
        return f"| {' | '.join(cells)} | | | | | | |"
    counts = (report.files.new, report.files.removed, report.chunks.added, report.chunks.removed)
    cells += [f"{count:,}" for count in (*counts, report.vectors.computed)]
    return f"| {' | '.join(cells)} | {sum(report.seconds.values()):.1f} |"


def _said(report: Report, what: str) -> str:
    return f"- {code(f'{report.repo} {report.branch}')}: {what}"


def _freshness(settings: Settings, repos: set[str]) -> list[str]:
    """Return what the branches of some repositories show now."""
    index = Index(settings)
    try:
        return [_fresh(one) for repo in sorted(repos) for one in _branches(index, repo)]
    finally:
        index.close()


def _branches(index: Index, repo: str) -> list[BranchStatus]:
    try:
        return index_status(index, repo=repo).branches
    except GitstrataError:  # it is not indexed: its run failed, which is said already
        return []


def _fresh(branch: BranchStatus) -> str:
    name = code(f"{branch.repo} {branch.branch}")
    if not branch.commit:
        return f"- {name}: {branch.state}, nothing is shown yet"
    return f"- {name}: {branch.state}, shows {code(branch.commit[:12])} since {branch.indexed_at}"
