"""The models of the index, one generation of vectors each, and the tables that hold them.

Search uses the *active* one. One more may be *building*: its table is being filled beside it, and runs write both.
Those that were active before are *retired*: kept for a rollback, not written any more, until gc takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from flows import urls
from flows.embed import Embedder, canonical
from flows.embed.shelf import Shelf
from flows.errors import Moved, UsageError
from flows.store.connect import Connection

MAX_DIMENSION = 4000  # of an indexed halfvec
_INLINE_DIMENSION = 1000  # beyond it a vector no longer fits in its row's page beside others
_MODEL_LOCK = 7_242_002
_SWITCH_LOCK = 7_242_004  # shared by transactions that show content, exclusive for a change of the active model
_LAST_READERS = timedelta(minutes=1)  # a query that began before the switch ends within its statement timeout
_PATIENCE = "set local lock_timeout = '30s'"
_COLUMNS = "model_id, fingerprint, name, setting, dimension, state, changed_at, vectors, signs, means, rewrites"


@dataclass(frozen=True, slots=True)
class Model:
    """A registered model.

    ``setting`` is what loads it, ``vectors`` is its table; ``signs`` and ``means`` are those of store/signs.py, where
    ``rewrites`` counts how often signs that stood there already were written anew.
    """

    model_id: int
    fingerprint: str
    name: str
    setting: str
    dimension: int
    state: str  # building, active or retired
    changed_at: datetime
    vectors_name: str
    signs_name: str
    means_name: str
    rewrites: int

    @property
    def vectors(self) -> sql.Identifier:
        return sql.Identifier(self.vectors_name)

    @property
    def signs(self) -> sql.Identifier:
        return sql.Identifier(self.signs_name)

    @property
    def means(self) -> sql.Identifier:
        return sql.Identifier(self.means_name)


@dataclass(frozen=True, slots=True)
class Generation:
    """A model and the program that computes its vectors."""

    model: Model
    embedder: Embedder


def all_models(connection: Connection) -> list[Model]:
    """Return the active model first, then the one being built, then the retired ones, the newest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from model order by state <> 'active', state <> 'building', changed_at desc, model_id desc"
    )
    return [_model(row) for row in rows]


def active_model(connection: Connection) -> Model | None:
    """Return the model that search uses, None before the first index."""
    return _in_state(connection, "active")


def building_model(connection: Connection) -> Model | None:
    """Return the model whose vectors are being computed beside the active one's."""
    return _in_state(connection, "building")


def _in_state(connection: Connection, state: str) -> Model | None:
    row = connection.execute(f"select {_COLUMNS} from model where state = %s", [state]).fetchone()
    return _model(row) if row else None


def _model(row: tuple[Any, ...]) -> Model:
    return Model(*row)


def use_model(connection: Connection, shelf: Shelf) -> Model:
    """Return the active model; an index without one begins with the one that is configured.

    Raises:
        UsageError: the configured model's vectors are too long to be indexed.
    """
    model = active_model(connection)
    return model or register(connection, shelf.load(shelf.setting), shelf.setting, "active")


def register(connection: Connection, embedder: Embedder, setting: str, state: str) -> Model:
    """Bring a model into a state, with an empty table if it is new; another one that is in that state wins.

    Raises:
        UsageError: the model's vectors are too long to be indexed.
    """
    if not 1 <= embedder.dimension <= MAX_DIMENSION:
        raise UsageError(f"{embedder.name} has {embedder.dimension} dimensions; at most {MAX_DIMENSION} can be indexed")
    name, signs, means = (f"{kind}_{embedder.fingerprint[:16]}" for kind in ("emb", "sign", "mean"))
    storage = sql.SQL("storage plain" if embedder.dimension <= _INLINE_DIMENSION else "")
    with connection.transaction():
        connection.execute(_PATIENCE)
        connection.execute("select pg_advisory_xact_lock(%s)", [_MODEL_LOCK])
        if (model := _in_state(connection, state)) is not None:
            return model
        connection.execute(
            sql.SQL(
                "create table if not exists {} (text_id bigint primary key references text on delete cascade,"
                " vector halfvec({}) {} not null)"
            ).format(sql.Identifier(name), sql.Literal(embedder.dimension), storage)
        )
        connection.execute(
            sql.SQL(
                "create table if not exists {} (cut_id bigint primary key references cut on delete cascade,"
                " texts bytea storage external not null, levels bytea storage external not null,"
                " signs bytea storage external not null)"
            ).format(sql.Identifier(signs))
        )
        connection.execute(
            sql.SQL(
                "create table if not exists {} (cut_id bigint primary key references cut on delete cascade,"
                " vector halfvec({}) {})"  # null: a file of one chunk
            ).format(sql.Identifier(means), sql.Literal(embedder.dimension), storage)
        )
        connection.execute(
            "insert into model (fingerprint, name, setting, dimension, vectors, signs, means, state)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict (fingerprint) do update set"
            " setting = excluded.setting, state = excluded.state, changed_at = now()",
            [embedder.fingerprint, embedder.name, setting, embedder.dimension, name, signs, means, state],
        )
    model = _in_state(connection, state)
    assert model is not None
    return model


