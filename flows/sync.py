"""Bring one branch of one repository to a commit: plan, run the flow, publish.

All that the flow writes is invisible until :func:`flows.store.branches.publish` moves the branch in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psycopg
import tenacity

from flows import git, past, paths, plan, policy, verify
from flows.embed import Embedder
from flows.embed.shelf import Shelf
from flows.errors import Busy, DatabaseError, EmbedderError, GitstrataError, Moved, UsageError
from flows.foresee import Foresight, Ledger
from flows.plan import Plan
from flows.report import Report, cpu_seconds, peak_memory_mb
from flows.select import Rules
from flows.settings import Settings
from flows.store import (
    branches,
    collect,
    cuts,
    history,
    lexicon,
    locks,
    models,
    repos,
    runs,
    sieve,
    signs,
    trigrams,
    vector_index,
)
from flows.store.branches import Branch, Change, FileRow
from flows.store.connect import Connection, Database
from flows.store.cuts import LEVELS, BlobTask, CutKey, KnownBlob
from flows.store.models import Generation, Model
from flows.store.texts import TextStore
from flows.wording import counted

log = logging.getLogger("gitstrata")

Progress = Callable[[str, int, int], None]  # stage, done, total

_NO_ROOM = (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory)
ATTEMPTS = 4  # at one run, when connections break or another run gets in between
MAX_ERRORS = 20  # failed files that a report names
_AND = "+"  # between the two fingerprints that say what a branch was built with


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be brought to which commit.

    ``tip`` asks where the branch stands at its source at this moment ("" = it is gone); without it, or with ``force``,
    the commit is published whatever the source says.
    """

    repo: str
    repository: git.Repository
    commit: git.Commit
    rules: Rules = field(default_factory=Rules)
    make_default: bool = False  # searches that name no branch see this one
    rename: bool = False  # the name may stand for another origin than before
    wait: bool = True  # for a run that works on the same branch
    tip: Callable[[], str] | None = None
    force: bool = False
    ledger: Ledger | None = None  # a dry run: where it stands in for the rows that runs before it would have written
    verify: bool = False  # compare everything that is shown with what git and the model say
    place: plan.Place = plan.nowhere  # where a rule stands
    history: int = past.BUDGET  # commits whose facts are read at most, once the commit is published
    builds_index: bool = True  # of vectors, where there are enough by now; False: the caller does, after others


def sync(
    database: Database, settings: Settings, embedder: Embedder | Shelf, target: Target, progress: Progress | None = None
) -> Report:
    """Bring a branch to a commit and return what was done.

    Vectors are those of the index's active model, whatever is configured here; ``embedder``, a model or a shelf of
    them, is what an index without one begins with.

    Broken connections, and a branch or content that another run changed meanwhile, are met by starting again: what was
    finished is found and not done twice.

    Raises:
        GitstrataError: nothing was published; all finished work is kept for the next run.
    """
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_passes),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
        before_sleep=lambda state: log.warning(
            "%s; starting again", state.outcome and _said(state.outcome.exception())
        ),
        reraise=True,
    )
    shelf = embedder if isinstance(embedder, Shelf) else Shelf(settings.model, embedder)
    try:
        report: Report = attempts(
            _once, database, settings, shelf, target, progress or (lambda stage, done, total: None)
        )
    except psycopg.Error as error:
        raise _database_error(error) from error
    if target.history and report.outcome in ("done", "unchanged", "partial") and target.ledger is None:
        _collect_history(database, target, report)
    return report


def _collect_history(database: Database, target: Target, report: Report) -> None:
    """Bring the facts of commits up to what is published; what fails here fails no publish and is tried next time."""
    started = cpu_seconds()
    commit = target.commit
    try:
        with report.stage("history"), database.connect() as connection:
            branch_id = history.default_branch(connection, target.repo, commit.branch, commit.sha)
            if branch_id is not None:
                with locks.branch(connection, target.repo, commit.branch, wait=False):
                    source = past.Source(target.repository, commit, target.rules, target.history)
                    note = past.collect(connection, branch_id, source)
                    report.notes += [note] if note else []
    except Busy:
        pass  # the run that holds the branch brings its history, too
    except (GitstrataError, psycopg.Error) as error:
        report.notes.append(f"history was not read to the end: {_said(error)}; the next run goes on")
    report.cpu_seconds = round(report.cpu_seconds + cpu_seconds() - started, 3)


