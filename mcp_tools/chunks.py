"""get_chunk: the code behind a row, at the level asked for, with its neighbours."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chunkers.chunk import Level
from flows.errors import UsageError
from flows.store import read
from flows.store.read import BranchInfo, Definition, FileInfo, Place
from mcp_tools import render, scope
from mcp_tools.index import Index
from mcp_tools.results import ChunkResult, Neighbour
from mcp_tools.surface import argument, tool

if TYPE_CHECKING:
    from flows.store.connect import Connection

MAX_CHARS = 40_000
MAX_CONTEXT = 3
MAX_NAMES = 12  # listed in a note or an error
_RANGE = re.compile(r"L(\d{1,9})-L(\d{1,9})")  # as rows say it
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")


def get_chunk(
    index: Index,
    source_id: str,
    *,
    repo: str = "",
    branch: str = "",
    context: int = 1,
    level: str = "",
    max_chars: int = 8_000,
) -> ChunkResult:
    """Return the chunk that a row's ``source_id`` or ``url`` names.

    Raises:
        UsageError: no such chunk, or one in several repositories; the message lists what there is.
    """
    if not 0 <= context <= MAX_CONTEXT:
        raise UsageError(f"{argument('context')} is {context}: use 0 to {MAX_CONTEXT}")
    if not 1 <= max_chars <= MAX_CHARS:
        raise UsageError(f"{argument('max_chars')} is {max_chars}: use 1 to {MAX_CHARS}")
    if level and level not in scope.LEVELS:
        raise UsageError(f"unknown level {level!r}: use {', '.join(scope.LEVELS)}, or leave {argument('level')} out")
    names = _names(source_id)  # whatever the index holds, say first what a source_id is
    with index.snapshot() as connection:
        where = scope.resolve(connection, repo=repo, branch=branch)
        if not where.branches:
            raise UsageError(render.nothing_yet(connection, repo))
        file, info, anchor = _file(connection, where.branches, names)
        chunks = _chunks_of(connection, file)
        changed = _changed(index, info, chunks, anchor)
        found, note = _locate(connection, chunks, _clipped(chunks, anchor) if changed else anchor)
        note = changed or note or _inexact(found, anchor)
    if level:
        found, wider = _widen(chunks, found, level)
        note = "; ".join(filter(None, [note, wider]))
    answer = _answer(file, info, chunks, found, note, context=context, max_chars=max_chars)
    for url in (answer.url, *(neighbour.url for neighbour in answer.context)):
        index.seen.give(info.branch_id, url, found.cut_id, info.commit_sha)
    return answer


def _changed(index: Index, info: BranchInfo, chunks: Sequence[Place], anchor: str) -> str:
    """Say so if a row's lines were given out of another content than what is published now."""
    given = index.seen.last(info.branch_id, f"{chunks[0].path}#{anchor}")
    if given is None or given.cut_id == chunks[0].cut_id:
        return ""
    return (
        f"{chunks[0].path} has changed since {anchor} was given out at commit {given.commit[:7]}: "
        f"this is what is there now, at {info.commit_sha[:7]}"
    )


def _inexact(found: Place, anchor: str) -> str:
    """Say so if no chunk has just the lines that a row is supposed to have named."""
    lines = _RANGE.fullmatch(anchor)
    if lines is None or found.anchor == anchor or lines.groups() == (str(found.start_line), str(found.end_line)):
        return ""
    return f"no chunk is just {anchor}: if a row of an earlier commit said so, the file has changed since"


def _clipped(chunks: Sequence[Place], anchor: str) -> str:
    """Return lines that a file had once, as far as it still has them."""
    last = max(chunk.end_line for chunk in chunks)
    lines = _RANGE.fullmatch(anchor)
    return anchor if lines is None else f"L{min(int(lines.group(1)), last)}-L{min(int(lines.group(2)), last)}"


def locate(
    connection: Connection, branches: Sequence[BranchInfo], source_id: str
) -> tuple[FileInfo, BranchInfo, list[Place], Place, str]:
    """Return file, branch, all chunks and the one that ``source_id`` names, with a note where it names more.

    Raises:
        UsageError: no such chunk, or one in several repositories; the message lists what there is.
    """
    file, info, anchor = _file(connection, branches, _names(source_id))
    chunks = _chunks_of(connection, file)
    found, note = _locate(connection, chunks, anchor)
    return file, info, chunks, found, note


def _chunks_of(connection: Connection, file: FileInfo) -> list[Place]:
    chunks = read.chunks_of(connection, file.branch_id, file.path)
    if not chunks:
        raise UsageError(f"{file.path} is empty")
    return chunks


def _locate(connection: Connection, chunks: Sequence[Place], anchor: str) -> tuple[Place, str]:
    found = _find(chunks, anchor)
    if found is not None:
        return found, ""
    return _define(chunks, read.definitions(connection, chunks[0].cut_id), anchor, chunks[0].path)


