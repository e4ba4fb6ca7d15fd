"""The history of runs: one row a run, kept."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from flows.report import Report
from flows.store import locks
from flows.store.connect import Connection, Database


@dataclass(frozen=True, slots=True)
class Run:
    """One past or present run."""

    repo: str
    branch: str
    commit: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    report: dict[str, Any]
    error: str


def start(connection: Connection, repo: str, branch: str, commit: str) -> int:
    """Record that a run began and return its id."""
    row = connection.execute(
        "insert into sync_run (repo, branch, commit_sha) values (%s, %s, %s) returning run_id", [repo, branch, commit]
    ).fetchone()
    assert row is not None
    return int(row[0])


def finish(database: Database, run_id: int, report: Report) -> None:
    """Record how a run ended, on a connection of its own and as far as there still is a database."""
    with contextlib.suppress(Exception), database.connect(connect_timeout=2) as connection:
        connection.execute(
            "with ended as (update sync_run set finished_at = now(), outcome = %s, report = %s, error = %s"
            " where run_id = %s returning repo, branch, outcome)"
            " update branch b set run_failed = e.outcome = 'failed' from ended e join repo r on r.name = e.repo"
            " where b.repo_id = r.repo_id and b.name = e.branch",
            [report.outcome, Jsonb(report.to_json()), "; ".join(report.errors)[:2000], run_id],
        )


def latest(connection: Connection, repo: str, branch: str | None = None) -> Run | None:
    """Return the newest run of a repository, or of one branch."""
    row = connection.execute(
        "select repo, branch, coalesce(commit_sha, ''), started_at, finished_at, outcome, report, error from sync_run"
        " where repo = %s and (%s::text is null or branch = %s) order by run_id desc limit 1",
        [repo, branch, branch],
    ).fetchone()
    return Run(*row) if row else None


def unpublished(connection: Connection, repo: str = "") -> list[Run]:
    """Return the newest run of each branch without a published commit, if it failed or is at work; a dead one failed.

    A branch that was removed, and a repository that is gone, have nothing to say any more.
    """
    rows = connection.execute(
        "select distinct on (s.repo, s.branch) s.repo, s.branch, coalesce(s.commit_sha, ''), s.started_at,"
        " s.finished_at, s.outcome, s.report, s.error from sync_run s join repo r on r.name = s.repo"
        " where (%(repo)s = '' or s.repo = %(repo)s) and s.started_at >= r.added_at"
        " and not exists (select 1 from branch b where b.repo_id = r.repo_id and b.name = s.branch)"
        " and not (s.branch = '*' and exists (select 1 from sync_run t where t.repo = s.repo and t.run_id > s.run_id))"
        " order by s.repo, s.branch, s.run_id desc",
        {"repo": repo},
    )
    found = [Run(*row) for row in rows]
    dead = [run if is_running(connection, run) else replace(run, outcome="failed") for run in found]
    return [now for run, now in zip(found, dead, strict=True) if run.outcome in ("failed", "running")]


def is_running(connection: Connection, run: Run) -> bool:
    """Say whether a run's process still holds its branch; what a killed one left behind does not count."""
    return run.outcome == "running" and locks.is_held(connection, run.repo, run.branch)


def chunks_a_second(connection: Connection) -> float:
    """Return how fast the newest runs with much to do were, 0 if there are none."""
    row = connection.execute(
        "select coalesce(sum(chunks) / nullif(sum(seconds), 0), 0) from (select"
        " (report -> 'chunks' ->> 'added')::float as chunks, (report -> 'seconds' ->> 'content')::float as seconds"
        " from sync_run where (report -> 'chunks' ->> 'added')::int >= 200 order by run_id desc limit 20) r"
    ).fetchone()
    return float(row[0]) if row else 0.0


def oldest_other(connection: Connection, repo: str, branch: str) -> datetime | None:
    """Return when the oldest run that is at work on another branch began, None if there is none."""
    rows = connection.execute(
        "select repo, branch, coalesce(commit_sha, ''), started_at, finished_at, outcome, report, error from sync_run"
        " where outcome = 'running' and (repo, branch) <> (%s, %s) order by started_at",
        [repo, branch],
    )
    return next((run.started_at for row in rows.fetchall() if is_running(connection, run := Run(*row))), None)
