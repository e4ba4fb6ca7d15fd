"""Bring the facts of a branch's commits up to its published commit: after the publish, apart from it, never failing it.

Read newest first and at most so many a run; what is left is read by later runs. Only the default branch of a
repository has them. A shallow clone adds what it has as long as that leaves no gap.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chunkers.words import WORDS_VERSION
from flows import codeowners, git, history, policy, select
from flows.codeowners import CodeOwners
from flows.history import Facts, Person
from flows.select import Rules
from flows.store import history as store
from flows.store import subjects
from flows.store.connect import Connection
from flows.store.history import History

BUDGET = 20_000  # commits read in one run: some seconds
_LISTED = 5_000  # commits looked up at once
_READ = 500  # commits that one child of git reads
_TOUCHES = 20_000  # that are written at once
_FILES = (policy.IGNORE.decode(), ".mailmap", *codeowners.PLACES)


@dataclass(frozen=True, slots=True)
class Source:
    """The published commit of a branch and what decides about its paths."""

    repository: git.Repository
    commit: git.Commit
    rules: Rules
    budget: int = BUDGET


def digest(rules: Rules, told: policy.Policy) -> str:
    """Return the identity of what keeps paths out of the facts."""
    config = hashlib.sha256(json.dumps([rules.allow, rules.deny]).encode()).hexdigest()[:16]
    return f"{config}+{hashlib.sha256(json.dumps(told.ignore_lines).encode()).hexdigest()[:16]}"


def collect(connection: Connection, branch_id: int, source: Source) -> str:
    """Read the facts that are missing; return what is to be said of their coverage, "" if it is complete.

    Raises:
        SourceError: git failed; what was read before that is kept.
    """
    state = store.find(connection, branch_id)
    if state is not None and state.tip == source.commit.sha and state.is_complete and state.words == WORDS_VERSION:
        return ""  # with the rules of this commit: a publish under other rules forgets the facts
    return _Collection(connection, branch_id, source).go(state)


class _Collection:
    def __init__(self, connection: Connection, branch_id: int, source: Source) -> None:
        self._connection, self._branch_id, self._source = connection, branch_id, source
        entries = git.find_files(source.repository, source.commit.sha, _FILES)
        self._told = policy.read(source.repository, entries)
        oids = {entry.path.decode(): entry.oid for entry in entries}
        sizes = git.sizes(source.repository, list(oids.values()))
        oids = {path: oid for path, oid in oids.items() if sizes.get(oid, 0) <= policy.MAX_BYTES}
        self._mailmap = oids.get(".mailmap", "")
        self._owners = next((oids[place] for place in codeowners.PLACES if place in oids), "")
        self._boundary = git.shallow_boundary(source.repository)
        self._left = source.budget
        self._oldest: datetime | None = None

    def go(self, state: History | None) -> str:
        sha, rules = self._source.commit.sha, digest(self._source.rules, self._told)
        if state is not None and state.rules != rules:
            store.forget_branch(self._connection, self._branch_id)
            state = None
        if state is not None and state.words != WORDS_VERSION:
            subjects.split_again(self._connection, self._branch_id)
        known = ""
        if state is not None:
            follows = state.tip == sha or git.is_ancestor(self._source.repository, state.tip, sha)
            if not follows and self._boundary:
                return f"history: this clone is shallow; known up to {state.tip[:12]}, a whole clone brings the rest"
            if not follows:
                store.keep_only(self._connection, self._branch_id, git.list_commits(self._source.repository, sha))
            known = state.tip if follows and state.is_complete else ""
        elif not any(True for _ in self._listed("")):
            return "history: none, this clone is shallow; a whole clone brings it"
        state = state or History(self._branch_id, sha, False, None, rules, self._mailmap, self._owners)
        state = replace(state, words=WORDS_VERSION)
        store.put(self._connection, state)
        is_whole = self._read(known)
        self._rename_people(state)
        dates = [date for date in (self._oldest, None if known else state.since) if date]
        since = None if is_whole else min(dates, default=None)
        state = replace(state, tip=sha, is_complete=is_whole, since=since, mailmap=self._mailmap, owners=self._owners)
        store.put(self._connection, state)
        return "" if is_whole else f"history: {coverage(state)}; later runs, or a whole clone, bring the rest"

    def _listed(self, known: str) -> Iterator[str]:
        shas = git.list_commits(self._source.repository, self._source.commit.sha, known)
        return (sha for sha in shas if sha not in self._boundary)

    def _read(self, known: str) -> bool:
        """Read what is missing, newest first; return whether nothing is left."""
        shas = git.list_commits(self._source.repository, self._source.commit.sha, known)
        is_whole = True
        for listed in _batches(shas, _LISTED):
            is_whole &= self._boundary.isdisjoint(listed)
            wanted = [sha for sha in listed if sha not in self._boundary]
            missing = store.missing(self._connection, self._branch_id, wanted)
            self._write(missing[: self._left])
            if len(missing) > self._left:
                return False
            self._left -= len(missing)
        return is_whole

    def _write(self, shas: Sequence[str]) -> None:
        pending: list[Facts] = []
        touches = 0
        for fact in self._facts(shas):
            pending.append(fact)
            touches += len(fact.touches)
            if fact.at and fact.author != ("", ""):
                self._oldest = min(self._oldest or fact.at, fact.at)
            if touches >= _TOUCHES or len(pending) >= _READ:
                self._add(pending)
                pending, touches = [], 0
        self._add(pending)

    def _add(self, facts: Sequence[Facts]) -> None:
        if facts:
            store.add(self._connection, self._branch_id, facts, self._shown, self._code_owners.of)

    def _facts(self, shas: Sequence[str]) -> Iterator[Facts]:
        for part in _batches(shas, _READ):
            yield from history.read(self._source.repository, part, self._denies, self._named)

    def _rename_people(self, state: History) -> None:
        if state.mailmap != self._mailmap:
            store.show_people(self._connection, self._branch_id, self._shown)
        if state.owners != self._owners:
            store.own_paths(self._connection, self._branch_id, self._code_owners.of)

    def _shown(self, people: Sequence[Person]) -> list[Person]:
        return git.canonical_people(self._source.repository, self._mailmap, people)

    @functools.cached_property
    def _code_owners(self) -> CodeOwners:
        if not self._owners:
            return CodeOwners()
        with git.ObjectReader(self._source.repository) as reader:
            return codeowners.parse(reader.read(self._owners))

    # --- what is denied ---

    def _denies(self, path: str) -> bool:
        return select.denies(path, self._source.rules, self._told) is not None

    @functools.cached_property
    def _named(self) -> Callable[[str], bool]:
        if not (self._source.rules.allow or self._source.rules.deny or self._told.ignore):
            return lambda text: False
        return history.names_denied(self._denies, lambda: self._denied_names)

    @functools.cached_property
    def _denied_names(self) -> frozenset[str]:
        """Last parts of the denied paths of the commit."""
        entries = git.list_tree(self._source.repository, self._source.commit.sha)
        listed = (entry.path.decode(errors="surrogateescape") for entry in entries)
        return frozenset(path.rpartition("/")[2] for path in listed if self._denies(path))


def coverage(state: History | None) -> str:
    """Return how far the facts of a branch reach: complete, since a date, or none."""
    if state is None or not (state.is_complete or state.since):
        return "none"
    return "complete" if state.is_complete else f"since {state.since:%Y-%m-%d}"


def _batches(items: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
