"""Cuts code by its syntax tree: file outline, class skeletons, methods, blocks of long methods and of module code.

A container (file, class, or a long function that holds others) is a sequence of units: its members and the runs of
lines between them. Tiny neighbours share a chunk, a long unit becomes several, a class among them a container again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import tree_sitter

from chunkers.chunk import Cut, Level, Symbol
from chunkers.definitions import METHOD, Definition, find_definitions, load
from chunkers.draft import FILE, MODULE, Draft, coarser, finish
from chunkers.languages import Comments, Grammar
from chunkers.lines import (
    COARSE,
    WHOLE_CHARS,
    bounded_texts,
    long_line_note,
    split_lines,
    split_rows,
    statement_ranks,
    text_of,
    text_ranks,
)
from chunkers.outline import file_outline, method_head, skeleton, tells_own
from chunkers.plain import cut_plain
from chunkers.statements import statement_depths
from chunkers.units import Container, Unit, arrange, grouped, holds_bodies, members_of

MAX_DEPTH = 24  # definitions nested deeper stay in the text of the one that holds them
CONTAINER_ROWS = 60  # a function of more rows that defines others of at least INNER_ROWS is cut like a class
INNER_ROWS = 5
RUBBLE = 10_000


def cut_tree(text: str, grammar: Grammar, script: bytes | None = None) -> Cut:
    """Cut code with its grammar; raises what a missing wheel, a query that does not fit or the parser raises.

    ``script`` is the text with everything blank that is not of the grammar's language.
    """
    lines = split_lines(text)
    if not text.strip():
        return Cut((), (), len(lines))
    source = (text.encode("utf-8", "surrogatepass") if script is None else script).replace(b"\0", b" ")
    root = tree_sitter.Parser(load(grammar)[0]).parse(source).root_node
    if _is_rubble(root):
        return cut_plain(text, f"a syntax error with more than {RUBBLE} tokens that nothing holds together")
    found = find_definitions(grammar, root, source, lines)
    members = list(members_of(found.roots))
    outline = file_outline(lines, found.imports, members, source, grammar.comments)
    file = Draft(Level.FILE, FILE, "", "", 0, len(lines) - 1, outline, None)
    cutter = _Cutter(lines, source, root, grammar.comments, is_whole=script is None)
    drafts = cutter.cut(Container(0, len(lines) - 1, None, members, file))
    symbols = [Symbol(d.name, d.kind, d.first + 1, d.last + 1, d.signature, d.doc) for d in _named(found.all)]
    return finish([file, *drafts], symbols, len(lines), long_line_note(lines))


def _is_rubble(root: tree_sitter.Node) -> bool:
    """Return whether an error holds so many loose tokens that a query, being quadratic in them, would take minutes."""
    if not root.has_error:
        return False
    return any(node.child_count - node.named_child_count > RUBBLE for node in (root, *root.children))


def defines(text: str, grammar: Grammar) -> bool:
    """Return whether a text holds any definition of the grammar's language."""
    source = text.encode("utf-8", "surrogatepass").replace(b"\0", b" ")
    root = tree_sitter.Parser(load(grammar)[0]).parse(source).root_node
    return bool(find_definitions(grammar, root, source, split_lines(text)).all)


def _named(found: Iterable[Definition]) -> Iterator[Definition]:
    """Leave out inner objects that hold no definition: they only would have qualified names."""
    return (d for d in found if d.kind != "object" or d.children or d.parent is None)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows to cut into pieces like ``draft``, whose header names ``definition``; the first may be ``head``'s text."""

    draft: Draft
    unit: Unit
    definition: Definition | None
    head: Draft | None = None


