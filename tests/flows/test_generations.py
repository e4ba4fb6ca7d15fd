"""Changing the model of an index that is in use: nothing lost, nothing mixed, no error."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows import generations, git
from flows.embed import Vectors
from flows.embed.shelf import Shelf
from flows.errors import Busy, EmbedderError, SchemaMismatch, UsageError
from flows.report import Report
from flows.store import collect, models
from flows.store.connect import Database
from flows.sync import Target, sync
from mcp_tools.code_search import code_search
from mcp_tools.index import Index
from tests.conftest import Indexer
from tests.flows.test_sync import rebuilt
from tests.published import published
from tests.repos import Repo
from tests.stubs import StubEmbedder

QUERIES = ("area of a circle", "step 7", "return value twice", "grow")
SHAPES = "class Circle:\n    def area(self):\n        return 3.14\n\n\ndef grow(circle):\n    return circle\n"
PROJECT = Path(__file__).parents[2]


def quiet(stage: str, done: int, total: int) -> None:
    pass


class Bench:
    """An index with 60 files, filled by the model ``old``; ``new`` and ``third`` can be loaded by their names."""

    def __init__(self, index: Indexer, repo: Repo) -> None:
        self.index, self.repo, self.database = index, repo, index.database
        self.old = index.embedder
        self.new = StubEmbedder("6" * 64, name="new", dimension=24)
        self.third = StubEmbedder("7" * 64, name="third", dimension=40)
        self.loaded: list[str] = []
        for n in range(60):
            repo.write(f"m{n}.py", f"def step_{n}(value):\n    return value * {n}\n")
        repo.write("shapes.py", SHAPES)
        repo.commit()
        self.sync()

    def load(self, setting: str, *, dimension: int = 0) -> StubEmbedder:
        self.loaded.append(setting)
        found = {"": self.old, "new": self.new, "third": self.third}.get(setting)
        if found is None:
            raise EmbedderError(f"no model {setting}")
        return found

    @property
    def shelf(self) -> Shelf:
        return Shelf(load=self.load)

    def sync(self, shelf: Shelf | None = None, **options: Any) -> Report:
        repository = git.open_repository(self.repo.path)
        target = Target("r", repository, git.resolve(repository), make_default=True, **options)
        return sync(self.database, self.index.config, shelf or self.shelf, target)

    def set(self, name: str = "new", shelf: Shelf | None = None) -> generations.Change:
        return generations.change(self.database, shelf or self.shelf, name, quiet)

    def roll_back(self) -> generations.Change:
        return generations.roll_back(self.database, self.shelf, quiet)

    def reader(self, shelf: Shelf | None = None) -> Index:
        return Index(self.index.config, embedder=shelf or self.shelf)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]

    def states(self) -> dict[str, tuple[str, int]]:
        """Return state and number of missing vectors of each model."""
        with self.database.connect() as connection:
            return {i.model.name: (i.model.state, i.texts - i.vectors) for i in generations.listed(connection)}

    def equals_a_clean_build(self, embedder: StubEmbedder) -> bool:
        shown = published(self.database)
        self.index.embedder = embedder
        return shown == rebuilt(self.index, (self.repo, "r"))


@pytest.fixture
def bench(index: Indexer, repo: Repo) -> Bench:
    return Bench(index, repo)


def answers(reader: Index) -> list[list[tuple[str, float]]]:
    return [[(row.source_id, row.score) for row in code_search(reader, query).result] for query in QUERIES]


def once(embedder: StubEmbedder, act: Callable[[], object]) -> None:
    """Do something while ``embedder`` is at work for the next time."""

    def spoil(texts: Sequence[str], vectors: Vectors) -> Vectors:
        embedder.spoil = None
        act()
        return vectors

    embedder.spoil = spoil


# --- set -----------------------------------------------------------------------------------------------------------


def test_set_builds_and_switches(bench: Bench) -> None:
    with bench.reader() as reader:
        before = answers(reader)
        texts = bench.rows("select count(*) from text")[0][0]
        done = bench.set()
        assert (done.outcome, done.before, done.name, done.computed) == ("switched", "stub", "new", texts)
        assert len(bench.new.texts) == texts
        assert bench.states() == {"new": ("active", 0), "stub": ("retired", 0)}
        after = answers(reader)
    with bench.reader() as fresh:
        assert after == answers(fresh) != before
    bench.old.texts.clear()
    bench.repo.commit(more_py="def more():\n    return 1\n")
    assert bench.sync().vectors.computed > 0
    assert bench.old.texts == []  # retired models are not written
    assert bench.equals_a_clean_build(bench.new)


def test_set_to_the_same_model_says_so_and_learns_where_it_is(bench: Bench) -> None:
    assert bench.set("").outcome == bench.set("default").outcome == "same"
    bench.third.fingerprint = bench.old.fingerprint
    assert bench.set("third").outcome == "same"
    assert bench.rows("select setting, state from model") == [("third", "active")]


def test_set_on_an_empty_database_is_what_it_begins_with(index: Indexer, repo: Repo) -> None:
    index.embedder = StubEmbedder("6" * 64, name="new", dimension=24)
    shelf = Shelf(load=lambda setting, dimension=0: index.embedder)
    assert generations.change(index.database, shelf, "new", quiet).outcome == "first"
    repo.commit(shapes_py=SHAPES)
    assert index(repo).outcome == "done"
    with index.database.connect() as connection:
        active = models.active_model(connection)
    assert active is not None and (active.name, active.setting) == ("new", "new")


def test_a_killed_build_goes_on_where_it_was(bench: Bench) -> None:
    script = f"""
