"""The conditions that filters are in SQL."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from flows.store.read import Filters


def where_file(filters: Filters, *, skipped: bool = False) -> sql.Composed:
    """Return the condition on a file ``f`` of the scope; skipped files only if asked."""
    clauses: list[sql.Composable] = [sql.SQL("f.branch_id = any(%(branches)s::int[])")]
    if not skipped:
        clauses.append(sql.SQL("f.cut_id is not null"))
    if filters.languages:
        clauses.append(sql.SQL("f.language = any(%(languages)s)"))
    if filters.include:
        clauses.append(sql.SQL("f.path like any(%(likely)s)"))  # a tenth of a pattern's cost
        clauses.append(sql.SQL("f.path ~ any(%(include)s)"))
    if filters.exclude:
        clauses.append(sql.SQL("not f.path ~ any(%(exclude)s)"))
    return sql.SQL(" and ").join(clauses)


def where(filters: Filters) -> sql.Composed:
    """Return the condition on a file ``f`` and its chunk ``c`` of the scope."""
    if filters.level is None:
        return where_file(filters)
    return sql.SQL("{} and c.level = {}").format(where_file(filters), sql.Literal(filters.level))


def parameters(filters: Filters) -> dict[str, Any]:
    """Return the parameters of those conditions."""
    return {
        "branches": "{" + ",".join(map(str, filters.branch_ids)) + "}",  # a list costs a call for each of hundreds
        "languages": list(filters.languages),
        "include": list(filters.include),
        "likely": list(filters.likely),
        "exclude": list(filters.exclude),
    }
