"""get_chunk: the code behind a row, at the level asked for, with its neighbours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chunkers.chunk import Level
from flows.errors import UsageError
from flows.store import read
from flows.store.read import BranchInfo, FileInfo, Place
from mcp_tools import render, scope
from mcp_tools.index import Index
from mcp_tools.results import ChunkResult, Neighbour

if TYPE_CHECKING:
    from flows.store.connect import Connection

MAX_CHARS = 40_000
MAX_CONTEXT = 3
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")


def get_chunk(
    index: Index, source_id: str, *, repo: str = "", context: int = 1, level: str = "", max_chars: int = 8_000
) -> ChunkResult:
    """Return the chunk that a row's ``source_id`` or ``url`` names.

    Raises:
        UsageError: no such chunk, or one in several repositories; the message lists what there is.
    """
    if not 0 <= context <= MAX_CONTEXT:
        raise UsageError(f"context is {context}: use 0 to {MAX_CONTEXT}")
    if not 1 <= max_chars <= MAX_CHARS:
        raise UsageError(f"max_chars is {max_chars}: use 1 to {MAX_CHARS}")
    if level and level not in scope.LEVELS:
        raise UsageError(f"unknown level {level!r}: use {', '.join(scope.LEVELS)}, or leave it out")
    path, anchor = _split(source_id)
    with index.snapshot() as connection:
        where = scope.resolve(connection, repo=repo)
        if not where.branches:
            raise UsageError(render.EMPTY_INDEX)
        file, info = _file(connection, where.branches, path)
        chunks = read.chunks_of(connection, file.branch_id, path)
    found = _find(chunks, anchor, source_id)
    if level:
        found = _widen(chunks, found, level)
    return _answer(file, info, chunks, found, context=context, max_chars=max_chars)


def _split(source_id: str) -> tuple[str, str]:
    path, hash_, anchor = source_id.strip().rpartition("#")
    if not hash_:
        path, anchor = anchor, ""
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise UsageError(f"{source_id!r} is no source_id: pass a row's source_id (path#Symbol) or url (path#L10-L42)")
    return path, anchor


def _file(connection: Connection, branches: Sequence[BranchInfo], path: str) -> tuple[FileInfo, BranchInfo]:
    by_id = {info.branch_id: info for info in branches}
    found = read.files(connection, list(by_id), path)
    if len(found) > 1:
        repos = ", ".join(by_id[file.branch_id].repo for file in found)
        raise UsageError(f"{path} is in several repositories ({repos}): say which one in repo")
    if not found:
        similar = read.similar_paths(connection, list(by_id), path)
        hint = f"; did you mean {', '.join(similar)}?" if similar else "; search for it with code_search"
        raise UsageError(f"no file {path} in {render.freshness(branches)}{hint}")
    if found[0].skip:
        raise UsageError(f"{path} is not indexed: {found[0].skip}")
    return found[0], by_id[found[0].branch_id]


def _find(chunks: Sequence[Place], anchor: str, source_id: str) -> Place:
    if not chunks:
        raise UsageError(f"{source_id.partition('#')[0]} is empty")
    lines = _LINES.fullmatch(anchor)
    if lines:
        start = int(lines.group(1))
        end = int(lines.group(2) or start)
        exact = [c for c in chunks if (c.start_line, c.end_line) == (start, end)]
        around = [c for c in chunks if c.start_line <= start and c.end_line >= end]
        touching = [c for c in chunks if c.start_line <= end and c.end_line >= start]
        for candidates in (exact, around, touching):
            if candidates:
                return min(candidates, key=lambda c: (c.end_line - c.start_line, -c.level))
        raise UsageError(f"{source_id}: the file ends at line {max(c.end_line for c in chunks)}")
    if not anchor:
        return chunks[0]
    for chunk in chunks:
        if chunk.anchor == anchor:
            return chunk
    named = [c for c in chunks if c.symbol == anchor or c.symbol.endswith("." + anchor)]
    if named:
        return named[0]
    some = ", ".join(c.anchor for c in chunks[:12])
    raise UsageError(f"no {anchor!r} in {source_id.rpartition('#')[0]}; it has: {some}")


def _widen(chunks: Sequence[Place], found: Place, level: str) -> Place:
    """Return the chunk around ``found`` at ``level``, or the nearest coarser one."""
    by_ord = {chunk.ord: chunk for chunk in chunks}
    wanted = scope.LEVELS.index(level)
    while found.level > wanted and found.parent is not None and found.parent in by_ord:
        found = by_ord[found.parent]
    return found


def _answer(
    file: FileInfo, info: BranchInfo, chunks: Sequence[Place], found: Place, *, context: int, max_chars: int
) -> ChunkResult:
    lines = (file.body or "").split("\n")
    whole = found.level == 0
    start, end = (1, len(lines)) if whole else (found.start_line, found.end_line)
    text = "\n".join(lines[start - 1 : end])
    truncated = len(text) > max_chars
    left = max_chars - len(text)
    neighbours: list[Neighbour] = []
    for chunk in [] if whole else _around(chunks, found, context):
        body = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        if len(body) > left:
            truncated = True
            continue
        left -= len(body)
        neighbours.append(
            Neighbour(
                source_id=render.source_id(file.path, chunk.anchor),
                url=render.url(file.path, chunk.start_line, chunk.end_line),
                text=body,
            )
        )
    return ChunkResult(
        source_id=render.source_id(file.path, found.anchor),
        repo=info.repo,
        branch=info.name,
        commit=info.commit_sha,
        url=render.url(file.path, found.start_line, found.end_line),
        symbol=found.symbol,
        language=file.language,
        level=list(Level)[found.level].value,
        text=text[:max_chars],
        context=neighbours,
        truncated=truncated,
        freshness=render.freshness([info]),
        note="",
    )


def _around(chunks: Sequence[Place], found: Place, count: int) -> list[Place]:
    """Return up to ``count`` chunks before and after ``found`` that share no line with it or each other."""
    fine = [c for c in chunks if c.level >= 2]
    before = sorted((c for c in fine if c.end_line < found.start_line), key=lambda c: (-c.end_line, c.start_line))
    after = sorted((c for c in fine if c.start_line > found.end_line), key=lambda c: (c.start_line, -c.end_line))
    return [*reversed(_disjoint(before, count)), *_disjoint(after, count)]


def _disjoint(chunks: Sequence[Place], count: int) -> list[Place]:
    kept: list[Place] = []
    for chunk in chunks:
        if len(kept) == count:
            break
        if all(chunk.start_line > k.end_line or chunk.end_line < k.start_line for k in kept):
            kept.append(chunk)
    return kept
