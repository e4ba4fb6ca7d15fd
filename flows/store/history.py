"""Facts of commits in the database: what is known of a branch's past, and the people behind some paths of it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flows.history import Facts, Person
from flows.store import subjects
from flows.store.connect import Connection, copy_rows

MAX_COMMITS_OF_PATH = 500  # the newest that a query sees
MAX_RENAMES = 20  # of one path
MAX_RECENT = 5_000  # newest commits of a branch that say who is active in it
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class History:
    """How far the facts of a branch reach."""

    branch_id: int
    tip: str
    is_complete: bool
    since: datetime | None
    rules: str
    mailmap: str
    owners: str
    words: int = 0  # version of what split the subjects


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that changed a path, perhaps under an earlier name."""

    path: str  # that was asked for
    old: str  # what it was called then
    sha: str
    at: datetime | None
    author: int
    co_authors: tuple[int, ...]
    subject: str
    files: int


def key_of(path: str) -> bytes:
    """Return the identity of a path in its text form: 16 bytes."""
    return hashlib.blake2b(path.encode(errors="surrogateescape"), digest_size=16).digest()


# --- state ----------------------------------------------------------------------------------------------------------


def find(connection: Connection, branch_id: int) -> History | None:
    """Return how far a branch's facts reach, None if it has none."""
    row: Any = connection.execute(
        "select branch_id, tip, is_complete, since, rules, mailmap, owners, words from history where branch_id = %s",
        [branch_id],
    ).fetchone()
    return History(*row) if row else None


def put(connection: Connection, state: History) -> None:
    """Record how far a branch's facts reach."""
    connection.execute(
        "insert into history (branch_id, tip, is_complete, since, rules, mailmap, owners, words)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict (branch_id) do update set tip = excluded.tip,"
        " is_complete = excluded.is_complete, since = excluded.since, rules = excluded.rules,"
        " mailmap = excluded.mailmap, owners = excluded.owners, words = excluded.words",
        dataclasses.astuple(state),
    )


def forget(connection: Connection, repo: str, *, unless_rules: str | None = None) -> None:
    """Delete the facts of a repository, or those of them that other rules let in."""
    connection.execute(
        "delete from history h using branch b join repo r using (repo_id) where h.branch_id = b.branch_id"
        " and r.name = %s and h.rules is distinct from %s",
        [repo, unless_rules],
    )


def forget_branch(connection: Connection, branch_id: int) -> None:
    """Delete the facts of a branch."""
    connection.execute("delete from history where branch_id = %s", [branch_id])


def default_branch(connection: Connection, repo: str, name: str, sha: str) -> int | None:
    """Return the id of a branch if it is its repository's default one and shows commit ``sha``."""
    row = connection.execute(
        "select branch_id from branch join repo using (repo_id) where repo.name = %s and branch.name = %s"
        " and is_default and commit_sha = %s",
        [repo, name, sha],
    ).fetchone()
    return int(row[0]) if row else None


# --- writing --------------------------------------------------------------------------------------------------------


def missing(connection: Connection, branch_id: int, shas: Sequence[str]) -> list[str]:
    """Return which of some commits have no facts yet, in their order."""
    known = connection.execute(
        "select sha from history_commit where branch_id = %s and sha = any(%s)", [branch_id, list(shas)]
    ).fetchall()
    there = {row[0] for row in known}
    return [sha for sha in shas if sha not in there]


