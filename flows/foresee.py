"""What a run would do, counted without writing: the same plan, the same cuts, the same arithmetic as a publish.

Content that the index does not hold is read and cut here, too, so that chunks and vectors are exact and not guessed;
only the model is left out. Bytes and seconds are estimates, and say of what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flows import content, git, plan
from flows.plan import Plan
from flows.report import Forecast, Report, Share
from flows.select import Rules
from flows.store import branches, cuts, texts
from flows.store.branches import Branch, FileRow
from flows.store.connect import Connection
from flows.store.cuts import LEVELS, BlobTask, CutKey, KnownBlob
from flows.store.models import Model

LARGEST = 10  # files that a forecast names
# Bytes in Postgres, indexes included, fitted to real indexes (docs/teams.md, "How much space"): right within a third.
TEXT_FACTOR = 2.5  # of the characters of new texts: body, words, the blob's own text
CHUNK_BYTES = 2_000  # of a chunk, its symbol, words and text, beside that
VECTOR_BYTES = 210  # of a vector's rows, beside its dimensions: two bytes and a sign each
DIMENSION = 256  # of an index without a model
CHARACTERS_A_TOKEN = 4  # of code, roughly: endpoints are paid by the token


@dataclass(slots=True)
class Ledger:
    """What runs that were foreseen one after another would have written: the next one finds it there."""

    facts: dict[str, KnownBlob] = field(default_factory=dict)
    cuts: dict[tuple[str, CutKey], int] = field(default_factory=dict)
    levels: dict[int, list[int]] = field(default_factory=dict)  # of those cuts; new ones have negative ids
    texts: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class Foresight:
    """One run that is foreseen."""

    connection: Connection
    repository: git.Repository
    rules: Rules
    branch: Branch | None
    model: Model | None
    ledger: Ledger
    report: Report

    def count(self, todo: Plan, known: Mapping[str, KnownBlob], whole: Mapping[tuple[str, CutKey], int]) -> None:
        """Fill in the report; ``known`` blobs and ``whole`` cuts are those of the index."""
        oids = {want.entry.oid for want in todo.wanted}
        facts = {**known, **{oid: blob for oid, blob in self.ledger.facts.items() if oid in oids}}
        there = {**whole, **{key: cut_id for key, cut_id in self.ledger.cuts.items() if key[0] in oids}}
        tasks = plan.tasks(todo.wanted, facts, there, self.rules)
        failed = {oid: "its object is missing in this clone" for oid in oids if oid not in facts}
        added = self._read(tasks, facts, there, failed)
        rows = [*todo.rows, *(plan.decided(want, facts, there, failed, self.rules) for want in todo.wanted)]
        self.report.errors += [f"{row.path}: {failed[row.oid]}" for row in rows if row.oid in failed][:LARGEST]
        self._compare(todo, rows, facts, added)

    def _read(
        self,
        tasks: Sequence[BlobTask],
        facts: dict[str, KnownBlob],
        there: dict[tuple[str, CutKey], int],
        failed: dict[str, str],
    ) -> int:
        """Cut what is new, note it as if it were written, and return how many chunks it has."""
        added, sizes = 0, dict[bytes, int]()
        with git.ObjectReader(self.repository) as reader:
            for task in tasks:
                try:
                    _, found, made = content.cut_blob(reader, task, self.rules)
                except Exception as error:  # as in the flow: this file fails, no other
                    failed[task.oid] = content.said(error)
                    continue
                facts[task.oid] = self.ledger.facts[task.oid] = KnownBlob(task.size, found)
                for key, cut in made:
                    sizes |= {texts.text_hash(chunk.text): len(chunk.text) for chunk in cut.chunks}
                    if (task.oid, key) not in there:
                        cut_id = -1 - len(self.ledger.levels)
                        there[task.oid, key] = self.ledger.cuts[task.oid, key] = cut_id
                        self.ledger.levels[cut_id] = cuts.by_level(cut.chunks)
                        added += len(cut.chunks)
        self._count_vectors(sizes)
        return added

    def _count_vectors(self, sizes: Mapping[bytes, int]) -> None:
        held = sizes.keys() & self.ledger.texts
        if self.model is not None:
            held |= texts.embedded(self.connection, self.model, sizes.keys() - held)
        new = sizes.keys() - held
        self.ledger.texts |= new
        self.report.vectors.computed, self.report.vectors.reused = len(new), len(held)
        forecast = self.report.forecast = Forecast(characters=sum(sizes[key] for key in new))
        forecast.tokens = forecast.characters // CHARACTERS_A_TOKEN

    def _compare(self, todo: Plan, rows: Sequence[FileRow], facts: Mapping[str, KnownBlob], added: int) -> None:
        """Count files and chunks as a publish of ``rows`` would."""
        report, branch = self.report, self.branch
        shown = branches.shown(self.connection, branch, todo.again) if branch and todo.again else {}
        changed = [row for row in rows if shown.get(row.entry) != row.shows]
        replaced = shown.keys() & {row.entry for row in changed}
        gone = todo.gone | replaced
        report.files.new, report.files.removed = len(changed) - len(replaced), len(todo.gone)
        report.chunks.removed = branches.count_chunks(self.connection, branch, gone) if branch else 0
        kept = branches.kept(self.connection, branch, gone) if branch else []
        total = [0] * len(LEVELS)
        for share in [*kept, *self._shares(changed)]:
            report.files.seen += share.files
            if share.skip:
                report.files.skipped[share.skip] = report.files.skipped.get(share.skip, 0) + share.files
            total = [a + b for a, b in zip(total, share.levels, strict=True)]
            if any(share.levels):
                self._add_language(share)
        report.files.skipped = dict(sorted(report.files.skipped.items()))
        report.chunks.total, report.chunks.added = sum(total), added
        report.chunks.reused = max(0, report.chunks.total - added)
        report.chunks.by_level = dict(zip((str(level) for level in LEVELS), total, strict=True))
        self._estimate(changed, facts)

    def _add_language(self, share: branches.Kept) -> None:
        assert self.report.forecast is not None
        languages = self.report.forecast.languages
        before = languages.get(share.language, Share())
        languages[share.language] = Share(before.files + share.files, before.chunks + sum(share.levels))

    def _shares(self, rows: Sequence[FileRow]) -> Iterator[branches.Kept]:
        ids = {row.cut_id for row in rows if row.cut_id is not None and row.cut_id > 0}
        levels = {**cuts.levels(self.connection, ids), **self.ledger.levels}
        for row in rows:
            counts = levels[row.cut_id] if row.cut_id is not None else [0] * len(LEVELS)
            yield branches.Kept(row.language, row.skip or "", 1, counts)

    def _estimate(self, changed: Sequence[FileRow], facts: Mapping[str, KnownBlob]) -> None:
        forecast, dimension = self.report.forecast, self.model.dimension if self.model else DIMENSION
        assert forecast is not None
        files = {row.path: facts[row.oid].size for row in changed if row.cut_id is not None}
        forecast.largest = dict(sorted(files.items(), key=lambda item: (-item[1], item[0]))[:LARGEST])
        forecast.bytes = round(
            forecast.characters * TEXT_FACTOR
            + self.report.chunks.added * CHUNK_BYTES
            + self.report.vectors.computed * (dimension * 2.125 + VECTOR_BYTES)
        )


def removal(connection: Connection, repo: str, names: Collection[str], why: str) -> list[Report]:
    """Return a report for each of some published branches of a repository that would be taken away."""
    reports = []
    for name in names:
        branch = branches.find_branch(connection, repo, name)
        if branch is not None:
            report = Report(repo, name, branch.commit_sha, "planned", notes=[why])
            report.files.removed, report.chunks.removed = branch.files, sum(branch.chunks)
            reports.append(report)
    return reports
