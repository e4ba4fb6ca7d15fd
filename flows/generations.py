"""Change the index's model while it is in use: compute the new vectors beside the old ones, then switch in one step.

Vectors are made of the stored chunk texts; git is not needed. Every batch is kept: a build that was stopped goes on
where it was, and one run after another may help it along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import psycopg

from flows.embed import Embedder, canonical, guard
from flows.embed.shelf import Shelf
from flows.errors import DatabaseError, EmbedderError, UsageError
from flows.store import lexicon, locks, models, signs, texts, vector_index
from flows.store.connect import Connection, Database
from flows.store.models import Generation, Model
from flows.sync import Progress

PAGE = 100_000  # texts of which it is asked at once whether they lack a vector
BATCH = 512  # texts that are read, embedded and written at once

Outcome = Literal["switched", "same", "first"]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Change:
    """What a change of the model did: ``first`` is that of an index without any."""

    outcome: Outcome
    name: str
    before: str = ""  # name of the model that search used until now
    computed: int = 0
    reused: int = 0


def change(database: Database, shelf: Shelf, setting: str, progress: Progress) -> Change:
    """Make the model of ``setting`` the index's own; search answers from the old one until all is there.

    Raises:
        EmbedderError: the model cannot be loaded, or has no usable vector for a text; finished work is kept.
        UsageError: another model is being built, or this one's vectors are too long.
        Busy: another process builds a model.
    """
    setting = canonical(setting)
    embedder = shelf.load(setting)
    return _guarded(database, lambda connection: _change(database, connection, embedder, setting, progress))


def roll_back(database: Database, shelf: Shelf, progress: Progress) -> Change:
    """Go back to the model that was active before, after computing what it lacks by now.

    Raises:
        EmbedderError, SchemaMismatch: that model cannot be loaded any more.
        UsageError: there is none, or another model is being built.
    """

    def back(connection: Connection) -> Change:
        known = models.all_models(connection)
        before = next((model for model in known if model.state == "retired"), None)
        if before is None:
            raise UsageError("no earlier model is kept: run `gitstrata model set NAME` to build another one")
        embedder = shelf.find(before.setting, before.fingerprint, before.dimension)
        return _change(database, connection, embedder, before.setting, progress)

    return _guarded(database, back)


def cancel(database: Database) -> str:
    """Give up the model that is being built, with its vectors, and return its name.

    Raises:
        UsageError: none is.
        Busy: a process is at work on it.
    """

    def give_up(connection: Connection) -> str:
        model = models.building_model(connection)
        if model is None:
            raise UsageError("no model is being built: there is nothing to cancel")
        models.drop(connection, model.fingerprint, "building")
        return model.name

    return _guarded(database, give_up)


def _guarded(database: Database, work: Callable[[Connection], _Result]) -> _Result:
    """Do something to the models of the index while no other process does."""
    try:
        with database.connect() as connection, locks.model(connection):
            return work(connection)
    except psycopg.Error as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DatabaseError(f"the database failed: {said}. Run this again; finished work is kept") from error


def _change(database: Database, connection: Connection, embedder: Embedder, setting: str, progress: Progress) -> Change:
    active, building = models.active_model(connection), models.building_model(connection)
    if building is not None and building.fingerprint != embedder.fingerprint:
        again = f"gitstrata model set {building.setting or 'default'}"
        raise UsageError(
            f"the model {building.name} is being built: go on with `{again}`, or give it up by `gitstrata model cancel`"
        )
    if active is None:
        active = models.register(connection, embedder, setting, "active")
        if active.fingerprint == embedder.fingerprint:
            return Change("first", embedder.name)
    if active.fingerprint == embedder.fingerprint:
        if active.setting != setting:
            models.note_setting(connection, active, setting)
        return Change("same", embedder.name)
    model = models.register(connection, embedder, setting, "building")
    total, left = texts.count_to_embed(connection, model)
    computed = 0
    while True:
        computed += _fill(connection, Generation(model, embedder), progress, left)
        lexicon.analyze(connection, model)
        vector_index.build_if_large(database, model, progress)
        if _switched(connection, model):
            return Change("switched", embedder.name, active.name, computed, max(0, total - computed))
        total, left = texts.count_to_embed(connection, model)


def _switched(connection: Connection, model: Model) -> bool:
    with connection.transaction():
        done = models.switch(connection, model)
        if done:
            signs.refill(connection, model)
    return done


def _fill(connection: Connection, new: Generation, progress: Progress, left: int) -> int:
    """Compute all vectors that a model lacks, ``left`` when last counted; return how many were written."""
    texts.prepare(connection)
    written, unusable, after = 0, 0, 0
    while page := texts.to_embed(connection, new.model, after, PAGE):
        after = page[-1]
        for start in range(0, len(page), BATCH):
            found = texts.bodies(connection, page[start : start + BATCH])
            vectors = guard.embed(new.embedder, [body for _, body in found])
            usable = {text_id: row for (text_id, _), row in zip(found, vectors, strict=True) if np.isfinite(row).all()}
            with connection.transaction():
                written += texts.insert_vectors(connection, new.model, usable)
            unusable += len(found) - len(usable)
            progress(f"vectors of {new.embedder.name}", min(left, written), left)
    if unusable:
        raise EmbedderError(
            f"{new.embedder.name} has no usable vector for {unusable} of {left} texts: the others are kept; "
            "run this again, or give it up with `gitstrata model cancel`"
        )
    return written


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of the index, and how many of the texts it has vectors for."""

    model: Model
    texts: int
    vectors: int


def listed(connection: Connection) -> list[Listed]:
    """Return all models of the index, the active one first."""
    found = []
    for model in models.all_models(connection):
        total, left = texts.count_to_embed(connection, model)
        found.append(Listed(model, total, total - left))
    return found
