"""index_status: what is indexed, how fresh it is, what was left out and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flows import past
from flows.store import history, read, runs
from flows.store.models import active_model, building_model
from flows.store.read import BranchInfo
from flows.store.runs import Run
from flows.wording import counted
from mcp_tools import render, scope
from mcp_tools.index import Index
from mcp_tools.results import BranchStatus, RunInfo, StatusResult
from mcp_tools.surface import argument

if TYPE_CHECKING:
    from flows.store.connect import Connection

MAX_BRANCHES = 40
MAX_ERROR = 300  # characters
DIED = "the run ended without a word, as if killed: run it again, it goes on where it was"
_WORST = ("failed", "partial", "stale", "indexing", "ready")


def index_status(index: Index, *, repo: str = "") -> StatusResult:
    """Return the state of every branch, or of one repository's.

    Raises:
        UsageError: unknown repository.
    """
    with index.snapshot() as connection:
        published, others = read.branches(connection, repo, "*"), runs.unpublished(connection, repo)
        if not published and not others:
            scope.resolve(connection, repo=repo)
        model, building = active_model(connection), building_model(connection)
        shown = [_branch(connection, info) for info in published[:MAX_BRANCHES]]
        shown += [_unpublished(run) for run in others[: MAX_BRANCHES - len(shown)]]
        nothing = "" if shown else render.nothing_yet(connection, "")
    if nothing:
        return StatusResult(state="empty", model=model.name if model else "", branches=[], note=nothing)
    left = len(published) + len(others) - len(shown)
    notes = (
        [f"{counted(left, 'more branch', 'more branches')}: name one in {argument('repo')} to see them"]
        if left > 0
        else []
    )
    notes += (
        [f"the model {building.name} is being built: `gitstrata model list` says how far it is"] if building else []
    )
    return StatusResult(
        state=next(state for state in _WORST if any(branch.state == state for branch in shown)),
        model=model.name if model else "",
        branches=shown,
        note="; ".join(notes),
    )


def _branch(connection: Connection, info: BranchInfo) -> BranchStatus:
    run = runs.latest(connection, info.repo, info.name)
    if run is not None and run.outcome == "running" and not runs.is_running(connection, run):
        run = replace(run, outcome="failed")
    coverage = read.coverage(connection, info.branch_id)
    return BranchStatus(
        repo=info.repo,
        branch=info.name,
        state=_state(info, run),
        commit=info.commit_sha,
        committed_at=render.clock(info.committed_at),
        indexed_at=render.clock(info.published_at),
        head=info.head_sha,
        head_seen_at=render.clock(info.head_seen_at),
        files=info.files,
        chunks=dict(zip(scope.LEVELS, info.chunks, strict=True)),
        languages=coverage.languages,
        skipped=coverage.skipped,
        history=past.coverage(history.find(connection, info.branch_id)),
        note="; ".join(run.report.get("notes") or []) if run and not info.files else "",
        last_run=[_run(run)] if run else [],
    )


def _state(info: BranchInfo, run: Run | None) -> str:
    if run is not None and run.outcome in ("running", "failed"):
        return "indexing" if run.outcome == "running" else "failed"
    if info.head_sha not in ("", info.commit_sha):
        return "stale"
    return "partial" if info.failed else "ready"


def _unpublished(run: Run) -> BranchStatus:
    """Describe a branch that has had runs, but nothing to show yet."""
    return BranchStatus(
        repo=run.repo,
        branch=run.branch,
        state="indexing" if run.outcome == "running" else "failed",
        commit="",
        committed_at="",
        indexed_at="",
        head=run.commit,
        head_seen_at=render.clock(run.started_at),
        files=0,
        chunks={},
        languages={},
        skipped={},
        history="none",
        note="",
        last_run=[_run(run)],
    )


def _run(run: Run) -> RunInfo:
    report = run.report
    files, chunks, vectors = (report.get(key) or {} for key in ("files", "chunks", "vectors"))
    died = run.outcome == "failed" and run.finished_at is None
    return RunInfo(
        outcome=run.outcome,
        started_at=render.clock(run.started_at),
        seconds=round((run.finished_at - run.started_at).total_seconds(), 2) if run.finished_at else 0.0,
        files_new=files.get("new", 0),
        files_removed=files.get("removed", 0),
        chunks_added=chunks.get("added", 0),
        chunks_removed=chunks.get("removed", 0),
        vectors_computed=vectors.get("computed", 0),
        vectors_reused=vectors.get("reused", 0),
        error=DIED if died else render.one_line(run.error, MAX_ERROR),
    )
