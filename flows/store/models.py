"""Which embedding model the database was filled with, and the table that holds its vectors."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from flows.embed import Embedder
from flows.errors import SchemaMismatch, UsageError
from flows.store.connect import Connection

MAX_DIMENSION = 4000  # of an indexed halfvec
_INLINE_DIMENSION = 1000  # beyond it a vector no longer fits in its row's page beside others
_MODEL_LOCK = 7_242_002


@dataclass(frozen=True, slots=True)
class Model:
    """A registered model; ``vectors`` is its table, ``members`` that of the texts each branch shows."""

    model_id: int
    fingerprint: str
    name: str
    dimension: int
    vectors_name: str
    members_name: str

    @property
    def vectors(self) -> sql.Identifier:
        return sql.Identifier(self.vectors_name)

    @property
    def members(self) -> sql.Identifier:
        return sql.Identifier(self.members_name)


def active_model(connection: Connection) -> Model | None:
    """Return the model that search uses, None before the first index."""
    row = connection.execute(
        "select model_id, fingerprint, name, dimension, vectors, members from model where is_active"
    ).fetchone()
    return Model(*row) if row else None


def use_model(connection: Connection, embedder: Embedder) -> Model:
    """Return the active model, registering ``embedder`` as the first one.

    Raises:
        SchemaMismatch: the database was filled by another model.
        UsageError: the model's vectors are too long to be indexed.
    """
    model = active_model(connection) or _register(connection, embedder)
    if model.fingerprint != embedder.fingerprint:
        raise SchemaMismatch(
            f"the index was built with the model {model.name} ({model.fingerprint[:12]}), this program would use "
            f"{embedder.name} ({embedder.fingerprint[:12]}): set GITSTRATA_MODEL to the same model, or start an index "
            "of its own with another GITSTRATA_HOME or GITSTRATA_DSN"
        )
    return model


def _register(connection: Connection, embedder: Embedder) -> Model:
    if not 1 <= embedder.dimension <= MAX_DIMENSION:
        raise UsageError(f"{embedder.name} has {embedder.dimension} dimensions; at most {MAX_DIMENSION} can be indexed")
    name, members = f"emb_{embedder.fingerprint[:16]}", f"member_{embedder.fingerprint[:16]}"
    storage = sql.SQL("storage plain" if embedder.dimension <= _INLINE_DIMENSION else "")
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_MODEL_LOCK])
        if (model := active_model(connection)) is not None:
            return model
        connection.execute(
            sql.SQL(
                "create table {} (text_id bigint primary key references text on delete cascade,"
                " vector halfvec({}) {} not null)"
            ).format(sql.Identifier(name), sql.Literal(embedder.dimension), storage)
        )
        connection.execute(
            sql.SQL(
                "create table {} (branch_id int not null references branch on delete cascade, text_id bigint not null,"
                " signs bit({}) not null, primary key (text_id, branch_id))"
            ).format(sql.Identifier(members), sql.Literal(embedder.dimension))
        )
        connection.execute(sql.SQL("create index on {} (branch_id)").format(sql.Identifier(members)))
        connection.execute(
            "insert into model (fingerprint, name, dimension, vectors, members, is_active)"
            " values (%s, %s, %s, %s, %s, true)",
            [embedder.fingerprint, embedder.name, embedder.dimension, name, members],
        )
    model = active_model(connection)
    assert model is not None
    return model
