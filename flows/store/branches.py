"""Branches: what each one shows, the plan against it, and the one transaction that moves it to a commit."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from flows.errors import Moved
from flows.git import Commit, Entry
from flows.store import signs
from flows.store.connect import Connection, copy_rows
from flows.store.cuts import LEVELS
from flows.store.models import Model, keep_active

ENTRY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Branch:
    """The published state of a branch; generation 0 has no commit."""

    branch_id: int
    repo: str
    name: str
    generation: int
    commit_sha: str
    tree_sha: str
    rules_fp: str
    files: int
    failed: int
    chunks: list[int]  # by level
    purge_due: bool  # rules changed, and what nothing shows any more has not been taken away yet


@dataclass(frozen=True, slots=True)
class FileRow:
    """One path of a commit: what it shows (``cut_id``) or why it shows nothing (``skip``)."""

    entry: bytes
    path: str
    mode: str
    oid: str
    language: str
    skip: str | None
    cut_id: int | None
    category: str = ""  # docs or code where the repository says so, else what its language is

    @property
    def shows(self) -> tuple[str, str | None, int | None, str]:
        """What may change while the entry stays."""
        return self.language, self.skip, self.cut_id, self.category


@dataclass(frozen=True, slots=True)
class Change:
    """What a publish does to a branch's files."""

    added: Sequence[FileRow]
    removed: Sequence[bytes]  # entries
    healed: Collection[int] = ()  # cuts whose chunks were written anew


def entry_key(entry: Entry) -> bytes:
    """Return the identity of a tree record (mode, object id, path): 16 bytes."""
    return hashlib.blake2b(entry.record, digest_size=ENTRY_BYTES).digest()


def find_branch(connection: Connection, repo: str, name: str) -> Branch | None:
    """Return a branch that was published before."""
    row: Any = connection.execute(
        "select b.branch_id, r.name, b.name, b.generation, b.commit_sha, b.tree_sha, b.rules_fp, b.files, b.failed,"
        " b.chunks, b.purge_due from branch b join repo r using (repo_id) where r.name = %s and b.name = %s",
        [repo, name],
    ).fetchone()
    return Branch(*row) if row else None


def entries(connection: Connection, branch: Branch) -> tuple[set[bytes], set[bytes]]:
    """Return the keys of all entries of a branch, and of those that failed and are to be tried again."""
    row = connection.execute(
        "select coalesce(string_agg(entry, ''), ''), coalesce(string_agg(entry, '') filter (where skip = 'failed'), '')"
        " from file where branch_id = %s",
        [branch.branch_id],
        binary=True,
    ).fetchone()
    assert row is not None
    return _split(bytes(row[0])), _split(bytes(row[1]))


def _split(keys: bytes) -> set[bytes]:
    return {keys[i : i + ENTRY_BYTES] for i in range(0, len(keys), ENTRY_BYTES)}


def stale_entries(
    connection: Connection, branch: Branch, fingerprints: Mapping[str, str], broken: frozenset[int]
) -> set[bytes]:
    """Return the entries whose cut is broken or was made by another version of its language's cutter."""
    languages = list(fingerprints)
    rows = connection.execute(
        "select f.entry from file f join cut c using (cut_id) left join unnest(%s::text[], %s::text[])"
        " as now (language, fingerprint) on now.language = c.language where f.branch_id = %s"
        " and (c.cut_id = any(%s) or c.fingerprint is distinct from now.fingerprint)",
        [languages, [fingerprints[name] for name in languages], branch.branch_id, list(broken)],
    )
    return {bytes(row[0]) for row in rows}


def languages_shown(connection: Connection, branch: Branch) -> list[str]:
    """Return the languages that a branch's cuts were made with."""
    rows = connection.execute(
        "select distinct c.language from file f join cut c using (cut_id) where f.branch_id = %s", [branch.branch_id]
    )
    return [row[0] for row in rows]


def shown(
    connection: Connection, branch: Branch, keys: Collection[bytes]
) -> dict[bytes, tuple[str, str | None, int | None, str]]:
    """Return what some entries of a branch show, as in ``FileRow.shows``."""
    rows = connection.execute(
        "select entry, language, skip, cut_id, category from file where branch_id = %s and entry = any(%b)",
        [branch.branch_id, list(keys)],
    )
    return {bytes(entry): (*showing,) for entry, *showing in rows}


def count_chunks(connection: Connection, branch: Branch, keys: Collection[bytes]) -> int:
    """Return how many chunks some entries of a branch show."""
    row = connection.execute(
        "select coalesce(sum((select sum(n) from unnest(levels) n)), 0) from file join cut using (cut_id)"
        " where branch_id = %s and entry = any(%b)",
        [branch.branch_id, list(keys)],
    ).fetchone()
    return int(row[0]) if row else 0


