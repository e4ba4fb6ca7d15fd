"""What a model says of each cut: the signs of its chunks' vectors (a bit a dimension), and their mean.

Two tables a model, which follow from ``chunk`` and the model's vectors. A scope's nearest texts are found by signs,
file by file, without reading whole vectors; the mean says what a file is about. Branches that show a cut share its
rows. A publish writes those that are missing in its own transaction; every run compares them with what they follow
from.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import sql

from flows.store.connect import Connection
from flows.store.models import Model

MAX_MEANT = 200  # chunks of a file, its first ones: a file of thousands of chunks says by them what it is about
_OF_BRANCH = "select distinct cut_id from file where branch_id = %(branch)s and cut_id is not null"


def add(connection: Connection, model: Model, cut_ids: Collection[int]) -> None:
    """Write what is missing of some cuts, within a transaction."""
    if cut_ids:
        _fill(connection, model, "any(%(cuts)s)", {"cuts": sorted(cut_ids)})


def renew(connection: Connection, model: Model, cut_ids: Collection[int]) -> None:
    """Write the rows of some cuts anew, within a transaction: their chunks or vectors have changed."""
    if not cut_ids:
        return
    locked = "select cut_id from cut where cut_id = any(%s) order by 1 for no key update"  # two runs at it: in turn
    cuts = [row[0] for row in connection.execute(locked, [list(cut_ids)]).fetchall()]
    for table in (model.signs, model.means):
        connection.execute(sql.SQL("delete from {} where cut_id = any(%s)").format(table), [cuts])
    add(connection, model, cuts)


def agree(connection: Connection, model: Model, branch_id: int) -> bool:
    """Say whether each chunk that a branch shows has its row, and each cut its mean."""
    query = sql.SQL(
        "with shown as materialized (" + _OF_BRANCH + ") select not exists (select from shown join chunk c"
        " using (cut_id) left join {signs} s on s.cut_id = c.cut_id and s.ord = c.ord and s.text_id = c.text_id"
        " where s.cut_id is null) and not exists (select from shown left join {means} m using (cut_id)"
        " where m.cut_id is null)"
    ).format(signs=model.signs, means=model.means)
    return connection.execute(query, {"branch": branch_id}).fetchone() == (True,)


def rebuild(connection: Connection, model: Model, branch_id: int) -> int:
    """Put right what a branch shows, and return how many cuts that took."""
    wrong = sql.SQL(
        "with shown as materialized (" + _OF_BRANCH + ") select cut_id from shown where not exists"
        " (select from {means} m where m.cut_id = shown.cut_id) or exists (select from chunk c join {vectors} v"
        " using (text_id) left join {signs} s on s.cut_id = c.cut_id and s.ord = c.ord where c.cut_id = shown.cut_id"
        " and (s.text_id, s.level, s.signs) is distinct from"
        " (c.text_id, c.level, binary_quantize(v.vector)::bit({dimension})))"
    )
    with connection.transaction():
        cuts = [row[0] for row in connection.execute(wrong.format(**_names(model)), {"branch": branch_id}).fetchall()]
        renew(connection, model, cuts)
    return len(cuts)


def refill(connection: Connection, model: Model) -> None:
    """Write the rows of all cuts anew, within the transaction that makes ``model`` the active one."""
    connection.execute(sql.SQL("truncate {}, {}").format(model.signs, model.means))
    _fill(connection, model, "any(array(select distinct cut_id from file where cut_id is not null))", {})


def of_texts(connection: Connection, hashes: Collection[bytes]) -> list[int]:
    """Return the cuts that hold some texts."""
    rows = connection.execute(
        "select distinct c.cut_id from chunk c join text t using (text_id) where t.hash = any(%b)", [sorted(hashes)]
    )
    return [row[0] for row in rows]


def _fill(connection: Connection, model: Model, which: str, given: dict[str, Any]) -> None:
    signs = (
        "insert into {signs} select c.cut_id, c.ord, c.level, c.text_id, binary_quantize(v.vector)::bit({dimension})"
        " from chunk c join {vectors} v using (text_id) where c.cut_id = " + which + " and not exists"
        " (select from {means} m where m.cut_id = c.cut_id) order by c.cut_id, c.ord on conflict do nothing"
    )
    means = (
        "insert into {means} select k.cut_id, (select avg(v.vector order by c.ord) from chunk c join {vectors} v"
        " using (text_id) where c.cut_id = k.cut_id and c.level > 0 and c.ord <= {most})"
        " from cut k where k.cut_id = " + which + " order by k.cut_id on conflict do nothing"
    )
    for statement in (signs, means):  # a cut that has its mean has its signs
        connection.execute(sql.SQL(statement).format(**_names(model)), given)


def _names(model: Model) -> dict[str, sql.Composable]:
    return {
        "signs": model.signs,
        "means": model.means,
        "vectors": model.vectors,
        "dimension": sql.Literal(model.dimension),
        "most": sql.Literal(MAX_MEANT),
    }
