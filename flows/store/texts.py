"""Chunk texts with their lexical vectors and embeddings: written once, found again by content.

A text is known by the BLAKE2b-128 of its UTF-8 bytes. Rows are written ahead of the publish that will show them; until
then nothing refers to them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import pack

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from chunkers import words
from flows.embed import Vectors, guard
from flows.errors import EmbedderError
from flows.store.connect import Connection, copy_rows
from flows.store.models import Generation, Model, all_models

MAX_TF = 24  # counts beyond it change BM25 by less than 1 %
_MAX_KNOWN = 500_000  # remembered texts of a run: about 150 bytes each
_ASKED = 20_000  # texts of which it is asked at once whether they have a vector
_STAGE = """
create temp table if not exists stage_lex (text_id bigint, version smallint, length int, terms tsvector)
    on commit delete rows;
create temp table if not exists stage_vector (text_id bigint, vector halfvec) on commit delete rows;
"""


@dataclass(slots=True)
class TextCounts:
    """What a run did with texts: ``reused`` were there before, ``computed`` got a vector."""

    computed: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """A bag of words, to be stored as a tsvector whose positions count each word's occurrences."""

    counts: Counter[str]


class _TermsDumper(Dumper):
    """tsvector in binary: number of lexemes; per lexeme its text, NUL, number of positions, the positions."""

    oid = 3614
    format = Format.BINARY

    def dump(self, obj: Terms) -> Buffer:
        out = [pack("!i", len(obj.counts))]
        for term, count in obj.counts.items():
            out.append(term.encode())
            out.append(_POSITIONS[count if count < MAX_TF else MAX_TF])
        return b"".join(out)


_POSITIONS = [b"\0" + pack(f"!H{n}H", n, *range(1, n + 1)) for n in range(MAX_TF + 1)]


