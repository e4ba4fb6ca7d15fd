"""Runs a language's queries over a parsed file and returns its definitions as a forest, in document order.

Only captured nodes cross into Python, nesting follows from byte ranges, and nothing recurses: 16,000 nested braces are
real input. How chunks are made of definitions is no concern of this module.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import tree_sitter

from chunkers.comments import STYLES, doc_of, lead_row
from chunkers.languages import Grammar
from chunkers.naming import clean_name, name_from_signature, qualify, signature_of

CLASS, METHOD, SPACE, CONST = "class", "method", "space", "const"
_MACRO_DEPTH = 3  # macros in macros that are looked into


@dataclass(slots=True, eq=False)
class Definition:
    """Something named. Offsets are bytes, rows 0-based and inclusive, ``lead`` the first row of docs or decorators."""

    group: str  # class, method, space (qualifies names only) or const (a symbol without a chunk)
    kind: str
    pattern: int
    start: int
    end: int
    first: int
    last: int
    lead: int
    body: int | None = None
    body_row: int | None = None
    raw_name: str = ""
    owner: str = ""
    name: str = ""  # qualified
    anchor: str = ""
    signature: str = ""
    doc: str = ""
    depth: int = 0
    is_open: bool = False  # without braces: it reaches to the next one of its kind
    is_twin: bool = False  # a second name of its parent: ``typedef struct a {} b``
    parent: Definition | None = None
    children: list[Definition] = field(default_factory=list)

    @property
    def has_body(self) -> bool:
        return self.body is not None


@dataclass(frozen=True, slots=True)
class Outline:
    """What the queries found: outermost definitions, all of them in order, and the row ranges of imports."""

    roots: list[Definition]
    all: list[Definition]
    imports: list[tuple[int, int]]


@cache
def query_source(grammar: Grammar) -> str:
    """Return the text of a grammar's query files."""
    folder = files("chunkers") / "queries"
    return "\n".join((folder / f"{name}.scm").read_text("utf-8") for name in grammar.queries)


@cache
def load(grammar: Grammar) -> tuple[tree_sitter.Language, tree_sitter.Query]:
    """Return the grammar and its compiled query; raise ImportError or QueryError if they do not fit together."""
    language = grammar.load()
    return language, tree_sitter.Query(language, query_source(grammar))


def find_definitions(grammar: Grammar, root: tree_sitter.Node, source: bytes, lines: Sequence[str]) -> Outline:
    """Return the outline of a parsed file."""
    found = _Found(source)
    wrapped = found.read(grammar, root)
    for _ in range(_MACRO_DEPTH):
        if not wrapped:
            break
        parser = tree_sitter.Parser(load(grammar)[0], included_ranges=wrapped)
        wrapped = found.read(grammar, parser.parse(source).root_node)
    for key, node in found.outer.items():
        if key in found.definitions:
            found.definitions[key].lead = node.start_point.row
    definitions = found.definitions.values()
    _demote_prototypes(definitions)
    named = {(d.raw_name, d.first) for d in definitions if d.group != CONST}
    kept = (d for d in definitions if d.group != CONST or (d.raw_name, d.first) not in named)
    ordered = _without_twins(sorted(kept, key=lambda d: (d.start, -d.end, d.pattern)))
    roots = _nest(ordered)
    _describe(ordered, grammar, source, lines)
    _anchor(ordered)
    return Outline(roots, ordered, sorted(found.imports))


def _demote_prototypes(definitions: Collection[Definition]) -> None:
    """Leave a prototype without a chunk of its own where the same file defines what it announces."""
    defined = {d.raw_name for d in definitions if d.has_body}
    for definition in definitions:
        if definition.kind == "prototype" and definition.raw_name in defined:
            definition.group = CONST


class _Found:
    """What the matches of one or several parses of a file add up to."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.definitions: dict[tuple[int, int], Definition] = {}
        self.outer: dict[tuple[int, int], tree_sitter.Node] = {}
        self.imports: set[tuple[int, int]] = set()

    def read(self, grammar: Grammar, root: tree_sitter.Node) -> list[tree_sitter.Range]:
        """Add what the query finds; return the insides of macros that may hold definitions."""
        wrapped: dict[int, tree_sitter.Node] = {}
        for pattern, captures in tree_sitter.QueryCursor(load(grammar)[1]).matches(root):
            if "import" in captures:
                self.imports.update((node.start_point.row, _last_row(node)) for node in captures["import"])
            elif "outer" in captures:
                inner = captures["inner"][0]
                self.outer[inner.start_byte, inner.end_byte] = captures["outer"][0]
            elif "inject" in captures:
                node = captures["inject"][0]
                wrapped[node.start_byte] = node
            else:
                _collect(self.definitions, pattern, captures, self.source)
        nodes = (wrapped[start] for start in sorted(wrapped))
        return [_inside(node) for node in nodes if self.source[node.start_byte : node.start_byte + 1] == b"{"]


def _inside(node: tree_sitter.Node) -> tree_sitter.Range:
    """Return the range between a node's braces."""
    start, end = node.start_point, node.end_point
    first, last = (start.row, start.column + 1), (end.row, max(end.column - 1, 0))
    return tree_sitter.Range(first, last, node.start_byte + 1, max(node.end_byte - 1, node.start_byte + 1))


