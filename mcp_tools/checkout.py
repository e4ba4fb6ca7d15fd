"""What the index does not show of the checkout at hand: commits made since, files changed since."""

from __future__ import annotations

from pathlib import Path

from flows import git
from flows.errors import SourceError
from flows.store import read
from flows.wording import counted
from mcp_tools.index import Index


def compare(index: Index, folder: Path) -> str:
    """Return one line on the checkout around ``folder``, "" if it is none or not indexed."""
    try:
        repository = git.open_repository(folder)
    except SourceError:
        return ""
    with index.snapshot() as connection:
        branches = [info for info in read.branches(connection, "", "*") if info.origin == repository.origin]
    here = git.head_branch(repository)
    info = next((b for b in branches if b.name == here), next((b for b in branches if b.is_default), None))
    return describe(repository, info.commit_sha, info.repo) if info else ""


def describe(repository: git.Repository, indexed: str, name: str) -> str:
    """Say how a checkout stands to an indexed commit, "" if there is nothing to say."""
    tree = git.working_tree(repository, indexed)
    if tree is None:
        return ""
    parts = []
    if tree.ahead is None:
        parts.append(f"unknown how far {name} is behind (commit {indexed[:7]} is not in this clone)")
    elif tree.ahead or tree.behind:
        behind = f", {tree.behind} behind" if tree.behind else ""
        parts.append(f"{counted(tree.ahead, 'commit')} ahead of the indexed {indexed[:7]}{behind}: run gitstrata index")
    if tree.changed:
        parts.append(
            f"{counted(tree.changed, 'changed file')}, which the index does not show: it holds commits, not edits"
        )
    return f"this checkout at {tree.head[:7]}: {'; '.join(parts)}" if parts else ""
