"""Signs in memory: what is nearest, what is in scope, and that nothing there is older than what is published."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from psycopg import sql

from flows.embed import Vectors
from flows.store import compare, resident, signs
from flows.store.compare import Chunks, Rows
from flows.store.connect import Connection
from flows.store.models import Model, active_model
from flows.store.resident import Resident
from mcp_tools import scope
from tests.conftest import Indexer
from tests.repos import Repo

ONE = "def one():\n    return 1\n    return 2\n"
TWO = "def two():\n    return 3\n    return 4\n"


@pytest.fixture(autouse=True)
def exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no more be returned than is asked for."""
    monkeypatch.setattr(compare, "NEAREST", (1, 1))


def made(vectors: Vectors, rows: list[int], level: int | None = None, texts: list[int] | None = None) -> Chunks:
    """Return chunks whose levels are 0 to 3 in turn, in a memory that holds all of ``vectors``."""
    words = -(-vectors.shape[1] // 64)
    octets = np.zeros((len(vectors), 8 * words), np.uint8)
    packed = np.packbits(vectors > 0, axis=1)
    octets[:, : packed.shape[1]] = packed
    return Chunks(
        np.ascontiguousarray(octets.view(np.uint64).T),
        np.arange(len(vectors)) if texts is None else np.array(texts),
        (np.arange(len(vectors)) % 4).astype(np.uint8),
        Rows.of(np.array(rows, np.int32)),
        level,
    )


@pytest.mark.parametrize("dimension", [8, 64, 100, 256, 300])
@pytest.mark.parametrize("rows", [range(4_000), range(0, 4_000, 3), [*range(1_000), *range(2_500, 4_000)]])
@pytest.mark.parametrize("level", [None, 2])
def test_the_nearest_by_signs_are_those_with_the_largest_product(
    dimension: int, rows: Any, level: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "BLOCK", 700)
    monkeypatch.setattr(compare, "LEAST_RUN", 500)
    chance = np.random.default_rng(1)
    vectors = chance.normal(size=(4_000, dimension)).astype(np.float32)
    query = chance.normal(size=dimension).astype(np.float32)
    chunks = made(vectors, list(rows), level)
    inside = [row for row in rows if level in (None, row % 4)]
    products = np.where(vectors > 0, 1, -1) @ query
    wanted = sorted(inside, key=lambda row: (-round(float(products[row]), 3), row))[:50]
    found = chunks.nearest(query, 50).tolist()
    assert [round(float(products[row]), 3) for row in found] == [round(float(products[row]), 3) for row in wanted]
    assert chunks.all_texts().tolist() == inside


def test_a_rough_look_leaves_those_that_agree_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "ROUGHLY", (300, 300))
    monkeypatch.setattr(compare, "SAMPLE", 1_000)
    chance = np.random.default_rng(2)
    vectors = chance.normal(size=(20_000, 64)).astype(np.float32)
    near = (vectors[17] + chance.normal(scale=0.5, size=(20, 64))).astype(np.float32)
    vectors[5_000:5_020] = near
    found = made(vectors, list(range(20_000))).nearest(vectors[17], 40).tolist()
    assert found[0] == 17 and set(range(5_000, 5_020)) <= set(found)


def test_a_text_in_many_places_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.ones((1_000, 8), np.float32)
    vectors[900:, :4] = -1
    chunks = made(vectors, list(range(1_000)), texts=[7] * 900 + list(range(8, 108)))
    found = chunks.nearest(np.ones(8, np.float32), 50)
    assert found[0] == 7 and len(found) == len(set(found.tolist())) == 50
    assert len(made(vectors, []).nearest(np.ones(8, np.float32), 50)) == 0


@pytest.mark.parametrize("dimension", [8, 256, 300])
def test_a_level_that_nothing_has_leaves_nothing(dimension: int) -> None:
    vectors = np.ones((40, dimension), np.float32)
    assert len(made(vectors, list(range(0, 40, 4)), 2).nearest(vectors[0], 50)) == 0
    assert made(vectors, list(range(0, 40, 4)), 0).nearest(vectors[0], 50).tolist() == list(range(0, 40, 4))


@pytest.mark.parametrize("plane", [True, False])
def test_it_knows_which_texts_are_in_scope(plane: bool) -> None:
    chunks = made(np.ones((40, 8), np.float32), [3, 8, 9, 39], texts=[3 * n for n in range(40)])
    if plane:
        chunks = chunks.with_plane()
        assert chunks.plane is not None
    asked = np.array([0, 9, 24, 25, 27, 117, 118, 10_000_000_000])
    assert chunks.holds(asked).tolist() == [False, True, True, False, True, True, False, False]


def test_a_small_scope_of_high_numbers_takes_little_memory() -> None:
    chunks = made(np.ones((4, 8), np.float32), [1, 3], texts=[7, 100_000, 3, 100_001]).with_plane()
    assert chunks.plane is None
    assert chunks.holds(np.array([7, 100_000, 100_001, 100_002])).tolist() == [False, True, True, False]


