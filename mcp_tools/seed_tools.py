"""The tools that keep the form of the project's seed: case notes, and the free-energy loop.

An error is their result, ``{"status": "error", "message": ...}``, with isError set as well; its text is the same JSON.
"""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from flows.errors import GitstrataError
from mcp_tools.results import CaseAdded, CaseResult, LoopResult
from mcp_tools.sentence import sentence

if TYPE_CHECKING:
    from mcp_tools.index import Index

NAMES = frozenset({"query_knowledge_base", "add_case_reference", "cerebrum_run_free_energy_loop"})

CASES = """\
- query_knowledge_base: what was learned here before, by people and agents: ask it when a problem looks familiar.
- add_case_reference: keep what you found out, once it is solved and others could need it: concept and solution."""
CEREBRUM = (
    "- cerebrum_run_free_energy_loop: whether to stay or switch, given how unusual some signals are (0 to 1 each)."
)

_READ = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_ADD = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)


def register_cases(server: MCPServer[None], index: Index) -> None:
    """Add the tools of case notes to a server."""

    @server.tool(
        annotations=_READ,
        title="Ask what was learned before",
        description=inspect.cleandoc(
            """
            Find case notes (problem and solution) by meaning and words, the most similar first.

            They are notes that people and agents left, not code: for code use code_search.
            """
        ),
    )
    def query_knowledge_base(
        query: Annotated[str, Field(description="The problem or question; a sentence or a few words")],
        limit: Annotated[int, Field(description="Cases to return, 1 to 100")] = 5,
    ) -> Annotated[CallToolResult, CaseResult]:
        from mcp_tools import cases

        try:
            answer = cases.query_knowledge_base(index, query, limit=limit, project=index.notes_project)
        except GitstrataError as error:
            return failed(str(error))
        return _result(answer, cases.as_text(answer))

    @server.tool(
        annotations=_ADD,
        title="Keep what was learned",
        description=inspect.cleandoc(
            """
            Store a case note, for query_knowledge_base to find later. Secrets in it are masked.

            Use it when something is solved that others could meet again. Every call makes a new note.
            """
        ),
    )
    def add_case_reference(
        concept: Annotated[str, Field(description="The problem, in the words one would search for; up to 2000 chars")],
        solution: Annotated[str, Field(description="What solved it, and why; up to 10000 characters")],
    ) -> Annotated[CallToolResult, CaseAdded]:
        from mcp_tools import cases

        try:
            answer = cases.add_case_reference(index, concept, solution, project=index.notes_project)
        except GitstrataError as error:
            return failed(str(error))
        return _result(answer, f"{answer.status}: {answer.message}, case_id {answer.case_id}")


def register_cerebrum(server: MCPServer[None], index: Index) -> None:
    """Add the free-energy loop to a server."""

    @server.tool(
        annotations=_READ,
        title="Stay or switch, by free energy",
        description=inspect.cleandoc(
            """
            Run active inference on a constant observation until free energy settles: stay, or switch.

            Deterministic. An ambiguous observation does not converge.
            """
        ),
    )
    def cerebrum_run_free_energy_loop(
        observation: Annotated[dict[str, float], Field(description='Signals, 0 usual to 1 unusual: {"sensor": 0.9}')],
        max_steps: Annotated[int, Field(description="Steps at most, 1 to 1000")] = 50,
        threshold: Annotated[float, Field(description="Change of free energy that counts as none")] = 0.1,
        convergence_window: Annotated[int, Field(description="Steps in a row without a change")] = 3,
    ) -> Annotated[CallToolResult, LoopResult]:
        from mcp_tools import free_energy

        try:
            answer = free_energy.run(
                observation, max_steps=max_steps, threshold=threshold, convergence_window=convergence_window
            )
        except GitstrataError as error:
            return failed(str(error))
        return _result(answer, free_energy.as_text(answer))


def _result(answer: BaseModel, text: str) -> CallToolResult:
    fields = answer.model_dump(exclude_unset=True)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=fields)


def failed(message: str) -> CallToolResult:
    """Return an error in the seed's form."""
    fields: dict[str, Any] = {"status": "error", "message": sentence(message)}
    text = json.dumps(fields, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=fields, is_error=True)
