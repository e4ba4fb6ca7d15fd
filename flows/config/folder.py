"""All files of a folder as one configuration: where it comes from, how new it is, and which repositories it names."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from flows import git
from flows.config import advice, document, explain
from flows.config.document import Node
from flows.config.model import Defaults, RepoFile, apply_defaults, keys
from flows.config.repo import Configuration, RepoConfig, Version
from flows.config.values import show
from flows.errors import ConfigError, Problem, SourceError

_Model = TypeVar("_Model", bound=Defaults)
_SUFFIXES = (".yaml", ".yml")
_DEFAULTS = tuple(f"_defaults{suffix}" for suffix in _SUFFIXES)


def load(folder: Path) -> Configuration:
    """Read every repository file of ``folder``.

    Raises:
        ConfigError: with every problem of every file.
    """
    files, hints, problems = _list(folder)
    contents: dict[str, bytes] = {}
    for path in files:
        try:
            contents[path.name] = _read(path, folder)
        except ConfigError as error:
            problems += error.problems
    defaults, found = _defaults(folder, contents)
    problems += found
    read: list[tuple[Path, RepoFile, Node]] = []
    for name in sorted(set(contents) - set(_DEFAULTS)):
        try:
            read.append((folder / name, *_repo_file(contents[name], folder / name)))
        except ConfigError as error:
            problems += error.problems
    problems += _duplicates(read)
    if problems:
        raise ConfigError(problems)
    repos = tuple(sorted((apply_defaults(file, defaults) for _, file, _ in read), key=lambda repo: repo.name))
    source, version = _provenance(folder, contents)
    hints += [hint for one in read for hint in _slips(*one)]
    return Configuration(source, version, repos, (*hints, *advice.of_files(read)))


def load_file(path: Path) -> RepoConfig:
    """Read one repository file, with the ``_defaults.yaml`` beside it.

    Raises:
        ConfigError: with every problem of the two files.
    """
    beside = [path.parent / name for name in _DEFAULTS if (path.parent / name).exists()]
    defaults, problems = _defaults(path.parent, {other.name: _read(other, path.parent) for other in beside})
    try:
        file, _ = _repo_file(_read(path, path.parent), path)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
    if problems:
        raise ConfigError(problems)
    return apply_defaults(file, defaults)


def check_bytes(data: bytes, path: Path) -> None:
    """Check what is to become the repository file ``path``.

    Raises:
        ConfigError: with every problem of it.
    """
    _repo_file(data, path)


def _list(folder: Path) -> tuple[list[Path], list[Problem], list[Problem]]:
    """Return the files to read, hints about others, and problems with names."""
    if not folder.is_dir():
        raise ConfigError([Problem(_shown(folder), 0, 0, "is not a folder: give the folder of the repository files")])
    files, hints, problems = [], [], []
    for path in sorted(folder.iterdir()):
        is_yaml = path.name.lower().endswith(_SUFFIXES)
        if path.name.startswith(".") or not is_yaml:
            if hint := _ignored(path):
                hints.append(Problem(_shown(path), 0, 0, hint))
        elif path.name.startswith("_") and path.name not in _DEFAULTS:
            what = "names that begin with _ are reserved: rename it, or write _defaults.yaml"
            problems.append(Problem(_shown(path), 0, 0, what))
        else:
            files.append(path)
    return files, hints, problems


def _ignored(path: Path) -> str:
    """Return why a file that is passed over looks as if it should not be, "" if it does not."""
    if path.is_dir():
        has_files = any(inner.name.lower().endswith(_SUFFIXES) for inner in path.iterdir())
        return "files in a folder below are ignored: move them up" if has_files else ""
    endings = path.name.lower().lstrip(".").split(".")[1:]
    if not any(difflib.get_close_matches(ending.rstrip("~"), ("yaml", "yml"), 1, 0.7) for ending in endings):
        return ""
    return "is ignored: a repository file ends in .yaml and does not begin with a dot"


def _read(path: Path, folder: Path) -> bytes:
    try:
        inside = path.resolve(strict=True).is_relative_to(folder.resolve())
        if not inside or not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError([Problem(_shown(path), 0, 0, "is not a regular file in this folder: put the file here")])
        with path.open("rb") as file:
            return file.read(document.MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it is a circle of links"
        raise ConfigError([Problem(_shown(path), 0, 0, f"cannot be read: {reason}")]) from error


def _defaults(folder: Path, contents: Mapping[str, bytes]) -> tuple[Defaults, list[Problem]]:
    names = [name for name in _DEFAULTS if name in contents]
    if len(names) > 1:
        return Defaults(), [Problem(_shown(folder / names[1]), 0, 0, f"stands beside {names[0]}: keep one of the two")]
    for name in names:
        try:
            root, problems = document.parse(contents[name], _shown(folder / name))
            if root is not None:
                return _validate(Defaults, root, _shown(folder / name), problems), []
        except ConfigError as error:
            return Defaults(), list(error.problems)
    return Defaults(), []


def _repo_file(data: bytes, path: Path) -> tuple[RepoFile, Node]:
    root, problems = document.parse(data, _shown(path))
    if root is None:
        raise ConfigError([Problem(_shown(path), 1, 1, "is empty: write `name:` and `url:`, or remove the file")])
    return _validate(RepoFile, root, _shown(path), problems), root


def _validate(model: type[_Model], root: Node, file: str, problems: list[Problem]) -> _Model:
    if not isinstance(root.value, dict):
        if not root.is_broken:
            problems = [*problems, Problem(file, root.line, root.column, explain.not_a_mapping(root))]
        raise ConfigError(problems)
    try:
        valid = model.model_validate(root.plain())
    except ValidationError as error:
        raise ConfigError([*problems, *explain.problems(error, root, file, keys(model))]) from error
    if problems:
        raise ConfigError(problems)
    return valid


def _duplicates(read: Iterable[tuple[Path, RepoFile, Node]]) -> list[Problem]:
    first: dict[str, tuple[Path, str]] = {}
    problems = []
    for path, file, root in read:
        earlier, name = first.setdefault(file.name.casefold(), (path, file.name))
        if earlier != path:
            at = explain.find(root, ("name",))
            same = f"the name {show(file.name)}" + ("" if name == file.name else f" (there {show(name)})")
            problems.append(Problem(_shown(path), at.line, at.column, f"{same} is taken by {earlier.name}: rename one"))
    return problems


def _slips(path: Path, file: RepoFile, root: Node) -> Iterator[Problem]:
    """Yield hints about a file that is valid but hardly means what it says, or is hard to find."""
    if path.stem not in {file.name.replace("/", sign) for sign in "+-_."} | {file.name.rpartition("/")[2]}:
        wanted = file.name.replace("/", "+") + ".yaml"
        at = explain.find(root, ("name",))
        yield Problem(_shown(path), at.line, at.column, f"the file is found more easily as {wanted}")
    for i, glob in enumerate(file.allow):
        if glob.startswith("!") and glob.endswith("/"):
            at = explain.find(root, ("allow", i))
            what = f"{show(glob)} does not leave out files that a glob above matches: add {show(glob[1:])} to `deny`"
            yield Problem(_shown(path), at.line, at.column, what)


def _shown(path: Path) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(path))


def _provenance(folder: Path, contents: Mapping[str, bytes]) -> tuple[str, Version]:
    """Return source and version; a commit is the version only if it holds exactly these files."""
    now = Version("", datetime.now(UTC))
    absolute = folder.resolve()
    try:
        repository = git.open_repository(absolute)
        root = repository.location.resolve()
        if not absolute.is_relative_to(root):  # within a bare repository
            return str(absolute), now
    except SourceError:
        return str(absolute), now
    inside = absolute.relative_to(root).as_posix()
    source = repository.origin if inside == "." else f"{repository.origin}:{inside}"
    try:
        commit = git.resolve(repository)
        committed = git.list_folder(repository, commit.sha, inside)
    except SourceError:
        return source, now
    wanted = {name: oid for name, oid in committed.items() if _is_read(name)}
    is_same = wanted.keys() == contents.keys() and all(
        oid in (git.blob_id(contents[name], oid), git.blob_id(contents[name].replace(b"\r\n", b"\n"), oid))
        for name, oid in wanted.items()
    )
    return source, Version(commit.sha, commit.committed_at) if is_same else now


def _is_read(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")
