"""From commits to people: who knows some files best, by who changed them. Pure functions with a total order.

A commit counts for its author and its co-authors alike, once, with the weight of the best of the files that it changed,
and half as much for each HALF_LIFE days before the tip of its branch. To that comes how active somebody is in the whole
repository, so that of two who know a file the one who is around comes first. Bots count nowhere, merges have no facts,
and a commit that changes more than WIDEST files (formatting, vendoring) says nothing of who knows them. The constants
are measured, see docs/people.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from flows.history import Person
from flows.store.history import Change

HALF_LIFE = 180.0  # days
ACTIVE = 10.0  # commits that the whole activity of a repository is worth, shared by its people
WIDEST = 100  # files
UNDATED = 0.5  # a commit of unknown date counts as one HALF_LIFE ago

_BOT = re.compile(
    r"\[bot\]|(^|[-_. ])bots?([-_. ]|$)|^(ghost|github|web-?flow|invalid-email-address)$|github[- ]actions?|dependabot"
    r"|renovate|greenkeeper|pre-commit|mergify|weblate|transifex|allcontributors|all-contributors|imgbot|snyk"
    # assistants that sign as co-authors; people are called Claude, too
    r"|^(claude (opus|sonnet|haiku|code)|(github )?copilot$|cursor ?agent|devin[- ]ai|aider \()|^gemini-code-assist"
    r"|semantic-release|autofix",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Past:
    """What one branch tells: the changes of the files in question, and who is active (commits, faded)."""

    repo: str
    tip_at: datetime
    weights: Mapping[str, float]  # of the files in question, 0 to 1
    changes: Sequence[Change]
    active: Mapping[int, float]  # by person
    people: Mapping[int, Person]


@dataclass(frozen=True, slots=True)
class Credit:
    """A commit that earned somebody a part of the score."""

    repo: str
    change: Change
    value: float


@dataclass(slots=True)
class Expert:
    """A person, under one name, with what earned the score, the most first."""

    name: str
    score: float = 0.0
    credits: list[Credit] = field(default_factory=list)  # none: has not changed the files, but is around
    active_in: str = ""  # the repository where most is done


_ASSISTANTS = frozenset({"noreply@anthropic.com", "cursoragent@cursor.com", "noreply@openai.com"})


def is_bot(person: Person) -> bool:
    """Say whether a name or the name of a mailbox is that of a program."""
    name, email = person
    mailbox, _, host = email.partition("@")
    is_nobody = not name and host == "github.com"
    return bool(_BOT.search(name) or _BOT.search(mailbox) or is_nobody or email in _ASSISTANTS)


def rank(pasts: Sequence[Past]) -> list[Expert]:
    """Return everybody who changed the files in question, best first, then who else is active there."""
    groups = _identities({person for past in pasts for person in past.people.values()})
    experts: dict[int, Expert] = {}
    names: dict[int, dict[Person, float]] = defaultdict(lambda: defaultdict(float))
    bots = {groups[person] for person in groups if is_bot(person)}
    for past in pasts:
        for credit in _credits(past):
            people = [past.people[number] for number in (credit.change.author, *credit.change.co_authors)]
            for group in dict.fromkeys(groups[person] for person in people):
                if group not in bots:
                    expert = experts.setdefault(group, Expert(""))
                    expert.score += credit.value
                    expert.credits.append(credit)
            for person in people:
                names[groups[person]][person] += credit.value
    around: dict[int, Expert] = {}
    for past in pasts:
        for group, share in _shares(past, groups, bots).items():
            if group in experts:
                experts[group].score += ACTIVE * max(past.weights.values()) * share
            elif share > (other := around.setdefault(group, Expert(""))).score:
                other.score, other.active_in = share, past.repo
    for group, expert in experts.items():
        expert.name = _best_name(names[group])
        expert.credits.sort(key=lambda c: (-c.value, c.repo, c.change.path, c.change.sha))
    ranked = sorted(experts.values(), key=_order)
    return ranked + _others(around, groups, ranked[-1].score) if ranked else []


def _order(expert: Expert) -> tuple[float, str]:
    return -round(expert.score, 9), expert.name


def _others(around: Mapping[int, Expert], groups: Mapping[Person, int], below: float) -> list[Expert]:
    """Name those who are active but have not changed the files, and let their scores lie below everybody's who has."""
    known: dict[int, dict[Person, float]] = defaultdict(dict)
    for person, group in groups.items():
        known[group][person] = 1.0
    for group, expert in around.items():
        expert.name, expert.score = _best_name(known[group]), expert.score * below
    return sorted(around.values(), key=_order)


def _credits(past: Past) -> list[Credit]:
    """Return each commit once, by the best of the files in question that it changed."""
    best: dict[str, Credit] = {}
    for change in past.changes:
        if not 0 < change.files <= WIDEST:
            continue
        credit = Credit(past.repo, change, past.weights[change.path] * _fade(past.tip_at, change.at))
        if change.sha not in best or credit.value > best[change.sha].value:
            best[change.sha] = credit
    return list(best.values())


def _fade(tip_at: datetime, at: datetime | None) -> float:
    if at is None:
        return UNDATED
    return float(0.5 ** (max(0.0, (tip_at - at).total_seconds()) / 86_400 / HALF_LIFE))


def _shares(past: Past, groups: Mapping[Person, int], bots: set[int]) -> dict[int, float]:
    """Return each person's share of what people do in a repository."""
    sums: dict[int, float] = defaultdict(float)
    for number, value in sorted(past.active.items()):
        if (group := groups[past.people[number]]) not in bots:
            sums[group] += value
    total = sum(sums.values())
    return {group: value / total for group, value in sums.items()} if total else {}


def _identities(people: Iterable[Person]) -> dict[Person, int]:
    """Return a number for each person, equal for those who share an e-mail address or a name of several words."""
    ordered = sorted(people)
    parent = list(range(len(ordered)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    first: dict[tuple[str, str], int] = {}
    for number, (name, email) in enumerate(ordered):
        keys = [("email", email.casefold())] if email else []
        keys += [("name", name.casefold())] if " " in name or not email else []
        for key in keys:
            one, other = sorted((root(number), root(first.setdefault(key, number))))
            parent[other] = one
    return {person: root(number) for number, person in enumerate(ordered)}


def _best_name(values: Mapping[Person, float]) -> str:
    """Return the name that most was done under; an address only where there is no name at all."""
    sums: dict[str, float] = defaultdict(float)
    for (name, _), value in values.items():
        if name:
            sums[name] += value
    if sums:
        return min(sums, key=lambda name: (-round(sums[name], 9), name))
    return min(email for _, email in values)
