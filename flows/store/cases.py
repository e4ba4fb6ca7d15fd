"""Case notes: what somebody learned, kept by project. Syncs, gc, purges and changes of the model leave them alone.

A note's text is the truth. Its words and its vectors are made from it, and again when what makes them is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pgvector import HalfVector
from pgvector.psycopg import register_vector

from chunkers import words
from flows.embed import Vectors
from flows.store.connect import Connection

_COLUMNS = "case_id, project, concept, solution, added_at"


@dataclass(frozen=True, slots=True)
class Note:
    """A case note as it was given, secrets masked."""

    case_id: str
    project: str
    concept: str
    solution: str
    added_at: datetime

    @property
    def text(self) -> str:
        """What is searched for."""
        return f"{self.concept}\n{self.solution}"


@dataclass(frozen=True, slots=True)
class Scored:
    """A note and how like a query it is, 0 to 1."""

    case_id: str
    concept: str
    solution: str
    similarity: float


def add(connection: Connection, project: str, concept: str, solution: str) -> Note:
    """Store a note under a new id."""
    row = connection.execute(
        "insert into case_note (project, concept, solution, terms, words_version) values (%s, %s, %s, %s, %s)"
        f" returning {_COLUMNS}",
        [project, concept, solution, _terms(f"{concept}\n{solution}"), words.WORDS_VERSION],
    ).fetchone()
    assert row is not None
    return Note(*row)


def restore(connection: Connection, notes: Iterable[Note]) -> int:
    """Store notes under the ids that they have; what is there already stays as it is. Return how many were new."""
    return sum(
        connection.execute(
            f"insert into case_note ({_COLUMNS}, terms, words_version) values (%s, %s, %s, %s, %s, %s, %s)"
            " on conflict do nothing",
            [n.case_id, n.project, n.concept, n.solution, n.added_at, _terms(n.text), words.WORDS_VERSION],
        ).rowcount
        for n in notes
    )


def notes(connection: Connection, project: str | None = None) -> list[Note]:
    """Return the notes of a project, or all of them, the oldest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from case_note where %(project)s::text is null or project = %(project)s"
        " order by project, added_at, case_id",
        {"project": project},
    )
    return [Note(*row) for row in rows]


def count(connection: Connection, project: str) -> int:
    """Return how many notes a project has."""
    row = connection.execute("select count(*) from case_note where project = %s", [project]).fetchone()
    return int(row[0]) if row else 0


def delete(connection: Connection, case_ids: Sequence[str]) -> list[str]:
    """Delete notes for good; return the ids of those that were there."""
    rows = connection.execute("delete from case_note where case_id = any(%s) returning case_id", [list(case_ids)])
    return [row[0] for row in rows]


# --- what is made from the text ------------------------------------------------------------------------------------


def _terms(text: str) -> list[str]:
    return sorted(set(words.words(text)))


def has_old_terms(connection: Connection, project: str) -> bool:
    """Say whether another version of this program wrote the words of some notes."""
    query = "select exists (select 1 from case_note where project = %s and words_version <> %s)"
    return connection.execute(query, [project, words.WORDS_VERSION]).fetchone() == (True,)


def refresh_terms(connection: Connection, project: str) -> None:
    """Make the words of these notes again."""
    rows = connection.execute(
        f"select {_COLUMNS} from case_note where project = %s and words_version <> %s", [project, words.WORDS_VERSION]
    )
    for note in [Note(*row) for row in rows]:
        connection.execute(
            "update case_note set terms = %s, words_version = %s where case_id = %s",
            [_terms(note.text), words.WORDS_VERSION, note.case_id],
        )


def without_vector(connection: Connection, project: str, fingerprint: str, limit: int) -> list[Note]:
    """Return notes of a project that have no vector of a model, the newest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from case_note n where project = %s and not exists"
        " (select 1 from case_vector v where v.case_id = n.case_id and v.fingerprint = %s)"
        " order by added_at desc, case_id limit %s",
        [project, fingerprint, limit],
    )
    return [Note(*row) for row in rows]


def store_vectors(connection: Connection, fingerprint: str, vectors: Mapping[str, Vectors]) -> None:
    """Store a model's vectors by the ids of notes, and forget those of models that the index has no more."""
    register_vector(connection)
    for case_id, vector in sorted(vectors.items()):
        connection.execute(
            "insert into case_vector select case_id, %s, %s from case_note where case_id = %s on conflict do nothing",
            [fingerprint, HalfVector(vector), case_id],
        )
    connection.execute(
        "delete from case_vector where fingerprint <> %s and fingerprint not in (select fingerprint from model)",
        [fingerprint],
    )


# --- search --------------------------------------------------------------------------------------------------------


def nearest(
    connection: Connection, project: str, query: str, fingerprint: str, vector: Vectors | None, limit: int
) -> list[Scored]:
    """Return the notes of a project that are most like a query; of equals the newest first.

    Likeness by words, w, is the share of the query's words that the note has, each weighing ln(1 + N / (1 + df)); by
    meaning, m, it is the cosine, 0 where it is negative or there is no vector. The score is 1 - (1 - m)(1 - w^2), so
    that meaning leads: few notes do not tell common words from rare ones (docs/agents.md says what was tried).
    """
    register_vector(connection)
    rows = connection.execute(
        """
        with note as materialized (
            select * from case_note where project = %(project)s
        ), term as (
            select t.term, ln(1 + (select count(*) from note)::float8 / (1 + count(n.case_id))) as weight
            from unnest(%(terms)s::text[]) t (term) left join note n on t.term = any(n.terms) group by t.term
        ), likeness as (
            select n.case_id,
                coalesce((select sum(weight) from term where term.term = any(n.terms))
                    / (select sum(weight) from term), 0) as worded,
                coalesce(greatest(0, 1 - nullif(v.vector <=> %(vector)s::halfvec, 'NaN')), 0) as near
            from note n left join case_vector v on v.case_id = n.case_id and v.fingerprint = %(fingerprint)s
        )
        select case_id, concept, solution,
            1 - (1 - least(1, near)) * (1 - least(1, worded) ^ 2) as similarity
        from likeness join note using (case_id)
        order by similarity desc, added_at desc, case_id limit %(limit)s
        """,
        {
            "project": project,
            "terms": _terms(query),
            "vector": None if vector is None else HalfVector(vector),
            "fingerprint": fingerprint,
            "limit": limit,
        },
    )
    return [Scored(*row) for row in rows]
