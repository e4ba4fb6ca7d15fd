"""What a model says of each cut: the signs of its chunks' vectors (a bit a dimension), and their mean.

Two tables a model, which follow from ``chunk`` and the model's vectors. Signs of a cut are one row: its chunks' texts
(8 bytes each), levels (a byte) and signs (a byte for eight dimensions, the first one in the highest bit), in the order
of the chunks. A search compares those of a scope in memory (store/resident.py); the mean says what a file is about.
Branches that show a cut share its rows. A publish writes those that are missing in its own transaction; every run
compares them with what they follow from.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import sql

from flows.store.connect import Connection
from flows.store.models import Model

MAX_MEANT = 200  # chunks of a file, its first ones: a file of thousands of chunks says by them what it is about
_PARTS = {
    "of_branch": sql.SQL("select distinct cut_id from file where branch_id = %(branch)s and cut_id is not null"),
    "texts_of": sql.SQL("string_agg(int8send(c.text_id), '' order by c.ord)"),
    "levels_of": sql.SQL("string_agg(substring(int2send(c.level) from 2), '' order by c.ord)"),
    "most": sql.Literal(MAX_MEANT),
}


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
    _note_rewrite(connection, model)


def agree(connection: Connection, model: Model, branch_id: int) -> bool:
    """Say whether each cut that a branch shows has its mean, and the texts of its chunks."""
    query = sql.SQL(
        """
        with shown as materialized ({of_branch})
        select not exists (
            select from shown left join {signs} s using (cut_id) left join {means} m using (cut_id)
            left join (
                select c.cut_id, {texts_of} as texts from chunk c where c.cut_id in (select cut_id from shown)
                group by c.cut_id
            ) k using (cut_id)
            where m.cut_id is null or s.texts is distinct from k.texts
        )
        """
    ).format(**_names(model))
    return connection.execute(query, {"branch": branch_id}).fetchone() == (True,)


def rebuild(connection: Connection, model: Model, branch_id: int) -> int:
    """Put right what a branch shows, and return how many cuts that took."""
    wrong = sql.SQL(
        """
        with shown as materialized ({of_branch})
        select cut_id from shown left join {signs} s using (cut_id) left join {means} m using (cut_id)
        left join (
            select c.cut_id, {texts_of} as texts, {levels_of} as levels, {signs_of} as signs
            from chunk c join {vectors} v using (text_id) where c.cut_id in (select cut_id from shown)
            group by c.cut_id
        ) k using (cut_id)
        where m.cut_id is null or (s.texts, s.levels, s.signs) is distinct from (k.texts, k.levels, k.signs)
        """
    ).format(**_names(model))
    with connection.transaction():
        cuts = [row[0] for row in connection.execute(wrong, {"branch": branch_id}).fetchall()]
        renew(connection, model, cuts)
    return len(cuts)


def refill(connection: Connection, model: Model) -> None:
    """Write the rows of all cuts anew, within the transaction that makes ``model`` the active one."""
    connection.execute(sql.SQL("truncate {}, {}").format(model.signs, model.means))
    _fill(connection, model, "any(array(select distinct cut_id from file where cut_id is not null))", {})
    _note_rewrite(connection, model)


def _note_rewrite(connection: Connection, model: Model) -> None:
    connection.execute("update model set rewrites = rewrites + 1 where model_id = %s", [model.model_id])


def forget_what_was_read(connection: Connection) -> None:
    """Let processes that keep signs in memory read them anew: the database was restored, and its ids are used again."""
    connection.execute("update model set rewrites = greatest(rewrites + 1, extract(epoch from now())::int8)")


def of_texts(connection: Connection, hashes: Collection[bytes]) -> list[int]:
    """Return the cuts that hold some texts."""
    rows = connection.execute(
        "select distinct c.cut_id from chunk c join text t using (text_id) where t.hash = any(%b)", [sorted(hashes)]
    )
    return [row[0] for row in rows]


def _fill(connection: Connection, model: Model, which: str, given: dict[str, Any]) -> None:
    signs = """
        insert into {signs} select c.cut_id, {texts_of}, {levels_of}, {signs_of}
        from chunk c join {vectors} v using (text_id)
        where c.cut_id = {which} and not exists (select from {means} m where m.cut_id = c.cut_id)
        group by c.cut_id order by c.cut_id on conflict do nothing
        """
    means = """
        insert into {means} select k.cut_id, (
            select avg(v.vector order by c.ord) from chunk c join {vectors} v using (text_id)
            where c.cut_id = k.cut_id and c.level > 0 and c.ord <= {most}
        ) from cut k where k.cut_id = {which} order by k.cut_id on conflict do nothing
        """
    for statement in (signs, means):  # a cut that has its mean has its signs
        connection.execute(sql.SQL(statement).format(which=sql.SQL(which), **_names(model)), given)


def _names(model: Model) -> dict[str, sql.Composable]:
    signs = "string_agg(substring(bit_send(binary_quantize(v.vector)::bit({})) from 5), '' order by c.ord)"
    return _PARTS | {
        "signs": model.signs,
        "means": model.means,
        "vectors": model.vectors,
        "signs_of": sql.SQL(signs).format(sql.Literal(model.dimension)),
    }