class _Cutter:
    """The state of one cut: the lines, the tree, and statement depths once a long run asked for them."""

    def __init__(
        self, lines: list[str], source: bytes, root: tree_sitter.Node, comments: Comments, *, is_whole: bool
    ) -> None:
        self.lines, self.source, self.root, self.comments = lines, source, root, comments
        self.is_whole = is_whole
        self.drafts: list[Draft] = []
        self.todo: list[Container] = []
        self.runs: list[Run] = []

    def cut(self, file: Container) -> list[Draft]:
        """Return every draft below the file's own."""
        self.todo.append(file)
        while self.todo:
            container = self.todo.pop()
            units = arrange(self.lines, container)
            if container.tells_own:
                units = [unit for unit in units if unit.members]
            for group in grouped(units):
                self._emit(container, group)
        self._cut_runs()
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
        """Cut lines outside any member."""
        own = container.definition
        draft = self._draft(Level.BLOCK, own, container.owner, unit, is_piece=True)
        self.runs.append(Run(draft, unit, own))

    def _emit_member(self, container: Container, unit: Unit, member: Definition) -> None:
        level = Level.CLASS if unit.is_class else Level.METHOD
        draft = self._draft(level, member, container.owner, unit)
        self.drafts.append(draft)
        inner = [child for child in members_of(member.children) if child.depth <= MAX_DEPTH]
        if unit.is_class and (unit.size > WHOLE_CHARS or holds_bodies(member)):
            draft.text = skeleton(self.lines, member, inner, self.source, self.comments)
            told = tells_own(self.lines, member, inner)
            self.todo.append(Container(unit.first, unit.last, member, inner, draft, told))
        elif _is_container(member, inner):
            draft.text = method_head(self.lines, member, inner, self.source, self.comments)
            self.todo.append(Container(unit.first, unit.last, member, inner, draft))
        elif unit.size <= WHOLE_CHARS:
            draft.text = _breadcrumb(member) + text_of(self.lines, unit.first, unit.last)
        else:
            piece = self._draft(Level.BLOCK, member, draft, unit, is_piece=True)
            self.runs.append(Run(piece, unit, member, head=draft))

    def _emit_shared(self, container: Container, unit: Unit) -> None:
        """Let tiny neighbours, or members that share a line, be one chunk under the first one's name."""
        level = Level.CLASS if unit.is_class else Level.METHOD
        draft = self._draft(level, unit.members[0], container.owner, unit)
        own = container.definition
        if unit.size > COARSE.most:
            draft.is_piece = True
            self.runs.append(Run(draft, unit, None))
            return
        draft.text = (f"{own.name}\n" if own is not None else "") + text_of(self.lines, unit.first, unit.last)
        self.drafts.append(draft)

    def _draft(
        self, level: Level, own: Definition | None, owner: Draft, unit: Unit, *, is_piece: bool = False
    ) -> Draft:
        base, name, signature = (own.anchor, own.name, own.signature) if own is not None else (MODULE, "", "")
        parent = coarser(level, owner)
        return Draft(level, base, name, signature, unit.first, unit.last, "", parent, is_piece=is_piece)

    def _cut_runs(self) -> None:
        """Cut what is long at statement borders, found in one walk for all of it."""
        long = [run for run in self.runs if run.unit.size > WHOLE_CHARS]
        depths = statement_depths(self.root, sorted((run.unit.first, run.unit.last) for run in long))
        for run in self.runs:
            first, last = run.unit.first, run.unit.last
            pieces = [(first, last)]
            if run.unit.size > WHOLE_CHARS:
                pieces = split_rows(self.lines, first, last, self._ranks(first, last, depths))
            for a, b in pieces:
                self._add_piece(run, a, b)

    def _ranks(self, first: int, last: int, depths: dict[int, int]) -> list[int]:
        if self.is_whole or any(row in depths for row in range(first, last + 1)):
            return statement_ranks(self.lines, first, last, depths)
        return text_ranks(self.lines, first, last)

    def _add_piece(self, run: Run, first: int, last: int) -> None:
        """Add a piece; the first one of a long method is the text of the method's own chunk."""
        body = text_of(self.lines, first, last)
        if not any(map(str.isalnum, body)):
            return
        own = run.definition
        header = ""
        if own is not None:
            # A later piece names its definition but does not repeat the signature: an edit of that changes one piece.
            header = _breadcrumb(own) if first <= own.first <= last else f"{own.name}\n"
        for text in bounded_texts(body):
            if run.head is not None and not run.head.text:
                run.head.text = header + text
            else:
                self.drafts.append(replace(run.draft, first=first, last=last, text=header + text))


def _breadcrumb(member: Definition) -> str:
    return f"{member.name}\n" if "." in member.name else ""


def _is_container(member: Definition, inner: Sequence[Definition]) -> bool:
    """Return whether a function is so long that those inside it get chunks of their own.

    Counted in rows, so that an edit within a line never turns one form into the other.
    """
    is_long = member.group == METHOD and member.last - member.first >= CONTAINER_ROWS
    return is_long and any(child.has_body and child.last - child.first >= INNER_ROWS for child in inner)
