"""Measure who_knows: index repositories as they were a year before their last commit, ask, and see who came.

    .venv/bin/python scripts/eval_who.py REPOSITORY... [--home DIR] [--half report] [--active 10] [--half-life 180]

Topics are modules (folders of 2 to 300 code files, and code files) that at least three commits of people changed in
the year after, 25 of each kind a repository, chosen by hash. Truth: who made those commits (authors; commits of more
than 100 files and bots left out), and, where CODEOWNERS of that time names persons for a folder, those. Asked are:
  all files   the score alone, over all files of the module at weight 1
  path        who_knows(the module's path)
  words       who_knows(the words of the path)
against the people with most commits ever or in the last year, in the module or in the repository. Repositories at odd
places of the sorted list are for choosing constants (dev), the others for reporting.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from chunkers import languages  # noqa: E402
from flows import codeowners, git, history  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.embed import load_embedder  # noqa: E402
from flows.history import Facts, Person  # noqa: E402
from flows.store import history as store  # noqa: E402
from flows.store import read  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools import people, who_knows  # noqa: E402
from mcp_tools.index import Index  # noqa: E402

YEAR = 365 * 86_400
TOPICS = 25  # of a kind and repository
Names = list[str]


@dataclass(slots=True)
class World:
    """One repository a year before its end, and the year after."""

    name: str
    repository: git.Repository
    then: git.Commit
    files: list[str]
    past: list[Facts]
    future: list[Facts]
    groups: dict[Person, int]
    bots: set[int]
    by_name: dict[str, int]

    def authors(self, facts: Iterable[Facts]) -> Counter[int]:
        """Return commits by person, bots left out."""
        return Counter(group for f in facts if (group := self.groups[f.author]) not in self.bots)


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--home", default=tempfile.gettempdir() + "/gs-eval-who")
    parser.add_argument("--half", choices=("dev", "report", "all"), default="report")
    parser.add_argument("--active", type=float, default=people.ACTIVE)
    parser.add_argument("--half-life", type=float, default=people.HALF_LIFE)
    given = parser.parse_args()
    people.ACTIVE, people.HALF_LIFE = given.active, given.half_life
    half = {"dev": 0, "report": 1}.get(given.half)
    chosen = [path for number, path in enumerate(sorted(given.repositories)) if half in (None, number % 2)]
    settings = settings_module.load({"GITSTRATA_HOME": given.home})
    scores: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    owned: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    embedder = load_embedder()
    with open_database(settings) as database, Index(settings, embedder=embedder) as index:
        for path in chosen:
            world = load(path)
            target = Target(world.name, world.repository, world.then, make_default=True, history=10**9)
            print(f"{world.name}: {sync(database, settings, embedder, target).outcome}", file=sys.stderr, flush=True)
            systems = build(index, world)
            for module, files, truth in topics(world):
                for system, ask in systems.items():
                    scores[system][world.name].append(against_commits(ask(module, files), truth))
            for module, files, owners in owned_topics(world):
                for system, ask in systems.items():
                    owned[system][world.name].append(against_owners(ask(module, files), owners))
    report("who commits there in the following year: hit@1, NDCG@5", scores)
    report("CODEOWNERS: hit@1, recall@5", owned)


def load(path: Path) -> World:
    """Read a repository's past and its last year."""
    repository = git.open_repository(path)
    tip = git.resolve(repository)
    before = str(int(tip.committed_at.timestamp()) - YEAR)
    command = [
        "git",
        f"--git-dir={repository.git_dir}",
        "rev-list",
        "-1",
        "--first-parent",
        f"--before={before}",
        tip.sha,
    ]
    sha = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    then = git.resolve(repository, sha, branch="eval")
    past, future = (
        _facts(repository, git.list_commits(repository, sha)),
        _facts(repository, git.list_commits(repository, tip.sha, sha)),
    )
    everybody = sorted({p for f in [*past, *future] for p in (f.author, *f.co_authors)})
    mailmap = next((entry.oid for entry in git.find_files(repository, sha, [".mailmap"])), "")
    shown = dict(zip(everybody, git.canonical_people(repository, mailmap, everybody), strict=True))
    identities = people._identities(shown.values())
    groups = {person: identities[as_shown] for person, as_shown in shown.items()}
    return World(
        path.parent.name if path.name == "repo" else path.name,
        repository,
        then,
        [entry.path.decode(errors="replace") for entry in git.list_tree(repository, sha)],
        past,
        future,
        groups,
        {identities[person] for person in shown.values() if people.is_bot(person)},
        {part: identities[person] for person in sorted(shown.values()) for part in person if part},
    )


def _facts(repository: git.Repository, shas: Iterable[str]) -> list[Facts]:
    listed = list(shas)
    parts = (listed[i : i + 500] for i in range(0, len(listed), 500))
    return [f for part in parts for f in history.read(repository, part, lambda path: False, lambda text: False)]


