"""What tools answer: the shapes that agents, scripts and the command line's ``--json`` rely on.

"" and [] mean "nothing"; there are no nulls, since some clients cannot read them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Result):
    """One hit."""

    source_id: str = Field(description="path#Symbol: pass it to get_chunk")
    source: str = Field(description="kind of source, repo_code for code of a repository")
    score: float = Field(description="comparable within this answer only")
    snippet: str = Field(description="signature or best matching line")
    url: str = Field(description="path#L10-L42")
    repo: str
    level: str = Field(description="file, class, method or block")
    language: str


class SearchResult(_Result):
    """Answer of code_search."""

    result: list[Row]
    freshness: str = Field(description="which commit was searched, and whether it is current")
    next_cursor: str = Field(description="pass it as cursor for the next rows; empty at the end")
    note: str = Field(description="what to do next, or why there is nothing")


class Author(_Result):
    """A person who knows the topic."""

    author: str
    score: float = Field(description="comparable within this answer only")
    issues: list[str] = Field(description="what earned the score: source_ids, then commits; or active in REPO")


class Evidence(_Result):
    """A commit that changed a file behind the topic, or whom CODEOWNERS names for one."""

    author: str
    repo: str
    commit: str = Field(description="empty for CODEOWNERS")
    date: str
    path: str = Field(description="as it was called then")
    subject: str = Field(description="of the commit, or CODEOWNERS; empty where it names what is denied")


class WhoResult(_Result):
    """Answer of who_knows."""

    result: list[Author]
    evidence: list[Evidence]
    note: str = Field(description="how far the history reaches, or why there is nobody")


class Neighbour(_Result):
    """A chunk before or after the one asked for."""

    source_id: str
    url: str
    text: str


class ChunkResult(_Result):
    """Answer of get_chunk."""

    source_id: str
    repo: str
    branch: str
    commit: str
    url: str
    symbol: str
    language: str
    level: str
    text: str
    context: list[Neighbour]
    truncated: bool
    freshness: str
    note: str


class RunInfo(_Result):
    """The last run on a branch."""

    outcome: str
    started_at: str
    seconds: float
    files_new: int
    files_removed: int
    chunks_added: int
    chunks_removed: int
    vectors_computed: int
    vectors_reused: int
    error: str


class BranchStatus(_Result):
    """State of one branch."""

    repo: str
    branch: str
    state: str = Field(description="ready, indexing, stale, partial or failed")
    commit: str
    committed_at: str
    indexed_at: str
    head: str = Field(description="the tip last seen at the source")
    head_seen_at: str
    files: int
    chunks: dict[str, int] = Field(description="by level")
    languages: dict[str, int] = Field(description="indexed files by language")
    skipped: dict[str, int] = Field(description="files that show nothing, by reason")
    history: str = Field(description="how far the facts behind who_knows reach: complete, since a date, or none")
    note: str = Field(description="which rule denies everything, if one does")
    last_run: list[RunInfo] = Field(description="at most one")


class StatusResult(_Result):
    """Answer of index_status."""

    state: str = Field(description="ready, indexing, stale, partial, failed or empty")
    model: str
    branches: list[BranchStatus]
    note: str
