"""Everything a database shows, in a form that two databases can be compared by: no ids, only content and places."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from flows.store.connect import Database
from flows.store.models import active_model

Snapshot = dict[tuple[str, str], list[Any]]


def published(database: Database) -> Snapshot:
    """Return, for each repository and branch, its files with cuts, symbols, chunks, texts, words and vectors."""
    with database.connect() as connection:
        model = active_model(connection)
        if model is None:
            return {}
        rows = connection.execute(
            sql.SQL(
                """
                select r.name, b.name, f.path, f.mode, f.oid, f.language, f.skip, f.category, k.language, k.fingerprint,
                    k.levels, k.symbols, k.fallback, o.size, o.facts,
                    (select array_agg((p.line, p.body)::text order by p.line) from piece p where p.blob_id = o.blob_id),
                    (select array_agg((s.ord, s.name, s.kind, s.start_line, s.end_line, s.signature, s.doc)::text
                        order by s.ord) from symbol s where s.cut_id = k.cut_id),
                    (select array_agg((c.ord, c.level, c.parent, c.anchor, c.symbol, c.signature, c.start_line,
                        c.end_line, t.hash, t.body, l.version, l.length, l.terms, l.weights, v.vector)::text
                        order by c.ord) from chunk c left join text t using (text_id) left join lex l using (text_id)
                        left join {vectors} v using (text_id) where c.cut_id = k.cut_id),
                    b.commit_sha, b.tree_sha, b.files, b.failed, b.chunks, b.rules_fp,
                    (select array_agg((t.hash, s.levels, s.signs)::text order by n) from {signs} s
                        cross join generate_series(1, length(s.levels)) n left join text t on t.text_id
                        = ('x' || encode(substring(s.texts from 8 * n - 7 for 8), 'hex'))::bit(64)::bigint
                        where s.cut_id = k.cut_id),
                    (select m.vector::text from {means} m where m.cut_id = k.cut_id)
                from branch b join repo r using (repo_id) left join file f using (branch_id)
                left join cut k using (cut_id) left join blob o on o.blob_id = k.blob_id
                order by 1, 2, 3
                """
            ).format(vectors=model.vectors, signs=model.signs, means=model.means)
        ).fetchall()
    result: Snapshot = {}
    for row in rows:
        result.setdefault((row[0], row[1]), []).append(row[2:])
    return result
