"""Models behind an OpenAI-compatible endpoint, against a real server on loopback that misbehaves."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from flows.embed import canonical, load_embedder
from flows.embed.endpoint import EndpointEmbedder, Patience, parse, retry_after
from flows.embed.shelf import Shelf
from flows.errors import EmbedderError, UsageError
from flows.sync import Target, sync
from tests.conftest import Indexer
from tests.embed.provider import Provider, Reply, running
from tests.published import published
from tests.repos import Repo
from tests.stubs import DIMENSION, StubEmbedder

KEY = "sk-never-shown"
PATIENT = Patience(timeout=5, attempts=4, total=20)
HASTY = Patience(timeout=0.3, attempts=2, total=3)
TEXTS = [f"def number_{n}(): return {n}" for n in range(40)]
Misbehave = Callable[[dict[str, Any], list[dict[str, Any]]], Reply | None]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running() as provider:
        yield provider


@contextlib.contextmanager
def opened(provider: Provider, options: str = "", patience: Patience = PATIENT) -> Iterator[EndpointEmbedder]:
    setting = provider.setting + options
    embedder = EndpointEmbedder(setting, key=KEY, dimension=DIMENSION, documents=patience, queries=patience)
    with contextlib.closing(embedder):
        yield embedder


def first(*replies: Reply) -> Misbehave:
    """Give these replies first, and right ones after them."""
    left = iter(replies)
    return lambda request, data: next(left, None)


def right(texts: list[str]) -> np.ndarray[Any, Any]:
    return StubEmbedder().embed_documents(texts)


def test_vectors_queries_and_key(provider: Provider) -> None:
    with opened(provider) as embedder:
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), right(TEXTS), atol=1e-6)
        np.testing.assert_allclose(embedder.embed_query("a query"), right(["a query"])[0], atol=1e-6)
        assert embedder.embed_documents([]).shape == (0, DIMENSION)
        assert KEY not in f"{embedder.name} {embedder.fingerprint} {embedder!r}"
    assert {headers["authorization"] for headers in provider.headers} == {f"Bearer {KEY}"}


def test_a_model_of_an_endpoint_is_loaded_by_its_setting(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSTRATA_MODEL_KEY", KEY)
    embedder = load_embedder(provider.setting)
    assert (embedder.dimension, len(provider.requests)) == (DIMENSION, 1)  # asked once
    known = load_embedder(provider.setting, dimension=DIMENSION)
    assert (known.fingerprint, len(provider.requests)) == (embedder.fingerprint, 1)
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"
    for made in (embedder, known):
        made.close()  # type: ignore[attr-defined]


def test_prefixes_dimensions_and_length_are_sent_and_in_the_fingerprint(provider: Provider) -> None:
    options = "&dimensions=16&query=find:%20&document=code:%20&max_chars=5"
    with opened(provider, options) as embedder, opened(provider) as plain:
        embedder.embed_query("a long query")
        embedder.embed_documents(["a long text"])
        assert provider.texts == ["find: a lon", "code: a lon"]
        assert {request["dimensions"] for request in provider.requests} == {16}
        assert embedder.fingerprint != plain.fingerprint
    prints = set()
    for option in ("", "&query=x", "&document=x", "&max_chars=9", "&dimensions=16", "&batch=9"):
        with opened(provider, option) as embedder:
            prints.add(embedder.fingerprint)
    assert len(prints) == 5  # the size of a batch changes no vector


# --- what passes by itself -----------------------------------------------------------------------------------------

SOON = "Retry-After"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(429, {"error": {"message": "slow down"}}, {SOON: "0"}),
        Reply(503, b"<html>", {SOON: format_datetime(datetime.now(UTC) - timedelta(days=1))}),
        Reply(500, {"error": "oops"}),
        Reply(200, b'{"data": [{"index": 0, "embedd'),  # truncated, and the length agrees
        Reply(200, b'{"data": [', {"Content-Length": "1000"}),  # truncated, and the length does not
        Reply(200, {"data": []}, hang=1.0),
    ],
    ids=["429", "503 with a date", "500", "truncated", "connection lost", "timeout"],
)
def test_a_passing_failure_is_tried_again(provider: Provider, reply: Reply) -> None:
    provider.misbehave = first(reply, reply)
    with opened(provider, patience=Patience(timeout=0.5, attempts=4, total=20)) as embedder:
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), right(TEXTS), atol=1e-6)
    assert len(provider.requests) == 3


def test_the_time_that_the_provider_names_is_waited(provider: Provider) -> None:
    provider.misbehave = first(Reply(429, {}, {SOON: "1"}))
    began = time.monotonic()
    with opened(provider) as embedder:
        embedder.embed_query("q")
    assert 1 <= time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        (" 0 ", 0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
        ("", None),
        ("soon", None),
        ("-3", None),
    ],
)
def test_retry_after(header: str, seconds: float | None) -> None:
    assert retry_after(header, datetime(2015, 10, 21, 7, 28, tzinfo=UTC)) == seconds


# --- what does not -------------------------------------------------------------------------------------------------


def swapped(request: dict[str, Any], data: list[dict[str, Any]]) -> Reply:
    return Reply(body={"data": data[::-1]})


def test_order_is_by_index(provider: Provider) -> None:
    provider.misbehave = swapped
    with opened(provider) as embedder:
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), right(TEXTS), atol=1e-6)


def wider(request: dict[str, Any], data: list[dict[str, Any]]) -> Reply:
    return Reply(body={"data": [item | {"embedding": item["embedding"] + [0.0]} for item in data]})


@pytest.mark.parametrize(
    ("misbehave", "message", "requests"),
    [
        (
            lambda request, data: Reply(401, {"error": {"message": f"bad key {KEY}"}}),
            r"refused the key in GITSTRATA_M",
            1,
        ),
        (lambda request, data: Reply(403, {}), "refused the key in GITSTRATA_MODEL_KEY", 1),
        (lambda request, data: Reply(404, {"error": "unknown"}), "no model stub at http://127.0.0.1.*check the set", 1),
        (lambda request, data: Reply(302, b"", {"Location": "/v2"}), "answered 302", 1),
        (
            lambda request, data: Reply(400, {"error": {"message": "no such field"}}),
            "refuses every request: 400 no su",
            7,
        ),
        (lambda request, data: Reply(body={"data": data[:-1]}), "returned 39 vectors for 40 texts", 1),
        (lambda request, data: Reply(body={"data": [*data[:-1], data[0]]}), "gave two the same index", 1),
        (lambda request, data: Reply(body={"data": [i | {"embedding": None} for i in data]}), "no lists of numbers", 1),
        (
            lambda request, data: Reply(body={"data": [i | {"embedding": [{}] * 16} for i in data]}),
            "no lists of num",
            1,
        ),
        (lambda request, data: Reply(body={"vectors": []}), "is http://.* an embedding endpoint", 1),
        (wider, "returned vectors of 17 dimensions, not 16: the provider has changed its model", 1),
        (lambda request, data: Reply(500, {"error": "down"}), "failed 2 times, at last: 500 down", 2),
        (lambda request, data: Reply(429, {}, {SOON: "3600"}), "asks to wait 3600 s", 1),
        (lambda request, data: Reply(body={}, hang=2), "no answer within 0.3 s", 2),
    ],
    ids=range(14),
)
def test_a_lasting_failure_is_one_clear_line(
    provider: Provider, misbehave: Misbehave, message: str, requests: int, caplog: pytest.LogCaptureFixture
) -> None:
    provider.misbehave = misbehave
    caplog.set_level(logging.DEBUG)
    with opened(provider, patience=HASTY) as embedder, pytest.raises(EmbedderError, match=message) as caught:
        embedder.embed_documents(TEXTS)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value) and KEY not in caplog.text
    assert len(provider.requests) == requests


def test_nobody_there_is_one_clear_line() -> None:
    embedder = EndpointEmbedder("http://127.0.0.1:1/v1#stub", dimension=DIMENSION, queries=HASTY)
    with contextlib.closing(embedder), pytest.raises(EmbedderError, match=r"stub at 127\.0\.0\.1:1 failed 2 times"):
        embedder.embed_query("q")


def test_a_limit_of_ten_texts_is_found_and_kept_to(provider: Provider) -> None:
    # P87
    provider.misbehave = lambda request, data: Reply(413, {"error": "at most 10"}) if len(data) > 10 else None
    with opened(provider) as embedder:
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), right(TEXTS), atol=1e-6)
        provider.requests.clear()
        embedder.embed_documents(TEXTS)
    assert [len(request["input"]) for request in provider.requests] == [10, 10, 10, 10]


def test_one_text_that_is_refused_has_no_vector(provider: Provider) -> None:
    # P89: longer than the model's context
    provider.misbehave = lambda request, data: Reply(400, {}) if any("_7(" in t for t in request["input"]) else None
    with opened(provider) as embedder:
        vectors = embedder.embed_documents(TEXTS)
    assert [n for n, row in enumerate(vectors) if not np.isfinite(row).all()] == [7]


@pytest.mark.parametrize("spoiled", [[float("nan")] * DIMENSION, [None] * DIMENSION, [0.0] * DIMENSION])
def test_one_unusable_vector_concerns_one_text(provider: Provider, spoiled: list[Any]) -> None:
    def spoil(request: dict[str, Any], data: list[dict[str, Any]]) -> Reply:
        data[-1]["embedding"] = spoiled
        return Reply(body={"data": data})

    provider.misbehave = spoil
    with opened(provider) as embedder:
        vectors = embedder.embed_documents(TEXTS)
        assert np.isfinite(vectors[:-1]).all() and np.isnan(vectors[-1]).all()
        with pytest.raises(EmbedderError, match="no usable vector for the query"):
            embedder.embed_query("q")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("https://host/v1", "lacks a name: write https://host/v1#NAME"),
        ("https://#name", "lacks a name"),
        ("https://user:pass@host/v1#name", "holds a password: put it into GITSTRATA_MODEL_KEY"),
        ("https://host/v1#name&dimension=3", "unknown option 'dimension'"),
        ("https://host/v1#name&dimensions=4001", "at most 4000 can be indexed"),
        ("https://host/v1#name&dimensions=many", "dimensions='many' .*is not a number"),
        ("https://host/v1#name&batch=0", "batch='0' .*is not a number from 1"),
        ("http://host/v1#name", "not sent to http://host/v1 in the clear"),
    ],
)
def test_a_setting_that_cannot_be_read_is_one_sentence(setting: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        EndpointEmbedder(setting, key=KEY, dimension=8)
    assert "pass@" not in str(caught.value) and KEY not in str(caught.value)


def test_a_setting_keeps_its_form() -> None:
    setting = "https://host/v1?api-version=2#name&dimensions=256&query=a%20b%26c"
    endpoint = parse(setting)
    assert (endpoint.url, endpoint.model) == ("https://host/v1?api-version=2", "name")
    assert (endpoint.dimensions, endpoint.query) == (256, "a b&c")
    assert canonical(setting) == setting


def test_too_many_dimensions(provider: Provider) -> None:
    provider.misbehave = lambda request, data: Reply(body={"data": [{"index": 0, "embedding": [1.0] * 4001}]})
    with pytest.raises(UsageError, match="has 4001 dimensions; at most 4000 can be indexed"):
        load_embedder(provider.setting)


# --- through a sync ------------------------------------------------------------------------------------------------


def run(index: Indexer, repo: Repo, embedder: EndpointEmbedder) -> Any:
    from flows import git

    repository = git.open_repository(repo.path)
    target = Target("r", repository, git.resolve(repository), make_default=True)
    return sync(index.database, index.config, Shelf(index.config.model, embedder), target)


def test_an_outage_in_a_sync_loses_nothing_and_publishes_nothing(
    index: Indexer, repo: Repo, provider: Provider
) -> None:
    for n in range(150):
        repo.write(f"m{n}.py", f"def step_{n}():\n    return {n}\n")
    repo.commit()
    provider.misbehave = lambda request, data: Reply(500, {"error": "down"}) if len(provider.requests) > 3 else None
    with opened(provider, "&batch=20", HASTY) as embedder:
        with pytest.raises(EmbedderError, match="failed 2 times, at last: 500 down"):
            run(index, repo, embedder)
        assert published(index.database) == {}
        with index.database.connect() as connection:
            kept = connection.execute("select count(*) from lex").fetchone()
        assert kept is not None and kept[0] > 0
        provider.misbehave, asked = None, len(provider.requests)
        report = run(index, repo, embedder)
        assert report.outcome == "done"
        assert report.vectors.computed == len({t for r in provider.requests[asked:] for t in r["input"]})
        assert report.vectors.computed + kept[0] == len(set(provider.texts))
        assert run(index, repo, embedder).outcome == "unchanged"
    with index.database.connect() as connection:
        stored = connection.execute("select m::text from model m").fetchall()
    assert KEY not in str(stored)


def test_one_bad_vector_in_a_sync_fails_one_file(index: Indexer, repo: Repo, provider: Provider) -> None:
    repo.commit(a_py="def a():\n    return 1\n", bad_py="def unlucky():\n    return 13\n")

    def spoil(request: dict[str, Any], data: list[dict[str, Any]]) -> Reply:
        for text, item in zip(request["input"], data, strict=True):
            if "unlucky" in text:
                item["embedding"][3] = float("nan")
        return Reply(body={"data": data})

    provider.misbehave = spoil
    with opened(provider) as embedder:
        report = run(index, repo, embedder)
        assert (report.outcome, len(report.errors)) == ("partial", 1)
        assert "bad.py: the model has no usable vector" in report.errors[0]
        provider.misbehave = None
        assert run(index, repo, embedder).outcome == "done"
