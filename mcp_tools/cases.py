"""query_knowledge_base and add_case_reference: what was learned once, found again by meaning and by words.

A note is stored even if the model fails: its vector is made by the next query that can.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from flows import secrets
from flows.errors import EmbedderError, GitstrataError, UsageError
from flows.store import cases
from flows.store.cases import Note, Scored
from flows.store.models import active_model
from flows.wording import counted
from mcp_tools import render
from mcp_tools.index import Index
from mcp_tools.results import Case, CaseAdded, CaseResult
from mcp_tools.surface import argument, tool

if TYPE_CHECKING:
    from flows.embed import Embedder

MAX_LIMIT = 100
MAX_QUERY = 4_000  # characters
MAX_CONCEPT = 2_000
MAX_SOLUTION = 10_000
EMBEDDED = 4_000  # characters of a note that its vector is made of
BATCH = 64  # notes
REFRESH_SECONDS = 5.0  # of one query, for vectors that are missing
STORED = "Case stored successfully"


def query_knowledge_base(index: Index, query: str, *, limit: int = 5, project: str = "") -> CaseResult:
    """Return the notes of ``project`` that are most like the query.

    Raises:
        UsageError: there is no note, or an argument is wrong.
    """
    query = _checked("query", query, MAX_QUERY)
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"{argument('limit')} is {limit}: use 1 to {MAX_LIMIT}")
    with index.snapshot() as connection:
        total = cases.count(connection, project)
    if not total:
        raise UsageError(f"The case base is empty: {tool('add_case_reference')} stores the first case.")
    message = _refresh(index, project)
    vector, fingerprint = None, ""
    try:
        embedder = _embedder(index)
        vector, fingerprint = embedder.embed_query(query), embedder.fingerprint
    except (EmbedderError, UsageError) as error:
        message = f"found by words only, not by meaning: {error}"
    with index.snapshot() as connection:
        found = cases.nearest(connection, project, query, fingerprint, vector, limit)
    shown = _fitting(found)
    if len(shown) < len(found):
        cut = f"{len(shown)} of {len(found)} cases shown, more would be too long: ask a narrower question"
        message = "; ".join(filter(None, [cut, message]))
    return CaseResult(
        status="success",
        results=[_case(scored) for scored in shown],
        count=len(shown),
        message=message or f"{len(shown)} of {counted(total, 'case')}, the most similar first",
    )


def add_case_reference(index: Index, concept: str, solution: str, *, project: str = "") -> CaseAdded:
    """Store a note, secrets masked, and return its new id.

    Raises:
        UsageError: a text is empty or too long.
    """
    concept, solution = checked(concept, solution)
    with index.transaction() as connection:
        note = cases.add(connection, project, concept, solution)
    with contextlib.suppress(GitstrataError):  # the note is there: the next query makes up for it, or says why not
        _embed(index, _embedder(index), [note])
    return CaseAdded(status="success", message=STORED, case_id=note.case_id)


def checked(concept: str, solution: str) -> tuple[str, str]:
    """Return the texts of a note as they may be stored; raises UsageError."""
    concept, solution = _checked("concept", concept, MAX_CONCEPT), _checked("solution", solution, MAX_SOLUTION)
    return secrets.mask_note(concept), secrets.mask_note(solution)


def _checked(name: str, text: str, longest: int) -> str:
    """Return a text that can be stored: without NUL and half surrogate pairs."""
    text = text.replace("\0", " ").encode(errors="replace").decode().strip()
    if not text:
        raise UsageError(f"{name} is empty: say it in words")
    if len(text) > longest:
        raise UsageError(f"{name} has {len(text)} characters: use at most {longest}")
    return text


def _embedder(index: Index) -> Embedder:
    """Return the model of the index; before the first index the one that is configured."""
    with index.snapshot() as connection:
        model = active_model(connection)
    if model is not None:
        return index.shelf.find(model.setting, model.fingerprint, model.dimension)
    return index.shelf.load(index.shelf.setting)


def _refresh(index: Index, project: str) -> str:
    """Make the vectors that notes lack, for some seconds at most; return what is to be said of the rest."""
    deadline = time.monotonic() + REFRESH_SECONDS
    try:
        with index.snapshot() as connection:
            old = cases.has_old_terms(connection, project)
        if old:
            with index.transaction() as connection:
                cases.refresh_terms(connection, project)
        embedder = _embedder(index)
        while True:
            with index.snapshot() as connection:
                missing = cases.without_vector(connection, project, embedder.fingerprint, BATCH)
            if not missing or not _embed(index, embedder, missing):
                return ""
            if time.monotonic() > deadline:
                return "the model is new: some cases are found by words only until later queries have embedded them"
    except GitstrataError as error:  # a database that takes nothing, say; what is there can be searched
        return f"some cases may be found by words only: {error}"


def _embed(index: Index, embedder: Embedder, notes: list[Note]) -> int:
    """Store the vectors of notes; return how many there were: a model may have none for a text."""
    import numpy as np

    from flows.embed import guard

    vectors = guard.embed(embedder, [note.text[:EMBEDDED] for note in notes])
    usable = {note.case_id: row for note, row in zip(notes, vectors, strict=True) if np.isfinite(row).all()}
    with index.transaction() as connection:
        cases.store_vectors(connection, embedder.fingerprint, usable)
    return len(usable)


def _case(scored: Scored) -> Case:
    return Case(
        id=scored.case_id,
        features=scored.concept,
        solution=scored.solution,
        similarity_score=round(scored.similarity, 4),
    )


def _fitting(found: list[Scored]) -> list[Scored]:
    """Return the first cases, as many as fit into one answer."""
    kept: list[Scored] = []
    left = render.MAX_ROWS_TEXT
    for scored in found:
        left -= len(scored.concept) + len(scored.solution) + 80
        if left < 0 and kept:
            break
        kept.append(scored)
    return kept


def as_text(answer: CaseResult) -> str:
    """Return the text form of query_knowledge_base's answer."""
    lines = [f"{answer.status}: count {answer.count}; {answer.message}"]
    for n, case in enumerate(answer.results, 1):
        lines += [f"{n}. {case.id}, similarity_score {case.similarity_score:g}", f"features: {case.features}"]
        lines.append(f"solution: {case.solution}")
    return "\n".join(lines)