# --- an index ------------------------------------------------------------------------------------------------------


class Reading:
    """Says how many cuts are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cuts: list[int] = []
        read = resident._read

        def counted(connection: Connection, model: Model, cuts: Any) -> Any:
            self.cuts.append(len(cuts))
            return read(connection, model, cuts)

        monkeypatch.setattr(resident, "_read", counted)


def texts_of(connection: Connection, kept: Resident, **arguments: Any) -> list[int]:
    model = active_model(connection)
    assert model is not None
    return kept.chunks(connection, model, scope.resolve(connection, **arguments).filters).all_texts().tolist()


def shown(connection: Connection) -> list[int]:
    rows = connection.execute("select distinct c.text_id from file f join chunk c using (cut_id) order by 1")
    return [row[0] for row in rows]


def test_a_publish_is_seen_and_brings_its_own_cuts_alone(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(a_py=ONE, b_py=TWO, empty_py="")
    index(repo, name="r")
    reading, kept = Reading(monkeypatch), Resident()
    with index.database.connect() as connection:
        first = texts_of(connection, kept)
        assert first == shown(connection) and texts_of(connection, kept) == first
        assert len(reading.cuts) == 1
        repo.commit(c_py="def three():\n    return 3\n")
        repo.git("rm", "-q", "a.py")
        repo.commit("one of three")
        index(repo, name="r")
        assert texts_of(connection, kept) == shown(connection) != first
        assert len(reading.cuts) == 2 and reading.cuts[1] == 1
        assert set(texts_of(connection, kept, paths=["b.py"])) < set(first)
        assert len(reading.cuts) == 2


def test_signs_that_were_written_anew_are_read_anew(index: Indexer, repo: Repo) -> None:
    repo.commit(a_py=ONE, b_py=TWO)
    index(repo, name="r")
    kept = Resident()
    with index.database.connect() as connection:
        model = active_model(connection)
        assert model is not None
        before = shown(connection)
        connection.execute(sql.SQL("delete from {}").format(model.signs))
        assert texts_of(connection, kept) == []
        signs.rebuild(connection, model, 1)
        assert texts_of(connection, kept) == before


def test_what_does_not_fit_is_forgotten(index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(a_py=ONE, b_py=TWO)
    index(repo, name="r")
    kept = Resident()
    monkeypatch.setattr(resident, "SIZE", 3 * (8 + resident.BESIDES))
    monkeypatch.setattr(resident, "SCOPES", 1)
    with index.database.connect() as connection:
        for _ in range(3):
            one, two = texts_of(connection, kept, paths=["a.py"]), texts_of(connection, kept, paths=["b.py"])
            assert one and two and sorted({*one, *two}) == shown(connection) == texts_of(connection, kept)
            assert kept._count <= 4 and len(kept._scopes) == 1
        monkeypatch.setattr(resident, "SCOPES", 5 * (resident.KNOWN + resident.PUBLISHED + 700))
        for n in range(20):
            assert texts_of(connection, kept, paths=["a.py", f"not{n}.py"]) == one
        assert len(kept._scopes) == 5


def test_a_slow_read_holds_up_no_search_of_what_is_here(
    index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(a_py=ONE, b_py=TWO)
    index(repo, name="r")
    kept, reading, go_on, read = Resident(), threading.Event(), threading.Event(), resident._read

    def slow(connection: Connection, model: Model, cuts: Any) -> Any:
        reading.set()
        assert go_on.wait(30)
        return read(connection, model, cuts)

    def other() -> None:
        with index.database.connect() as connection:
            assert texts_of(connection, kept, paths=["b.py"])

    with index.database.connect() as connection:
        here = texts_of(connection, kept, paths=["a.py"])
        monkeypatch.setattr(resident, "_read", slow)
        thread = threading.Thread(target=other)
        thread.start()
        assert reading.wait(30) and texts_of(connection, kept, paths=["a.py"]) == here
        go_on.set()
        thread.join()


def test_threads_share_it(index: Indexer, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(**{f"f{n}_py": f"def f{n}():\n    return {n}\n" for n in range(20)})
    index(repo, name="r")
    monkeypatch.setattr(resident, "SIZE", 8 * (8 + resident.BESIDES))
    kept, wrong = Resident(), []

    def ask(number: int) -> None:
        with index.database.connect() as connection:
            model = active_model(connection)
            assert model is not None
            for n in range(30):
                paths = [f"f{(number + n * k) % 20}.py" for k in range(1, 4)]
                filters = scope.resolve(connection, paths=paths).filters
                found = kept.chunks(connection, model, filters).all_texts().tolist()
                rows = connection.execute(
                    "select distinct c.text_id from file f join chunk c using (cut_id) where path = any(%s) order by 1",
                    [paths],
                )
                if found != [row[0] for row in rows]:
                    wrong.append(paths)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
