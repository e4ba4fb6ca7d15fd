"""A run's summary, as every run prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.wording import counted

if TYPE_CHECKING:
    from flows.report import Report


_UNSHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def printable(text: str) -> str:
    """Return text that tells a terminal nothing but what to show: code and names may hold escape sequences."""
    return text.replace("\r\n", "\n").translate(_UNSHOWN)


def code(value: str) -> str:
    """Return text as a code span, which cannot leave its place, nor mention, link or format anything."""
    return "`" + printable(value).replace("\n", " ").replace("`", "'").replace("|", "\u00a6") + "`"


def summary(report: Report) -> str:
    """Return the lines that say what a run did."""
    branch = "" if report.branch == "*" else f" {report.branch}"  # the remote was not reached
    lines = [f"{report.repo}{branch}{f' at {report.commit[:12]}' if report.commit else ''}: {report.outcome}"]
    if report.outcome not in ("failed", "superseded", "ignored"):
        lines += _counts(report)
    if report.healed:
        lines.append(
            f"  healed   {counted(report.healed, 'broken cut')}: rows were lost or wrong and were written anew"
        )
    lines += [f"  note     {note}" for note in report.notes]
    return "\n".join(lines + [f"  failed   {error}" for error in report.errors])


def _counts(report: Report) -> list[str]:
    skipped = ", ".join(f"{count} {reason}" for reason, count in report.files.skipped.items()) or "none"
    levels = ", ".join(f"{count} {level}" for level, count in report.chunks.by_level.items()) or "not cut yet"
    seconds = ", ".join(f"{stage} {value:.2f}" for stage, value in report.seconds.items())
    return [
        f"  files    {report.files.seen} seen, {report.files.new} new, {report.files.removed} removed; "
        f"skipped: {skipped}",
        f"  chunks   {report.chunks.total} ({levels}); {report.chunks.added} added, {report.chunks.reused} reused, "
        f"{report.chunks.removed} removed",
        f"  vectors  {report.vectors.computed} computed, {report.vectors.reused} reused",
        f"  seconds  {seconds}; CPU {report.cpu_seconds:.2f}; peak memory {report.peak_memory_mb:.0f} MB",
    ]
