"""Where in a folder of repository files a rule stands."""

from __future__ import annotations

from pathlib import Path

from flows.config import document
from flows.config.document import Node
from flows.errors import ConfigError


def find(folder: Path, repo: str, key: str, entry: str = "") -> str:
    """Return "file:line" of a key of ``repo`` (or of the defaults), or of one entry of its list; "" if it is nowhere.

    The last one wins, as in the configuration itself: a repository's own file after ``_defaults.yaml``.
    """
    found = ""
    for path in sorted(folder.glob("*.y*ml"), key=lambda path: (not path.name.startswith("_defaults"), path.name)):
        root = _root(path)
        named = root.get("name")
        if path.name.startswith("_defaults") or (named is not None and named.value == repo):
            found = _line(root, key, entry, path) or found
    return found


def _root(path: Path) -> dict[str, Node]:
    try:
        node, _ = document.parse(path.read_bytes(), str(path))
    except (ConfigError, OSError):
        return {}
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _line(root: dict[str, Node], key: str, entry: str, path: Path) -> str:
    node = root.get(key)
    if node is None:
        return ""
    if not entry:
        return f"{path}:{node.line}"
    entries = node.value if isinstance(node.value, list) else []
    return next((f"{path}:{one.line}" for one in reversed(entries) if one.raw == entry), "")
