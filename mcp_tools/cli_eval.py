"""``gitstrata eval``: search a query file and say how good the answers are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_tools.evaluation import Place, Query
    from mcp_tools.index import Index


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("eval")
    def evaluate(
        queries: Annotated[Path, typer.Argument(help="A query file, see docs/evaluation.md.")],
        whole: Annotated[bool, typer.Option("--whole", help="Search whole repositories, not only root.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")] = False,
    ) -> None:
        """Run a query file against the index and print how good the answers are."""
        from flows import settings
        from mcp_tools import evaluation
        from mcp_tools.index import Index
        from mcp_tools.summary import printable

        rows = evaluation.read_queries(queries)
        with Index(settings.load()) as index:
            index.warm()
            found = evaluation.report(evaluation.run(rows, lambda query: places(index, query, whole=whole)))
        print(json.dumps(found) if as_json else printable(evaluation.text(found)))


def places(index: Index, query: Query, *, whole: bool) -> Sequence[Place]:
    """Return where the best rows of code_search point to, with what each costs to read as text."""
    from mcp_tools import render
    from mcp_tools.code_search import MAX_LIMIT, code_search
    from mcp_tools.evaluation import CHARS_A_TOKEN, Place

    roots = [f"/{query.root}"] if query.root and not whole else []
    found = []
    for number, row in enumerate(
        code_search(index, query.query, limit=MAX_LIMIT, repo=query.repo, paths=roots).result, 1
    ):
        path, _, lines = row.url.rpartition("#L")
        start, _, end = lines.partition("-L")
        tokens = -(-len(render.row_text(number, row)) // CHARS_A_TOKEN)
        found.append(Place(path, int(start), int(end or start), tokens))
    return found
