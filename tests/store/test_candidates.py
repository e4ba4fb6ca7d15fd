"""Searching a large scope: the plans use the indexes meant for them, and filters lose nothing (law 13).

Random vectors in clusters, with queries that resemble no filter: the case in which an index that filters afterwards
finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows.embed.shelf import Shelf
from flows.store import arrays, candidates, conditions, lexicon, resident, signs, texts, vector_index
from flows.store.candidates import Way
from flows.store.connect import Connection, Database, copy_rows
from flows.store.models import Model, use_model
from flows.store.read import Filters
from flows.store.resident import Resident
from tests.stubs import StubEmbedder

DIMENSION = 64
ROWS = 24_000
BRANCHES = 4  # 60 %, 25 %, 10 %, 5 %
FEW = {"half": 2, "tenth": 10, "hundredth": 100, "thousandth": 1000}  # language -> one in so many files
CHUNKS = 4  # a file


def language(number: int) -> str:
    return next((name for name, n in reversed(FEW.items()) if number % n == 1), "python")


@pytest.fixture(scope="module")
def large(server: str) -> Iterator[Database]:
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("create database large template template_gitstrata")
    database = Database(make_conninfo(server, dbname="large"))
    with database.connect() as connection:
        fill(connection, use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION))))
        model = use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION)))
        assert vector_index.build_if_large(database, model, lambda *_: None, beyond=1_000)
        lexicon.refresh_if_moved(connection, model, force=True)
        connection.execute("vacuum (analyze)")
    yield database
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("drop database large with (force)")


def fill(connection: Connection, model: Model) -> None:
    connection.execute("insert into repo (name, origin) select 'r' || n, n from generate_series(1, %s) n", [BRANCHES])
    connection.execute(
        "insert into branch (repo_id, name, is_default, generation, commit_sha, tree_sha, committed_at, rules_fp,"
        " files, failed, chunks)"
        " select repo_id, 'main', true, 1, 'x', '', now(), '', 0, 0, '{0,0,0,0}' from repo order by 1"
    )
    files = ROWS // CHUNKS
    connection.execute("insert into blob (oid, size, facts) select n, 0, '{}' from generate_series(1, %s) n", [files])
    connection.execute(
        "insert into cut (blob_id, language, fingerprint, levels, symbols, fallback)"
        " select blob_id, 'x', 'x', '{0,0,4,0}', 0, '' from blob order by blob_id"
    )
    connection.execute(
        "insert into text (hash, body) select decode(md5(n::text), 'hex'), 'x' from generate_series(1, %s) n", [ROWS]
    )
    texts.prepare(connection)
    lexed = ((n, texts.lex(f"common word{n % 500} rare{n}")) for n in range(1, ROWS + 1))
    words = ((n, 1, text.length, text.terms, text.weights) for n, text in lexed)
    copy_rows(connection, "lex", ["int8", "int2", "int4", "tsvector", "sparsevec"], words)
    connection.execute(
        "insert into chunk select 1 + (n - 1) / 4, (n - 1) %% 4, 2, null, 'a' || n, 'a' || n, '', n %% 4 * 10 + 1,"
        " n %% 4 * 10 + 9, n from generate_series(1, %s) n",
        [ROWS],
    )
    rows = (
        (branch_of(n), n.to_bytes(16, "big"), f"src/f{n}.py" if n != 77 else "only/here.c", "100644", str(n),
         language(n), None, n, "")
        for n in range(1, files + 1)
    )  # fmt: skip
    copy_rows(connection, "file", ["int4", "bytea", "text", "text", "text", "text", "text", "int8", "text"], rows)
    chance = np.random.default_rng(1)
    centres = chance.normal(size=(200, DIMENSION))
    vectors = centres[chance.integers(0, 200, ROWS)] + chance.normal(scale=0.6, size=(ROWS, DIMENSION))
    register_vector(connection)
    pairs = ((n + 1, HalfVector(vector)) for n, vector in enumerate(vectors))
    copy_rows(connection, model.vectors_name, ["int8", "halfvec"], pairs)
    connection.execute(
        "update branch b set files = n, chunks = array[0, 0, n * 4, 0] from (select branch_id, count(*)::int as n"
        " from file group by 1) f where f.branch_id = b.branch_id"
    )
    for branch_id in range(1, BRANCHES + 1):
        signs.rebuild(connection, model, branch_id)


def branch_of(number: int) -> int:
    share = number % 20
    return 1 if share < 12 else 2 if share < 17 else 3 if share < 19 else 4


ALL = tuple(range(1, BRANCHES + 1))
FITTING = 2_000  # chunks
SCOPES: list[tuple[str, Filters, Way]] = [
    ("everything", Filters(ALL), Way.WALK),
    ("50 %", Filters(ALL, languages=("half",)), Way.WALK),
    ("10 %", Filters(ALL, languages=("tenth",)), Way.WALK),
    ("1 %", Filters(ALL, languages=("hundredth",)), Way.SCAN),
    (".1 %", Filters(ALL, languages=("thousandth",)), Way.SCAN),
    ("60 % by branch", Filters((1,)), Way.WALK),
    ("25 % by branch", Filters((2,)), Way.WALK),
    ("5 % by branch", Filters((4,)), Way.SCAN),
    ("level", Filters(ALL, level=2), Way.WALK),
]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 24,000 rows be as many as a million."""
    monkeypatch.setattr(candidates, "LEXED", 500)
    monkeypatch.setattr(resident, "SIZE", FITTING * (8 + resident.BESIDES))


