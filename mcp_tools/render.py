"""Answers as text: each fact of the structured result once, compactly, and the sentences for every kind of nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from flows.store import grep, runs, sizes
from flows.store.read import BranchInfo
from flows.store.runs import Run
from flows.wording import counted
from mcp_tools import access
from mcp_tools.results import (
    BranchStatus,
    ChunkResult,
    CodeResult,
    CodeRow,
    Row,
    RunInfo,
    SearchResult,
    StatusResult,
    WhoResult,
)
from mcp_tools.surface import argument, tool

if TYPE_CHECKING:
    from flows.store.connect import Connection
    from mcp_tools.scope import Scope

MAX_ANSWER = 20_000  # characters of any answer but get_chunk's
MAX_SNIPPET = 200
MAX_BRANCHES = 3  # named in a freshness line
MAX_ROWS_TEXT = MAX_ANSWER - 2_000  # of rows; the rest is for freshness, note and cursor
MAX_CODE_TEXT = 12_000  # of rows of search_code, so that an answer stays below 5,000 tokens
EMPTY_INDEX = "The index is empty: run `gitstrata index PATH_OR_URL` first, or wait until the first run has published."


def nothing_yet(connection: Connection, repo: str) -> str:
    """Say why nothing has been published, at all or of one repository that is known."""
    unpublished = runs.unpublished(connection, repo)
    if any(run.outcome == "running" for run in unpublished):
        return warming_up(unpublished)
    if unpublished:
        names = _listed(sorted({run.repo for run in unpublished}))
        return f"No commit of {names} is published yet: the last run failed, {tool('index_status')} says why."
    if repo:
        return f"No commit of {repo} is published yet, and no run is at work: its first sync brings one."
    who = access.current()
    if who is not None and who.projects is not None:
        return f"No repository of this token's projects ({', '.join(who.projects)}) is indexed."
    return EMPTY_INDEX


def warming_up(unpublished: Sequence[Run]) -> str:
    """Say which repositories or branches cannot be searched yet since their first run is at work, "" for none."""
    running = [run for run in unpublished if run.outcome == "running"]
    if not running:
        return ""
    since = clock(min(run.started_at for run in running))
    names = _listed(sorted({run.repo if run.branch == "*" else f"{run.repo} ({run.branch})" for run in running}))
    return f"The index is warming up: the first run of {names} is at work since {since}; ask again in a moment."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_BRANCHES} more" if len(names) > MAX_BRANCHES else ""
    return ", ".join(names[:MAX_BRANCHES]) + more


def source_id(path: str, anchor: str) -> str:
    """Return the name of a chunk: path#anchor."""
    return f"{path}#{anchor}"


def url(path: str, start: int, end: int) -> str:
    """Return the place of a chunk: path#L10-L42."""
    return f"{path}#L{start}-L{end}"