@dataclass(frozen=True, slots=True)
class Kept:
    """How much of a branch has one language and one reason to be skipped ("" = none)."""

    language: str
    skip: str
    files: int
    levels: list[int]  # chunks


def kept(connection: Connection, branch: Branch, gone: Collection[bytes]) -> list[Kept]:
    """Return what a branch shows besides some entries."""
    sums = sql.SQL(", ".join(f"coalesce(sum(levels[{i + 1}]), 0)" for i in range(len(LEVELS))))
    rows = connection.execute(
        sql.SQL(
            "select f.language, coalesce(f.skip, ''), count(*), array[{}]::int[] from file f"
            " left join cut using (cut_id) where branch_id = %s and not entry = any(%b) group by 1, 2 order by 1, 2"
        ).format(sums),
        [branch.branch_id, list(gone)],
    )
    return [Kept(*row) for row in rows]


def counts_agree(connection: Connection, branch: Branch) -> bool:
    """Say whether a branch's rows are as many as its state says; a branch that shows nothing is never sure of it."""
    given = {"id": branch.branch_id}
    row = connection.execute(_COUNTS, given).fetchone()
    if branch.files == 0 or row != (branch.files, branch.failed, branch.chunks):
        return False
    query = f"select skipped = {_SKIPPED} from branch where branch_id = %(id)s"
    return connection.execute(query, given).fetchone() == (True,)


_COUNTS = sql.SQL(
    "select count(*), count(*) filter (where skip = 'failed'), array[{}]::int[] from file left join cut using (cut_id)"
    " where branch_id = %(id)s"
).format(sql.SQL(", ".join(f"coalesce(sum(levels[{i + 1}]), 0)" for i in range(len(LEVELS)))))
_SKIPPED = (  # files by the reason why they show nothing
    "(select coalesce(jsonb_object_agg(skip, n), '{}') from (select skip, count(*) as n from file"
    " where branch_id = %(id)s and skip is not null group by 1) s)"
)


def publish(
    connection: Connection,
    repo: str,
    commit: Commit,
    rules_fp: str,
    change: Change,
    *,
    expected: Branch | None,
    make_default: bool,
    model: Model,
) -> Branch:
    """Move a branch to ``commit`` in one transaction; what it shows has vectors of ``model``.

    Raises:
        Moved: another run published the branch in between, or another model is the active one; nothing was changed.
    """
    with connection.transaction():
        connection.execute("set local synchronous_commit = on")  # off elsewhere: what it may lose is done again
        keep_active(connection, model)
        branch_id = _lock_branch(connection, repo, commit, rules_fp, expected)
        if make_default or not _has_default(connection, branch_id):
            _make_default(connection, branch_id)
        _apply(connection, branch_id, change, model)
        connection.execute(
            "update branch set generation = generation + 1, commit_sha = %(commit)s, tree_sha = %(tree)s,"
            " committed_at = %(at)s, purge_due = purge_due or (commit_sha <> '' and rules_fp <> %(rules)s),"
            " rules_fp = %(rules)s, head_sha = %(commit)s, head_seen_at = now(),"
            " published_at = now() where branch_id = %(id)s",
            {
                "commit": commit.sha,
                "tree": commit.tree,
                "at": commit.committed_at,
                "rules": rules_fp,
                "id": branch_id,
            },
        )
        _recount(connection, branch_id)
    branch = find_branch(connection, repo, commit.branch)
    assert branch is not None
    return branch


def _recount(connection: Connection, branch_id: int) -> None:
    """Let the branch's counts say what its rows are."""
    row = connection.execute(_COUNTS, {"id": branch_id}).fetchone()
    assert row is not None
    connection.execute(
        f"update branch set files = %(files)s, failed = %(failed)s, chunks = %(chunks)s, skipped = {_SKIPPED}"
        " where branch_id = %(id)s",
        dict(zip(("files", "failed", "chunks"), row, strict=True)) | {"id": branch_id},
    )


def _lock_branch(connection: Connection, repo: str, commit: Commit, rules_fp: str, expected: Branch | None) -> int:
    generation = expected.generation if expected else 0
    if expected is None:
        connection.execute(
            "insert into branch (repo_id, name, commit_sha, tree_sha, committed_at, rules_fp, files, failed, chunks)"
            " select repo_id, %s, '', '', %s, %s, 0, 0, '{0,0,0,0}' from repo where name = %s on conflict do nothing",
            [commit.branch, commit.committed_at, rules_fp, repo],
        )
    row = connection.execute(
        "select b.branch_id, b.generation from branch b join repo r using (repo_id)"
        " where r.name = %s and b.name = %s for update of b",
        [repo, commit.branch],
    ).fetchone()
    if row is None or row[1] != generation:
        raise Moved(f"{repo} {commit.branch} was changed by another run meanwhile: run this again")
    return int(row[0])