def note_setting(connection: Connection, model: Model, setting: str) -> None:
    """Record that a model is loaded by another setting now: its folder was moved."""
    connection.execute("update model set setting = %s where model_id = %s", [setting, model.model_id])


def advice(model: Model, building: Model | None, wanted: str) -> str:
    """Return what to say to someone who configured another model than the index has; "" if there is nothing to say."""
    setting = canonical(wanted)
    if not setting or setting in (model.setting, building.setting if building else model.setting):
        return ""
    shown = urls.redact(setting)
    return (
        f"GITSTRATA_MODEL names {shown}, but this index has the model {model.name}: "
        f"run `gitstrata model set {shown}` to change it, or leave the variable out"
    )


# --- the switch ----------------------------------------------------------------------------------------------------


def keep_active(connection: Connection, model: Model) -> None:
    """Hold off a switch until this transaction ends, since what it shows has vectors of ``model``.

    Raises:
        Moved: another model has become the active one.
    """
    connection.execute("select pg_advisory_xact_lock_shared(%s)", [_SWITCH_LOCK])
    row = connection.execute("select name from model where state = 'active' and model_id <> %s", [model.model_id])
    if (other := row.fetchone()) is not None:
        raise Moved(f"the index has switched from the model {model.name} to {other[0]} meanwhile: run this again")


def switch(connection: Connection, model: Model) -> bool:
    """Make ``model`` the active one if every text of every cut has its vector; say whether it was done.

    Check and switch are one transaction, which waits for publishes at work and keeps new ones waiting.
    """
    with connection.transaction():
        connection.execute("set local synchronous_commit = on")
        connection.execute("select pg_advisory_xact_lock(%s)", [_SWITCH_LOCK])
        if _lacks_vectors(connection, model):
            return False
        connection.execute("update model set state = 'retired', changed_at = now() where state = 'active'")
        connection.execute(
            "update model set state = 'active', changed_at = now() where model_id = %s", [model.model_id]
        )
    return True


def _lacks_vectors(connection: Connection, model: Model) -> bool:
    query = sql.SQL(
        "select exists (select 1 from chunk c where not exists (select 1 from {} v where v.text_id = c.text_id))"
    )
    return connection.execute(query.format(model.vectors)).fetchone() == (True,)


# --- an end --------------------------------------------------------------------------------------------------------


def drop_retired(connection: Connection, grace: timedelta) -> int:
    """Delete the models that have been retired for longer than ``grace``, with their vectors; return how many."""
    rows = connection.execute(
        "select fingerprint from model where state = 'retired' and changed_at <= now() - %s::interval",
        [max(grace, _LAST_READERS)],
    )
    return sum(drop(connection, row[0], "retired") for row in rows.fetchall())


def drop(connection: Connection, fingerprint: str, state: str) -> bool:
    """Delete a model and its vectors if it still is in ``state``."""
    with connection.transaction():
        connection.execute(_PATIENCE)
        row = connection.execute(
            "delete from model where fingerprint = %s and state = %s returning vectors, signs, means",
            [fingerprint, state],
        ).fetchone()
        if row is None:
            return False
        # The foreign keys go with the tables, which takes these locks anyway: in the order in which runs take them.
        connection.execute("lock table cut, chunk, text in access exclusive mode")
        for name in row:
            connection.execute(sql.SQL("drop table {}").format(sql.Identifier(name)))
    return True
