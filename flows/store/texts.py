"""Chunk texts with their lexical vectors and embeddings: written once, found again by content.

A text is known by the BLAKE2b-128 of its UTF-8 bytes. Rows are written ahead of the publish that will show them; until
then nothing refers to them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import pack

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector, SparseVector
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from chunkers import words
from flows.embed import Vectors, guard
from flows.errors import EmbedderError
from flows.store import signs
from flows.store.connect import Connection, copy_rows
from flows.store.models import Generation, Model, all_models

K1, B = 1.2, 0.75  # BM25, as everyone sets them
# Of a text, in terms. A constant, not the corpus' own mean: what a term counts in a text never changes, and is stored.
MEAN_LENGTH = 100
DIMENSIONS = 1_000_000_000  # as many as a sparsevec can have; two of a text's terms meet once in 10^7 texts
_MAX_KNOWN = 500_000  # remembered texts of a run: about 150 bytes each
_ASKED = 20_000  # texts of which it is asked at once whether they have a vector
_STAGE = """
create temp table if not exists stage_lex
    (text_id bigint, version smallint, length int, terms tsvector, weights sparsevec) on commit delete rows;
create temp table if not exists stage_vector (text_id bigint, vector halfvec) on commit delete rows;
"""


@dataclass(slots=True)
class TextCounts:
    """What a run did with texts: ``reused`` were there before, ``computed`` got a vector."""

    computed: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """A set of words, to be stored as a tsvector without positions."""

    words: Collection[str]


class _TermsDumper(Dumper):
    """tsvector in binary: number of lexemes; per lexeme its text, NUL, number of positions."""

    oid = 3614
    format = Format.BINARY

    def dump(self, obj: Terms) -> Buffer:
        return pack("!i", len(obj.words)) + b"".join(term.encode() + b"\0\0\0" for term in obj.words)


def text_hash(text: str) -> bytes:
    """Return the identity of a chunk text: 16 bytes."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Lexed:
    """A text as words find it: its length in terms, its terms, and what each of them counts in it."""

    length: int
    terms: Terms
    weights: SparseVector


@lru_cache(maxsize=200_000)
def term_index(term: str) -> int:
    """Return the dimension that stands for a term: the first 32 bits of its MD5, modulo DIMENSIONS."""
    return int.from_bytes(hashlib.md5(term.encode(), usedforsecurity=False).digest()[:4]) % DIMENSIONS


def lex(text: str) -> Lexed:
    """Return a text as words find it.

    A term that occurs n times counts (k1 + 1) n / (n + k1 (1 - b + b length / MEAN_LENGTH)): BM25 (Robertson, Zaragoza
    2009) without the term's rarity, which is the query's side of the product. Terms that share a dimension count as the
    one that occurs more often.
    """
    tokens = words.words(text)
    counts = Counter(tokens)
    saturation = K1 * (1 - B + B * len(tokens) / MEAN_LENGTH)
    most: dict[int, int] = {}
    for term, n in counts.items():
        index = term_index(term)
        most[index] = max(n, most.get(index, 0))
    weights = {index: (K1 + 1) * n / (n + saturation) for index, n in most.items()}
    return Lexed(len(tokens), Terms(counts), SparseVector(weights, DIMENSIONS))


def query_weights(weights: Iterable[tuple[str, float]]) -> str:
    """Return a query's terms with their rarity as a sparsevec in text form; a negative inner product scores a text."""
    most: dict[int, float] = {}
    for term, weight in weights:
        index = term_index(term) + 1
        most[index] = max(weight, most.get(index, 0.0))
    return f"{{{','.join(f'{index}:{most[index]:.6g}' for index in sorted(most))}}}/{DIMENSIONS}"


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
            signs.renew(self._connection, self.active.model, signs.of_texts(self._connection, keys))  # others have none

    def _write(self, bodies: dict[bytes, str]) -> None:
        ids, lexed, embedded = self._lookup(bodies, self.active.model)
        to_embed = sorted(key for key in bodies if key not in embedded)
        vectors = guard.embed(self.active.embedder, [bodies[key] for key in to_embed])
        usable: npt.NDArray[np.bool_] = np.isfinite(vectors).all(axis=1).reshape(-1)
        without = {key for key, good in zip(to_embed, usable, strict=True) if not good}
        lexed_now = {key: lex(bodies[key]) for key in sorted(bodies.keys() - lexed - without)}
        to_embed = [key for key in to_embed if key not in without]
        beside = self._embed_beside({key: body for key, body in bodies.items() if key not in without})
        if to_embed or lexed_now or beside:
            with self._connection.transaction():
                ids |= self._insert_texts({k: body for k, body in bodies.items() if k not in ids and k not in without})
                self._insert_lexed({ids[key]: value for key, value in lexed_now.items()})
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

    def _insert_lexed(self, lexed: dict[int, Lexed]) -> None:
        if not lexed:
            return
        rows = (
            (text_id, words.WORDS_VERSION, text.length, text.terms, text.weights)
            for text_id, text in sorted(lexed.items())
        )
        copy_rows(self._connection, "stage_lex", ["int8", "int2", "int4", "tsvector", "sparsevec"], rows)
        self._connection.execute(
            "insert into lex select * from stage_lex order by text_id on conflict (text_id) do update"
            " set version = excluded.version, length = excluded.length, terms = excluded.terms,"
            " weights = excluded.weights where lex.version <> excluded.version"
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
