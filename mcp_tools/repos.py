"""list_repos: which repositories can be searched."""

from __future__ import annotations

import hashlib
import json

from flows.errors import UsageError
from flows.store import repos as stored
from flows.store.repos import Listed
from flows.wording import counted
from mcp_tools import render, scope
from mcp_tools.cursor import Cursor
from mcp_tools.index import Index
from mcp_tools.results import RepoInfo, ReposResult
from mcp_tools.surface import argument

PAGE = 30
MAX_LANGUAGES = 8
MAX_BRANCHES = 12


def list_repos(index: Index, *, name_contains: str = "", project: str = "", cursor: str = "") -> ReposResult:
    """Return a page of repositories by name.

    Raises:
        UsageError: an unknown project, or a cursor of something else.
    """
    request = _digest(["list_repos", name_contains, project])
    given = Cursor.decode(cursor) if cursor else Cursor(0, request, "")
    if given.request != request:
        raise UsageError("this cursor belongs to other filters: repeat them, or leave {argument('cursor')} out")
    with index.snapshot() as connection:
        if project:
            scope.resolve(connection, project=project)
        names = stored.matching(connection, name_contains, project)
        page = names[given.offset : given.offset + PAGE]
        found = stored.listed(connection, page, MAX_LANGUAGES)
        note = "" if page else _nothing(stored.names(connection), name_contains)
    state = _digest(names)
    if given.state not in ("", state):
        note = "the list changed since the first page: rows may repeat or be missing"
    end = given.offset + len(page)
    return ReposResult(
        result=[_info(item) for item in found],
        total=len(names),
        next_cursor=Cursor(end, request, state).encode() if end < len(names) else "",
        note=note,
    )


def _digest(values: list[str]) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=6).hexdigest()


def _nothing(names: list[str], name_contains: str) -> str:
    if not names:
        return render.EMPTY_INDEX
    shown = ", ".join(names[: scope.MAX_NAMES])
    asked = render.one_line(name_contains, 80)
    return f"No repository's name contains {asked!r}: there are {len(names)}, among them {shown}."


def _info(item: Listed) -> RepoInfo:
    more = len(item.branches) - MAX_BRANCHES
    return RepoInfo(
        repo=item.name,
        branches=[*item.branches[:MAX_BRANCHES], *([f"and {more} more"] if more > 0 else [])],
        commit=item.commit_sha,
        indexed_at=render.clock(item.published_at) if item.published_at else "",
        files=item.files,
        chunks=item.chunks,
        languages=item.languages,
        projects=item.projects,
    )


def as_text(answer: ReposResult) -> str:
    """Return the text form of list_repos' answer."""
    lines = [
        f"{len(answer.result)} of {counted(answer.total, 'repository', 'repositories')}",
        *map(_line, answer.result),
    ]
    if answer.note:
        lines.append(answer.note)
    if answer.next_cursor:
        lines.append(f"{argument('next_cursor')} {answer.next_cursor}")
    return render.clip("\n".join(lines))


def _line(info: RepoInfo) -> str:
    if not info.branches:
        head = f"{info.repo}: nothing published yet, 0 files, 0 chunks"
    else:
        languages = ", ".join(f"{name} {count}" for name, count in info.languages.items()) or "no file indexed"
        head = (
            f"{info.repo} ({', '.join(info.branches)}): commit {info.commit[:12]} indexed {info.indexed_at}, "
            f"{counted(info.files, 'file')}, {counted(info.chunks, 'chunk')}; {languages}"
        )
    return head + (f"; projects {', '.join(info.projects)}" if info.projects else "")
