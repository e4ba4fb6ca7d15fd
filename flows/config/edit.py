"""Write and edit repository files; what people wrote in them, comments and order included, stays.

A file that would not be valid afterwards is not touched.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import urls
from flows.config import folder as files
from flows.config.values import check_url
from flows.errors import UsageError
from flows.wording import counted

if TYPE_CHECKING:
    from flows.newcomer import Seen

_LISTS = {"branches": "branch", "projects": "project", "deny": "glob"}
_TEXTS = ("owner", "credentials_env")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file shall say; what is empty is not asked for."""

    url: str
    name: str = ""
    branches: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    owner: str = ""
    credentials_env: str = ""

    @property
    def repo(self) -> str:
        """Return the name, or the one that the URL gives."""
        return self.name or urls.short_name(urls.canonical_url(self.url))


def find(folder: Path, wanted: Wanted) -> Path | None:
    """Return the file that configures a URL, None if there is none.

    Raises:
        UsageError: the URL may not be used, or another repository has the name.
    """
    from pydantic_core import PydanticCustomError

    try:
        check_url(wanted.url)
    except PydanticCustomError as error:
        raise UsageError(f"the URL {error}") from error
    for path in sorted(folder.glob("*.y*ml")) if folder.is_dir() else []:
        if path.name.startswith(("_", ".")):
            continue
        repo = files.load_file(path)
        if urls.canonical_url(repo.url) == urls.canonical_url(wanted.url):
            return path
        if repo.name.casefold() == wanted.repo.casefold():
            raise UsageError(f"{path} has the name {repo.name} for another URL: choose one with --name")
    return None


def change(path: Path, wanted: Wanted) -> str:
    """Add what is wanted to a file and say what was added.

    Raises:
        UsageError: nothing was asked for; ConfigError: the file would be wrong.
    """
    if not any(getattr(wanted, key.name) for key in fields(wanted) if key.name not in ("url", "name")):
        raise UsageError(f"{path} configures it already: say what to add, for example --project NAME")
    yaml = _yaml()
    before = path.read_bytes()
    document = yaml.load(before.decode("utf-8-sig").replace("\r\n", "\n"))
    said = []
    for key in _LISTS:
        new = [value for value in getattr(wanted, key) if value not in (document.get(key) or [])]
        if new and not document.get(key):
            document[key] = new
        elif new:
            _append(document[key], new)
        said += [f"{key} {value}" for value in new]
    for key in _TEXTS:
        if (value := getattr(wanted, key)) and document.get(key) != value:
            document[key] = value
            said.append(f"{key} {value}")
    if said:
        out = io.StringIO()
        yaml.dump(document, out)
        text = out.getvalue().replace("\n", "\r\n") if b"\r\n" in before else out.getvalue()
        _write(path, text.encode())
    return f"added {', '.join(said)}" if said else "says so already"


def _append(known: Any, new: Sequence[str]) -> None:
    """Append to a list; the lines of comment below its last entry move below the new ones."""
    from ruamel.yaml.tokens import CommentToken

    last = len(known) - 1
    tail = known.ca.items.pop(last, None)
    known.extend(new)
    if tail is None or tail[0] is None:
        return
    own, _, below = tail[0].value.partition("\n")
    if own.strip():
        known.ca.items[last] = [CommentToken(f"{own}\n", tail[0].start_mark, None), None, None, None]
    if below:
        known.ca.items[len(known) - 1] = [CommentToken(f"\n{below}", tail[0].start_mark, None), None, None, None]


def create(folder: Path, wanted: Wanted, seen: Seen) -> Path:
    """Write the first file of a repository and return its path.

    Raises:
        UsageError: the folder or the file is in the way; ConfigError: the file would be wrong.
    """
    path = folder / (wanted.repo.replace("/", "+") + ".yaml")
    if path.exists():
        raise UsageError(f"{path} is there already: choose another name with --name")
    folder.mkdir(parents=True, exist_ok=True)
    _write(path, first_file(wanted, seen, has_schema=(folder / "schema.json").exists()).encode())
    return path


def first_file(wanted: Wanted, seen: Seen, *, has_schema: bool = False) -> str:
    """Return the text of a repository's first file: its keys, and comments that say what was seen."""
    from flows.newcomer import size_of

    lines = ["# yaml-language-server: $schema=./schema.json"] if has_schema else []
    lines += [f"# {_plain(seen.commit.branch)} at {seen.commit.sha[:12]}: {seen.summary}"]
    if seen.skipped:
        skipped = ", ".join(f"{count} {reason}" for reason, count in seen.skipped.most_common())
        lines.append(f"# Listed but not indexed, by name alone: {skipped}")
    lines += [f"name: {_scalar(wanted.repo)}", f"url: {_scalar(wanted.url)}"]
    default = f"# branches: [{_scalar(seen.commit.branch)}]  # the default branch, which is indexed without this line"
    lines.append(_list("branches", wanted.branches) if wanted.branches else default)
    lines += [_list("projects", wanted.projects)] if wanted.projects else ["# projects: []"]
    lines += [f"owner: {_scalar(wanted.owner)}"] if wanted.owner else ["# owner: a team"]
    if wanted.credentials_env:
        lines.append(f"credentials_env: {_scalar(wanted.credentials_env)}")
    dead = [(f"/{path}", f"{count} {reason} files") for path, reason, count in seen.dead]
    asked = [(glob, "") for glob in wanted.deny]
    if dead or asked:
        lines.append("deny:")
        lines += [f"  - {_scalar(glob)}" + (f"  # {why}" if why else "") for glob, why in [*asked, *dead]]
    if seen.large:
        lines.append("# Large folders, should one of them not be wanted:")
        lines += [f"#   /{_plain(path)}  {counted(f.files, 'file')}, {size_of(f.bytes)}" for path, f in seen.large]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _list(key: str, values: Sequence[str]) -> str:
    return f"{key}: [{', '.join(_scalar(value, inside=True) for value in values)}]"


def _scalar(text: str, *, inside: bool = False) -> str:
    """Return text as YAML: in quotes unless it surely needs none."""
    plain = all(char.isalnum() or char in "._-/" + ("" if inside else ":@") for char in text)
    if plain and text[:1].isalpha() and ": " not in text and text.lower() not in ("true", "false", "null", "yes", "no"):
        return text
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _yaml() -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _write(path: Path, data: bytes) -> None:
    """Replace a file by one that was found to be valid."""
    files.check_bytes(data, path)
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)
