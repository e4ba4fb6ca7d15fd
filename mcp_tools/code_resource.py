"""``code://{repo}/{commit}/{+path}{?start,end}``: a file of a published commit, for clients that read resources.

Everything after ``code://`` was given by somebody: it is compared with what is published, never opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources.templates import ResourceSecurity

from flows.errors import GitstrataError, UsageError
from mcp_tools.sentence import sentence

if TYPE_CHECKING:
    from flows.store.read import BranchInfo
    from mcp_tools.index import Index

TEMPLATE = "code://{repo}/{commit}/{+path}{?start,end}"
FORM = "code://repo/commit/path"  # in errors: what follows a ? there is taken for a secret
MAX_CHARS = 40_000
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_OURS = ResourceSecurity(exempt_params={"repo", "commit", "path", "start", "end"})  # checked here, in better words


def uri(repo: str, commit: str, path: str) -> str:
    """Return the URI of a file of a commit."""
    return f"code://{quote(repo, safe='')}/{commit}/{quote(path, safe='/')}"


def register(server: MCPServer[None], index: Index) -> None:
    """Add the resource template to a server."""

    @server.resource(
        TEMPLATE,
        name="code",
        title="A file of a published commit",
        description="Code of an indexed repository at its published commit (7 or more digits of it), secrets masked. "
        "Write / in the repository's name as %2F; start and end choose lines.",
        mime_type="text/plain",
        security=_OURS,
    )
    def code(repo: str, commit: str, path: str, start: str = "", end: str = "") -> str:
        try:
            return read_code(index, repo, commit, path, start=start, end=end)
        except UsageError as error:
            raise ResourceNotFoundError(sentence(error)) from error
        except GitstrataError as error:
            raise ResourceError(sentence(error)) from error


def read_code(index: Index, repo: str, commit: str, path: str, *, start: str = "", end: str = "") -> str:
    """Return lines of a file of a commit that is published.

    Raises:
        UsageError: no such repository, commit, file or lines, or more than fits into an answer.
    """
    from flows.store import read
    from mcp_tools import render, scope

    if not path or path.startswith("/") or ".." in path.split("/"):
        raise UsageError(f"{path!r} is no path from the repository's root: use {FORM}")
    if not _COMMIT.fullmatch(commit):
        raise UsageError(
            f"{commit!r} is no commit: use {FORM}, with 7 or more hex digits, and / in the repository's name as %2F"
        )
    first, last = _number("start", start), _number("end", end)
    with index.snapshot() as connection:
        branches = scope.resolve(connection, repo=repo, branch="*").branches
        if not branches:
            raise UsageError(render.nothing_yet(connection, repo))
        info = _published(repo, commit, branches)
        found = read.files(connection, [info.branch_id], path)
    if not found:
        raise UsageError(f"no file {path} in {repo} at commit {commit}")
    if found[0].skip or found[0].body is None:
        raise UsageError(f"{path} is not indexed: {found[0].skip or 'it has no text'}")
    return _lines(path, found[0].body, first, last)


def _published(repo: str, commit: str, branches: Sequence[BranchInfo]) -> BranchInfo:
    for info in branches:
        if info.commit_sha.startswith(commit):
            return info
    now = ", ".join(f"{info.commit_sha[:12]} ({info.name})" for info in branches[:5])
    raise UsageError(f"commit {commit} of {repo} is not published, or no longer; published now: {now}")


def _number(name: str, text: str) -> int:
    """Return a line number, 0 if there is none."""
    if text and not _NUMBER.fullmatch(text):
        raise UsageError(f"{name} is {text[:20]!r}: use a line number from 1")
    return int(text or 0)


def _lines(path: str, body: str, first: int, last: int) -> str:
    lines = body.split("\n")
    total = len(lines) - (not lines[-1])  # what follows the last line end is no line
    if first > total or (last and last < first):
        raise UsageError(f"{path} has {total} lines: there are no lines {first or 1} to {last or total}")
    text = "\n".join(lines[max(first - 1, 0) : last or None]) if first or last else body
    if len(text) > MAX_CHARS:
        raise UsageError(
            f"{path} has {total} lines, and {len(text)} characters in those asked for: ask for fewer, "
            f"at most {MAX_CHARS} characters, with ?start=1&end=200"
        )
    return text
