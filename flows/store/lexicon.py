"""Document frequencies of terms over published texts, by generation.

A ranking uses one generation; what is written ahead or waits for collection never counts. Refreshed after a publish,
outside its transaction, once the live corpus has moved by :data:`MOVED`.
"""

from __future__ import annotations

from psycopg import sql

from flows.store.connect import Connection
from flows.store.models import Model

MOVED = 0.02  # share of the corpus
_REFRESH_LOCK = 7_242_003
_LIVE = "from lex where exists (select 1 from chunk c join file f using (cut_id) where c.text_id = lex.text_id)"


def note_moved(connection: Connection, texts: int) -> None:
    """Add to the number of texts that came or went since the newest generation."""
    connection.execute(
        "update lex_stat set moved = moved + %s where generation = (select max(generation) from lex_stat)", [texts]
    )


def refresh_if_moved(connection: Connection, model: Model, *, force: bool = False) -> bool:
    """Compute a new generation if the corpus has moved enough, and say whether it was done.

    The planner's own statistics are renewed at the same time: without them a first index is searched by bad plans.
    """
    row = connection.execute("select moved, texts from lex_stat order by generation desc limit 1").fetchone()
    if row is not None and row[0] <= row[1] * MOVED and not force:
        return False
    with connection.transaction():
        if connection.execute("select pg_try_advisory_xact_lock(%s)", [_REFRESH_LOCK]).fetchone() != (True,):
            return False  # another run is at it
        tables = "analyze file, blob, cut, symbol, chunk, lex, {}, {}, {}"
        connection.execute(sql.SQL(tables).format(model.vectors, model.signs, model.means))
        _refresh(connection)
    return True


def analyze(connection: Connection, model: Model) -> None:
    """Renew the planner's statistics of a model's vectors."""
    connection.execute(sql.SQL("analyze {}").format(model.vectors))


def _refresh(connection: Connection) -> None:
    created = connection.execute(
        "insert into lex_stat (texts) select count(*) " + _LIVE + " returning generation"
    ).fetchone()
    assert created is not None
    connection.execute(
        "insert into term_df (generation, term, df) select %s, word, ndoc from ts_stat(%s) where ndoc > 1",
        [created[0], f"select terms {_LIVE}"],
    )
    connection.execute("delete from lex_stat where generation < %s", created)
