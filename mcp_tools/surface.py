"""What tools and their arguments are called where an answer is read: over MCP, or at the command line.

Answers and errors are made by the same functions for both. They name a tool or an argument by its MCP name through
:func:`tool` and :func:`argument`, which return the words of the reader.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_COMMANDS = {
    "add_case_reference": "cases add",
    "code_search": "search",
    "find_related": "related",
    "get_chunk": "show",
    "index_status": "status",
    "list_repos": "repos list",
    "query_knowledge_base": "cases query",
    "search_code": "grep",
    "who_knows": "who",
}
_OPTIONS = {"languages": "--language", "next_cursor": "--cursor", "paths": "--path"}  # others are named alike
_is_command_line: ContextVar[bool] = ContextVar("is_command_line", default=False)


def tool(name: str) -> str:
    """Return what the reader calls the tool ``name``."""
    return f"`gitstrata {_COMMANDS[name]}`" if _is_command_line.get() else name


def argument(name: str) -> str:
    """Return what the reader calls the argument ``name``, one that is an option of commands."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}") if _is_command_line.get() else name


@contextlib.contextmanager
def spoken(*, at_command_line: bool) -> Iterator[None]:
    """Let the block be read at the command line, or by agents."""
    token = _is_command_line.set(at_command_line)
    try:
        yield
    finally:
        _is_command_line.reset(token)