def text_hash(text: str) -> bytes:
    """Return the identity of a chunk text: 16 bytes."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def stored_counts(terms: Terms) -> dict[str, int]:
    """Return the counts that the database keeps of a bag of words."""
    return {term: min(count, MAX_TF) for term, count in terms.counts.items()}


def terms_of(text: str) -> tuple[int, Terms]:
    """Return (length in terms, bag of words) of a text."""
    tokens = words.words(text)
    return len(tokens), Terms(Counter(tokens))


class TextStore:
    """Writes texts that the database does not have yet. Used by one thread at a time.

    A model that is being built gets its vectors, too. Where it fails they are left to its build: no run ends for it.
    """

    def __init__(self, connection: Connection, active: Generation, building: Generation | None = None) -> None:
        self.counts = TextCounts()
        self.active = active
        self.building = building
        self.failure = ""  # why the model that is being built was given up
        self._connection = connection
        self._known: dict[bytes, int] = {}
        prepare(connection)

    def ensure(self, texts: Iterable[str]) -> dict[bytes, int]:
        """Return the id of each text by its hash, after writing and embedding those that are new.

        A text for which the model has no usable vector is written nowhere and missing from the result.

        Raises:
            EmbedderError: the model failed; nothing of this call was written.
        """
        bodies = {text_hash(text): text for text in texts}
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        missing = {key: body for key, body in bodies.items() if key not in self._known}
        if missing:
            self._write(missing)
        return {key: self._known[key] for key in bodies if key in self._known}

    def rewrite(self, bodies: dict[bytes, str]) -> None:
        """Put texts right that are there but wrong: body, words and vectors, in one transaction."""
        if not bodies:
            return
        keys = list(bodies)
        with self._connection.transaction():
            self._connection.execute(
                "update text set body = fresh.body from unnest(%b::bytea[], %b::text[]) as fresh (hash, body)"
                " where text.hash = fresh.hash",
                [keys, list(bodies.values())],
            )
            for table in (sql.Identifier("lex"), *(model.vectors for model in all_models(self._connection))):
                query = sql.SQL("delete from {} where text_id in (select text_id from text where hash = any(%b))")
                self._connection.execute(query.format(table), [keys])
            self._known.clear()
            self._write(bodies)
            signs = sql.SQL(
                "update {} m set signs = binary_quantize(v.vector)::bit({}) from text t join {} v using (text_id)"
                " where t.hash = any(%b) and m.text_id = t.text_id"
            )
            model = self.active.model  # the others have no members
            self._connection.execute(signs.format(model.members, sql.Literal(model.dimension), model.vectors), [keys])

    def _write(self, bodies: dict[bytes, str]) -> None:
        ids, lexed, embedded = self._lookup(bodies, self.active.model)
        to_embed = sorted(key for key in bodies if key not in embedded)
        vectors = guard.embed(self.active.embedder, [bodies[key] for key in to_embed])
        usable: npt.NDArray[np.bool_] = np.isfinite(vectors).all(axis=1).reshape(-1)
        without = {key for key, good in zip(to_embed, usable, strict=True) if not good}
        terms = {key: terms_of(bodies[key]) for key in sorted(bodies.keys() - lexed - without)}
        to_embed = [key for key in to_embed if key not in without]
        beside = self._embed_beside({key: body for key, body in bodies.items() if key not in without})
        if to_embed or terms or beside:
            with self._connection.transaction():
                ids |= self._insert_texts({k: body for k, body in bodies.items() if k not in ids and k not in without})
                self._insert_terms({ids[key]: value for key, value in terms.items()})
                written = [(self.active.model, dict(zip(to_embed, vectors[usable], strict=True)))]
                if self.building is not None:
                    written.append((self.building.model, beside))
                for model, rows in sorted(written, key=lambda pair: pair[0].model_id):  # one order in all runs
                    insert_vectors(self._connection, model, {ids[key]: row for key, row in rows.items()})
        self._known |= {key: text_id for key, text_id in ids.items() if key not in without}
        self.counts.computed += len(to_embed)
        self.counts.reused += len(bodies) - len(to_embed) - len(without)

    def _embed_beside(self, bodies: dict[bytes, str]) -> dict[bytes, Vectors]:
        """Return the usable vectors of the model that is being built, for texts that have none."""
        if self.building is None or self.failure:
            return {}
        embedded = self._lookup(bodies, self.building.model)[2]
        keys = sorted(bodies.keys() - embedded)
        try:
            vectors = guard.embed(self.building.embedder, [bodies[key] for key in keys])
        except EmbedderError as error:
            self.failure = str(error)
            return {}
        return {key: row for key, row in zip(keys, vectors, strict=True) if np.isfinite(row).all()}

    def _lookup(self, bodies: Iterable[bytes], model: Model) -> tuple[dict[bytes, int], set[bytes], set[bytes]]:
        query = sql.SQL(
            "select t.hash, t.text_id, l.text_id is not null, e.text_id is not null from text t"
            " left join lex l on l.text_id = t.text_id and l.version = %s"
            " left join {} e on e.text_id = t.text_id where t.hash = any(%s)"
        ).format(model.vectors)
        rows = self._connection.execute(query, [words.WORDS_VERSION, list(bodies)], binary=True).fetchall()
        ids = {bytes(row[0]): row[1] for row in rows}
        return ids, {bytes(row[0]) for row in rows if row[2]}, {bytes(row[0]) for row in rows if row[3]}

    def _insert_texts(self, bodies: dict[bytes, str]) -> dict[bytes, int]:
        if not bodies:
            return {}
        keys = sorted(bodies)
        self._connection.execute(
            "insert into text (hash, body) select * from unnest(%b::bytea[], %b::text[]) on conflict do nothing",
            [keys, [bodies[key] for key in keys]],
        )
        rows = self._connection.execute("select hash, text_id from text where hash = any(%b)", [keys], binary=True)
        return {bytes(row[0]): row[1] for row in rows}

    def _insert_terms(self, terms: dict[int, tuple[int, Terms]]) -> None:
        if not terms:
            return
        rows = ((text_id, words.WORDS_VERSION, length, bag) for text_id, (length, bag) in sorted(terms.items()))
        copy_rows(self._connection, "stage_lex", ["int8", "int2", "int4", "tsvector"], rows)
        self._connection.execute(
            "insert into lex select * from stage_lex order by text_id on conflict (text_id) do update"
            " set version = excluded.version, length = excluded.length, terms = excluded.terms"
            " where lex.version <> excluded.version"
        )


def embedded(connection: Connection, model: Model, hashes: Collection[bytes]) -> set[bytes]:
    """Return those of some texts, by hash, that have a vector of a model."""
    query = sql.SQL("select t.hash from text t join {} v using (text_id) where t.hash = any(%s)").format(model.vectors)
    wanted, found = sorted(hashes), set[bytes]()
    for start in range(0, len(wanted), _ASKED):
        rows = connection.execute(query, [wanted[start : start + _ASKED]], binary=True)
        found |= {bytes(row[0]) for row in rows}
    return found


def prepare(connection: Connection) -> None:
    """Make a connection ready to write words and vectors."""
    register_vector(connection)
    connection.adapters.register_dumper(Terms, _TermsDumper)
    connection.execute(_STAGE)


def insert_vectors(connection: Connection, model: Model, vectors: Mapping[int, Vectors]) -> int:
    """Write vectors by the ids of their texts, in a transaction; return how many were new. Texts that went meanwhile
    are left out, those that stay are held until the transaction ends.
    """
    if not vectors:
        return 0
    connection.execute("delete from stage_vector")  # of another model, in the same transaction
    rows = ((text_id, HalfVector(vectors[text_id])) for text_id in sorted(vectors))
    copy_rows(connection, "stage_vector", ["int8", "halfvec"], rows)
    query = (
        "insert into {} select s.text_id, s.vector from stage_vector s join text t using (text_id) order by s.text_id"
        " for key share of t on conflict do nothing"
    )
    return connection.execute(sql.SQL(query).format(model.vectors)).rowcount


# --- building a model ----------------------------------------------------------------------------------------------

_SHOWN = "exists (select 1 from chunk c where c.text_id = t.text_id)"


def count_to_embed(connection: Connection, model: Model) -> tuple[int, int]:
    """Return how many texts the cuts hold, and how many of them have no vector of a model."""
    query = sql.SQL(
        "select count(*), count(*) filter (where v.text_id is null) from text t left join {} v using (text_id) where "
        + _SHOWN
    )
    row = connection.execute(query.format(model.vectors)).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def to_embed(connection: Connection, model: Model, after: int, limit: int) -> list[int]:
    """Return the ids of texts that cuts hold and that have no vector of a model, in their order."""
    query = sql.SQL(
        "select t.text_id from text t where t.text_id > %s and "
        + _SHOWN
        + " and not exists (select 1 from {} v where v.text_id = t.text_id) order by t.text_id limit %s"
    )
    return [row[0] for row in connection.execute(query.format(model.vectors), [after, limit])]


def bodies(connection: Connection, text_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Return (id, body) of those of some texts that are still there."""
    rows = connection.execute("select text_id, body from text where text_id = any(%s)", [list(text_ids)])
    return [(row[0], row[1]) for row in rows]
