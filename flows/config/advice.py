"""What is valid in repository files but hardly meant: one repository twice, overlapping names, globs for secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pathspec

from flows import urls
from flows.config import explain
from flows.config.document import Node
from flows.config.model import Defaults, RepoFile
from flows.config.values import show
from flows.errors import Problem
from flows.names import BACKEND

File = tuple[Path, RepoFile, Node]
_SECRETS = (".env", "id_rsa", "id_ed25519", "server.key", "cert.pem", "store.jks", "store.p12", ".netrc", ".npmrc")
_VENDORED = ("node_modules/m/i.js", "vendor/m/i.go", "third_party/m/i.c", "site-packages/m/i.py", ".venv/lib/m/i.py")
_ANY = ("zq/zq.zq", "zq/zq.py", "zq/zq.js", "zq/zq.go", "zq/zq.c", "zq.zq")  # what these match was not meant for a name


def of_files(files: Iterable[File]) -> Iterator[Problem]:
    """Yield hints about files beside each other, and about the globs of each."""
    files = list(files)
    yield from _same_url(files)
    yield from _overlaps(files)
    for path, file, root in files:
        yield from of_globs(str(path), file, root)


def _same_url(files: Iterable[File]) -> Iterator[Problem]:
    first: dict[str, tuple[Path, RepoFile]] = {}
    for path, file, root in files:
        earlier, other = first.setdefault(urls.canonical_url(file.url).casefold(), (path, file))
        if other is not file:
            what = f"the same repository as {other.name} in {earlier.name}: remove one, or list all branches in one"
            yield _at(path, root, ("url",), what)


def _overlaps(files: Iterable[File]) -> Iterator[Problem]:
    names = {file.name.casefold(): file.name for _, file, _ in files}
    for path, file, root in files:
        parts = file.name.casefold().split("/")
        for end in range(1, len(parts)):
            if (other := names.get("/".join(parts[:end]))) is not None:
                what = f"the name {show(file.name)} lies in that of {show(other)}: rename one of them"
                yield _at(path, root, ("name",), what)


def of_globs(path: str, file: Defaults, root: Node) -> Iterator[Problem]:
    """Yield hints about globs that name what nobody wants in an index."""
    for i, glob in enumerate(file.allow):
        if not glob.startswith("!") and (found := _lets_in(glob)):
            what = f"{show(glob)} lets in {found}: remove it, or add it to `deny`"
            yield _at(Path(path), root, ("allow", i), what)
    for i, glob in enumerate(file.deny):
        if glob.startswith("!") and (found := _lets_in(glob[1:])):
            yield _at(Path(path), root, ("deny", i), f"{show(glob)} lets in {found} that are denied: remove it")
    if file.allow and file.include_vendored:
        for i, glob in enumerate(file.allow):
            if glob.strip("/*") == "":
                what = "lets in vendored trees in full, since include_vendored is set: name the folders you want"
                yield _at(Path(path), root, ("allow", i), f"{show(glob)} {what}")


def _lets_in(glob: str) -> str:
    """Return what a glob is for, if that is secrets or vendored code and nothing else."""
    spec = pathspec.GitIgnoreSpec.from_lines([glob], backend=BACKEND)
    if any(spec.match_file(path) for path in _ANY):
        return ""
    if any(spec.match_file(path) for path in _SECRETS):
        return "files that hold secrets"
    return "vendored code" if any(spec.match_file(path) for path in _VENDORED) else ""


def _at(path: Path, root: Node, loc: tuple[int | str, ...], message: str) -> Problem:
    node = explain.find(root, loc)
    return Problem("".join(c if c.isprintable() else "?" for c in str(path)), node.line, node.column, message)
