"""Models behind an OpenAI-compatible endpoint: ``POST <url>/embeddings`` with a list of texts.

A setting names it: ``https://host/v1#model``, and behind the model's name what its vectors depend on::

    https://host/v1#model&dimensions=512&query=search_query:%20&document=search_document:%20&max_chars=8000&batch=32

The key comes from GITSTRATA_MODEL_KEY. It is sent in one header and never stored, shown, logged or hashed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx2
import numpy as np
import tenacity

from flows.embed import Vectors
from flows.errors import EmbedderError, UsageError

log = logging.getLogger("gitstrata")

CODE_VERSION = 1
"""Part of the fingerprint: raise it whenever the code here changes any vector."""

MAX_DIMENSION = 4_000  # what halfvec of pgvector holds
BATCH = 64  # texts of one request; halved when the provider takes fewer
PROBE = "dimension"
_TOO_MUCH = (400, 413, 422)  # providers say each of them to a batch or a text that is too long
_PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_OPTIONS = ("dimensions", "query", "document", "max_chars", "batch")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, and how often it is tried."""

    timeout: float  # seconds without an answer
    attempts: int
    total: float  # seconds of all attempts and waits
    longest_wait: float = 60.0  # that a provider may ask for


DOCUMENTS = Patience(timeout=45, attempts=6, total=120)
QUERIES = Patience(timeout=6, attempts=2, total=8, longest_wait=2)  # somebody waits


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed setting."""

    url: str  # without a slash at its end
    model: str
    dimensions: int = 0  # asked for; 0 = the model's own
    query: str = ""  # put before a query
    document: str = ""  # put before a text
    max_chars: int = 0  # of a text, prefix aside; 0 = not cut
    batch: int = BATCH


def parse(setting: str) -> Endpoint:
    """Read a setting. Raises UsageError: what is wrong with it and what it should look like."""
    parts = urlsplit(setting)
    model, _, rest = parts.fragment.partition("&")
    where = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), parts.query, ""))
    if not parts.hostname or not model:
        raise UsageError(f"the model {where} lacks a name: write https://host/v1#NAME")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"the model {where}#{model} holds a password: put it into GITSTRATA_MODEL_KEY instead")
    given = dict(parse_qsl(rest, keep_blank_values=True))
    if unknown := sorted(given.keys() - set(_OPTIONS)):
        raise UsageError(f"the model {where}#{model} has an unknown option {unknown[0]!r}: there are {_OPTIONS}")
    numbers = {name: _number(name, given[name]) for name in ("dimensions", "max_chars", "batch") if name in given}
    if numbers.get("dimensions", 0) > MAX_DIMENSION:
        raise UsageError(f"{model} with {numbers['dimensions']} dimensions: at most {MAX_DIMENSION} can be indexed")
    return Endpoint(where, model, query=given.get("query", ""), document=given.get("document", ""), **numbers)


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
        raise UsageError(f"{name}={text!r} of the model's setting is not a number from 1")
    return int(text[:9])


class _Refused(Exception):
    """The provider takes no request of this size or content."""


class _Again(Exception):
    """Trying again may help, after ``wait`` seconds if the provider named a time."""

    def __init__(self, said: str, wait: float | None = None) -> None:
        super().__init__(said)
        self.wait = wait


class EndpointEmbedder:
    """Embeds by an OpenAI-compatible endpoint. Safe to share between threads."""

    def __init__(
        self,
        setting: str,
        *,
        key: str = "",
        dimension: int = 0,
        documents: Patience = DOCUMENTS,
        queries: Patience = QUERIES,
    ) -> None:
        """``dimension`` is that of vectors stored before; without it the endpoint is asked for a first vector.

        Raises:
            UsageError: the setting cannot be read, or would send the key in the clear.
            EmbedderError: the endpoint gives no first vector.
        """
        self._endpoint = endpoint = parse(setting)
        parts = urlsplit(endpoint.url)
        if key and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise UsageError(f"GITSTRATA_MODEL_KEY is not sent to {endpoint.url} in the clear: use https")
        self.name = f"{endpoint.model} at {parts.netloc}"
        self._key = key
        self._documents, self._queries = documents, queries
        self._batch = endpoint.batch
        self._answers = False  # to a short text: what it then refuses is the text's fault
        head = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(headers=head, follow_redirects=False)
        self._url = urlunsplit(parts._replace(path=f"{parts.path}/embeddings"))
        try:
            self.dimension = dimension or self._probe()
            if self.dimension > MAX_DIMENSION:
                raise UsageError(f"{self.name} has {self.dimension} dimensions; at most {MAX_DIMENSION} can be indexed")
        except BaseException:
            self.close()
            raise
        self.fingerprint = _fingerprint(endpoint, self.dimension)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimension), each row of length 1, or NaN where there is no vector for
        a text: the provider refuses it, or its answer has no direction. Raises EmbedderError.
        """
        vectors = np.empty((len(texts), self.dimension), np.float32)
        prepared = [self._prepared(text, self._endpoint.document) for text in texts]
        start = 0
        while start < len(texts):
            batch = prepared[start : start + self._batch]
            vectors[start : start + len(batch)] = self._halving(batch)
            start += len(batch)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimension,), length 1. Raises EmbedderError."""
        try:
            vector = self._request([self._prepared(text, self._endpoint.query)], self._queries).reshape(self.dimension)
        except _Refused as error:
            raise EmbedderError(f"{self.name} refused the query: {error}") from error
        if not np.isfinite(vector).all():
            raise EmbedderError(f"{self.name} gave no usable vector for the query")
        return vector

    def _prepared(self, text: str, prefix: str) -> str:
        cut = text[: self._endpoint.max_chars] if self._endpoint.max_chars else text
        return prefix + cut or " "  # some providers refuse an empty text

    def _halving(self, batch: list[str]) -> Vectors:
        """Embed a batch, in halves where the provider refuses it whole; what it takes at most is remembered."""
        taken = 0

        def embed(texts: list[str]) -> Vectors:
            nonlocal taken
            try:
                vectors = self._request(texts, self._documents)
            except _Refused as error:
                if len(texts) > 1:
                    middle = len(texts) // 2
                    return np.concatenate([embed(texts[:middle]), embed(texts[middle:])])
                self._check_answers(error)
                log.warning("%s refused a text of %d characters: %s", self.name, len(texts[0]), error)
                return np.full((1, self.dimension), np.nan, np.float32)
            taken = max(taken, len(texts))
            return vectors

        vectors = embed(batch)
        if 0 < taken < len(batch):
            self._batch = min(self._batch, taken)
        return vectors

    def _check_answers(self, refused: _Refused) -> None:
        """Make sure that the endpoint answers at all, so that one refused text is that text's fault."""
        if self._answers:
            return
        try:
            self._request([PROBE], self._documents)
        except _Refused:
            raise EmbedderError(f"{self.name} refuses every request: {refused}") from refused

    def _probe(self) -> int:
        try:
            rows = self._retrying(self._documents, [PROBE])
        except _Refused as error:
            raise EmbedderError(f"{self.name} refuses every request: {error}") from error
        return len(rows[0])

    # --- one request ---

    def _request(self, texts: Sequence[str], patience: Patience) -> Vectors:
        """Return the unit vectors of some texts; a row without direction is NaN. Raises _Refused, EmbedderError."""
        rows = self._retrying(patience, texts)
        if wrong := next((row for row in rows if len(row) != self.dimension), None):
            raise EmbedderError(
                f"{self.name} returned vectors of {len(wrong)} dimensions, not {self.dimension}: the provider has "
                "changed its model, so that vectors cannot be compared; run `gitstrata model set` with another setting"
            )
        self._answers = True
        try:
            vectors = np.array(rows, np.float32)  # null becomes NaN
        except (ValueError, TypeError, OverflowError) as error:
            raise EmbedderError(f"{self.name} returned vectors that are no lists of numbers") from error
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Vectors = np.divide(vectors, lengths, out=np.full_like(vectors, np.nan), where=lengths > 0)
        return units

    def _retrying(self, patience: Patience, texts: Sequence[str]) -> list[list[Any]]:
        deadline = time.monotonic() + patience.total
        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=20)

        def wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            named = error.wait if isinstance(error, _Again) else None
            return backoff(state) if named is None else named

        def gives_up(state: tenacity.RetryCallState) -> bool:
            return (
                state.attempt_number >= patience.attempts
                or state.upcoming_sleep > patience.longest_wait
                or time.monotonic() + state.upcoming_sleep > deadline
            )

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Again), wait=wait, stop=gives_up, reraise=True
        )
        try:
            return attempts(self._once, texts, patience)
        except _Again as error:
            tried = attempts.statistics.get("attempt_number", 1)
            again = ". Run this again later; finished work is kept" if patience is self._documents else ""
            raise EmbedderError(f"{self.name} failed {tried} times, at last: {error}{again}") from error

    def _once(self, texts: Sequence[str], patience: Patience) -> list[list[Any]]:
        body: dict[str, Any] = {"model": self._endpoint.model, "input": list(texts), "encoding_format": "float"}
        if self._endpoint.dimensions:
            body["dimensions"] = self._endpoint.dimensions
        content = json.dumps(body).encode()  # ASCII: half a surrogate pair becomes an escape
        try:
            response = self._client.post(
                self._url, content=content, headers={"Content-Type": "application/json"}, timeout=patience.timeout
            )
        except httpx2.TimeoutException as error:
            raise _Again(f"no answer within {patience.timeout:g} s") from error
        except httpx2.TransportError as error:
            raise _Again(self._clean(str(error)) or type(error).__name__) from error
        except httpx2.HTTPError as error:
            raise EmbedderError(f"{self.name}: {self._clean(str(error)) or type(error).__name__}") from error
        if response.status_code != 200:
            self._raise_for(response)
        return self._rows(response, len(texts))

    def _raise_for(self, response: httpx2.Response) -> None:
        """Raise what a refusal means."""
        status, said = response.status_code, self._said(response)
        if status in _TOO_MUCH:
            raise _Refused(f"{status} {said}")
        if status in _PASSING or status >= 500:
            wait = retry_after(response.headers.get("Retry-After", ""), datetime.now(UTC))
            asked = f", it asks to wait {wait:.0f} s" if wait else ""
            raise _Again(f"{status} {said}{asked}", wait)
        if status in (401, 403):
            key = "the key in GITSTRATA_MODEL_KEY" if self._key else "a request without a key: set GITSTRATA_MODEL_KEY"
            raise EmbedderError(f"{self.name} refused {key} ({status} {said})")
        if status == 404:
            raise EmbedderError(f"no model {self._endpoint.model} at {self._url} (404 {said}): check the setting")
        raise EmbedderError(f"{self.name} answered {status} {said}: check the setting")

    def _rows(self, response: httpx2.Response, count: int) -> list[list[Any]]:
        """Return the vectors of an answer in the order of the texts."""
        try:
            data = json.loads(response.content)["data"]
            rows = {item["index"]: item["embedding"] for item in data}
        except ValueError as error:
            raise _Again("an answer that is not whole") from error
        except (KeyError, TypeError) as error:
            raise EmbedderError(
                f"{self.name} answered without vectors: is {self._url} an embedding endpoint?"
            ) from error
        if len(data) != count or rows.keys() != set(range(count)):
            raise EmbedderError(
                f"{self.name} returned {len(data)} vectors for {count} texts, or gave two the same index"
            )
        if not all(isinstance(row, list) and row for row in rows.values()):
            raise EmbedderError(f"{self.name} returned vectors that are no lists of numbers")
        return [rows[index] for index in range(count)]

    def _said(self, response: httpx2.Response) -> str:
        """Return the provider's own words, in short."""
        try:
            answer = json.loads(response.content)
            error = answer.get("error", answer)
            text = str(error.get("message", error) if isinstance(error, dict) else error)
        except (ValueError, AttributeError):
            text = response.reason_phrase
        return self._clean(text).removesuffix(".")

    def _clean(self, text: str) -> str:
        return " ".join((text.replace(self._key, "***") if self._key else text).split())[:200]


def retry_after(header: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, None if it says nothing that can be read."""
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())


def _fingerprint(endpoint: Endpoint, dimension: int) -> str:
    settings = {
        "code": CODE_VERSION,
        "dimension": dimension,
        "dimensions": endpoint.dimensions,
        "document": endpoint.document,
        "max_chars": endpoint.max_chars,
        "model": endpoint.model,
        "normalisation": "length 1",
        "query": endpoint.query,
        "url": endpoint.url,
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
