"""One YAML file as values that know their line and column.

YAML 1.2 (``no`` is text), one document, no tags, no merge keys; anchors are allowed, within a bound on what they expand
to. Built from the parser's events, so that nothing is constructed that is not text, a number, a list or a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flows.config.values import show
from flows.errors import ConfigError, Problem

MAX_BYTES = 64_000
MAX_DEPTH = 10
MAX_VALUES = 10_000  # with every alias expanded
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # as YAML 1.2 has it
_MANY_LINES = re.compile("[\n\r\x85\u2028\u2029]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_WORDS |= {form: value for word, value in _WORDS.items() for form in (word.capitalize(), word.upper())}
_ADVICE = (  # what the parser's complaint usually comes from
    (r"character '\\t'", "a tab cannot indent or begin a value: use spaces"),
    (r"cannot start any token", "put the text in quotes: it begins with a character that has a meaning in YAML"),
    (r"mapping values are not allowed", "check the indentation, and put a text that contains ': ' in quotes"),
    (r"found unexpected end of stream", "close the quotes or brackets that are open here"),
    (r"expected <block end>", "check the indentation, and put a text that begins with [ { * ! or a quote in quotes"),
    (r"expected ',' or", "close the bracket, or put the text that begins with it in quotes"),
    (r"could not find expected ':'", "write `key: value`, and check the indentation"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it begins."""

    value: str | int | float | bool | None | list[Node] | dict[str, Node]
    line: int
    column: int
    raw: str = ""  # a scalar as it is written
    size: int = 1  # values in it, itself included, aliases expanded
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)  # where each key of a mapping stands
    is_broken: bool = False  # reported already; ``value`` means nothing

    def plain(self) -> Any:
        """Return the value without positions."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return self.value


def parse(data: bytes, file: str) -> tuple[Node | None, list[Problem]]:
    """Return the document of ``data`` (None if it is empty), and the problems that did not stop the reading.

    Raises:
        ConfigError: it is not one small, readable YAML document.
    """
    reader = _Reader(_text(data, file), file)
    return reader.document(), reader.problems


def _text(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise _error(file, 0, 0, f"is larger than {MAX_BYTES} bytes: split it into one file a repository")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = " (it looks like UTF-16)" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        line, column = _position(data[: error.start].decode("utf-8-sig", "replace"))
        raise _error(file, line, column, f"is not UTF-8{utf16}: save the file as UTF-8") from error
    if found := _UNPRINTABLE.search(text):
        what = f"the character U+{ord(found.group()):04X} is not allowed in YAML: remove it"
        raise _error(file, *_position(text[: found.start()]), what)
    return text


def _position(before: str) -> tuple[int, int]:
    lines = re.split("\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


def _error(file: str, line: int, column: int, message: str) -> ConfigError:
    return ConfigError([Problem(file, line, column, message)])


class _Reader:
    """Builds nodes from the parser's events; what can be passed over is collected in ``problems``."""

    def __init__(self, text: str, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._events = _events(text, file)
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def document(self) -> Node | None:
        node = None
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if node is not None:
                    self._fatal(event, "a second document begins here: keep one repository a file")
                if event.tags or event.version not in (None, (1, 2)):
                    self._fatal(event, "%YAML and %TAG lines are not used here (files are YAML 1.2): remove the line")
            elif kind not in ("StreamStartEvent", "DocumentEndEvent", "StreamEndEvent"):
                node = self._node(event, 0)
        is_empty = node is not None and node.value is None and not node.raw and not node.is_broken
        return None if is_empty else node

    def _node(self, event: Any, depth: int) -> Node:
        self._count += 1
        kind = type(event).__name__
        if depth > MAX_DEPTH:
            self._fatal(event, f"values are nested more than {MAX_DEPTH} deep: no key of this file needs that")
        if kind == "AliasEvent":
            node = self._alias(event)
        elif kind == "ScalarEvent":
            node = self._scalar(event)
        else:
            node = self._sequence(event, depth) if kind == "SequenceStartEvent" else self._mapping(event, depth)
            if event.tag:
                node = self._tagged(event)
        if event.anchor and kind != "AliasEvent":
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Node:
        raw, (line, column) = event.value, _place(event)
        if event.tag:
            return self._tagged(event)
        if event.style in ("|", ">") or _MANY_LINES.search(raw):
            return self._broken(event, "a value is one line here: write it on one line, without | or >")
        if _UNPRINTABLE.search(raw) or "\t" in raw:
            return self._broken(event, "control characters are not allowed in a value: remove them")
        return Node(_resolve(raw) if event.implicit[0] else raw, line, column, raw)

    def _sequence(self, event: Any, depth: int) -> Node:
        nodes = []
        while type(item := next(self._events)).__name__ != "SequenceEndEvent":
            nodes.append(self._node(item, depth + 1))
        return Node(nodes, *_place(event), size=1 + sum(node.size for node in nodes))

    def _mapping(self, event: Any, depth: int) -> Node:
        nodes: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        while type(item := next(self._events)).__name__ != "MappingEndEvent":
            if type(item).__name__ != "ScalarEvent" or item.tag:
                self._fatal(item, "a key is plain text here: put it in quotes if it begins with a special character")
            value = self._node(next(self._events), depth + 1)
            if item.value in keys:
                first = keys[item.value][0]
                self._broken(item, f"the key {show(item.value)} stands in line {first} already: keep one of the two")
            else:
                nodes[item.value], keys[item.value] = value, _place(item)
        return Node(nodes, *_place(event), size=1 + sum(node.size for node in nodes.values()), keys=keys)

    def _alias(self, event: Any) -> Node:
        name = event.anchor
        if name not in self._anchors:
            what = (
                f"without quotes, {show('*' + name)} refers to an anchor {show('&' + name)} above, which is not there"
            )
            return self._broken(event, f"{what}: put a glob in quotes")
        node = self._anchors[name]
        self._count += node.size
        if self._count > MAX_VALUES:
            self._fatal(event, f"the aliases expand to more than {MAX_VALUES} values: write the values out")
        return node

    def _tagged(self, event: Any) -> Node:
        tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
        return self._broken(event, f"without quotes, {show(tag)} is a YAML tag: remove it, or put the text in quotes")

    def _broken(self, event: Any, message: str) -> Node:
        line, column = _place(event)
        self.problems.append(Problem(self._file, line, column, message))
        return Node(None, line, column, is_broken=True)

    def _fatal(self, event: Any, message: str) -> None:
        raise ConfigError([*self.problems, Problem(self._file, *_place(event), message)])


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _resolve(raw: str) -> str | int | float | bool | None:
    if raw in _WORDS:
        return _WORDS[raw]
    if _INTEGER.fullmatch(raw):
        return int(raw, {"0o": 8, "0x": 16}.get(raw[:2], 10))
    return float(raw.replace(".inf", "inf").replace(".nan", "nan")) if _FLOAT.fullmatch(raw.lower()) else raw


def _events(text: str, file: str) -> Iterator[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    line, column = 1, 1
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            line, column = _place(event)
            yield event
    except MarkedYAMLError as error:
        if mark := error.problem_mark or error.context_mark:
            line, column = mark.line + 1, mark.column + 1
        problem = " ".join(str(error.problem or error.context).split())
        advice = next(
            (advice for pattern, advice in _ADVICE if re.search(pattern, problem)), "check the line above too"
        )
        raise _error(file, line, column, f"is not valid YAML: {problem}: {advice}") from error
    except Exception as error:  # on odd escapes the parser raises whatever int() and chr() raise; it is still one file
        raise _error(file, line, column, "is not valid YAML from here on: check quotes and escapes") from error