def _names(source_id: str) -> list[tuple[str, str]]:
    """Return what the argument may mean, likeliest first: (path, anchor), or a path that has a # in its name."""
    whole = source_id.strip("\r\n\t").removeprefix("./")
    path, _, anchor = whole.rpartition("#")
    names = [(path, anchor), (whole, "")] if path else [(whole, "")]
    if not whole or whole.startswith("/") or ".." in whole.split("/"):
        raise UsageError(f"{source_id!r} is no source_id: pass a row's source_id (path#Symbol) or url (path#L10-L42)")
    return names


def _file(
    connection: Connection, branches: Sequence[BranchInfo], names: Sequence[tuple[str, str]]
) -> tuple[FileInfo, BranchInfo, str]:
    by_id = {info.branch_id: info for info in branches}
    for path, anchor in names:
        found = read.files(connection, list(by_id), path)
        if len(found) > 1:
            repos = ", ".join(by_id[file.branch_id].repo for file in found)
            raise UsageError(f"{path} is in several repositories ({repos}): say which one in {argument('repo')}")
        if found and found[0].skip:
            raise UsageError(f"{path} is not indexed: {found[0].skip}")
        if found:
            return found[0], by_id[found[0].branch_id], anchor
    path = names[0][0]
    similar = read.similar_paths(connection, list(by_id), path)
    search = f"; search for it with {tool('code_search')}"
    hint = f"; did you mean {', '.join(similar)}?" if similar else search
    raise UsageError(f"no file {path} in {render.names(branches)}{hint}")


def _find(chunks: Sequence[Place], anchor: str) -> Place | None:
    """Return the chunk of that name or at those lines, the file for "", None for another name."""
    if not anchor:
        return chunks[0]
    for chunk in chunks:
        if chunk.anchor == anchor:
            return chunk
    lines = _LINES.fullmatch(anchor)
    return _at(chunks, int(lines.group(1)), int(lines.group(2) or lines.group(1))) if lines else None


def _at(chunks: Sequence[Place], start: int, end: int) -> Place:
    """Return the finest chunk with just these lines, or around them, or the one that shares most lines with them."""
    last = max(chunk.end_line for chunk in chunks)
    if start > last:
        raise UsageError(f"{chunks[0].path} ends at line {last}: there is no line {start}")
    start, end = sorted((max(start, 1), min(max(end, 1), last)))

    def fit(chunk: Place) -> tuple[bool, bool, int, int, int]:
        size = chunk.end_line - chunk.start_line + 1
        shared = min(end, chunk.end_line) - max(start, chunk.start_line) + 1
        exact = shared == size == end - start + 1
        return exact, chunk.level > 0 and shared > 0, shared, -size, chunk.level

    return max(chunks, key=fit)


def _define(chunks: Sequence[Place], definitions: Sequence[Definition], name: str, path: str) -> tuple[Place, str]:
    """Return the chunk that holds a symbol which names no chunk: by its last part, or beside others in one chunk."""
    named = [d for d in definitions if d.name == name or d.name.endswith("." + name)]
    if not named:
        known = [*dict.fromkeys(d.name for d in definitions)] or [chunk.anchor for chunk in chunks]
        nearest = difflib.get_close_matches(name, known, 1, 0.6)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise UsageError(f"no {name!r} in {path}; {hint}it has: {', '.join(known[:MAX_NAMES])}")
    first = named[0]
    own = [chunk for chunk in chunks if chunk.symbol == first.name and chunk.start_line <= first.start_line]
    found = own[0] if own else _at(chunks, first.start_line, first.end_line)
    places = ", ".join(f"{d.name} L{d.start_line}-L{d.end_line}" for d in named[:MAX_NAMES])
    if len(named) > 1:
        return found, f"{len(named)} definitions are called {name}: {places}; this is the first"
    return found, "" if found.symbol == first.name else f"{places} is in this chunk"


def _widen(chunks: Sequence[Place], found: Place, level: str) -> tuple[Place, str]:
    """Return the chunk around ``found`` at ``level``, or the nearest coarser one with a note that says so."""
    by_ord = {chunk.ord: chunk for chunk in chunks}
    wanted, given = scope.LEVELS.index(level), found
    while found.level > wanted and found.parent is not None and found.parent in by_ord:
        found = by_ord[found.parent]
    is_level, name = scope.LEVELS[found.level], render.source_id(given.path, given.anchor)
    if given.level < wanted:
        return found, f"{name} is a {is_level}, wider than a {level} already"
    return found, f"no {level} is around {name}: this is its {is_level}" if found.level < wanted else ""


def _answer(
    file: FileInfo, info: BranchInfo, chunks: Sequence[Place], found: Place, note: str, *, context: int, max_chars: int
) -> ChunkResult:
    lines = (file.body or "").removesuffix("\n").split("\n")
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
    if truncated:
        cut = f"truncated: ask for {argument('max_chars')} up to {MAX_CHARS}, or for a smaller level"
        note = "; ".join(filter(None, [note, cut]))
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
        note=note,
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
