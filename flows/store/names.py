"""What a search ranks besides words and vectors of single texts: definitions by name, and whole files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import sql

from flows.embed import Vectors
from flows.store.conditions import parameters, where
from flows.store.connect import Connection
from flows.store.models import Model
from flows.store.read import Filters, Hit

MAX_DEFINITIONS = 50
MAX_FILES = 40
SPELT = "lower(translate(substring(s.name from '[^.]*$'), '_$-', ''))"  # as index symbol_spelt has it


def definitions(connection: Connection, filters: Filters, names: Collection[str], exact: str = "") -> list[Hit]:
    """Return the chunks of definitions by the last parts of their names, best first, at most MAX_DEFINITIONS.

    ``names`` are in lower case without separators. First come those spelt like ``exact``, types before methods if it
    begins with a capital, then the least nested. Equals share no rank: the order is total.
    """
    statement = sql.SQL(
        """
        select f.branch_id, f.path, f.language, s.cut_id, c.ord, c.level, c.anchor, s.name, s.signature,
            c.start_line, c.end_line, c.text_id, 0, 0, f.category, row_number() over ranking
        from symbol s join file f using (cut_id) cross join lateral (
            select c.* from chunk c where c.cut_id = s.cut_id and c.level in (1, 2)
                and s.start_line between c.start_line and c.end_line
            order by c.symbol <> s.name, c.level desc, c.ord limit 1
        ) c
        where {spelt} = any(%(names)s) and {where}
        window ranking as (order by substring(s.name from '[^.]*$') <> %(exact)s,
            %(exact)s ~ '^[A-Z]' and c.level <> 1, length(s.name) - length(replace(s.name, '.', '')),
            f.path, f.branch_id, s.ord)
        order by 16 limit {limit}
        """
    ).format(spelt=sql.SQL(SPELT), where=where(filters), limit=sql.Literal(MAX_DEFINITIONS))
    given = parameters(filters) | {"names": sorted(names), "exact": exact}
    return [Hit(*row) for row in connection.execute(statement, given).fetchall()] if names else []


def file_similarities(
    connection: Connection, model: Model, vector: Vectors, cut_ids: Sequence[int]
) -> dict[int, float]:
    """Return the cosine between ``vector`` and the mean of each file's chunk vectors; files without chunks are missing.

    A file that answers as a whole, in no one place, is found by this.
    """
    query = sql.SQL(
        "select cut_id, round((1 - (vector <=> %s::halfvec))::numeric, 5)::float8 from {}"
        " where cut_id = any(%s) and vector is not null"
    ).format(model.means)
    given = f"[{','.join(map(str, vector.tolist()))}]"
    return dict(connection.execute(query, [given, list(cut_ids)]).fetchall())