def add(
    connection: Connection,
    branch_id: int,
    facts: Sequence[Facts],
    shown: Callable[[Sequence[Person]], Sequence[Person]],
    owners: Callable[[str], Sequence[str]],
) -> None:
    """Store the facts of some commits in one transaction; ``shown`` and ``owners`` are asked about what is new."""
    with connection.transaction():
        people = _people(connection, branch_id, {p for f in facts for p in (f.author, *f.co_authors)}, shown)
        paths = _paths(
            connection, branch_id, {p for f in facts for t in f.touches for p in (t.path, t.old) if p}, owners
        )
        rows = [
            (
                branch_id,
                f.sha,
                f.at,
                people[f.author],
                [people[p] for p in f.co_authors],
                f.subject,
                f.files,
                subjects.split(branch_id, f.subject, f.files),
            )
            for f in facts
        ]
        types = ["int4", "text", "timestamptz", "int4", "int4[]", "text", "int4", "text[]"]
        columns = ("branch_id", "sha", "at", "author", "co_authors", "subject", "files", "words")
        copy_rows(connection, "history_commit", types, rows, columns)
        ids: dict[str, int] = dict(
            connection.execute(
                "select sha, commit_id from history_commit where branch_id = %s and sha = any(%s)",
                [branch_id, [f.sha for f in facts]],
            ).fetchall()
        )
        touches = {
            (paths[t.path], ids[f.sha]): paths[t.old] if t.old and t.old != t.path else None
            for f in facts
            for t in f.touches
        }
        copy_rows(connection, "touch", ["int4", "int8", "int4"], ((*key, old) for key, old in touches.items()))


def _people(
    connection: Connection, branch_id: int, people: set[Person], shown: Callable[[Sequence[Person]], Sequence[Person]]
) -> dict[Person, int]:
    wanted = sorted(people)
    query = (
        "select p.name, p.email, p.person_id from person p join unnest(%s::text[], %s::text[]) as w (name, email)"
        " using (name, email) where p.branch_id = %s"
    )
    asked = [[p[0] for p in wanted], [p[1] for p in wanted], branch_id]
    found = {(name, email): number for name, email, number in connection.execute(query, asked)}
    if new := [person for person in wanted if person not in found]:
        rows = ((branch_id, *person, *as_shown) for person, as_shown in zip(new, shown(new), strict=True))
        columns = ("branch_id", "name", "email", "shown_name", "shown_email")
        copy_rows(connection, "person", ["int4", "text", "text", "text", "text"], rows, columns)
        found = {(name, email): number for name, email, number in connection.execute(query, asked)}
    return found


def _paths(
    connection: Connection, branch_id: int, paths: set[str], owners: Callable[[str], Sequence[str]]
) -> dict[str, int]:
    keys = {key_of(path): path for path in sorted(paths)}
    query = "select key, path_id from history_path where branch_id = %s and key = any(%b)"
    asked = [branch_id, list(keys)]
    found = {bytes(key): number for key, number in connection.execute(query, asked)}
    if new := [key for key in keys if key not in found]:
        rows = ((branch_id, key, keys[key], list(owners(keys[key]))) for key in new)
        columns = ("branch_id", "key", "path", "owners")
        copy_rows(connection, "history_path", ["int4", "bytea", "text", "text[]"], rows, columns)
        found = {bytes(key): number for key, number in connection.execute(query, asked)}
    return {path: found[key] for key, path in keys.items()}


def show_people(connection: Connection, branch_id: int, shown: Callable[[Sequence[Person]], Sequence[Person]]) -> None:
    """Show all people of a branch as another .mailmap has it."""
    rows = connection.execute("select person_id, name, email from person where branch_id = %s", [branch_id]).fetchall()
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        names = shown([(row[1], row[2]) for row in part])
        connection.execute(
            "update person p set shown_name = n.name, shown_email = n.email"
            " from unnest(%s::int[], %s::text[], %s::text[]) as n (id, name, email) where p.person_id = n.id"
            " and (p.shown_name, p.shown_email) is distinct from (n.name, n.email)",
            [[row[0] for row in part], [name for name, _ in names], [email for _, email in names]],
        )


def own_paths(connection: Connection, branch_id: int, owners: Callable[[str], Sequence[str]]) -> None:
    """Let all paths of a branch be owned as another CODEOWNERS has it."""
    last = 0
    while rows := connection.execute(
        "select path_id, path, owners from history_path where branch_id = %s and path_id > %s"
        " order by path_id limit %s",
        [branch_id, last, _BATCH],
    ).fetchall():
        last = rows[-1][0]
        changed = [(row[0], now) for row in rows if (now := list(owners(row[1]))) != row[2]]
        with connection.cursor() as cursor:
            cursor.executemany(
                "update history_path set owners = %s where path_id = %s", [(now, number) for number, now in changed]
            )


