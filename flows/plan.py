"""What a run has to do: the commit's tree against what the branch shows. Pure but for the listing of the tree.

The plan needs no earlier commit: it compares hashes of git's own tree records with those of the rows that are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from chunkers import cut
from flows import git, paths, select
from flows.policy import Policy
from flows.secrets import MASK_VERSION, mask_name
from flows.select import Denied, Keep, Rules, Skip, SkipReason
from flows.store.branches import FileRow, entry_key
from flows.store.cuts import BlobTask, CutKey, KnownBlob

MASKED = f".m{MASK_VERSION}"  # how the fingerprint of a cut ends whose text was masked as it is now


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entry of the tree that its path lets in, and as what."""

    entry: git.Entry
    key: bytes
    keep: Keep


Deciding = tuple[str, str, str]  # rule, and key and entry of the configuration, as in Denied
Place = Callable[[str, str], str]  # of a key and an entry of the configuration: "file:line", "" if it is not known


def nowhere(key: str, entry: str) -> str:
    """Return that the place of a rule is not known."""
    return ""


@dataclass(slots=True)
class Plan:
    """What a run has to look at, besides the entries that are as they should be."""

    seen: int = 0
    gone: set[bytes] = field(default_factory=set)  # shown by the branch, but no longer in the tree or let in
    again: set[bytes] = field(default_factory=set)  # shown by the branch, but perhaps not as they should be
    wanted: list[Wanted] = field(default_factory=list)
    rows: list[FileRow] = field(default_factory=list)  # decided by path alone
    denied: Counter[Deciding] = field(default_factory=Counter)  # how many entries a rule keeps out


def compare(entries: Iterable[git.Entry], shown: set[bytes], right: set[bytes], rules: Rules, policy: Policy) -> Plan:
    """Return what is to be done so that a branch that shows ``shown``, ``right`` of it rightly, shows ``entries``."""
    plan, denied = Plan(), set()
    tree = {entry_key(entry): entry for entry in entries}
    for key, entry in tree.items():
        if key in right:
            continue
        match select.by_path(entry, rules, policy):
            case Keep() as keep:
                plan.wanted.append(Wanted(entry, key, keep))
            case Skip() as skip:
                plan.rows.append(file_row(Wanted(entry, key, Keep("")), skip, None))
            case Denied() as by:
                denied.add(key)
                plan.denied[by.rule, by.key, by.entry] += 1
    plan.seen = len(tree) - len(denied)
    plan.gone = (shown - tree.keys()) | (shown & denied)
    plan.again = shown - right - plan.gone
    return plan


def why_empty(plan: Plan, place: Place) -> str:
    """Return one sentence that names the rule if rules deny all files of a commit, "" if they do not."""
    if plan.seen or not plan.denied:
        return ""
    (rule, key, entry), count = min(plan.denied.items(), key=lambda item: (-item[1], item[0]))
    where = place(key, entry) if key else ""
    total = plan.denied.total()
    most = "" if count == total else f", {count} of them"
    return f"0 files: all {total} denied{most} by {rule}" + (f" ({where})" if where else "")


def tasks(
    wanted: Iterable[Wanted], known: Mapping[str, KnownBlob], whole: Collection[tuple[str, CutKey]], rules: Rules
) -> list[BlobTask]:
    """Return the blobs that must be read: unknown, or without a whole cut for what one of their paths keeps them as."""
    keeps: dict[str, set[Keep]] = {}
    for want in wanted:
        blob = known.get(want.entry.oid)
        if blob is None:
            continue
        decision = select.by_facts(want.keep, blob.size, blob.facts, rules)
        missing = blob.facts is None or decision is None
        if isinstance(decision, Keep):
            missing = missing or (want.entry.oid, cut_key(decision.language)) not in whole
        if missing:
            keeps.setdefault(want.entry.oid, set()).add(want.keep)
    return [BlobTask(oid, known[oid].size, tuple(sorted(found))) for oid, found in keeps.items()]


def cut_key(language: str) -> CutKey:
    """Return how a blob is cut as ``language`` by this program: the cutter's fingerprint, and what is masked."""
    return CutKey(language, cut.fingerprint(language) + MASKED)


def decided(
    want: Wanted,
    known: Mapping[str, KnownBlob],
    cut_ids: Mapping[tuple[str, CutKey], int],
    failed: Collection[str],
    rules: Rules,
) -> FileRow:
    """Return the row of an entry once all content is in the database."""
    oid = want.entry.oid
    if oid in failed:
        return file_row(want, Skip(SkipReason.FAILED), None)
    decision = select.by_facts(want.keep, known[oid].size, known[oid].facts, rules)
    if isinstance(decision, Keep):
        cut_id = cut_ids.get((oid, cut_key(decision.language)))
        return file_row(want, decision if cut_id else Skip(SkipReason.FAILED), cut_id)
    return file_row(want, decision or Skip(SkipReason.FAILED), None)


def file_row(want: Wanted, decision: Keep | Skip, cut_id: int | None) -> FileRow:
    """Return the row that shows an entry, or says why it shows nothing."""
    entry = want.entry
    language = decision.language if isinstance(decision, Keep) else want.keep.language
    skip = str(decision.reason) if isinstance(decision, Skip) else None
    category = want.keep.category
    return FileRow(
        want.key, mask_name(paths.to_text(entry.path)), entry.mode, entry.oid, language, skip, cut_id, category
    )