def _has_default(connection: Connection, branch_id: int) -> bool:
    row = connection.execute(
        "select 1 from branch where is_default and repo_id = (select repo_id from branch where branch_id = %s)",
        [branch_id],
    ).fetchone()
    return row is not None


def _make_default(connection: Connection, branch_id: int) -> None:
    connection.execute(
        "update branch set is_default = false where is_default and branch_id <> %s"
        " and repo_id = (select repo_id from branch where branch_id = %s)",
        [branch_id, branch_id],
    )
    connection.execute("update branch set is_default = true where branch_id = %s and not is_default", [branch_id])


def _apply(connection: Connection, branch_id: int, change: Change, model: Model) -> None:
    if change.removed:
        connection.execute(
            "delete from file where branch_id = %s and entry = any(%b)", [branch_id, list(change.removed)]
        )
    copy_rows(
        connection,
        "file",
        ["int4", "bytea", "text", "text", "text", "text", "text", "int8", "text"],
        ((branch_id, f.entry, f.path, f.mode, f.oid, f.language, f.skip, f.cut_id, f.category) for f in change.added),
    )
    signs.add(connection, model, [f.cut_id for f in change.added if f.cut_id is not None])
    signs.renew(connection, model, change.healed)


def note_seen(connection: Connection, branch: Branch, commit: Commit, *, make_default: bool) -> None:
    """Record that the branch was seen at ``commit``, whose tree is the one it shows already."""
    with connection.transaction():
        connection.execute(
            "update branch set generation = generation + (commit_sha <> %(sha)s)::int, commit_sha = %(sha)s,"
            " committed_at = %(at)s, head_sha = %(sha)s, head_seen_at = now() where branch_id = %(id)s",
            {"sha": commit.sha, "at": commit.committed_at, "id": branch.branch_id},
        )
        if make_default:
            _make_default(connection, branch.branch_id)


def note_purged(connection: Connection, branch: Branch) -> None:
    """Record that what a change of rules left behind is gone."""
    connection.execute("update branch set purge_due = false where branch_id = %s", [branch.branch_id])


def skipped(connection: Connection, branch: Branch) -> dict[str, int]:
    """Return how many files show nothing, by reason."""
    rows = connection.execute(
        "select skip, count(*) from file where branch_id = %s and skip is not null group by 1 order by 1",
        [branch.branch_id],
    )
    return dict(rows.fetchall())


def note_head(connection: Connection, repo: str, name: str, sha: str) -> None:
    """Record the tip last seen at the source; the branch is behind if it is not the published commit."""
    connection.execute(
        "update branch b set head_sha = %s, head_seen_at = now() from repo r"
        " where r.repo_id = b.repo_id and r.name = %s and b.name = %s",
        [sha, repo, name],
    )


def remove(connection: Connection, repo: str, names: Collection[str]) -> None:
    """Take away branches with all their locations, at once; their content stays for gc's grace period."""
    connection.execute(
        "delete from branch b using repo r where r.repo_id = b.repo_id and r.name = %s and b.name = any(%s)",
        [repo, list(names)],
    )


def names(connection: Connection, repo: str) -> list[str]:
    """Return the names of a repository's published branches."""
    rows = connection.execute(
        "select b.name from branch b join repo r using (repo_id) where r.name = %s order by 1", [repo]
    )
    return [row[0] for row in rows]


def remove_files(connection: Connection, repo: str, pattern: str) -> set[str]:
    """Take away the locations of a repository whose path matches a regular expression; return their blobs."""
    with connection.transaction():
        rows = connection.execute(
            "delete from file f using branch b join repo r using (repo_id)"
            " where f.branch_id = b.branch_id and r.name = %s and f.path ~ %s returning f.oid, f.branch_id",
            [repo, pattern],
        ).fetchall()
        touched = sorted({row[1] for row in rows})
        connection.execute("update branch set tree_sha = '' where branch_id = any(%s)", [touched])  # look at it again
        for branch_id in touched:
            _recount(connection, branch_id)
    return {row[0] for row in rows}


def blobs_of(connection: Connection, repo: str) -> set[str]:
    """Return the blobs that any branch of a repository refers to."""
    rows = connection.execute(
        "select distinct f.oid from file f join branch b using (branch_id) join repo r using (repo_id)"
        " where r.name = %s",
        [repo],
    )
    return {row[0] for row in rows}
