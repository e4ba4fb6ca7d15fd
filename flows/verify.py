"""Look at everything a branch shows: does it say what git, the cutter and the model say?

Counting rows, which every run does, notices what is missing; this notices what is there but wrong. Wrong texts are put
right in place, for every branch that shows them; wrong cuts are returned, to be written anew by the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunkers import cut
from flows import git, plan
from flows.decode import decode
from flows.embed import Embedder
from flows.errors import SourceError
from flows.store import audit, cuts
from flows.store.audit import StoredCut, StoredText
from flows.store.branches import Branch
from flows.store.connect import Connection
from flows.store.models import Generation
from flows.store.texts import TextStore, lex, text_hash

BATCH = 50  # cuts compared at once
NEAR = 0.999  # cosine of a stored half-precision vector to the one computed now


def wrong_cuts(
    connection: Connection, repository: git.Repository, branch: Branch, active: Generation
) -> frozenset[int]:
    """Return the cuts whose rows differ from what indexing their blob would write now."""
    wrong: set[int] = set()
    store = TextStore(connection, active)
    ids = audit.shown_cuts(connection, branch.branch_id)
    with git.ObjectReader(repository) as reader:
        for start in range(0, len(ids), BATCH):
            bodies: dict[bytes, str] = {}
            stored = audit.stored_cuts(connection, ids[start : start + BATCH])
            wrong |= {item.cut_id for item in stored if not _is_right(item, reader, bodies)}
            store.rewrite(
                _wrong_texts(
                    audit.stored_texts(connection, [c.cut_id for c in stored], active.model), bodies, active.embedder
                )
            )
    return frozenset(wrong)


def _is_right(stored: StoredCut, reader: git.ObjectReader, bodies: dict[bytes, str]) -> bool:
    """Compare body, facts, chunks and symbols with a fresh cut of the blob, and note what its texts should be."""
    if stored.fingerprint != plan.cut_key(stored.language).fingerprint:
        return True  # stale, not wrong: the plan sees to it
    try:
        text, facts = decode(reader.read(stored.oid))
    except SourceError:
        return True  # this clone cannot say
    fresh = cut.cut(text, stored.language)
    bodies |= {text_hash(chunk.text): chunk.text for chunk in fresh.chunks}
    chunks = [
        (cuts.rank_of(c.level), c.parent, c.anchor, c.symbol, c.signature, c.start_line, c.end_line, text_hash(c.text))
        for c in fresh.chunks
    ]
    symbols = [(s.name, s.kind, s.start_line, s.end_line, s.signature, s.doc) for s in fresh.symbols]
    same = stored.chunks == chunks and stored.symbols == symbols
    return same and stored.body == text and stored.facts == facts.to_json()


def _wrong_texts(texts: Sequence[StoredText], bodies: Mapping[bytes, str], embedder: Embedder) -> dict[bytes, str]:
    """Return what texts should be whose body, words or vector are not what hash, splitter or model say."""
    known = [text for text in texts if text.hash in bodies]
    if not known:
        return {}
    fresh = embedder.embed_documents([bodies[text.hash] for text in known])
    held = np.stack([text.vector for text in known])
    cosine = (fresh * held).sum(axis=1) / np.maximum(np.linalg.norm(held, axis=1), 1e-9)
    return {
        text.hash: bodies[text.hash]
        for text, nearness in zip(known, cosine, strict=True)
        if not (nearness >= NEAR and text.body == bodies[text.hash] and _has_its_words(text))
    }


def _has_its_words(text: StoredText) -> bool:
    fresh = lex(text.body)
    return (
        text.length == fresh.length
        and text.terms == set(fresh.terms.words)
        and text.weights.indices() == fresh.weights.indices()
        and np.allclose(text.weights.values(), fresh.weights.values(), rtol=1e-3)
    )
