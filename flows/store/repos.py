"""Repositories and the configurations that own them. The configuration in force lives here, published by its owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from flows.errors import UsageError
from flows.store.connect import Connection

_ADD = "insert into repo (name, origin) values (%s, %s) on conflict (name) do nothing"


@dataclass(frozen=True, slots=True)
class Configured:
    """A repository as its owner published it."""

    name: str
    source: str
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """How far a configuration has got: a commit and its date; without a commit, when it was read."""

    sha: str
    at: datetime


def claim(connection: Connection, name: str, origin: str, *, rename: bool = False) -> None:
    """Make sure that ``name`` stands for ``origin``.

    Raises:
        UsageError: it stands for another repository, and ``rename`` is not set or a configuration owns the name.
    """
    connection.execute(_ADD, [name, origin])
    row = connection.execute("select origin, source from repo where name = %s", [name]).fetchone()
    if row is None or row[0] == origin:
        return
    if row[1] is not None:
        raise UsageError(f"{name} is configured by {row[1]} as {row[0]}: give this repository another name with --name")
    if not rename:
        raise UsageError(
            f"the name {name} already stands for {row[0]}: give this repository another one with --name,"
            f" or say --name {name} if it is the same"
        )
    connection.execute("update repo set origin = %s where name = %s", [origin, name])


def configured(connection: Connection, name: str = "") -> list[Configured]:
    """Return the configured repositories, or the one of that name."""
    rows = connection.execute(
        "select name, source, config from repo where source is not null and (%(name)s = '' or name = %(name)s)"
        " order by name",
        {"name": name},
    )
    return [Configured(*row) for row in rows]


def published_version(connection: Connection, source: str) -> Version | None:
    """Return how far a configuration has got, None before it was ever published."""
    row = connection.execute("select sha, version_at from configuration where source = %s", [source]).fetchone()
    return Version(*row) if row else None


def publish_configuration(
    connection: Connection, source: str, version: Version, repos: Mapping[str, tuple[str, dict[str, Any]]]
) -> list[str]:
    """Let ``source`` own exactly ``repos`` (name -> origin, configuration); return the names it owns no longer.

    What it no longer names loses its locations at once. Repositories of other sources or indexed ad hoc are never
    touched, except that an ad hoc one of the same name and origin is adopted.

    Raises:
        UsageError: another configuration owns one of the names, or the name stands for another repository.
    """
    with connection.transaction():
        connection.execute(
            "insert into configuration (source, sha, version_at) values (%s, %s, %s) on conflict (source) do update"
            " set sha = excluded.sha, version_at = excluded.version_at, published_at = now()",
            [source, version.sha, version.at],
        )
        for name, (origin, config) in sorted(repos.items()):
            _adopt(connection, source, name, origin, config)
        removed = connection.execute(
            "delete from repo where source = %s and name <> all(%s) returning name", [source, list(repos)]
        ).fetchall()
    return sorted(row[0] for row in removed)


def _adopt(connection: Connection, source: str, name: str, origin: str, config: dict[str, Any]) -> None:
    connection.execute(_ADD, [name, origin])
    row = connection.execute("select source, origin from repo where name = %s for update", [name]).fetchone()
    assert row is not None
    owner, known = row
    if owner not in (None, source):
        raise UsageError(f"{name} is configured by {owner} already: choose another name in {source}")
    if owner is None and known != origin:
        raise UsageError(f"{name} was indexed ad hoc from {known}: choose another name, or remove that one first")
    connection.execute(
        "update repo set source = %s, origin = %s, config = %s where name = %s", [source, origin, Jsonb(config), name]
    )


def remove(connection: Connection, name: str) -> bool:
    """Take away a repository with all its locations, at once; return whether there was one."""
    return connection.execute("delete from repo where name = %s", [name]).rowcount > 0


def origin(connection: Connection, name: str) -> str:
    """Return what a repository's name stands for."""
    row = connection.execute("select origin from repo where name = %s", [name]).fetchone()
    return str(row[0]) if row else ""


def names(connection: Connection) -> list[str]:
    """Return the names of all repositories, whoever added them."""
    return [row[0] for row in connection.execute("select name from repo order by name")]


@dataclass(frozen=True, slots=True)
class Listed:
    """A repository with what its default branch shows, else its first; nothing if nothing is published."""

    name: str
    projects: list[str]
    branches: list[str]  # the default one first
    commit_sha: str
    published_at: datetime | None
    files: int
    chunks: int
    languages: dict[str, int]  # files by language, most first


def matching(connection: Connection, part: str, project: str = "") -> list[str]:
    """Return the names that contain ``part``, in any case, of all repositories or of a project's."""
    rows = connection.execute(
        "select name from repo where position(lower(%(part)s) in lower(name)) > 0"
        " and (%(project)s = '' or config -> 'projects' ? %(project)s) order by name",
        {"part": part, "project": project},
    )
    return [row[0] for row in rows]


def projects(connection: Connection) -> list[str]:
    """Return the projects that configurations name."""
    rows = connection.execute(
        "select distinct jsonb_array_elements_text(config -> 'projects') from repo where config ? 'projects' order by 1"
    )
    return [row[0] for row in rows]


def listed(connection: Connection, names: list[str], languages: int) -> list[Listed]:
    """Return repositories with their most common ``languages``."""
    rows = connection.execute(
        """
        select r.name, coalesce(r.config -> 'projects', '[]'), b.names, coalesce(b.commit_sha, ''), b.published_at,
            coalesce(b.files, 0), coalesce(b.chunks, 0), coalesce(f.languages, '{}')
        from repo r
        left join lateral (
            select (array_agg(branch_id order by is_default desc, name))[1] as branch_id,
                array_agg(name order by is_default desc, name) as names,
                (array_agg(commit_sha order by is_default desc, name))[1] as commit_sha,
                (array_agg(published_at order by is_default desc, name))[1] as published_at,
                (array_agg(files order by is_default desc, name))[1] as files,
                (array_agg((select sum(n) from unnest(chunks) n) order by is_default desc, name))[1] as chunks
            from branch where repo_id = r.repo_id
        ) b on true
        left join lateral (
            select json_object_agg(language, n order by n desc, language) as languages from (
                select language, count(*) as n from file where branch_id = b.branch_id and skip is null
                group by language order by n desc, language limit %(languages)s
            ) l
        ) f on true
        where r.name = any(%(names)s) order by r.name
        """,
        {"names": names, "languages": languages},
    )
    return [Listed(r[0], r[1], r[2] or [], r[3], r[4], r[5], int(r[6]), r[7]) for r in rows]
