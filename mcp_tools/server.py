"""The MCP server: registration only. What a tool does is in the module of its name.

Nothing heavy is imported or done before the handshake; database and model are opened in the background.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from flows.errors import GitstrataError, Interrupted, UsageError
from flows.settings import Settings
from mcp_tools import access, code_resource, seed_tools
from mcp_tools.index import Index
from mcp_tools.results import ChunkResult, CodeResult, ReposResult, SearchResult, StatusResult, WhoResult
from mcp_tools.sentence import MAX_SAID, sentence

log = logging.getLogger("gitstrata")

INSTRUCTIONS = """\
gitstrata holds whole git repositories at a published commit, cut into files, classes, methods and blocks.
- code_search: find code when you know what it does but not what it is called or where it is, across one or many
  repositories, also ones that are not checked out here. Use words or identifiers; read the hits with get_chunk.
- search_code: every line that holds a text or matches a regular expression (RE2), with exact totals; definitions first;
  a full name such as Class.method finds its definition; an empty pattern with paths lists files.
- get_chunk: the code of a row (its source_id or url), with its neighbours, or widened to its class or file.
- find_related: code that resembles a row, elsewhere.
- who_knows: whom to ask about a topic or path, by who changed its code, with commits as evidence.
- list_repos: which repositories there are, with their branches, languages and projects.
- index_status: which commit is indexed, whether it is current, and which files were left out and why.
Plain grep in your working tree is better for uncommitted changes in files that you have checked out: the index shows
commits, not edits.
code://{repo}/{commit}/{path} (with / in the repository's name written %2F) is a file as a resource, ?start=1&end=40
some of its lines."""

DEFAULT_TOOLSETS = ("code", "cases")

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Repo = Annotated[str, Field(description="Repository name as listed by index_status, e.g. pallets/flask; empty for all")]
Branch = Annotated[str, Field(description="Branch or tag; empty for each repository's default")]


class Server(MCPServer[None]):
    """An MCPServer that names the nearest valid argument instead of ignoring or dumping an unknown one."""

    _listed: list[Tool] | None = None

    async def list_tools(self) -> list[Tool]:
        """Return the tools without the titles of parameters, which say their names again."""
        if self._listed is None:
            self._listed = [_untitled(tool) for tool in await super().list_tools()]
        return self._listed

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """Call a tool; errors take the form that the tool's users expect."""
        try:
            return await self._call_checked(name, arguments, context)
        except ToolError as error:
            if name not in seed_tools.NAMES or isinstance(error, UnexpectedToolError):
                if len(str(error)) > MAX_SAID:
                    raise ToolError(sentence(error)) from error
                raise
            return seed_tools.failed(str(error))

    async def _call_checked(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None) -> Any:
        """Check the names of the arguments, then call the tool."""
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"unknown tool {name!r}: there are {', '.join(tools)}")
        check_arguments(arguments, list(tools[name].input_schema.get("properties", {})))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.__cause__.errors())
                raise ToolError("; ".join(problems)) from error
            raise


def _untitled(tool: Tool) -> Tool:
    schemas = {"input_schema": _without_titles(tool.input_schema), "output_schema": _without_titles(tool.output_schema)}
    return tool.model_copy(update=schemas)


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if key != "title" or not isinstance(part, str)}
    return {key: _without_titles(part) for key, part in kept.items()}


def check_arguments(arguments: dict[str, Any], valid: list[str]) -> None:
    """Raise ToolError for an argument that the tool does not have."""
    for name in arguments:
        if name not in valid:
            longer = [other for other in valid if name and other.startswith(name)]
            nearest = difflib.get_close_matches(name, valid, 1, 0.5) or longer
            hint = f"did you mean {nearest[0]!r}? " if nearest else ""
            raise ToolError(f"unknown argument {name!r}: {hint}Valid arguments: {', '.join(valid)}")


