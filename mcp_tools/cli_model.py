"""``gitstrata model``: which embedding model the index has, and how to change it. Added by ``mcp_tools/cli.py``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows import settings as settings_module
from flows.wording import counted
from mcp_tools.summary import printable

if TYPE_CHECKING:
    from flows.generations import Change, Listed

model = typer.Typer(no_args_is_help=True, help="Look after the embedding model of the index.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output, and nothing else there.")]


@model.command("list")
def list_(as_json: Json = False) -> None:
    """List the models of the index: active, building with its progress, retired."""
    from flows import generations
    from flows.store.connect import open_database
    from flows.store.models import advice

    settings = settings_module.load()
    with open_database(settings) as database, database.connect() as connection:
        found = generations.listed(connection)
    if as_json:
        print(json.dumps({"models": [_fields(item) for item in found]}))
        return
    lines = [_line(item) for item in found] or ["no model yet: the first index brings one"]
    states = {item.model.state: item.model for item in found}
    said = advice(states["active"], states.get("building"), settings.model) if "active" in states else ""
    print(printable("\n".join(filter(None, [*lines, said]))))


def _fields(item: Listed) -> dict[str, Any]:
    return {
        "name": item.model.name,
        "setting": item.model.setting or "default",
        "fingerprint": item.model.fingerprint,
        "dimension": item.model.dimension,
        "state": item.model.state,
        "since": item.model.changed_at.isoformat(),
        "texts": item.texts,
        "vectors": item.vectors,
    }


def _line(item: Listed) -> str:
    from mcp_tools.render import clock

    made = item.model
    where = f" ({made.setting})" if made.setting not in ("", made.name) else ""
    return (
        f"{made.state:8} {made.name}{where}: {made.dimension} dimensions, {item.vectors} of {item.texts} vectors, "
        f"since {clock(made.changed_at)}, {made.fingerprint[:12]}"
    )


@model.command("set")
def set_(
    name: Annotated[
        str,
        typer.Argument(
            help="default (the shipped one), a model's name or folder, or an endpoint https://host/v1#name."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Change the model: compute the new vectors beside the old ones, then switch in one step.

    Search goes on with the old model until then. Stopped, it goes on where it was when run again.
    """
    from flows import generations
    from flows.embed.shelf import Shelf
    from flows.store.connect import open_database
    from mcp_tools import progress

    settings = settings_module.load()
    with open_database(settings) as database, progress.shown("model", quiet=as_json) as update:
        done = generations.change(database, Shelf(settings.model), name, update)
    _print(done, as_json)


@model.command("rollback")
def rollback(as_json: Json = False) -> None:
    """Go back to the model before, after computing the vectors that it lacks by now."""
    from flows import generations
    from flows.embed.shelf import Shelf
    from flows.store.connect import open_database
    from mcp_tools import progress

    settings = settings_module.load()
    with open_database(settings) as database, progress.shown("model", quiet=as_json) as update:
        done = generations.roll_back(database, Shelf(settings.model), update)
    _print(done, as_json)


@model.command("cancel")
def cancel(as_json: Json = False) -> None:
    """Give up the model that is being built, with its vectors."""
    from flows import generations
    from flows.store.connect import open_database

    with open_database(settings_module.load()) as database:
        name = generations.cancel(database)
    print(json.dumps({"outcome": "cancelled", "name": name}) if as_json else printable(f"gave up {name}"))


def _print(done: Change, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print(json.dumps(asdict(done)))
        return
    said = {
        "first": f"the index is empty and begins with {done.name}",
        "same": f"the index has the model {done.name} already",
        "switched": f"switched from {done.before} to {done.name}: {counted(done.computed, 'vector')} computed, "
        f"{done.reused} there already; `gitstrata model rollback` goes back until gc takes the old ones",
    }
    print(printable(said[done.outcome]))


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(model, name="model")
