"""What a file, a class or a long function is made of: members, and the runs of lines between them, in order.

Decides what shares a chunk; what a chunk says is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chunkers.definitions import CLASS, CONST, SPACE, Definition
from chunkers.draft import Draft
from chunkers.lines import (
    ATTACH_CHARS,
    CROWD,
    CROWD_TINY_CHARS,
    MERGED,
    TINY_CHARS,
    USUAL,
    WHOLE_CHARS,
    Sizes,
    border_key,
    bounds_for,
    size_of,
    split_units,
)


@dataclass(slots=True, eq=False)
class Unit:
    """Rows of a container that belong together: a member with its docs, or a run of lines outside any (no members)."""

    first: int
    last: int
    size: int
    members: list[Definition] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return bool(self.members) and self.members[0].group == CLASS


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """A range of rows to cut, the definition it belongs to (None: the file) and the chunk above."""

    first: int
    last: int
    definition: Definition | None
    members: Sequence[Definition]
    owner: Draft
    tells_own: bool = False  # the chunk above already holds the lines outside members


def members_of(children: Iterable[Definition]) -> Iterator[Definition]:
    """Yield the classes and methods among definitions; those of a namespace stand for it."""
    todo = list(children)[::-1]
    while todo:
        child = todo.pop()
        if child.group == SPACE:
            todo.extend(reversed(child.children))
        elif child.group != CONST:
            yield child


def arrange(lines: Sequence[str], container: Container) -> list[Unit]:
    """Return members and runs in order; members that share a line are one unit, tiny runs go with the next member."""
    units: list[Unit] = []
    row = container.first
    for member in container.members:
        if units and units[-1].members and member.lead <= units[-1].last:
            shared = units[-1]
            shared.members.append(member)
            shared.last = max(shared.last, member.last)
            shared.size = size_of(lines, shared.first, shared.last)
            row = max(row, shared.last + 1)
            continue
        first, last = max(member.lead, container.first), min(member.last, container.last)
        run = _run(lines, row, first - 1)
        size = size_of(lines, first, last)
        is_small = run is not None and run.size < ATTACH_CHARS and bool(units)
        if run is not None and is_small and size <= WHOLE_CHARS and not holds_bodies(member):
            first, size = run.first, size_of(lines, run.first, last)
        elif run is not None:
            units.append(run)
        units.append(Unit(first, last, size, [member]))
        row = max(row, last + 1)
    rest = _run(lines, row, container.last)
    return [*units, rest] if rest is not None else units


def _run(lines: Sequence[str], first: int, last: int) -> Unit | None:
    """Return rows that say something, without blank ones at the ends; None for none or mere brackets."""
    while first <= last and not lines[first].strip():
        first += 1
    while last >= first and not lines[last].strip():
        last -= 1
    if not any(character.isalnum() for row in range(first, last + 1) for character in lines[row]):
        return None
    return Unit(first, last, size_of(lines, first, last))


def grouped(units: list[Unit]) -> Iterator[list[Unit]]:
    """Yield units one by one, but tiny neighbours of one sort together up to a bounded size."""
    is_crowd = len(units) > CROWD
    limit, bounds = (CROWD_TINY_CHARS, USUAL) if is_crowd else (TINY_CHARS, MERGED)
    tiny: list[Unit] = []
    for unit in units:
        is_tiny = _is_tiny(unit, limit)
        if tiny and not (is_tiny and unit.is_class == tiny[-1].is_class):
            yield from _merged(tiny, bounds)
            tiny = []
        if is_tiny:
            tiny.append(unit)
        else:
            yield [unit]
    yield from _merged(tiny, bounds)


def _is_tiny(unit: Unit, limit: int) -> bool:
    """Return whether a unit may share a chunk: small members, but no class that holds bodies and no run."""
    if unit.size >= limit or not unit.members:
        return False
    return not any(map(holds_bodies, unit.members))


def holds_bodies(member: Definition) -> bool:
    """Return whether a class has members whose bodies its chunk must not hold; what fits one line stays together."""
    is_divided = member.group == CLASS and member.first < member.last
    return is_divided and any(child.has_body for child in members_of(member.children))


def _merged(tiny: list[Unit], bounds: Sizes) -> Iterator[list[Unit]]:
    sizes = [unit.size for unit in tiny]
    keys = [border_key(0, unit.members[0].anchor) for unit in tiny]
    for low, high in split_units(sizes, keys, bounds_for(sum(sizes), bounds)) if tiny else ():
        yield tiny[low:high]