import os, signal, sys
from flows import generations
from flows.embed.shelf import Shelf
from flows.store.connect import Database
from tests.stubs import StubEmbedder
generations.BATCH = 16
new = StubEmbedder("6" * 64, name="new", dimension=24)
def spoil(texts, vectors):
    if len(new.texts) > 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return vectors
new.spoil = spoil
generations.change(Database({bench.database.conninfo!r}), Shelf(load=lambda s, dimension=0: new), "new", print)
"""
    with bench.reader() as reader:
        before = answers(reader)
        done = subprocess.run([sys.executable, "-u", "-c", script], cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == -9, done.stderr
        assert "vectors of new 32 " in done.stdout
        state, missing = bench.states()["new"]
        texts = bench.rows("select count(*) from text")[0][0]
        assert (state, missing) == ("building", texts - 32)
        assert answers(reader) == before
        done_now = bench.set()
    assert (done_now.computed, done_now.reused) == (texts - 32, 32)
    assert bench.equals_a_clean_build(bench.new)


def test_another_one_waits_until_the_first_is_done_or_given_up(bench: Bench) -> None:
    once(bench.new, lambda: (_ for _ in ()).throw(EmbedderError("the provider is away")))
    with pytest.raises(EmbedderError, match="provider is away"):
        bench.set()
    with pytest.raises(UsageError, match="new is being built: go on with `gitstrata model set new`, or give it up"):
        bench.set("third")
    assert generations.cancel(bench.database) == "new"
    assert bench.states() == {"stub": ("active", 0)}
    assert bench.rows("select count(*) from pg_tables where tablename like 'emb_%'") == [(1,)]
    with pytest.raises(UsageError, match="no model is being built"):
        generations.cancel(bench.database)
    assert bench.set("third").outcome == "switched"


def test_two_processes_do_not_build_at_once(bench: Bench) -> None:
    refused: list[BaseException] = []

    def try_both() -> None:
        for act in (lambda: bench.set("third"), lambda: generations.cancel(bench.database)):
            try:
                act()
            except Busy as error:
                refused.append(error)

    once(bench.new, try_both)
    assert bench.set().outcome == "switched"
    assert len(refused) == 2


def test_a_text_without_a_vector_keeps_the_old_model(bench: Bench) -> None:
    def spoil(texts: Sequence[str], vectors: Vectors) -> Vectors:
        vectors[["step_7(" in text for text in texts]] = np.nan
        return vectors

    bench.new.spoil = spoil
    with pytest.raises(EmbedderError, match=r"new has no usable vector for \d of \d+ texts: the others are kept"):
        bench.set()
    missing = bench.states()["new"][1]
    assert missing > 0 and bench.states()["stub"] == ("active", 0)
    bench.new.spoil = None
    assert bench.set().computed == missing


@pytest.mark.parametrize("dimension", [3_072, 4_000])
def test_long_vectors(bench: Bench, dimension: int) -> None:
    # P93
    bench.new = StubEmbedder("6" * 64, name="new", dimension=dimension)
    assert bench.set().outcome == "switched"
    with bench.reader() as reader:
        assert code_search(reader, "step_7").result[0].source_id.startswith("m7.py#")


def test_vectors_that_are_too_long_are_refused(bench: Bench) -> None:
    bench.new = StubEmbedder("6" * 64, name="new", dimension=4_001)
    with pytest.raises(UsageError, match="new has 4001 dimensions; at most 4000 can be indexed"):
        bench.set()
    assert bench.states() == {"stub": ("active", 0)}


# --- runs meanwhile ------------------------------------------------------------------------------------------------


def more(bench: Bench, shelf: Shelf | None = None) -> Report:
    bench.repo.commit(more_py="def more_of_it():\n    return 'more'\n")
    return bench.sync(shelf)


def test_a_run_during_the_build_writes_both(bench: Bench) -> None:
    reports: list[Report] = []
    once(bench.new, lambda: reports.append(more(bench)))
    bench.set()
    assert (reports[0].outcome, reports[0].notes) == ("done", [])
    assert bench.states() == {"new": ("active", 0), "stub": ("retired", 0)}
    assert bench.equals_a_clean_build(bench.new)


def test_a_run_that_cannot_load_the_new_model_leaves_it_to_the_build(bench: Bench) -> None:
    reports: list[Report] = []
    one = Shelf("", bench.old, load=lambda setting, dimension=0: Bench.load(bench, "away"))
    once(bench.new, lambda: reports.append(more(bench, one)))
    bench.set()
    assert reports[0].outcome == "done"
    assert reports[0].notes == ["no vectors of the new model: no model away; `gitstrata model set` computes them"]
    assert bench.states()["new"] == ("active", 0)
    assert bench.equals_a_clean_build(bench.new)


def test_a_run_during_which_the_new_model_fails_leaves_it_to_the_build(bench: Bench) -> None:
    def fail(texts: Sequence[str], vectors: Vectors) -> Vectors:
        raise EmbedderError("the provider is away")

    bench.new.spoil = fail
    with pytest.raises(EmbedderError, match="away"):
        bench.set()
    report = more(bench)
    assert (report.outcome, len(report.notes)) == ("done", 1)
    assert "the provider is away; `gitstrata model set` computes them" in report.notes[0]
    bench.new.spoil = None
    bench.set()
    assert bench.equals_a_clean_build(bench.new)


def test_a_run_that_began_before_the_build_starts_again_after_the_switch(bench: Bench) -> None:
    done: list[generations.Change] = []
    once(bench.old, lambda: done.append(bench.set()))
    report = more(bench)
    assert (report.outcome, done[0].outcome) == ("done", "switched")
    assert bench.states()["new"] == ("active", 0)
    assert bench.equals_a_clean_build(bench.new)


def test_a_run_goes_on_when_the_new_model_is_given_up(bench: Bench) -> None:
    once(bench.new, lambda: (_ for _ in ()).throw(EmbedderError("away")))
    with pytest.raises(EmbedderError):
        bench.set()
    once(bench.new, lambda: generations.cancel(bench.database))
    assert more(bench).outcome == "done"
    assert bench.equals_a_clean_build(bench.old)


def test_a_switch_waits_for_a_publish_and_a_publish_for_a_switch(bench: Bench) -> None:
    switched = threading.Event()

    def change() -> None:
        bench.set()
        switched.set()

    with bench.database.connect() as connection:
        model = models.active_model(connection)
        assert model is not None
        with connection.transaction():
            models.keep_active(connection, model)
            thread = threading.Thread(target=change)
            thread.start()
            assert not switched.wait(1.0)
            assert bench.states()["new"][0] == "building"
        assert switched.wait(10)
        thread.join()
        with connection.transaction(), pytest.raises(Exception, match="has switched from the model stub to new"):
            models.keep_active(connection, model)


def test_texts_put_right_lose_their_vectors_of_all_models(bench: Bench) -> None:
    bench.set()
    bench.rows("update text set body = 'spoilt' where body like '%step_9(%' returning 1")
    assert bench.sync(verify=True).outcome == "unchanged"
    assert bench.states()["stub"][1] > 0
    assert bench.equals_a_clean_build(bench.new)


# --- clients meanwhile ---------------------------------------------------------------------------------------------


def test_clients_see_the_old_answers_or_the_new_ones(bench: Bench) -> None:
    stop = threading.Event()
    seen: list[list[list[list[tuple[str, float]]]]] = [[] for _ in range(3)]
    errors: list[BaseException] = []
    with bench.reader() as reader:
        before = answers(reader)

        def ask(mine: list[list[list[tuple[str, float]]]]) -> None:
            while not stop.is_set():
                try:
                    mine.append([*answers(reader)])
                except BaseException as error:
                    errors.append(error)
                    return

        threads = [threading.Thread(target=ask, args=(mine,)) for mine in seen]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        bench.set()
        time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join()
        after = answers(reader)
    assert not errors and after != before
    for mine in seen:
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            column = [answer[number] for answer in mine]
            assert all(answer in (old, new) for answer in column)
            changes = sum(a != b for a, b in itertools.pairwise(column))
            assert changes == (old != new)  # once, and never back


# --- back, and away ------------------------------------------------------------------------------------------------


def test_rollback_computes_what_is_missing_first(bench: Bench) -> None:
    with bench.reader() as reader:
        before = answers(reader)
        bench.set()
        more(bench)
        bench.old.texts.clear()
        done = bench.roll_back()
        assert (done.outcome, done.before, done.name) == ("switched", "new", "stub")
        assert done.computed == len(bench.old.texts) <= 3
        # the same order: scores move a little with the statistics of words, since a file was added
        assert [row[0] for row in answers(reader)[1]] == [row[0] for row in before[1]]
    assert bench.states() == {"stub": ("active", 0), "new": ("retired", 0)}
    assert bench.roll_back().name == "new"
    assert bench.equals_a_clean_build(bench.new)


def test_rollback_without_an_earlier_model(bench: Bench) -> None:
    with pytest.raises(UsageError, match="no earlier model is kept: run `gitstrata model set NAME`"):
        bench.roll_back()


def gc(database: Database, days: float) -> collect.Collected:
    from datetime import timedelta

    with database.connect() as connection:
        return collect.collect(connection, timedelta(days=days), lambda: False)


def test_gc_takes_a_retired_model_after_its_grace(bench: Bench) -> None:
    bench.set()
    assert gc(bench.database, 14).models == gc(bench.database, 0).models == 0  # a query may just have begun
    bench.rows("update model set changed_at = now() - interval '2 minutes' where state = 'retired' returning 1")
    assert gc(bench.database, 14).models == 0
    assert gc(bench.database, 0).models == 1
    assert bench.states() == {"new": ("active", 0)}
    with pytest.raises(UsageError, match="no earlier model is kept"):
        bench.roll_back()
    assert more(bench).outcome == "done"
    assert bench.set("default").outcome == "switched"


# --- the database decides ------------------------------------------------------------------------------------------


def test_the_model_of_the_database_is_used_whatever_is_configured(bench: Bench) -> None:
    bench.set()
    bench.index.config = replace(bench.index.config, model="elsewhere")
    report = more(bench, Shelf("elsewhere", load=bench.load))
    assert report.notes == [
        "GITSTRATA_MODEL names elsewhere, but this index has the model new: run `gitstrata model set elsewhere` to "
        "change it, or leave the variable out"
    ]
    assert "elsewhere" not in bench.loaded
    with bench.reader(Shelf("elsewhere", load=bench.load)) as reader:
        assert code_search(reader, "grow").result


def test_a_model_that_is_no_more_leaves_words_and_names(bench: Bench) -> None:
    """As after an upgrade of the package that brings another shipped model."""
    upgraded = StubEmbedder("8" * 64, name="stub", dimension=16)
    shelf = Shelf(load=lambda setting, dimension=0: upgraded)
    with bench.reader(shelf) as reader:
        answer = code_search(reader, "grow circle")
        assert answer.result[0].source_id == "shapes.py#grow"
        assert "found by words and names only, not by meaning" in answer.note
        assert "run `gitstrata model set default`" in answer.note
        assert bench.sync(shelf).outcome == "unchanged"
        with pytest.raises(SchemaMismatch, match="run `gitstrata model set default`"):
            more(bench, shelf)
        assert bench.set("default", shelf).outcome == "switched"
        assert bench.sync(shelf).outcome == "done"
        assert code_search(reader, "grow circle").note == ""
    assert bench.equals_a_clean_build(upgraded)


def test_a_model_that_fails_leaves_words_and_names(bench: Bench) -> None:
    with bench.reader(Shelf(load=lambda setting, dimension=0: Bench.load(bench, "away"))) as reader:
        answer = code_search(reader, "grow circle")
    assert answer.result and answer.note == "found by words and names only, not by meaning: no model away"