def _described(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Take the indentation of the source out of what a tool says of itself."""
    tool.__doc__ = inspect.getdoc(tool)
    return tool


def build_server(index: Index, toolsets: Sequence[str] = DEFAULT_TOOLSETS) -> Server:
    """Return a server with these toolsets over ``index``; the tools' order is always the same."""
    ArgModelBase.model_config["extra"] = "forbid"  # so that the schemas say it, too
    chosen = [name for name in TOOLSETS if name in toolsets]
    instructions = "\n".join(TOOLSETS[name][0] for name in chosen)
    server = Server("gitstrata", instructions=instructions, version=version(), log_level="WARNING")
    for name in chosen:
        TOOLSETS[name][1](server, index)
    return server


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Return the toolsets of a comma-separated list.

    Raises:
        UsageError: one is unknown, or there is none.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in TOOLSETS:
            nearest = difflib.get_close_matches(name, TOOLSETS, 1, 0.5)
            hint = f"did you mean {nearest[0]!r}? " if nearest else ""
            raise UsageError(f"unknown toolset {name!r}: {hint}There are {', '.join(TOOLSETS)}")
    if not names:
        raise UsageError(f"no toolset is named: there are {', '.join(TOOLSETS)}")
    return names


def _code_tools(server: MCPServer[None], index: Index) -> None:
    code_resource.register(server, index)

    @server.tool(annotations=READ_ONLY, title="Search code by meaning and words")
    @_described
    def code_search(
        query: Annotated[str, Field(description="What the code does, or identifiers in it; a sentence or a few words")],
        limit: Annotated[int, Field(description="Rows to return, 1 to 50")] = 10,
        repo: Repo = "",
        project: Annotated[str, Field(description="Project (a named set of repositories); empty for all")] = "",
        branch: Branch = "",
        languages: Annotated[list[str], Field(description="Only these, e.g. python, go, markdown")] = [],  # noqa: B006
        paths: Annotated[
            list[str], Field(description="Globs from the repository root, e.g. src, *.py, !tests; ! excludes")
        ] = [],  # noqa: B006
        level: Annotated[str, Field(description="any, file, class, method or block")] = "any",
        cursor: Annotated[str, Field(description="next_cursor of an earlier answer, for more rows")] = "",
    ) -> Annotated[CallToolResult, SearchResult]:
        """Find where something is implemented, by meaning (semantic) or names, in the code of indexed repositories.

        Use it when you do not know the name or place of what you look for. For exact text use search_code, or plain
        grep in a working tree that you have at hand. Read a hit with get_chunk.
        """
        from mcp_tools import code_search as tool
        from mcp_tools import render

        with _reported():
            answer = tool.code_search(
                index,
                query,
                limit=limit,
                repo=repo,
                project=project,
                branch=branch,
                languages=languages,
                paths=paths,
                level=level,
                cursor=cursor,
            )
        return _result(answer, render.search_text(answer))

    @server.tool(annotations=READ_ONLY, title="Search code by exact text or regular expression")
    @_described
    def search_code(
        pattern: Annotated[
            str, Field(description="RE2 regular expression, or text with literal; empty lists paths")
        ] = "",
        limit: Annotated[int, Field(description="Rows to return, 1 to 50")] = 10,
        repo: Repo = "",
        project: Annotated[str, Field(description="Project (a named set of repositories); empty for all")] = "",
        branch: Branch = "",
        paths: Annotated[
            list[str], Field(description="Globs from the repository root, e.g. src, *.py, !tests; ! excludes")
        ] = [],  # noqa: B006
        languages: Annotated[list[str], Field(description="Only these, e.g. python, go, markdown")] = [],  # noqa: B006
        literal: Annotated[bool, Field(description="Take the pattern as text, not as an expression")] = False,
        ignore_case: Annotated[bool, Field(description="Take upper and lower case as one")] = False,
        multiline: Annotated[bool, Field(description="Let matches span lines; they count where they begin")] = False,
        cursor: Annotated[str, Field(description="next_cursor of an earlier answer, for more rows")] = "",
    ) -> Annotated[CallToolResult, CodeResult]:
        """Find all occurrences of an exact string or regular expression (grep) in the code of indexed repositories.

        Published commits, definitions first, exact totals. Rows are methods, classes or files with their first matching
        lines. A full name such as Class.method finds its definition. Plain grep is better for uncommitted changes in a
        working tree that you have at hand.
        """
        from mcp_tools import render
        from mcp_tools import search_code as tool

        with _reported():
            answer = tool.search_code(
                index,
                pattern,
                limit=limit,
                repo=repo,
                project=project,
                branch=branch,
                paths=paths,
                languages=languages,
                literal=literal,
                ignore_case=ignore_case,
                multiline=multiline,
                cursor=cursor,
            )
        return _result(answer, render.code_text(answer))

    @server.tool(annotations=READ_ONLY, title="Read the code behind a hit")
    @_described
    def get_chunk(
        source_id: Annotated[str, Field(description="source_id (path#Symbol) or url (path#L10-L42) of any row")],
        repo: Repo = "",
        branch: Branch = "",
        context: Annotated[int, Field(description="Neighbouring chunks before and after, 0 to 3")] = 1,
        level: Annotated[str, Field(description="Widen to method, class or file; empty for the chunk itself")] = "",
        max_chars: Annotated[int, Field(description="Characters of code to return, up to 40000")] = 8000,
    ) -> Annotated[CallToolResult, ChunkResult]:
        """Return the code of a chunk with its neighbours, or of its class or file, from the published commit."""
        from mcp_tools import chunks as tool
        from mcp_tools import render

        with _reported():
            answer = tool.get_chunk(
                index, source_id, repo=repo, branch=branch, context=context, level=level, max_chars=max_chars
            )
        return _result(answer, render.chunk_text(answer))

    @server.tool(annotations=READ_ONLY, title="Find code like a hit")
    @_described
    def find_related(
        source_id: Annotated[str, Field(description="source_id (path#Symbol) or url (path#L10-L42) of any row")],
        limit: Annotated[int, Field(description="Rows to return, 1 to 50")] = 10,
        repo: Repo = "",
        project: Annotated[str, Field(description="Project (a named set of repositories); empty for all")] = "",
    ) -> Annotated[CallToolResult, SearchResult]:
        """Find code that resembles a chunk: other implementations, callers' copies, its tests."""
        from mcp_tools import related as tool
        from mcp_tools import render

        with _reported():
            answer = tool.find_related(index, source_id, limit=limit, repo=repo, project=project)
        return _result(answer, render.search_text(answer))

    @server.tool(annotations=READ_ONLY, title="Who knows a piece of code")
    @_described
    def who_knows(
        topic: Annotated[str, Field(description="What the code does, identifiers in it, or a path")],
        limit: Annotated[int, Field(description="People to return, 1 to 20")] = 5,
        repo: Repo = "",
        project: Annotated[str, Field(description="Project (a named set of repositories); empty for all")] = "",
    ) -> Annotated[CallToolResult, WhoResult]:
        """Find whom to ask about a topic: who changed the code behind it, lately and often, with commits as evidence.

        For who wrote one line of a file that you have checked out, git blame is better.
        """
        from mcp_tools import render
        from mcp_tools import who_knows as tool

        with _reported():
            answer = tool.who_knows(index, topic, limit=limit, repo=repo, project=project)
        return _result(answer, render.who_text(answer))

    @server.tool(annotations=READ_ONLY, title="List repositories")
    @_described
    def list_repos(
        name_contains: Annotated[str, Field(description="Part of a name, in upper or lower case; empty for all")] = "",
        project: Annotated[str, Field(description="Project (a named set of repositories); empty for all")] = "",
        cursor: Annotated[str, Field(description="next_cursor of an earlier answer, for more rows")] = "",
    ) -> Annotated[CallToolResult, ReposResult]:
        """List which repositories are indexed: branches, commit, size, languages and projects."""
        from mcp_tools import repos as tool

        with _reported():
            answer = tool.list_repos(index, name_contains=name_contains, project=project, cursor=cursor)
        return _result(answer, tool.as_text(answer))

    @server.tool(annotations=READ_ONLY, title="What is indexed, and how fresh it is")
    @_described
    def index_status(repo: Repo = "") -> Annotated[CallToolResult, StatusResult]:
        """Say which repositories and commits are indexed, whether they are current, and what was left out and why."""
        from mcp_tools import render
        from mcp_tools import status as tool

        with _reported():
            answer = tool.index_status(index, repo=repo)
        return _result(answer, render.status_text(answer))


# In the order in which a client sees them: what is said of each in the instructions, and what registers its tools.
TOOLSETS: dict[str, tuple[str, Callable[[MCPServer[None], Index], None]]] = {
    "code": (INSTRUCTIONS, _code_tools),
    "cases": (seed_tools.CASES, seed_tools.register_cases),
    "cerebrum": (seed_tools.CEREBRUM, seed_tools.register_cerebrum),
}


class _reported:
    """Turn our own errors into the one line that the model reads; anything else stays in the server's log."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> None:
        if isinstance(error, GitstrataError):
            raise ToolError(sentence(error)) from error


def _result(answer: BaseModel, text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer.model_dump())


def version() -> str:
    """Return the installed version of gitstrata."""
    try:
        return importlib.metadata.version("gitstrata")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _leave(index: Index) -> NoReturn:
    """End at once: the thread that reads standard input cannot be woken, and an orderly exit would wait for it."""
    index.close()
    os._exit(Interrupted.exit_code)


def serve(settings: Settings, toolsets: Sequence[str] = DEFAULT_TOOLSETS, *, projects: Sequence[str] = ()) -> None:
    """Serve over standard input and output until the client goes away, everything or some projects."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    with Index(settings) as index:
        if projects:
            from mcp_tools import scope  # not at the top: a server is to list its tools within a second

            scope.check_projects(index, projects, scope.NO_PROJECT)
        index.unnamed = access.local(projects)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _leave(index))
        server = build_server(index, toolsets)
        threading.Thread(target=index.warm, name="warm", daemon=True).start()
        server.run("stdio")
