"""A plan of repos.d as text, as JSON, and as Markdown for the comment of a pull request."""

from __future__ import annotations

import html
from dataclasses import asdict
from typing import Any

from flows.proposal import Proposal, Totals, totals
from flows.report import Report, Share
from flows.wording import counted
from mcp_tools.summary import code, printable

MARKER = "<!-- gitstrata plan -->"  # the first line: a job finds its comment by it and updates it in place
MOST = 50  # rows of a table; the others are counted
LANGUAGES = 10  # that are named, by their chunks
_MAX_CHARACTERS = 60_000  # of a comment


def to_json(proposal: Proposal) -> dict[str, Any]:
    """Return the plan as plain values; what is not an estimate equals what the sync then reports."""
    value = asdict(proposal) | {"reports": [report.to_json() for report in proposal.reports]}
    return value | {"totals": asdict(totals(proposal.reports))}


def text(proposal: Proposal) -> str:
    """Return the plan for a terminal or a log."""
    lines = [f"plan of {proposal.source}" + (f" at {proposal.commit[:12]}" if proposal.commit else "")]
    for what in ("added", "changed", "removed"):
        if names := getattr(proposal, what):
            lines.append(f"  {what:8} {', '.join(names)}")
    lines.append(f"  unchanged {counted(len(proposal.unchanged), 'repository', 'repositories')}")
    for report in proposal.reports:
        lines += _lines(report)
    lines += ["in all", *(f"  {name:8} {value}" for name, value in _sums(totals(proposal.reports)))]
    lines += [f"  {_basis(proposal)}", *(f"note: {note}" for note in proposal.notes)]
    return printable("\n".join(lines))


def _lines(report: Report) -> list[str]:
    head = f"{report.repo} {report.branch}: {report.outcome}"
    lines = [head + (f" at {report.commit[:12]}" if report.commit else "")]
    if report.forecast is not None:
        lines.append(
            f"  files    {report.files.seen}; {report.files.new} new, {report.files.removed} removed;"
            f" skipped: {_counted(report.files.skipped) or 'none'}"
        )
        lines.append(
            f"  chunks   {report.chunks.total} ({_counted(report.chunks.by_level)}); {report.chunks.added} added,"
            f" {report.chunks.removed} removed"
        )
        lines.append(f"  vectors  {report.vectors.computed} to compute, {report.vectors.reused} reused")
        shown = (
            f"{name} {counted(share.files, 'file')} {counted(share.chunks, 'chunk')}"
            for name, share in _languages(report)
        )
        lines.append(f"  language {', '.join(shown) or 'none'}")
        if report.forecast.largest:
            largest = (f"{path} {_size(size)}" for path, size in report.forecast.largest.items())
            lines.append(f"  largest  {', '.join(largest)}")
        lines.append(f"  Postgres about {_size(report.forecast.bytes)}, about {report.forecast.seconds:.0f} s")
    elif report.files.removed:
        lines.append(f"  removed  {counted(report.files.removed, 'file')}, {counted(report.chunks.removed, 'chunk')}")
    lines += [f"  note     {note}" for note in report.notes]
    return lines + [f"  failed   {error}" for error in report.errors]


def markdown(proposal: Proposal) -> str:
    """Return the plan for a comment: the first line is a marker, and equal plans give equal text."""
    lines = [MARKER, "### gitstrata: what this change would index", ""]
    for what in ("added", "changed", "removed"):
        if names := getattr(proposal, what):
            lines.append(f"- {what}: {', '.join(f'{code(name)}' for name in names[:MOST])}{_more(len(names))}")
    if proposal.reports:
        lines += ["", "| repository | branch | files | new | removed | chunks added | removed | vectors | reused |"]
        lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        lines += [_row(report) for report in proposal.reports[:MOST]]
        if len(proposal.reports) > MOST:
            lines.append(f"| and {len(proposal.reports) - MOST} more | | | | | | | | |")
        lines += ["", *(f"- {name}: {value}" for name, value in _sums(totals(proposal.reports)))]
        lines.append(f"- {_basis(proposal)}")
    else:
        lines.append("Nothing: the published configuration says the same.")
    lines += [f"- **note**: {code(note)}" for note in proposal.notes]
    for report in proposal.reports[:MOST]:
        lines += _details(report)
    whole = "\n".join(lines) + "\n"
    if len(whole) > _MAX_CHARACTERS:
        cut = whole[:_MAX_CHARACTERS].rpartition("\n<details>")[0] or whole[:_MAX_CHARACTERS].rpartition("\n")[0]
        whole = f"{cut}\n\nMore is in the job's log.\n"
    return whole


def _row(report: Report) -> str:
    numbers = (
        report.files.seen,
        report.files.new,
        report.files.removed,
        report.chunks.added,
        report.chunks.removed,
        report.vectors.computed,
        report.vectors.reused,
    )
    if report.outcome == "failed":
        return f"| {code(report.repo)} | {code(report.branch)} | failed | | | | | | |"
    cells = " | ".join(f"{number:,}" for number in numbers)
    return f"| {code(report.repo)} | {code(report.branch)} | {cells} |"


def _details(report: Report) -> list[str]:
    said = [*(f"- {code(note)}" for note in report.notes), *(f"- **failed**: {code(e)}" for e in report.errors)]
    if report.forecast is not None and report.files.seen:
        said.append(f"- skipped: {_counted(report.files.skipped) or 'none'}")
        said.append(f"- chunks by level: {_counted(report.chunks.by_level)}")
        shown = (f"{name} {share.chunks:,} in {share.files:,} files" for name, share in _languages(report))
        said.append(f"- chunks by language: {', '.join(shown) or 'none'}")
        largest = (f"{code(path)} {_size(size)}" for path, size in report.forecast.largest.items())
        said.append(f"- largest new files: {', '.join(largest) or 'none'}")
    if not said:
        return []
    title = html.escape(printable(f"{report.repo} {report.branch}"))
    return ["", f"<details><summary><code>{title}</code></summary>", "", *said, "", "</details>"]


def _sums(total: Totals) -> list[tuple[str, str]]:
    tokens = f", about {total.tokens:,} tokens" if total.tokens else ""
    return [
        ("files", f"{total.files_new:,} new, {total.files_removed:,} removed"),
        ("chunks", f"{total.chunks_added:,} added, {total.chunks_removed:,} removed"),
        ("vectors", f"{total.computed:,} to compute{tokens}, {total.reused:,} reused"),
        ("Postgres", f"about {_size(total.bytes)} more"),
        ("time", f"about {total.seconds:.0f} s in one process, beside fetching"),
    ]


def _basis(proposal: Proposal) -> str:
    whose = "measured on this index's runs" if proposal.is_measured else "no runs here yet: the project's own figure"
    return (
        f"files, chunks and vectors are exact; space is estimated from the length of the new texts, time from"
        f" {proposal.rate:.0f} chunks a second ({whose})"
    )


def _languages(report: Report) -> list[tuple[str, Share]]:
    found = report.forecast.languages if report.forecast else {}
    return sorted(found.items(), key=lambda item: (-item[1].chunks, item[0]))[:LANGUAGES]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _more(count: int) -> str:
    return f" and {count - MOST} more" if count > MOST else ""


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
