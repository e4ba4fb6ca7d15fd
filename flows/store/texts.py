"""Chunk texts with their lexical vectors and embeddings: written once, found again by content.

A text is known by the BLAKE2b-128 of its UTF-8 bytes. Rows are written ahead of the publish that will show them; until
then nothing refers to them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
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
from flows.embed import Embedder, Vectors, guard
from flows.store.connect import Connection, copy_rows
from flows.store.models import Model

MAX_TF = 24  # counts beyond it change BM25 by less than 1 %
_MAX_KNOWN = 500_000  # remembered texts of a run: about 150 bytes each
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
    """Writes texts that the database does not have yet. Used by one thread at a time."""

    def __init__(self, connection: Connection, embedder: Embedder, model: Model) -> None:
        self.counts = TextCounts()
        self._connection = connection
        self._embedder = embedder
        self._model = model
        self._known: dict[bytes, int] = {}
        register_vector(connection)
        connection.adapters.register_dumper(Terms, _TermsDumper)
        connection.execute(_STAGE)

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
        """Put texts right that are there but wrong: body, words and vector, in one transaction."""
        if not bodies:
            return
        keys = list(bodies)
        with self._connection.transaction():
            self._connection.execute(
                "update text set body = fresh.body from unnest(%b::bytea[], %b::text[]) as fresh (hash, body)"
                " where text.hash = fresh.hash",
                [keys, list(bodies.values())],
            )
            for table in (sql.Identifier("lex"), self._model.vectors):
                query = sql.SQL("delete from {} where text_id in (select text_id from text where hash = any(%b))")
                self._connection.execute(query.format(table), [keys])
            self._known.clear()
            self._write(bodies)
            signs = sql.SQL(
                "update {} m set signs = binary_quantize(v.vector)::bit({}) from text t join {} v using (text_id)"
                " where t.hash = any(%b) and m.text_id = t.text_id"
            ).format(self._model.members, sql.Literal(self._model.dimension), self._model.vectors)
            self._connection.execute(signs, [keys])

    def _write(self, bodies: dict[bytes, str]) -> None:
        ids, lexed, embedded = self._lookup(bodies)
        to_embed = sorted(key for key in bodies if key not in embedded)
        vectors = guard.embed(self._embedder, [bodies[key] for key in to_embed])
        usable: npt.NDArray[np.bool_] = np.isfinite(vectors).all(axis=1).reshape(-1)
        without = {key for key, good in zip(to_embed, usable, strict=True) if not good}
        terms = {key: terms_of(bodies[key]) for key in sorted(bodies.keys() - lexed - without)}
        to_embed = [key for key in to_embed if key not in without]
        if to_embed or terms:
            with self._connection.transaction():
                ids |= self._insert_texts({k: body for k, body in bodies.items() if k not in ids and k not in without})
                self._insert_terms({ids[key]: value for key, value in terms.items()})
                self._insert_vectors([ids[key] for key in to_embed], vectors[usable])
        self._known |= {key: text_id for key, text_id in ids.items() if key not in without}
        self.counts.computed += len(to_embed)
        self.counts.reused += len(bodies) - len(to_embed) - len(without)

    def _lookup(self, bodies: Iterable[bytes]) -> tuple[dict[bytes, int], set[bytes], set[bytes]]:
        query = sql.SQL(
            "select t.hash, t.text_id, l.text_id is not null, e.text_id is not null from text t"
            " left join lex l on l.text_id = t.text_id and l.version = %s"
            " left join {} e on e.text_id = t.text_id where t.hash = any(%s)"
        ).format(self._model.vectors)
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

    def _insert_vectors(self, ids: Sequence[int], vectors: Vectors) -> None:
        if not ids:
            return
        order = sorted(range(len(ids)), key=ids.__getitem__)
        rows = ((ids[i], HalfVector(vectors[i])) for i in order)
        copy_rows(self._connection, "stage_vector", ["int8", "halfvec"], rows)
        query = "insert into {} select * from stage_vector order by text_id on conflict do nothing"
        self._connection.execute(sql.SQL(query).format(self._model.vectors))