def keep_only(connection: Connection, branch_id: int, shas: Iterable[str]) -> int:
    """Delete the facts of all commits but ``shas``, and paths and people that only those had; return how many."""
    with connection.transaction():
        connection.execute('create temporary table reachable (sha text collate "C") on commit drop')
        copy_rows(connection, "reachable", ["text"], ((sha,) for sha in shas))
        gone = connection.execute(
            "delete from history_commit c where branch_id = %s"
            " and not exists (select 1 from reachable r where r.sha = c.sha)",
            [branch_id],
        ).rowcount
        if gone:
            connection.execute(
                "delete from history_path p where branch_id = %s"
                " and not exists (select 1 from touch t where t.path_id = p.path_id or t.old_id = p.path_id)",
                [branch_id],
            )
            connection.execute(
                "delete from person p where branch_id = %(id)s and not exists (select 1 from history_commit c"
                " where c.branch_id = %(id)s and (c.author = p.person_id or p.person_id = any(c.co_authors)))",
                {"id": branch_id},
            )
    return gone


# --- reading --------------------------------------------------------------------------------------------------------


def changes(connection: Connection, branch_id: int, paths: Collection[str]) -> list[Change]:
    """Return the newest commits that changed some paths, under earlier names too: exact renames are followed."""
    rows = connection.execute(
        """
        with recursive line (root, path_id, depth) as (
            select path_id, path_id, 0 from history_path where branch_id = %(branch)s and key = any(%(keys)b)
            union
            select l.root, t.old_id, l.depth + 1 from line l join touch t on t.path_id = l.path_id
            where t.old_id is not null and l.depth < %(renames)s
        ), called as (select distinct root, path_id from line)
        select r.path, x.path, x.sha, x.at, x.author, x.co_authors, x.subject, x.files
        from (select distinct root from called) d join history_path r on r.path_id = d.root cross join lateral (
            select distinct on (c.at, c.sha) p.path, c.sha, c.at, c.author, c.co_authors, c.subject, c.files
            from called l join touch t on t.path_id = l.path_id join history_commit c using (commit_id)
                join history_path p on p.path_id = l.path_id
            where l.root = d.root order by c.at desc nulls last, c.sha, p.path limit %(limit)s
        ) x
        order by r.path, x.at desc nulls last, x.sha
        """,
        {
            "branch": branch_id,
            "keys": [key_of(path) for path in sorted(paths)],
            "renames": MAX_RENAMES,
            "limit": MAX_COMMITS_OF_PATH,
        },
    )
    return [Change(row[0], row[1], row[2], row[3], row[4], tuple(row[5]), row[6], row[7]) for row in rows]


def active(connection: Connection, branch_id: int, tip_at: datetime, half_life: float, widest: int) -> dict[int, float]:
    """Return how much each person did lately in a branch: commits of at most ``widest`` files, each counting half as
    much for each ``half_life`` days before ``tip_at``; half where its date is unknown.
    """
    rows = connection.execute(
        "select who, round(sum(weight)::numeric, 6)::float8 from (select author, co_authors,"
        " coalesce(power(0.5, greatest(0, extract(epoch from %(tip)s - at)) / 86400 / %(half)s), 0.5) as weight"
        " from (select * from history_commit where branch_id = %(branch)s"
        " order by at desc nulls last, sha limit %(limit)s) n where files between 1 and %(widest)s) w"
        " cross join lateral unnest(author || co_authors) who group by who",
        {"branch": branch_id, "tip": tip_at, "half": half_life, "limit": MAX_RECENT, "widest": widest},
    )
    return dict(rows.fetchall())


def people(connection: Connection, ids: Collection[int]) -> dict[int, Person]:
    """Return name and e-mail of some people, as .mailmap has them."""
    rows = connection.execute(
        "select person_id, shown_name, shown_email from person where person_id = any(%s)", [sorted(ids)]
    )
    return {number: (name, email) for number, name, email in rows}


def owners(connection: Connection, branch_id: int, paths: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the paths that CODEOWNERS gives to somebody, with the owners."""
    yield from connection.execute(
        "select path, owners from history_path where branch_id = %s and key = any(%b) and owners <> '{}' order by path",
        [branch_id, [key_of(path) for path in sorted(paths)]],
    )
