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
    total: int = Field(description="rows of all pages: the best that were ranked, not all that could match")
    freshness: str = Field(description="which commit was searched, and whether it is current")
    next_cursor: str = Field(description="pass it as cursor for the next rows; empty at the end")
    note: str = Field(description="what to do next, or why there is nothing")


class Line(_Result):
    """A line that matches."""

    line: int
    text: str = Field(description="without the white space around it; a long line is cut around the match")


class CodeRow(Row):
    """One class, method or file with lines that match."""

    lines: list[Line] = Field(description="the first lines that match")


class Totals(_Result):
    """How much there is in all, however few rows are shown."""

    matches: int = Field(description="lines that match, as git grep -c counts")
    files: int
    chunks: int = Field(description="classes and methods that hold them; lines outside count for their file")
    exact: bool = Field(description="false: there are at least so many, see note")


class CodeResult(_Result):
    """Answer of search_code."""

    result: list[CodeRow]
    totals: Totals
    freshness: str = Field(description="which commit was searched, and whether it is current")
    next_cursor: str = Field(description="pass it as cursor for the next rows; empty at the end")
    note: str = Field(description="how to narrow, what was not searched, or why there is nothing")


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


class RepoInfo(_Result):
    """A repository; commit, files, chunks and languages are those of its default branch, else of its first."""

    repo: str
    branches: list[str] = Field(description="the default one first")
    commit: str
    indexed_at: str
    files: int
    chunks: int
    languages: dict[str, int] = Field(description="the most common ones, with their files")
    projects: list[str]


class ReposResult(_Result):
    """Answer of list_repos."""

    result: list[RepoInfo]
    total: int = Field(description="how many there are")
    next_cursor: str = Field(description="pass it as cursor for the next rows; empty at the end")
    note: str


class Case(_Result):
    """A case note and how like the query it is."""

    id: str
    features: str = Field(description="the concept as it was stored")
    solution: str
    similarity_score: float = Field(description="0 to 1")


class CaseResult(_Result):
    """Answer of query_knowledge_base; an error has status and message only."""

    status: str = Field(description="success or error")
    results: list[Case] = []
    count: int = 0
    message: str = ""


class CaseAdded(_Result):
    """Answer of add_case_reference; an error has status and message only."""

    status: str = Field(description="success or error")
    message: str = ""
    case_id: str = ""


class LoopResult(_Result):
    """Answer of cerebrum_run_free_energy_loop; an error has status and message only."""

    status: str = Field(description="success or error")
    converged: bool = False
    steps: int = 0
    final_free_energy: float = 0.0
    action_history: list[str] = Field([], description="stay or switch, one a step")
    message: str = ""