def modules(world: World) -> Iterator[tuple[str, list[str]]]:
    """Yield folders and files of code."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in world.files:
        if languages.detect(path.rpartition("/")[2]).category == "code":
            yield path, [path]
            parts = path.split("/")
            for end in range(1, len(parts)):
                folders["/".join(parts[:end])].append(path)
    yield from ((folder, files) for folder, files in folders.items() if 2 <= len(files) <= 300)


def topics(world: World) -> Iterator[tuple[str, list[str], Counter[int]]]:
    """Yield modules with the people who change them in the year after, TOPICS folders and as many files."""
    called: dict[str, str] = {}  # a later name -> the name then
    changed: dict[str, list[Facts]] = defaultdict(list)
    for fact in reversed(world.future):
        for touch in fact.touches:
            if touch.old:
                called[touch.path] = called.get(touch.old, touch.old)
            changed[called.get(touch.path, touch.path)].append(fact)
    known = {touch.path for fact in world.past for touch in fact.touches}
    found: dict[bool, list[tuple[str, list[str], Counter[int]]]] = {True: [], False: []}
    for module, files in modules(world):
        commits = {f.sha: f for path in files for f in changed[path] if f.files <= 100}
        truth = world.authors(commits.values())
        if truth.total() >= 3 and not known.isdisjoint(files):
            found[files == [module]].append((module, files, truth))
    for kind in found.values():
        yield from sorted(kind, key=lambda topic: hashlib.blake2b(topic[0].encode()).digest())[:TOPICS]


def owned_topics(world: World) -> Iterator[tuple[str, list[str], set[int]]]:
    """Yield the folders whose own files CODEOWNERS gives to persons who have ever committed."""
    entries = {e.path.decode(): e.oid for e in git.find_files(world.repository, world.then.sha, codeowners.PLACES)}
    oid = next((entries[place] for place in codeowners.PLACES if place in entries), "")
    if not oid:
        return
    with git.ObjectReader(world.repository) as reader:
        owners = codeowners.parse(reader.read(oid))
    handles = {_handle(part): group for part, group in world.by_name.items()}
    for module, files in modules(world):
        direct = [path for path in files if path.rpartition("/")[0] == module]
        named = {owner for path in direct for owner in owners.of(path) if "/" not in owner}
        groups = {handles[_handle(name)] for name in named if _handle(name) in handles}
        if groups and len(direct) > 1:
            yield module, direct, groups


def _handle(name: str) -> str:
    """Return a user's name as CODEOWNERS, a hidden address, or a name without blanks have it."""
    mailbox = name.removeprefix("@").partition("@")[0]
    return re.sub(r"^\d+\+", "", mailbox).replace(" ", "").casefold()


Ask = Callable[[str, list[str]], list[int]]


def build(index: Index, world: World) -> dict[str, Ask]:
    """Return what is compared, by name: from a module and its files to people, best first."""
    touching: dict[str, dict[str, Facts]] = defaultdict(dict)
    earlier: dict[str, set[str]] = defaultdict(set)
    for fact in world.past:
        for touch in fact.touches:
            touching[touch.path][fact.sha] = fact
            if touch.old:
                earlier[touch.path].add(touch.old)
    newest = world.then.committed_at.timestamp() - YEAR

    def of(files: Sequence[str] | None) -> list[Facts]:
        if files is None:
            return world.past
        seen, todo = set(files), list(files)
        while todo:
            todo += (fresh := earlier[todo.pop()] - seen)
            seen |= fresh
        return list({sha: fact for path in sorted(seen) for sha, fact in touching[path].items()}.values())

    def most(files: Sequence[str] | None, *, lately: bool) -> list[int]:
        facts = [f for f in of(files) if not lately or (f.at and f.at.timestamp() >= newest)]
        return [group for group, _ in sorted(world.authors(facts).items(), key=lambda pair: (-pair[1], pair[0]))]

    def asked(topic: str) -> list[int]:
        answer = who_knows.who_knows(index, topic, repo=world.name)
        return [world.by_name[row.author] for row in answer.result]

    def scored(files: list[str]) -> list[int]:
        with index.snapshot() as connection:
            (info,) = read.branches(connection, world.name)
            changes = store.changes(connection, info.branch_id, files)
            active = store.active(connection, info.branch_id, info.committed_at, people.HALF_LIFE, people.WIDEST)
            ids = {number for c in changes for number in (c.author, *c.co_authors)} | active.keys()
            known = store.people(connection, ids)
        past = people.Past(world.name, info.committed_at, dict.fromkeys(files, 1.0), changes, active, known)
        return [world.by_name[expert.name] for expert in people.rank([past])]

    return {
        "all files": lambda module, files: scored(files),
        "path": lambda module, files: asked(module),
        "words": lambda module, files: asked(" ".join(re.findall(r"\w+", module.rpartition(".")[0] or module))),
        "most ever, module": lambda module, files: most(files, lately=False),
        "most last year, module": lambda module, files: most(files, lately=True),
        "most ever, repository": lambda module, files: most(None, lately=False),
        "most last year, repository": lambda module, files: most(None, lately=True),
    }


def against_commits(answer: Sequence[int], truth: Counter[int]) -> tuple[float, float]:
    """Return whether the first is the one who commits most, and NDCG@5 with commits as gain."""
    gain = sum(truth[group] / math.log2(n + 2) for n, group in enumerate(answer[:5]))
    best = sum(count / math.log2(n + 2) for n, (_, count) in enumerate(truth.most_common(5)))
    return float(bool(answer) and truth[answer[0]] == max(truth.values())), gain / best


def against_owners(answer: Sequence[int], owners: set[int]) -> tuple[float, float]:
    """Return whether the first is an owner, and the share of the owners among the first five."""
    return float(bool(answer) and answer[0] in owners), len(owners & set(answer[:5])) / min(5, len(owners))


def report(title: str, scores: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
    """Print the mean over topics and the mean over repositories of each system."""
    print(title)
    for system, by_repo in scores.items():
        rows = [row for values in by_repo.values() for row in values]
        means = [_mean(values) for values in by_repo.values()]
        over, repos = _mean(rows), _mean(means)
        print(
            f"  {system:28} {len(rows)} topics {over[0]:.3f} {over[1]:.3f}; "
            f"mean of {len(means)} repositories {repos[0]:.3f} {repos[1]:.3f}"
        )


def _mean(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.mean(row[0] for row in rows), statistics.mean(row[1] for row in rows)


if __name__ == "__main__":
    main()
