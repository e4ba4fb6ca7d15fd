"""Bring one branch of one repository to a commit: plan, run the flow, publish.

The plan compares the commit's tree with what the branch shows in Postgres; it needs no earlier commit. All that the
flow writes is invisible until :func:`flows.store.branches.publish` moves the branch in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from chunkers import cut
from flows import git, paths, select
from flows.embed import Embedder
from flows.errors import DatabaseError
from flows.report import Report, cpu_seconds, peak_memory_mb
from flows.select import Keep, Rules, Skip, SkipReason
from flows.settings import Settings
from flows.store import branches, cuts, lexicon, runs
from flows.store.branches import Branch, Change, FileRow
from flows.store.connect import Connection, Database
from flows.store.cuts import LEVELS, BlobTask, CutKey, KnownBlob
from flows.store.models import Model, use_model
from flows.store.texts import TextStore

Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be brought to which commit."""

    repo: str
    repository: git.Repository
    commit: git.Commit
    rules: Rules = field(default_factory=Rules)
    make_default: bool = False  # searches that name no branch see this one
    rename: bool = False  # the name may stand for another origin than before
    wait: bool = True  # for a run that works on the same branch


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entry of the tree that its path lets in, and the language that its name tells."""

    entry: git.Entry
    key: bytes
    language: str


@dataclass(slots=True)
class Plan:
    """What a run has to look at, besides the entries that are as they should be."""

    seen: int = 0
    gone: set[bytes] = field(default_factory=set)  # shown by the branch, but no longer in the tree or let in
    again: set[bytes] = field(default_factory=set)  # shown by the branch, but perhaps not as they should be
    wanted: list[Wanted] = field(default_factory=list)
    rows: list[FileRow] = field(default_factory=list)  # decided by path alone


def sync(
    database: Database, settings: Settings, embedder: Embedder, target: Target, progress: Progress | None = None
) -> Report:
    """Bring a branch to a commit and return what was done.

    Raises:
        GitstrataError: nothing was published; all finished work is kept for the next run.
    """
    started = cpu_seconds()
    report = Report(target.repo, target.commit.branch, target.commit.sha)
    run = _Run(database, settings, embedder, target, report, progress or (lambda stage, done, total: None))
    try:
        with database.connect() as connection:
            run_id = runs.start(connection, target.repo, target.commit.branch, target.commit.sha)
            try:
                run.go(connection)
            except BaseException as error:
                report.errors.append(str(error) or type(error).__name__)
                raise
            finally:
                report.cpu_seconds = round(cpu_seconds() - started, 3)
                report.peak_memory_mb = round(peak_memory_mb(), 1)
                runs.finish(database, run_id, report)
    except psycopg.Error as error:
        raise _database_error(error) from error
    return report


def _database_error(error: psycopg.Error) -> DatabaseError:
    what = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, psycopg.errors.DiskFull | psycopg.errors.OutOfMemory):
        return DatabaseError(f"Postgres ran out of space: {what}. Make room and run this again; finished work is kept")
    return DatabaseError(f"the database failed: {what}. Run this again; finished work is kept")


@dataclass(slots=True)
class _Run:
    database: Database
    settings: Settings
    embedder: Embedder
    target: Target
    report: Report
    progress: Progress

    def go(self, connection: Connection) -> None:
        target, report = self.target, self.report
        branches.claim_repo(connection, target.repo, target.repository.origin, "adhoc", rename=target.rename)
        with branches.exclusive(connection, target.repo, target.commit.branch, wait=target.wait):
            branch = branches.find_branch(connection, target.repo, target.commit.branch)
            with report.stage("plan"):
                model = use_model(connection, self.embedder)
                broken = cuts.broken_cuts(connection, branch.branch_id, model) if branch else frozenset[int]()
                stale = self._stale(connection, branch, broken)
                report.healed = len(broken)
                if branch is not None and self._is_unchanged(connection, branch, stale):
                    branches.note_seen(connection, branch, target.commit, make_default=target.make_default)
                    self._describe(connection, branch, added=0)
                    report.outcome = "unchanged"
                    return
                plan = self._plan(connection, branch, stale)
            rows, added = self._make_rows(connection, plan, broken, model)
            with report.stage("publish"):
                branch = self._publish(connection, branch, plan, rows)
            with report.stage("statistics"):
                lexicon.note_moved(connection, added + report.chunks.removed)
                lexicon.refresh_if_moved(connection, model)
            self._describe(connection, branch, added=added)
            report.outcome = "partial" if branch.failed else "done"

    def _stale(self, connection: Connection, branch: Branch | None, broken: frozenset[int]) -> set[bytes]:
        if branch is None:
            return set()
        fingerprints = {name: cut.fingerprint(name) for name in branches.languages_shown(connection, branch)}
        return branches.stale_entries(connection, branch, fingerprints, broken)

    def _is_unchanged(self, connection: Connection, branch: Branch, stale: set[bytes]) -> bool:
        return (
            branch.tree_sha == self.target.commit.tree
            and branch.rules_fp == self.target.rules.fingerprint
            and not branch.failed
            and not stale
            and branches.count_files(connection, branch) == branch.files
        )

    def _plan(self, connection: Connection, branch: Branch | None, stale: set[bytes]) -> Plan:
        rules = self.target.rules
        shown, failed = branches.entries(connection, branch) if branch else (set[bytes](), set[bytes]())
        right = shown - failed - stale if branch and branch.rules_fp == rules.fingerprint else set[bytes]()
        plan, denied = Plan(), set()
        tree = {
            branches.entry_key(entry): entry for entry in git.list_tree(self.target.repository, self.target.commit.sha)
        }
        for key, entry in tree.items():
            if key in right:
                continue
            match select.by_path(entry, rules):
                case Keep(language):
                    plan.wanted.append(Wanted(entry, key, language))
                case Skip(reason):
                    plan.rows.append(_file_row(Wanted(entry, key, ""), Skip(reason), None))
                case _:
                    denied.add(key)
        plan.seen = len(tree) - len(denied)
        plan.gone = (shown - tree.keys()) | (shown & denied)
        plan.again = shown - right - plan.gone
        return plan

    # --- content ---

    def _make_rows(
        self, connection: Connection, plan: Plan, broken: frozenset[int], model: Model
    ) -> tuple[list[FileRow], int]:
        """Bring the content of all wanted entries into the database; return their rows and the chunks made for them."""
        oids = sorted({want.entry.oid for want in plan.wanted})
        with self.report.stage("plan"):
            known = cuts.known_blobs(connection, oids)
            sizes = git.sizes(self.target.repository, [oid for oid in oids if oid not in known])
            known |= {oid: KnownBlob(size, None) for oid, size in sizes.items()}
            before = cuts.known_cuts(connection, oids)
            whole = {key: cut_id for key, cut_id in before.items() if cut_id not in broken}
            tasks = _tasks(plan.wanted, known, whole, self.target.rules)
        failed = {oid: "the object is missing in this clone" for oid in oids if oid not in known}
        if tasks:
            with self.report.stage("content"):
                failed |= self._run_flow(tasks, known, broken, model)
        self.report.errors += [
            f"{want.entry.path.decode(errors='replace')}: {failed[want.entry.oid]}"
            for want in plan.wanted
            if want.entry.oid in failed
        ][:20]
        after = cuts.known_cuts(connection, oids) if tasks else before
        rows = [*plan.rows, *(_decided(want, known, after, failed, self.target.rules) for want in plan.wanted)]
        added = cuts.count_chunks(
            connection, set(after.values()) - set(before.values()) | (broken & set(after.values()))
        )
        return rows, added

    def _run_flow(
        self, tasks: Sequence[BlobTask], known: dict[str, KnownBlob], broken: frozenset[int], model: Model
    ) -> dict[str, str]:
        """Run the CocoIndex flow over ``tasks``, add their facts to ``known`` and return what failed and why."""
        from flows.flow import Flow, run_flow

        done = 0

        def on_blob() -> None:
            nonlocal done
            done += 1
            self.progress("indexing", done, len(tasks))

        with (
            git.ObjectReader(self.target.repository) as reader,
            self.database.connect() as for_texts,
            self.database.connect() as for_blobs,
        ):
            texts = TextStore(for_texts, self.embedder, model)
            flow = Flow(reader, texts, for_blobs, self.target.rules, broken, on_blob)
            try:
                run_flow(flow, tasks, self.settings.scratch)
            finally:
                self.report.vectors.computed += texts.counts.computed
                self.report.vectors.reused += texts.counts.reused
        known |= {oid: KnownBlob(known[oid].size, facts) for oid, facts in flow.facts.items()}
        return flow.failed

    # --- publish ---

    def _publish(self, connection: Connection, branch: Branch | None, plan: Plan, rows: Sequence[FileRow]) -> Branch:
        shown = branches.shown(connection, branch, plan.again) if branch and plan.again else {}
        changed = [row for row in rows if shown.get(row.entry) != (row.language, row.skip, row.cut_id)]
        replaced = shown.keys() & {row.entry for row in changed}
        removed = sorted(plan.gone | replaced)
        if branch is not None:
            self.report.chunks.removed = branches.count_chunks(connection, branch, removed)
        self.report.files.new = len(changed) - len(replaced)
        self.report.files.removed = len(plan.gone)
        return branches.publish(
            connection,
            self.target.repo,
            self.target.commit,
            self.target.rules.fingerprint,
            Change(changed, removed),
            expected=branch,
            make_default=self.target.make_default,
        )

    def _describe(self, connection: Connection, branch: Branch, *, added: int) -> None:
        report = self.report
        report.files.seen = branch.files
        report.files.skipped = branches.skipped(connection, branch)
        report.chunks.total = sum(branch.chunks)
        report.chunks.by_level = dict(zip((str(level) for level in LEVELS), branch.chunks, strict=True))
        report.chunks.added = added
        report.chunks.reused = max(0, report.chunks.total - added)


def _tasks(
    wanted: Iterable[Wanted], known: Mapping[str, KnownBlob], whole: Collection[tuple[str, CutKey]], rules: Rules
) -> list[BlobTask]:
    """Return the blobs that must be read: unknown, or without a whole cut for the language of one of their paths."""
    languages: dict[str, set[str]] = {}
    for want in wanted:
        blob = known.get(want.entry.oid)
        if blob is None:
            continue
        decision = select.by_facts(want.language, blob.size, blob.facts, rules)
        missing = blob.facts is None or decision is None
        if isinstance(decision, Keep):
            missing = missing or (want.entry.oid, _cut_key(decision.language)) not in whole
        if missing:
            languages.setdefault(want.entry.oid, set()).add(want.language)
    return [BlobTask(oid, known[oid].size, tuple(sorted(names))) for oid, names in languages.items()]


def _cut_key(language: str) -> CutKey:
    return CutKey(language, cut.fingerprint(language))


def _decided(
    want: Wanted,
    known: Mapping[str, KnownBlob],
    cut_ids: Mapping[tuple[str, CutKey], int],
    failed: Collection[str],
    rules: Rules,
) -> FileRow:
    oid = want.entry.oid
    if oid in failed:
        return _file_row(want, Skip(SkipReason.FAILED), None)
    decision = select.by_facts(want.language, known[oid].size, known[oid].facts, rules)
    if isinstance(decision, Keep):
        cut_id = cut_ids.get((oid, _cut_key(decision.language)))
        return _file_row(want, decision if cut_id else Skip(SkipReason.FAILED), cut_id)
    return _file_row(want, decision or Skip(SkipReason.FAILED), None)


def _file_row(want: Wanted, decision: Keep | Skip, cut_id: int | None) -> FileRow:
    entry = want.entry
    language = decision.language if isinstance(decision, Keep) else want.language
    skip = str(decision.reason) if isinstance(decision, Skip) else None
    return FileRow(want.key, paths.to_text(entry.path), entry.mode, entry.oid, language, skip, cut_id)
