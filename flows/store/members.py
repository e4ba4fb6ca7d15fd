"""Which texts each branch shows: a table a model, that follows from ``file``, ``chunk`` and the model's vectors.

It lets a search scan what is in scope without joining files, and compare signs of vectors (a bit a dimension) before
whole ones. A publish moves it in its own transaction; every run compares it with what it follows from.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from flows.store.connect import Connection
from flows.store.models import Model

_SHOWN = sql.SQL("select distinct c.text_id from file f join chunk c using (cut_id) where f.branch_id = %(branch)s")


def move(connection: Connection, model: Model, branch_id: int, gone: Sequence[int], came: Sequence[int]) -> None:
    """Follow a change of a branch's files, within its transaction; ``gone`` and ``came`` are their cuts."""
    if gone:
        _run(
            connection,
            "delete from {members} m using (select distinct text_id from chunk where cut_id = any(%(cuts)s)) g"
            " where m.branch_id = %(branch)s and m.text_id = g.text_id and not exists (select 1 from chunk c"
            " join file f using (cut_id) where c.text_id = g.text_id and f.branch_id = %(branch)s)",
            model,
            branch_id,
            gone,
        )
    if came:
        _run(
            connection,
            "insert into {members} select %(branch)s, text_id, binary_quantize(vector)::bit({dimension}) from {vectors}"
            " where text_id in (select text_id from chunk where cut_id = any(%(cuts)s)) order by text_id"
            " on conflict do nothing",
            model,
            branch_id,
            came,
        )


def agree(connection: Connection, model: Model, branch_id: int) -> bool:
    """Say whether a branch's members are the texts that its files show."""
    query = sql.SQL(
        "select not exists (select from ({shown}) s full join (select text_id from {members}"
        " where branch_id = %(branch)s) m using (text_id) where s.text_id is null or m.text_id is null)"
    ).format(shown=_SHOWN, members=model.members)
    return connection.execute(query, {"branch": branch_id}).fetchone() == (True,)


def rebuild(connection: Connection, model: Model, branch_id: int) -> int:
    """Put the members of a branch right, and return how many rows that took."""
    with connection.transaction():
        wrong = _run(
            connection,
            "delete from {members} m where branch_id = %(branch)s and (text_id not in ({shown}) or not exists"
            " (select 1 from {vectors} v where v.text_id = m.text_id"
            " and binary_quantize(v.vector)::bit({dimension}) = m.signs))",
            model,
            branch_id,
        )
        return wrong + _run(
            connection,
            "insert into {members} select %(branch)s, text_id, binary_quantize(vector)::bit({dimension})"
            " from {vectors} where text_id in ({shown}) order by text_id on conflict do nothing",
            model,
            branch_id,
        )


def refill(connection: Connection, model: Model) -> None:
    """Write the members of all branches anew, within the transaction that makes ``model`` the active one."""
    connection.execute(sql.SQL("truncate {}").format(model.members))
    query = sql.SQL(
        "insert into {members} select branch_id, text_id, binary_quantize(vector)::bit({dimension}) from"
        " (select distinct f.branch_id, c.text_id from file f join chunk c using (cut_id)) s"
        " join {vectors} using (text_id) order by branch_id, text_id"
    )
    connection.execute(
        query.format(members=model.members, vectors=model.vectors, dimension=sql.Literal(model.dimension))
    )


def _run(connection: Connection, statement: str, model: Model, branch_id: int, cuts: Sequence[int] = ()) -> int:
    query = sql.SQL(statement).format(
        members=model.members, vectors=model.vectors, dimension=sql.Literal(model.dimension), shown=_SHOWN
    )
    return connection.execute(query, {"branch": branch_id, "cuts": list(cuts)}).rowcount
