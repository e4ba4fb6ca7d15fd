"""``gitstrata cases``: look after the case notes. Added to the command line by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows import settings as settings_module
from flows.errors import UsageError
from flows.wording import counted
from mcp_tools.summary import printable

if TYPE_CHECKING:
    from flows.store.cases import Note

cases = typer.Typer(no_args_is_help=True, help="Look after the case notes that agents and people left.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]
Project = Annotated[str, typer.Option("--project", help="Notes of this project; without it those of none.")]
WIDTH = 100  # characters of a concept in a list


@cases.command("list")
def list_(
    project: Annotated[str | None, typer.Option("--project", help="Only notes of this project; '' = of none.")] = None,
    as_json: Json = False,
) -> None:
    """List all notes, the oldest first; with --json whole, as `cases load` takes them."""
    from flows.store import cases as stored
    from flows.store.connect import open_database
    from mcp_tools.render import clock, one_line

    with open_database(settings_module.load()) as database, database.connect() as connection:
        notes = stored.notes(connection, project)
    if as_json:
        print(json.dumps({"cases": [_fields(note) for note in notes]}))
        return
    lines = [
        f"{n.case_id} {clock(n.added_at)}{f' [{n.project}]' if n.project else ''} {one_line(n.concept, WIDTH)}"
        for n in notes
    ]
    print(printable("\n".join([*lines, counted(len(notes), "case")])))


def _fields(note: Note) -> dict[str, Any]:
    return {
        "id": note.case_id,
        "project": note.project,
        "features": note.concept,
        "solution": note.solution,
        "added_at": note.added_at.isoformat(),
    }


@cases.command("add")
def add(
    concept: Annotated[str, typer.Argument(help="The problem, in the words one would search for.")],
    solution: Annotated[str, typer.Argument(help="What solved it; - reads it from standard input.")],
    project: Project = "",
    as_json: Json = False,
) -> None:
    """Store a note. Secrets in it are masked."""
    from mcp_tools.cases import add_case_reference
    from mcp_tools.index import Index

    text = sys.stdin.read() if solution == "-" else solution
    with Index(settings_module.load()) as index:
        answer = add_case_reference(index, concept, text, project=project)
    print(json.dumps(answer.model_dump()) if as_json else f"{answer.message}: {answer.case_id}")


@cases.command("query")
def query(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="The problem or question.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Cases, 1 to 100.")] = 5,
    project: Project = "",
    as_json: Json = False,
) -> None:
    """Find notes by meaning and words."""
    from mcp_tools.cases import as_text, query_knowledge_base
    from mcp_tools.index import Index

    with Index(settings_module.load()) as index:
        answer = query_knowledge_base(index, text, limit=limit, project=project)
    print(json.dumps(answer.model_dump()) if as_json else printable(as_text(answer)))


@cases.command("delete")
def delete(
    case_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids as `cases list` shows them.")],
    as_json: Json = False,
) -> None:
    """Delete notes for good: all of those named, or none if one of them is not there."""
    from flows.store import cases as stored
    from flows.store.connect import open_database

    with open_database(settings_module.load()) as database, database.connect() as connection, connection.transaction():
        gone = stored.delete(connection, case_ids)
        if missing := sorted(set(case_ids) - set(gone)):
            raise UsageError(f"no case {', '.join(missing)[:200]}: gitstrata cases list shows what there is")
    print(json.dumps({"deleted": sorted(gone)}) if as_json else f"deleted {', '.join(sorted(gone))}")


@cases.command("load")
def load(
    file: Annotated[Path, typer.Argument(help="What `cases list --json` printed; - reads standard input.")],
    as_json: Json = False,
) -> None:
    """Bring notes from another database, under their ids; those that are here already stay as they are."""
    from flows.store import cases as stored
    from flows.store.connect import open_database

    notes = _read(file)
    with open_database(settings_module.load()) as database, database.connect() as connection, connection.transaction():
        new = stored.restore(connection, notes)
    counts = {"new": new, "known": len(notes) - new}
    print(json.dumps(counts) if as_json else f"{counted(new, 'case')} loaded, {len(notes) - new} here already")


def _read(file: Path) -> list[Note]:
    """Return the notes of a file, checked and masked as if they were added one by one."""
    from flows.store.cases import Note
    from mcp_tools.cases import checked

    name = "standard input" if str(file) == "-" else str(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        items = json.loads(text)["cases"]
        parts = [(str(i["id"]), str(i["project"]), i["features"], i["solution"], i["added_at"]) for i in items]
        return [Note(a, b, *checked(c, d), datetime.fromisoformat(e)) for a, b, c, d, e in parts]
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{name} is not what `gitstrata cases list --json` prints: {error!r:.200}") from error


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(cases, name="cases")
