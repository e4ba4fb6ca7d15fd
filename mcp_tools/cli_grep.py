"""The command that searches for exact text: grep. Added to the command line by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from flows import settings as settings_module
from mcp_tools.summary import printable


def grep(
    pattern: Annotated[str, typer.Argument(help="RE2 regular expression; empty with --path lists files.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Rows, 1 to 50.")] = 10,
    repo: Annotated[str, typer.Option("--repo", "-r", help="Only this repository.")] = "",
    project: Annotated[str, typer.Option("--project", help="Only the repositories of this project.")] = "",
    branch: Annotated[str, typer.Option("--branch", "-b", help="Branch or tag; by default each repo's own.")] = "",
    path: Annotated[
        list[str], typer.Option("--path", "-p", help="Glob from the root; ! excludes; may be repeated.")
    ] = [],  # noqa: B006
    language: Annotated[list[str], typer.Option("--language", "-l", help="Only this language; may be repeated.")] = [],  # noqa: B006
    literal: Annotated[bool, typer.Option("--literal", "-F", help="Take the pattern as text.")] = False,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="Take upper and lower case as one.")] = False,
    multiline: Annotated[bool, typer.Option("--multiline", "-U", help="Let matches span lines.")] = False,
    cursor: Annotated[str, typer.Option("--cursor", help="next_cursor of an earlier answer.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")
    ] = False,
) -> None:
    """Find every line with an exact text or pattern; put -- before a pattern that begins with -."""
    from mcp_tools import render
    from mcp_tools.index import Index
    from mcp_tools.search_code import search_code

    with Index(settings_module.load()) as opened:
        answer = search_code(
            opened,
            pattern,
            limit=limit,
            repo=repo,
            project=project,
            branch=branch,
            paths=path,
            languages=language,
            literal=literal,
            ignore_case=ignore_case,
            multiline=multiline,
            cursor=cursor,
        )
    print(json.dumps(answer.model_dump()) if as_json else printable(render.code_text(answer)))


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(grep)