def _collect(
    found: dict[tuple[int, int], Definition], pattern: int, captures: dict[str, list[tree_sitter.Node]], source: bytes
) -> None:
    """Keep the definition of a match; of several patterns for one node the first says what it is."""
    label = next(name for name in captures if "." in name)
    node = captures[label][0]
    key = node.start_byte, node.end_byte
    group, _, kind = label.partition(".")
    made = found.get(key)
    if made is None or pattern < made.pattern:
        first = node.start_point.row
        fresh = Definition(group, kind, pattern, *key, first=first, last=_last_row(node), lead=first)
        if made is not None:
            fresh.body, fresh.body_row, fresh.raw_name, fresh.owner = (
                made.body,
                made.body_row,
                made.raw_name,
                made.owner,
            )
        made = found[key] = fresh
    if "open" in captures:
        made.is_open, made.end, made.last = True, captures["open"][0].end_byte, _last_row(captures["open"][0])
    if made.body is None and "body" in captures:
        made.body, made.body_row = captures["body"][0].start_byte, captures["body"][0].start_point.row
        if captures["body"][0].end_byte > made.end:  # it stands beside the signature
            made.end, made.last = captures["body"][0].end_byte, _last_row(captures["body"][0])
    if not made.raw_name and "name" in captures:
        made.raw_name = _text(captures["name"][0], source)
    if not made.owner and "owner" in captures:
        made.owner = _text(captures["owner"][0], source)


def _text(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : min(node.end_byte, node.start_byte + 1_200)].decode("utf-8", "replace")


def _last_row(node: tree_sitter.Node) -> int:
    """Return the node's last row; one that ends with its line's LF does not reach into the next."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _without_twins(ordered: list[Definition]) -> list[Definition]:
    """Turn a second definition with the same body into a mere symbol."""
    bodies: set[int] = set()
    for definition in ordered:
        if definition.body is not None and definition.body in bodies:
            definition.group, definition.body, definition.is_twin = CONST, None, True
        elif definition.body is not None:
            bodies.add(definition.body)
    return ordered


def _nest(ordered: list[Definition]) -> list[Definition]:
    roots: list[Definition] = []
    stack: list[Definition] = []
    for definition in ordered:
        while stack and (definition.end > stack[-1].end or (definition.is_open and stack[-1].is_open)):
            _close(stack.pop(), definition)
        parent = stack[-1].parent if stack and definition.is_twin else stack[-1] if stack else None
        if parent is not None:
            definition.parent, definition.depth = parent, parent.depth + 1
            parent.children.append(definition)
        else:
            roots.append(definition)
        if definition.group != CONST:
            stack.append(definition)
    return roots


def _close(space: Definition, after: Definition) -> None:
    """Let a space without braces end before the next one."""
    if space.is_open and after.is_open:
        space.end, space.last = min(space.end, after.start), min(space.last, max(space.first, after.first - 1))


def _describe(ordered: list[Definition], grammar: Grammar, source: bytes, lines: Sequence[str]) -> None:
    """Fill in names, signatures, docs and lead rows, parents before children."""
    floors: dict[int, int] = {}
    noise = STYLES[grammar.comments].noise
    for definition in ordered:
        parent = definition.parent
        floor = floors.get(id(parent), 0 if parent is None else parent.first + 1)
        while definition.last > definition.first and not lines[definition.last].strip():
            definition.last -= 1  # where indentation tells, a node reaches to the next statement
        definition.lead = lead_row(lines, min(definition.lead, definition.first), floor, grammar.comments)
        floors[id(parent)] = definition.last + 1
        is_type = definition.group in (CONST, CLASS) or definition.kind in ("macro", "module") or definition.is_open
        definition.signature = signature_of(
            source, definition.start, definition.body, definition.end, is_type=is_type, noise=noise
        )
        raw = definition.raw_name or name_from_signature(definition.signature, definition.kind)
        name = clean_name(raw, definition.kind)
        owner = clean_name(definition.owner, "") if definition.owner else ""
        definition.name = qualify(parent.name if parent else "", owner, name)
        if definition.kind == "default":
            definition.kind = "class" if definition.group == CLASS else "function"
        if definition.kind == "function" and parent is not None and parent.group == CLASS:
            definition.kind = "method"
        if definition.group != CONST:
            definition.doc = doc_of(lines, definition.lead, definition.first, source, definition.body, grammar.comments)


def _anchor(ordered: list[Definition]) -> None:
    """Number definitions of one name, in order; a prototype comes after what it announces."""
    counts: dict[str, int] = {}
    for definition in sorted(ordered, key=lambda d: d.kind == "prototype"):
        count = counts[definition.name] = counts.get(definition.name, 0) + 1
        definition.anchor = definition.name if count == 1 else f"{definition.name}@{count}"
