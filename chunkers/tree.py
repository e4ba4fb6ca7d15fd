"""Cuts code by its syntax tree: file outline, class skeletons, methods, blocks of long methods and of module code.

A container (file, class, or a long function that holds others) is a sequence of units: its members and the runs of
lines between them. Tiny neighbours share a chunk, a long unit becomes several, a class among them a container again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import tree_sitter

from chunkers.chunk import Cut, Level, Symbol
from chunkers.definitions import CLASS, CONST, SPACE, Definition, find_definitions, load
from chunkers.draft import FILE, MODULE, Draft, coarser, finish
from chunkers.languages import Grammar
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
    bounded_texts,
    bounds_for,
    long_line_note,
    size_of,
    split_lines,
    split_rows,
    split_units,
    statement_ranks,
    text_of,
)
from chunkers.outline import file_outline, method_head, skeleton, tells_own
from chunkers.statements import statement_depths

MAX_DEPTH = 24  # definitions nested deeper stay in the text of the one that holds them


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


def cut_tree(text: str, grammar: Grammar) -> Cut:
    """Cut code with its grammar; raises what a missing wheel, a query that does not fit or the parser raises."""
    lines = split_lines(text)
    if not text.strip():
        return Cut((), (), len(lines))
    source = text.encode("utf-8", "surrogatepass").replace(b"\0", b" ")
    root = tree_sitter.Parser(load(grammar)[0]).parse(source).root_node
    found = find_definitions(grammar, root, source, lines)
    members = list(_members(found.roots))
    outline = file_outline(lines, found.imports, members, source, grammar.comments)
    file = Draft(Level.FILE, FILE, "", "", 0, len(lines) - 1, outline, None)
    drafts = _Cutter(lines, source, root).cut(Container(0, len(lines) - 1, None, members, file))
    symbols = [Symbol(d.name, d.kind, d.first + 1, d.last + 1, d.signature, d.doc) for d in _named(found.all)]
    return finish([file, *drafts], symbols, len(lines), long_line_note(lines))


def _named(found: Iterable[Definition]) -> Iterator[Definition]:
    """Leave out inner objects that hold no definition: they only would have qualified names."""
    return (d for d in found if d.kind != "object" or d.children or d.parent is None)


def _members(children: Iterable[Definition]) -> Iterator[Definition]:
    """Yield the classes and methods among definitions; those of a namespace stand for it."""
    todo = list(children)[::-1]
    while todo:
        child = todo.pop()
        if child.group == SPACE:
            todo.extend(reversed(child.children))
        elif child.group != CONST:
            yield child


class _Cutter:
    """The state of one cut: the lines, the tree, and statement depths once a long run asked for them."""

    def __init__(self, lines: list[str], source: bytes, root: tree_sitter.Node) -> None:
        self.lines, self.source, self.root = lines, source, root
        self.drafts: list[Draft] = []
        self.todo: list[Container] = []
        self.long: list[tuple[Draft, Unit, str]] = []

    def cut(self, file: Container) -> list[Draft]:
        """Return every draft below the file's own."""
        self.todo.append(file)
        while self.todo:
            container = self.todo.pop()
            units = _arrange(self.lines, container)
            if container.tells_own:
                units = [unit for unit in units if unit.members]
            for group in _grouped(units):
                self._emit(container, group)
        self._cut_long()
        return self.drafts

    def _emit(self, container: Container, group: list[Unit]) -> None:
        members = [member for unit in group for member in unit.members]
        unit = Unit(group[0].first, group[-1].last, sum(u.size for u in group), members)
        if not members:
            self._emit_run(container, unit)
        elif len(group) == 1 and len(members) == 1:
            self._emit_member(container, unit, members[0])
        else:
            self._emit_shared(container, unit)

    def _emit_run(self, container: Container, unit: Unit) -> None:
        """Cut lines outside any member; a class whose skeleton holds them needs no more."""
        own = container.definition
        draft = self._draft(Level.BLOCK, own, container.owner, unit, is_piece=True)
        header = f"{own.name}\n{own.signature}\n" if own is not None else ""
        self._emit_pieces(draft, unit, header)

    def _emit_member(self, container: Container, unit: Unit, member: Definition) -> None:
        level = Level.CLASS if unit.is_class else Level.METHOD
        draft = self._draft(level, member, container.owner, unit)
        inner = [child for child in _members(member.children) if child.depth <= MAX_DEPTH]
        if unit.size <= WHOLE_CHARS and not _holds_bodies(member):
            header = f"{member.name}\n" if "." in member.name else ""
            draft.text = header + text_of(self.lines, unit.first, unit.last)
            self.drafts.append(draft)
            return
        is_container = unit.is_class or any(child.end - child.start > TINY_CHARS for child in inner)
        self.drafts.append(draft)
        if unit.is_class:
            draft.text = skeleton(self.lines, member, inner, self.source)
        else:
            draft.text = method_head(self.lines, member, inner if is_container else [], self.source)
        if is_container:
            told = unit.is_class and tells_own(self.lines, member, inner)
            self.todo.append(Container(unit.first, unit.last, member, inner, draft, told))
        else:
            piece = self._draft(Level.BLOCK, member, draft, unit, is_piece=True)
            self._emit_pieces(piece, unit, f"{member.name}\n{member.signature}\n")

    def _emit_shared(self, container: Container, unit: Unit) -> None:
        """Let tiny neighbours, or members that share a line, be one chunk under the first one's name."""
        level = Level.CLASS if unit.is_class else Level.METHOD
        draft = self._draft(level, unit.members[0], container.owner, unit)
        own = container.definition
        header = f"{own.name}\n" if own is not None else ""
        if unit.size <= WHOLE_CHARS:
            draft.text = header + text_of(self.lines, unit.first, unit.last)
            self.drafts.append(draft)
            return
        draft.is_piece = True
        self._emit_pieces(draft, unit, header)

    def _draft(
        self, level: Level, own: Definition | None, owner: Draft, unit: Unit, *, is_piece: bool = False
    ) -> Draft:
        base, name, signature = (own.anchor, own.name, own.signature) if own is not None else (MODULE, "", "")
        parent = coarser(level, owner)
        return Draft(level, base, name, signature, unit.first, unit.last, "", parent, is_piece=is_piece)

    def _emit_pieces(self, draft: Draft, unit: Unit, header: str) -> None:
        if unit.size <= WHOLE_CHARS * 3 // 4:
            self._add_piece(draft, unit.first, unit.last, header)
        else:
            self.long.append((draft, unit, header))

    def _add_piece(self, draft: Draft, first: int, last: int, header: str) -> None:
        body = text_of(self.lines, first, last)
        if not any(character.isalnum() for character in body):
            return
        if draft.signature and draft.signature[:60] in body[:2_000]:
            header = f"{draft.symbol}\n"
        for text in bounded_texts(body):
            self.drafts.append(
                Draft(
                    draft.level,
                    draft.base,
                    draft.symbol,
                    draft.signature,
                    first,
                    last,
                    header + text,
                    draft.parent,
                    True,
                )
            )

    def _cut_long(self) -> None:
        """Cut what is long at statement borders, found in one walk for all of it."""
        spans = sorted((unit.first, unit.last) for _, unit, _ in self.long)
        depths = statement_depths(self.root, spans)
        for draft, unit, header in self.long:
            ranks = statement_ranks(self.lines, unit.first, unit.last, depths)
            best = min(ranks)
            for first, last in split_rows(self.lines, unit.first, unit.last, [rank - best for rank in ranks]):
                self._add_piece(draft, first, last, header)


def _arrange(lines: Sequence[str], container: Container) -> list[Unit]:
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
        if run is not None and is_small and size <= WHOLE_CHARS and not _holds_bodies(member):
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


def _grouped(units: list[Unit]) -> Iterator[list[Unit]]:
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
    return not any(map(_holds_bodies, unit.members))


def _holds_bodies(member: Definition) -> bool:
    """Return whether a class has members whose bodies its chunk must not hold; what fits one line stays together."""
    is_divided = member.group == CLASS and member.first < member.last
    return is_divided and any(child.has_body for child in _members(member.children))


def _merged(tiny: list[Unit], bounds: Sizes) -> Iterator[list[Unit]]:
    sizes = [unit.size for unit in tiny]
    keys = [border_key(0, unit.members[0].anchor) for unit in tiny]
    for low, high in split_units(sizes, keys, bounds_for(sum(sizes), bounds)) if tiny else ():
        yield tiny[low:high]