def one_line(text: str, limit: int = MAX_SNIPPET) -> str:
    """Return ``text`` on one line of at most ``limit`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def freshness(branches: Sequence[BranchInfo]) -> str:
    """Return one line: which commits were searched, how old they are and whether they are current."""
    unique = list({info.branch_id: info for info in branches}.values())
    if not unique:
        return ""
    more = f"; and {len(unique) - MAX_BRANCHES} more, {_see()}" if len(unique) > MAX_BRANCHES else ""
    return "; ".join(_fresh(info) for info in unique[:MAX_BRANCHES]) + more


def _see() -> str:
    return f"see {tool('index_status')}"


def _fresh(info: BranchInfo) -> str:
    behind = f"behind {info.head_sha[:7]}" if info.head_sha else "unknown"
    state = "current" if info.head_sha == info.commit_sha else behind
    return (
        f"{info.repo}@{info.commit_sha[:7]} ({info.name}), committed {info.committed_at.astimezone(UTC):%Y-%m-%d}, "
        f"{state} as of {clock(info.head_seen_at)}{f', last run failed, {_see()}' if info.last_failed else ''}"
    )


def names(branches: Sequence[BranchInfo]) -> str:
    """Return which repositories and branches were looked at, shortly."""
    return _listed([f"{info.repo} ({info.name})" for info in branches])


def clock(when: datetime) -> str:
    """Return a time to the minute, in UTC."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def nothing(connection: Connection, where: Scope) -> str:
    """Say why a search of ``where`` found nothing."""
    searched = names(where.branches)
    if not sum(info.files for info in where.branches):
        return f"{searched}: the commit has no file that may be indexed."
    if sizes.count_files(connection, where.filters) == 0:
        if where.filters.narrow:
            if reasons := grep.left_out(connection, where.filters):
                left_out = f"{counted(sum(reasons.values()), 'file')} ({_counts(reasons)})"
                rule = "`gitstrata explain REPO PATH` names the rule"
                return f"All that the filters leave of {searched} is kept out of the index: {left_out}; {rule}."
            narrowing = f"{argument('paths')} and {argument('languages')}"
            return f"The filters leave no file of {searched}: check {narrowing}, or leave them out."
        return f"{searched}: every file was skipped; {tool('index_status')} lists the reasons."
    missing = "" if where.repo else warming_up(runs.unpublished(connection))
    return " ".join(filter(None, [f"No match in {searched}: try other words, or fewer filters.", missing]))


def search_text(answer: SearchResult) -> str:
    """Return the text form of code_search's answer."""
    lines = [f"searched {answer.freshness}"] if answer.freshness else []
    if answer.result:
        lines.append("rank repo source_id [lines] level language source score, then the snippet:")
    lines += [row_text(n, row) for n, row in enumerate(answer.result, 1)]
    if answer.total:
        lines.append(f"rows ranked {answer.total}")
    if answer.note:
        lines.append(answer.note)
    if answer.next_cursor:
        lines.append(f"{argument('next_cursor')} {answer.next_cursor}")
    return clip("\n".join(lines))


def who_text(answer: WhoResult) -> str:
    """Return the text form of who_knows' answer."""
    lines = ["rank author score: what earned it"] if answer.result else []
    lines += [f"{n}. {a.author} {a.score:g}: {', '.join(a.issues)}" for n, a in enumerate(answer.result, 1)]
    lines += ["evidence: date commit repo path, author, subject"] if answer.evidence else []
    for item in answer.evidence:
        head = " ".join(filter(None, [item.date, item.commit, item.repo, item.path]))
        lines.append(f"- {head}, {item.author}" + (f", {item.subject}" if item.subject else ""))
    return clip("\n".join([*lines, answer.note]))


def row_text(n: int, row: Row) -> str:
    """Return one row as text: its place, then its snippet."""
    place = row.url.rpartition("#")[2]
    head = f"{n}. {row.repo} {row.source_id} [{place}] {row.level} {row.language} {row.source} {row.score:g}"
    return f"{head}\n   {row.snippet}" if row.snippet else head


def fitting(rows: Sequence[Row]) -> list[Row]:
    """Return the first rows, as many as fit into one answer; a cursor brings the others."""
    return _fitting(rows, row_text, MAX_ROWS_TEXT)


R = TypeVar("R", bound=Row)


def _fitting(rows: Sequence[R], text: Callable[[int, R], str], left: int) -> list[R]:
    kept: list[R] = []
    for n, row in enumerate(rows, 1):
        left -= len(text(n, row)) + 1
        if left < 0 and kept:
            break
        kept.append(row)
    return kept


def not_searched(reasons: dict[str, int]) -> str:
    """Say which files in scope have no text to search."""
    if not reasons:
        return ""
    listing = f"an empty pattern with {argument('paths')} lists them"
    return f"not searched: {counted(sum(reasons.values()), 'file')} ({_counts(reasons)}); {listing}"