def _once(database: Database, settings: Settings, shelf: Shelf, target: Target, progress: Progress) -> Report:
    started = cpu_seconds()
    report = Report(target.repo, target.commit.branch, target.commit.sha)
    run = _Run(database, settings, shelf, target, report, progress)
    database.reopen()
    with database.connect() as connection:
        try:
            run.go(connection)
        except BaseException as error:
            said = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            report.errors.append(said or type(error).__name__)
            raise
        finally:
            report.cpu_seconds = round(cpu_seconds() - started, 3)
            report.peak_memory_mb = round(peak_memory_mb(), 1)
            if run.run_id is not None:
                runs.finish(database, run.run_id, report)
    return report


def _passes(error: BaseException) -> bool:
    """Say whether starting again can help."""
    if isinstance(error, _NO_ROOM):
        return False
    if isinstance(error, psycopg.errors.UndefinedTable):  # of a model that was given up meanwhile
        return True
    return isinstance(error, psycopg.OperationalError | psycopg.errors.ForeignKeyViolation | Moved)


def _said(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _database_error(error: psycopg.Error) -> DatabaseError:
    what = _said(error)
    if isinstance(error, _NO_ROOM):
        return DatabaseError(f"Postgres ran out of space: {what}. Make room and run this again; finished work is kept")
    return DatabaseError(f"the database failed: {what}. Run this again; finished work is kept")


@dataclass(slots=True)
class _Run:
    database: Database
    settings: Settings
    shelf: Shelf
    target: Target
    report: Report
    progress: Progress
    healed: frozenset[int] = frozenset()  # cuts to be written anew
    run_id: int | None = None  # once it has been let in: a request that is refused is no run of the branch
    kept_out: str = ""  # digest of the rules that deny paths
    rules_fp: str = ""  # of the configuration and, behind it, of the commit's policy files

    def go(self, connection: Connection) -> None:
        target = self.target
        if target.ledger is not None:
            return self._foresee(connection, target.ledger)
        repos.claim(connection, target.repo, target.repository.origin, rename=target.rename)
        with locks.branch(connection, target.repo, target.commit.branch, wait=target.wait), locks.content(connection):
            self.run_id = runs.start(connection, target.repo, target.commit.branch, target.commit.sha)
            if self._is_superseded(connection):
                return None
            branch = branches.find_branch(connection, target.repo, target.commit.branch)
            with self.report.stage("plan"):
                model = self._model(connection)
                broken = self._broken(connection, branch, model)
                stale = self._stale(connection, branch, broken)
                if branch is not None:
                    self._heal_signs(connection, branch, model)
                    self._heal_sieves(connection, branch)
                if branch is not None and self._is_unchanged(connection, branch, stale):
                    return self._leave(connection, branch)
                todo = self._plan(connection, branch, stale)
            rows, added = self._make_rows(connection, todo, broken, model)
            if not self._is_superseded(connection):
                self._publish(connection, branch, todo, rows, added, model)
        return None

    def _is_superseded(self, connection: Connection) -> bool:
        """Ask the source where the branch stands; a commit that is not its tip any more is not published."""
        target = self.target
        if target.tip is None or target.force:
            return False
        tip = target.tip()
        if tip == target.commit.sha:
            return False
        branches.note_head(connection, target.repo, target.commit.branch, tip)
        where = f"stands at {tip[:12]}" if tip else "is gone"
        self.report.outcome = "superseded"
        self.report.notes.append(f"{target.commit.branch} {where} now: {target.commit.sha[:12]} was not published")
        return True

    def _foresee(self, connection: Connection, ledger: Ledger) -> None:
        """Say what a run would do, and write nothing."""
        target, model = self.target, models.active_model(connection)
        connection.execute("set default_transaction_read_only = on")
        self.report.outcome = "planned"
        branch = branches.find_branch(connection, target.repo, target.commit.branch)
        with self.report.stage("plan"):
            broken = cuts.shown_but_broken(connection, branch.branch_id, model) if branch and model else frozenset()
            self.report.healed = len(broken)
            stale = self._stale(connection, branch, broken)
            is_unchanged = branch is not None and self._is_unchanged(connection, branch, stale)
            todo = Plan() if is_unchanged else self._plan(connection, branch, stale)
            known, whole, _ = self._content(connection, todo, broken, model)
            run = Foresight(connection, target.repository, target.rules, branch, model, ledger, self.report)
            run.count(todo, known, whole)
        if is_unchanged:
            self.report.outcome = "unchanged"

    # --- models ---

    def _model(self, connection: Connection) -> Model:
        model = models.use_model(connection, self.shelf)
        said = models.advice(model, models.building_model(connection), self.settings.model)
        self.report.notes += [said] if said else []
        return model

    def _generation(self, model: Model) -> Generation:
        """Load a model of the index; only a run that has something to embed needs it."""
        return Generation(model, self.shelf.find(model.setting, model.fingerprint, model.dimension))

    def _building(self, connection: Connection) -> Generation | None:
        """Load the model that is being built; where that cannot be done its vectors are left to its build."""
        model = models.building_model(connection)
        try:
            return self._generation(model) if model else None
        except (EmbedderError, UsageError) as error:
            self.report.notes.append(f"no vectors of the new model: {error}; `gitstrata model set` computes them")
            return None

    # --- plan ---

    def _broken(self, connection: Connection, branch: Branch | None, model: Model) -> frozenset[int]:
        if branch is None:
            return frozenset()
        broken = cuts.shown_but_broken(connection, branch.branch_id, model)
        if self.target.verify:
            broken |= verify.wrong_cuts(connection, self.target.repository, branch, self._generation(model))
        self.report.healed, self.healed = len(broken), broken
        return broken

    def _heal_signs(self, connection: Connection, branch: Branch, model: Model) -> None:
        if self.target.verify or not signs.agree(connection, model, branch.branch_id):
            count = signs.rebuild(connection, model, branch.branch_id)
            if count:
                self.report.notes.append(f"signs of vectors of {count} files of {branch.name} were put right")

    def _heal_sieves(self, connection: Connection, branch: Branch) -> None:
        if self.target.verify and (count := sieve.rebuild(connection, branch.branch_id)):
            self.report.notes.append(f"sieves of {counted(count, 'piece')} of text of {branch.name} were put right")

    def _stale(self, connection: Connection, branch: Branch | None, broken: frozenset[int]) -> set[bytes]:
        if branch is None:
            return set()
        fingerprints = {name: plan.cut_key(name).fingerprint for name in branches.languages_shown(connection, branch)}
        return branches.stale_entries(connection, branch, fingerprints, broken)

    def _is_unchanged(self, connection: Connection, branch: Branch, stale: set[bytes]) -> bool:
        return (
            branch.tree_sha == self.target.commit.tree
            and branch.rules_fp.partition(_AND)[0] == self.target.rules.fingerprint  # the tree holds the policy
            and not branch.failed
            and not branch.purge_due
            and not stale
            and branches.counts_agree(connection, branch)
        )

    def _leave(self, connection: Connection, branch: Branch) -> None:
        branches.note_seen(connection, branch, self.target.commit, make_default=self.target.make_default)
        self._describe(connection, branch, added=0)
        self.report.outcome = "unchanged"

    def _plan(self, connection: Connection, branch: Branch | None, stale: set[bytes]) -> Plan:
        entries = git.list_tree(self.target.repository, self.target.commit.sha)
        told = policy.read(self.target.repository, entries)
        self.kept_out = past.digest(self.target.rules, told)
        self.rules_fp = _AND.join(filter(None, (self.target.rules.fingerprint, told.fingerprint)))
        shown, failed = branches.entries(connection, branch) if branch else (set[bytes](), set[bytes]())
        right = shown - failed - stale if branch and branch.rules_fp == self.rules_fp else set[bytes]()
        todo = plan.compare(entries, shown, right, self.target.rules, told)
        if why := plan.why_empty(todo, self.target.place):
            self.report.notes.append(why)
        return todo

    # --- content ---

    def _content(
        self, connection: Connection, todo: Plan, broken: frozenset[int], model: Model | None
    ) -> tuple[dict[str, KnownBlob], dict[tuple[str, CutKey], int], list[BlobTask]]:
        """Return what is known of the wanted blobs, the cuts of them that are whole, and the blobs to be read."""
        oids = sorted({want.entry.oid for want in todo.wanted})
        known = cuts.known_blobs(connection, oids)
        sizes = git.sizes(self.target.repository, [oid for oid in oids if oid not in known])
        known |= {oid: KnownBlob(size, None) for oid, size in sizes.items()}
        there = cuts.known_cuts(connection, oids)
        if model is not None:
            broken |= cuts.broken_among(connection, there.values(), model)  # what no branch shows can be broken, too
        whole = {key: cut_id for key, cut_id in there.items() if cut_id not in broken}
        return known, whole, plan.tasks(todo.wanted, known, whole, self.target.rules)

    def _make_rows(
        self, connection: Connection, todo: Plan, broken: frozenset[int], model: Model
    ) -> tuple[list[FileRow], int]:
        """Bring the content of all wanted entries into the database; return all rows and the number of new chunks."""
        with self.report.stage("plan"):
            known, whole, tasks = self._content(connection, todo, broken, model)
        oids = sorted({want.entry.oid for want in todo.wanted})
        failed = {w.entry.oid: "its object is missing in this clone" for w in todo.wanted if w.entry.oid not in known}
        if tasks:
            with self.report.stage("content"):
                rewritten = frozenset(cuts.known_cuts(connection, oids).values()) - frozenset(whole.values())
                failed |= self._run_flow(tasks, known, rewritten, model)
        unlucky = [want.entry for want in todo.wanted if want.entry.oid in failed]
        self.report.errors += [f"{paths.to_text(entry.path)}: {failed[entry.oid]}" for entry in unlucky[:MAX_ERRORS]]
        after = cuts.known_cuts(connection, oids) if tasks else whole
        rows = [plan.decided(want, known, after, failed, self.target.rules) for want in todo.wanted]
        return [*todo.rows, *rows], cuts.count_chunks(connection, set(after.values()) - set(whole.values()))

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
            texts = TextStore(for_texts, self._generation(model), self._building(for_texts))
            flow = Flow(reader, texts, for_blobs, self.target.rules, broken, on_blob)
            try:
                run_flow(flow, tasks, self.settings.scratch)
            finally:
                self.report.vectors.computed += texts.counts.computed
                self.report.vectors.reused += texts.counts.reused
                if texts.failure:
                    self.report.notes.append(
                        f"no vectors of the new model: {texts.failure}; `gitstrata model set` computes them"
                    )
        known |= {oid: KnownBlob(known[oid].size, facts) for oid, facts in flow.facts.items()}
        return flow.failed

    # --- publish ---

    def _publish(
        self,
        connection: Connection,
        branch: Branch | None,
        todo: Plan,
        rows: Sequence[FileRow],
        added: int,
        model: Model,
    ) -> None:
        with self.report.stage("publish"):
            shown = branches.shown(connection, branch, todo.again) if branch and todo.again else {}
            changed = [row for row in rows if shown.get(row.entry) != row.shows]
            replaced = shown.keys() & {row.entry for row in changed}
            removed = sorted(todo.gone | replaced)
            self.report.chunks.removed = branches.count_chunks(connection, branch, removed) if branch else 0
            self.report.files.new = len(changed) - len(replaced)
            self.report.files.removed = len(todo.gone)
            if branch is not None and branch.rules_fp != self.rules_fp:
                history.forget(connection, self.target.repo, unless_rules=self.kept_out)
            published = branches.publish(
                connection,
                self.target.repo,
                self.target.commit,
                self.rules_fp,
                Change(changed, removed, healed=self.healed),
                expected=branch,
                make_default=self.target.make_default,
                model=model,
            )
            if published.purge_due:
                self._purge(connection, published)
        with self.report.stage("statistics"):
            grown = sum(published.chunks) - (sum(branch.chunks) if branch else 0)
            lexicon.note_moved(connection, self.report.vectors.computed + abs(grown))
            lexicon.refresh_if_moved(connection, model, force=published.purge_due)
            sieve.fill(connection)
            trigrams.settle(connection)
        if self.target.builds_index:
            with self.report.stage("vector index"):
                self._build_index(model)
        self._describe(connection, published, added=added)
        self.report.outcome = "partial" if published.failed else "done"

    def _build_index(self, model: Model) -> None:
        try:
            vector_index.build_if_large(self.database, model, self.progress)
        except psycopg.Error as error:  # the commit is published whole; only searches are slower
            self.report.notes.append(vector_index.failure(error))

    def _purge(self, connection: Connection, branch: Branch) -> None:
        """Take away what older rules let in and nothing shows any more.

        What another run has written since it began may be about to be shown: it stays, and the next run looks again.
        """
        other = runs.oldest_other(connection, branch.repo, branch.name)
        collect.purge_unshown(connection, keep_since=other)
        if other is None:
            branches.note_purged(connection, branch)

    def _describe(self, connection: Connection, branch: Branch, *, added: int) -> None:
        report = self.report
        report.files.seen = branch.files
        report.files.skipped = branches.skipped(connection, branch)
        report.chunks.total = sum(branch.chunks)
        report.chunks.by_level = dict(zip((str(level) for level in LEVELS), branch.chunks, strict=True))
        report.chunks.added = added
        report.chunks.reused = max(0, report.chunks.total - added)


def failure(repo: str, branch: str, error: GitstrataError) -> Report:
    """Return the report of a run that did not get as far as a commit."""
    return Report(repo, branch, errors=[str(error)])
