"""What pydantic found in a file, said to the one who wrote it: where, what is wrong, and how to write it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from flows.config.document import Node
from flows.config.values import nearest, show
from flows.errors import Problem

_SYNONYMS = {  # other programs' words for our keys
    "include": "allow",
    "includes": "allow",
    "exclude": "deny",
    "excludes": "deny",
    "ignore": "deny",
    "git": "url",
    "repository": "url",
    "max_bytes": "max_file_size",
    "max_size": "max_file_size",
    "password": "credentials_env",
    "team": "owner",
    "token": "credentials_env",
}
_ADD = {"name": "name: owner/project", "url": "url: https://host/owner/project.git"}


def problems(error: ValidationError, root: Node, file: str, keys: tuple[str, ...]) -> list[Problem]:
    """Return a problem for each thing that pydantic found in ``root``, in the order of the file."""
    found = [problem for detail in error.errors(include_url=False) if (problem := _problem(detail, root, file, keys))]
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def not_a_mapping(root: Node) -> str:
    """Return what is wrong with a file whose top level is no mapping."""
    return f"a file is a list of `key: value` lines, not {_kind(root)}: begin with `name: owner/project`"


def find(root: Node, loc: tuple[int | str, ...]) -> Node:
    """Return the value at ``loc``, the keys and indexes from ``root``; stop at what is no list or mapping."""
    node = root
    for step in loc:
        if isinstance(node.value, list | dict):
            node = node.value[step]  # type: ignore[index]
    return node


def _problem(detail: Any, root: Node, file: str, keys: tuple[str, ...]) -> Problem | None:
    loc, kind = detail["loc"], detail["type"]
    key = str(loc[0])
    if kind == "extra_forbidden":
        return Problem(file, *root.keys[key], _unknown(key, keys))
    if kind == "missing":
        return Problem(file, root.line, root.column, f"`{key}` is missing: add `{_ADD[key]}`")
    node = find(root, loc)
    if node.is_broken:
        return None
    where = f"`{key}`" if len(loc) == 1 else f"`{key}`, entry {int(loc[1]) + 1},"
    return Problem(file, node.line, node.column, f"{where} {_sentence(detail, key, node)}")


def _unknown(key: str, keys: tuple[str, ...]) -> str:
    if key == "<<":
        return "merge keys (<<) are not used here: write the keys out, or put them in _defaults.yaml"
    if key in _ADD:
        return f"`{key}` belongs in the file of one repository: remove it here"
    word = key.lower().replace("-", "_")
    hint = f"; did you mean {_SYNONYMS[word]!r}?" if word in _SYNONYMS else nearest(word, keys)
    return f"unknown key {show(key)}{hint or ': the keys are ' + ', '.join(keys)}"


def _sentence(detail: Any, key: str, node: Node) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "wrong":
            return str(context["sentence"])
        case "list_type":
            return f"must be a list, not {_kind(node)}: {_as_list(key, node)}"
        case "string_type":
            return f"must be text, not {_kind(node)}: {_as_text(node)}"
        case "bool_type":
            return f"must be true or false, not {_kind(node)}: write `{key}: {_as_bool(node)}`"
        case "too_long":
            return f"has more than {context['max_length']} entries: use globs, or split the list"
        case "string_too_long":
            return f"has more than {context['max_length']} characters: shorten it"
    return str(detail["msg"])


def _kind(node: Node) -> str:
    match node.value:
        case None:
            return "empty"
        case bool():
            return node.raw
        case str():
            return show(node.raw)
        case int() | float():
            return f"the number {show(node.raw)[1:-1]}"
        case list():
            return "a list"
        case dict():
            return "a mapping"


def _as_list(key: str, node: Node) -> str:
    if node.value is None:
        return "write the entries below it, each as `- entry`, or remove the line"
    if isinstance(node.value, dict):
        return "write each entry as `- entry`"
    return f"write `{key}: [{show(node.raw)}]`"


def _as_text(node: Node) -> str:
    if node.value is None:
        return "give a value (in quotes if it begins with # or *), or remove the line"
    if isinstance(node.value, list | dict):
        return "give one text, in quotes if it begins with [ or { or contains ': '"
    return f"put it in quotes, {show(node.raw)}"


def _as_bool(node: Node) -> str:
    return "true" if node.raw.lower() in ("yes", "on", "y", "1", "true") else "false"