def code_text(answer: CodeResult) -> str:
    """Return the text form of search_code's answer."""
    lines = [f"searched {answer.freshness}"] if answer.freshness else []
    lines.append(_totals(answer))
    if answer.result:
        lines.append("rank repo source_id [lines] level language source score, then the snippet and lines that match:")
    lines += [code_row_text(n, row) for n, row in enumerate(answer.result, 1)]
    if answer.note:
        lines.append(answer.note)
    if answer.next_cursor:
        lines.append(f"{argument('next_cursor')} {answer.next_cursor}")
    return clip("\n".join(lines))


def _totals(answer: CodeResult) -> str:
    totals = answer.totals
    least = "exact" if totals.exact else "not exact, at least"
    return f"matches {totals.matches}, files {totals.files}, chunks {totals.chunks} ({least})"


def code_row_text(n: int, row: CodeRow) -> str:
    matching = [f"   {line.line}: {line.text}" for line in row.lines]
    repeated = any(line.text.startswith(row.snippet) for line in row.lines)
    return "\n".join([row_text(n, row.model_copy(update={"snippet": ""}) if repeated else row), *matching])


def fitting_lines(rows: Sequence[CodeRow]) -> list[CodeRow]:
    """Return the first rows, as many as fit into one answer; a cursor brings the others."""
    return _fitting(rows, code_row_text, MAX_CODE_TEXT)


def chunk_text(answer: ChunkResult) -> str:
    """Return the text form of get_chunk's answer."""
    head = f"{answer.repo}@{answer.commit[:12]} ({answer.branch}) {answer.source_id}"
    lines = [
        head,
        f"{answer.url} {answer.level} {answer.language}" + (f" symbol {answer.symbol}" if answer.symbol else ""),
    ]
    lines += [line for line in (answer.freshness, answer.note) if line]
    lines.append(fenced(answer.text))
    for neighbour in answer.context:
        lines += [f"context {neighbour.source_id} {neighbour.url}", fenced(neighbour.text)]
    return "\n".join(lines)


def fenced(text: str) -> str:
    """Return ``text`` in a Markdown fence that it cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def status_text(answer: StatusResult) -> str:
    """Return the text form of index_status's answer."""
    lines = [f"state {answer.state}" + (f", model {answer.model}" if answer.model else "")]
    for branch in answer.branches:
        lines += _branch_lines(branch)
    if answer.note:
        lines.append(answer.note)
    return clip("\n".join(lines))


def _branch_lines(branch: BranchStatus) -> list[str]:
    chunks = ", ".join(f"{count} {level}" for level, count in branch.chunks.items())
    head = f", head {branch.head[:12]} seen {branch.head_seen_at}" if branch.head else ""
    name = f"{branch.repo} ({branch.branch})" if branch.branch != "*" else branch.repo  # fetched no branch yet
    if branch.commit:
        files = counted(branch.files, "file")
        lines = [
            f"{name}: {branch.state}, commit {branch.commit[:12]} of {branch.committed_at}, "
            f"indexed {branch.indexed_at}{head or ', head unknown'}",
            f"  {files} ({_counts(branch.languages)}); chunks: {chunks or 'none'}; history {branch.history}",
        ]
    else:
        lines = [f"{name}: {branch.state}, never indexed{head}"]
    if branch.skipped:
        lines.append(f"  not indexed: {_counts(branch.skipped)}")
    if branch.note:
        lines.append(f"  {branch.note}")
    return lines + [_run_line(run) for run in branch.last_run]


def _run_line(run: RunInfo) -> str:
    counts = (
        f"; files +{run.files_new} -{run.files_removed}; chunks +{run.chunks_added} -{run.chunks_removed}; "
        f"vectors {run.vectors_computed} computed, {run.vectors_reused} reused"
    )
    error = f"; error: {run.error}" if run.error else ""
    did = "" if run.outcome == "failed" else counts
    return f"  last run {run.started_at}: {run.outcome} in {run.seconds:g} s{did}{error}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def clip(text: str, limit: int = MAX_ANSWER) -> str:
    """Return at most ``limit`` characters, saying so when something was cut."""
    ending = "\n… cut: ask for fewer rows"
    return text if len(text) <= limit else text[: limit - len(ending)] + ending