@pytest.mark.parametrize(("filters", "way"), [case[1:] for case in SCOPES], ids=[case[0] for case in SCOPES])
def test_filters_lose_nothing(large: Database, small_limits: None, filters: Filters, way: Way) -> None:
    chance = np.random.default_rng(2)
    with large.connect() as connection:
        model = use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION)))
        assert candidates.measure(connection, model, filters, Resident()).way is way
        found = []
        for _ in range(12):
            vector = chance.normal(size=DIMENSION).astype(np.float32)
            nearest = exact(connection, model, filters, vector)
            with connection.transaction():
                hits = candidates.candidates(connection, model, filters, [], vector, 200, Resident())
            near = {hit.text_id for hit in hits if hit.near}
            assert len(near) >= min(200, len(nearest))
            found.append(len(near & set(nearest)) / max(1, len(nearest)))
    assert np.mean(found) >= 0.95


def exact(connection: Connection, model: Model, filters: Filters, vector: Any) -> list[int]:
    register_vector(connection)
    query = sql.SQL(
        "select text_id from {} where text_id in (select c.text_id from file f join chunk c using (cut_id) where {})"
        " order by (vector <=> %(vector)s) + 0, text_id limit 10"
    ).format(model.vectors, conditions.where(filters))
    given = conditions.parameters(filters) | {"vector": HalfVector(vector)}
    return [row[0] for row in connection.execute(query, given)]


def test_one_file_in_all_is_found(large: Database, small_limits: None) -> None:
    filters = Filters(ALL, include=("^only/here\\.c$",), likely=("only/here.c%",))
    with large.connect() as connection, connection.transaction():
        model = use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION)))
        vector = np.random.default_rng(3).normal(size=DIMENSION)
        terms = candidates.weigh(connection, "common")
        hits = candidates.candidates(connection, model, filters, terms, vector.astype(np.float32), 200, Resident())
    assert {hit.path for hit in hits} == {"only/here.c"} and len(hits) == CHUNKS
    assert all(hit.near and hit.worded for hit in hits)


@pytest.mark.parametrize(("filters", "way"), [case[1:] for case in SCOPES], ids=[case[0] for case in SCOPES])
def test_plans_read_no_large_table_from_end_to_end(
    large: Database, small_limits: None, filters: Filters, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    with large.connect() as connection, connection.transaction():
        connection.execute("set local max_parallel_workers_per_gather = 0")
        model = use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION)))
        plan = explain(connection, model, filters, monkeypatch)
    large_tables = {"chunk", "text", "lex", model.vectors_name, model.signs_name}
    assert not {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"} & large_tables
    used = {node.get("Index Name") for node in plan}
    assert (f"{model.vectors_name}_hnsw" in used) == (way is Way.WALK)
    assert "lex_terms" in used or "lex_pkey" in used


def explain(
    connection: Connection, model: Model, filters: Filters, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Return the nodes of the plan of a search."""
    plans: list[dict[str, Any]] = []

    def explained(connection: Connection, query: sql.Composed, given: dict[str, Any]) -> Any:
        ((plan,),) = arrays.fetch(connection, sql.SQL("explain (format json) ") + query, given)
        plans.append(plan[0]["Plan"])
        return arrays.ask(connection, query, given)

    monkeypatch.setattr(candidates, "fetch", explained)
    monkeypatch.setattr(candidates, "ask", explained)
    terms = candidates.weigh(connection, "word7 rare9 common")
    kept = Resident()
    for _ in range(2):  # before what is in scope is in memory, and after
        candidates.candidates(connection, model, filters, terms, np.ones(DIMENSION, np.float32), 200, kept)
    nodes = []
    while plans:
        nodes.append(plan := plans.pop())
        plans += plan.get("Plans", [])
    return nodes


def test_the_vector_index_is_dropped_where_it_only_costs(large: Database) -> None:
    with large.connect() as connection:
        model = use_model(connection, Shelf(loaded=StubEmbedder(dimension=DIMENSION)))

    def has_index() -> bool:
        with large.connect() as connection:
            return vector_index.usable(connection, model)

    def build(beyond: int) -> bool:
        return vector_index.build_if_large(large, model, lambda *_: None, beyond=beyond)

    assert not build(2 * ROWS) and has_index()
    assert not build(2 * ROWS + 1) and not has_index()
    assert not build(ROWS) and not has_index()
    assert build(ROWS - 1) and has_index()
