"""Change the model of a database of some 40,000 chunks while clients search and a repository is synced without pause.

    python scripts/check_model_switch.py [PATH...] [--files 20000] [--readers 2]

Indexes the repositories at PATH, or a generated one of ``--files`` files, with the shipped model; starts the readers
and a writer; changes to a model of 128 dimensions by ``gitstrata model set``, killed once half-way and run again; rolls
back at the end. Every answer must be the old model's or the new one's, and none may be the old one's after the new
one's. Exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench_scale import _generate  # noqa: E402

from flows import generations, git  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.embed.shelf import Shelf  # noqa: E402
from flows.embed.static import MODEL_FOLDER, read_model, write_model  # noqa: E402
from flows.settings import Settings  # noqa: E402
from flows.store.connect import Database, open_database  # noqa: E402
from flows.store.embedded import EmbeddedServer  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools.code_search import code_search  # noqa: E402
from mcp_tools.index import Index  # noqa: E402
from tests.repos import Repo  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

QUERIES = (
    "parse the header of a request",
    "return the value times a number",
    "open a connection and retry",
    "compute_77",
    "where are errors turned into messages",
)
Answer = list[tuple[str, float]]


def main() -> None:
    """Run it all and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--readers", type=int, default=2)
    given = parser.parse_args()
    with temporary_home("gs-model-") as home:
        conninfo = EmbeddedServer(home.server_dir).start()
        settings = settings_module.load({"GITSTRATA_HOME": str(home.home), "GITSTRATA_DSN": conninfo})
        open_database(settings).close()
        names = fill(settings, given.paths, given.files)
        sys.exit(1 if watch_a_change(settings, names, given.readers) else 0)


def fill(settings: Settings, paths: list[Path], files: int) -> list[str]:
    """Index the repositories and return their names."""
    if not paths:
        _generate(settings.home / "generated", files)
        paths = [settings.home / "generated"]
    database, shelf, names = Database(settings.dsn or ""), Shelf(), []
    for number, path in enumerate(paths):
        repository = git.open_repository(path)
        names.append(f"r{number}")
        sync(database, settings, shelf, Target(names[-1], repository, git.resolve(repository), make_default=True))
    with database.connect() as connection:
        chunks, texts = (connection.execute(f"select count(*) from {table}").fetchone() for table in ("chunk", "text"))
    print(f"{chunks and chunks[0]} chunks, {texts and texts[0]} texts in {len(paths)} repositories", flush=True)
    return names


def watch_a_change(settings: Settings, names: list[str], readers: int) -> list[str]:
    """Change the model while others work; return what went wrong."""
    conninfo = settings.dsn or ""
    small = settings.home / "small-model"
    _, vocabulary, table = read_model(MODEL_FOLDER)
    write_model(small, vocabulary, table[:, :128], recipe={"what": "the first half of the shipped model's dimensions"})
    old = ask_all(settings, names)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(readers + 1) as pool:
        stop = manager.Event()
        asked = [pool.apply_async(search, (conninfo, names, n, stop)) for n in range(readers)]
        written = pool.apply_async(write, (conninfo, str(settings.home), stop))
        time.sleep(5)
        killed, kept = killed_half_way(settings, small)
        began = time.perf_counter()
        set_model(settings, str(small))
        rest = time.perf_counter() - began
        time.sleep(3)
        stop.set()
        seen, (commits, notes, errors) = [result.get() for result in asked], written.get()
    new = ask_all(settings, names)
    began = time.perf_counter()
    back = generations.roll_back(Database(conninfo), Shelf(), lambda stage, done, total: None)
    back_seconds = time.perf_counter() - began
    errors += [error for _, found in seen for error in found]
    errors += [f"reader {n}: {text}" for n, (answers, _) in enumerate(seen) for text in wrong(answers, old, new)]
    errors += ["after the rollback the answers are not the old ones"] if ask_all(settings, names) != old else []
    answered = [seconds for answers, _ in seen for _, seconds, _ in answers]
    print(
        f"model set: killed after {killed:.1f} s with {kept} vectors kept, then {rest:.1f} s; {len(answered)} queries "
        f"answered meanwhile, median {sorted(answered)[len(answered) // 2] * 1000:.0f} ms, "
        f"longest {max(answered) * 1000:.0f} ms; {commits} commits published; rollback {back_seconds:.1f} s "
        f"({back.computed} vectors computed); {len(errors)} errors"
    )
    print("\n".join([*notes[:3], *errors[:10]]))
    return errors


def set_model(settings: Settings, name: str) -> None:
    """Run ``gitstrata model set`` to its end."""
    subprocess.run(command(name), env=environment(settings), check=True)


def killed_half_way(settings: Settings, small: Path) -> tuple[float, int]:
    """Start ``gitstrata model set``, kill it once half of the vectors are there; return seconds and vectors kept."""
    began = time.perf_counter()
    process = subprocess.Popen(command(str(small)), env=environment(settings))
    with Database(settings.dsn or "").connect() as connection:
        while process.poll() is None:
            building = [item for item in generations.listed(connection) if item.model.state == "building"]
            if building and building[0].vectors > building[0].texts / 2:
                process.kill()
                process.wait()
                kept = generations.listed(connection)[1].vectors
                return time.perf_counter() - began, kept
            time.sleep(0.2)
    raise SystemExit("the first `gitstrata model set` ended before it could be killed: take more files")


def command(name: str) -> list[str]:
    """Return the command line of ``gitstrata model set``."""
    return [sys.executable, "-m", "mcp_tools.cli", "model", "set", name]


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a command on this database."""
    places = {"GITSTRATA_HOME": str(settings.home), "GITSTRATA_DSN": settings.dsn or ""}
    return os.environ | places | {"PYTHONPATH": str(PROJECT), "GITSTRATA_MODEL": ""}


def ask(index: Index, names: list[str], number: int) -> Answer:
    """Return the rows of a query in one repository, as they can be compared."""
    rows = code_search(index, QUERIES[number % len(QUERIES)], repo=names[number % len(names)]).result
    return [(row.source_id, row.score) for row in rows]


def numbers(names: list[str]) -> range:
    """Return the numbers of all pairs of query and repository."""
    return range(len(QUERIES) * len(names))


def ask_all(settings: Settings, names: list[str]) -> list[Answer]:
    """Return the answer to every query."""
    with Index(settings) as index:
        return [ask(index, names, number) for number in numbers(names)]


def search(conninfo: str, names: list[str], first: int, stop: Any) -> tuple[list[tuple[int, float, Answer]], list[str]]:
    """Search until told to stop; return (query, seconds, answer) of each, and errors."""
    answers: list[tuple[int, float, Answer]] = []
    errors: list[str] = []
    with Index(settings_module.load({"GITSTRATA_DSN": conninfo})) as index:
        for number in itertools.count(first):
            if stop.is_set():
                return answers, errors
            began = time.perf_counter()
            try:
                query = number % len(numbers(names))
                answer = ask(index, names, query)
                answers.append((query, time.perf_counter() - began, answer))
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
    return answers, errors


def write(conninfo: str, home: str, stop: Any) -> tuple[int, list[str], list[str]]:
    """Commit to and sync a repository of its own until told to stop; return commits, notes of the runs and errors."""
    settings = settings_module.load({"GITSTRATA_HOME": home, "GITSTRATA_DSN": conninfo})
    repo, database, shelf = Repo(Path(home) / "written"), Database(conninfo), Shelf()
    commits, notes, errors = 0, set(), []
    while not stop.is_set():
        commits += 1
        repo.commit(a_py=f"def written_{commits % 50}():\n    return {commits % 7}\n")
        repository = git.open_repository(repo.path)
        try:
            report = sync(database, settings, shelf, Target("written", repository, git.resolve(repository)))
            notes |= set(report.notes)
        except Exception as error:
            errors.append(f"writer: {type(error).__name__}: {error}")
    return commits, sorted(notes), errors


def wrong(answers: list[tuple[int, float, Answer]], old: list[Answer], new: list[Answer]) -> list[str]:
    """Return what is wrong with a reader's answers: neither the old nor the new one, or old after new."""
    said, switched = [], False
    for query, _, answer in answers:
        if answer not in (old[query], new[query]):
            said.append(f"query {query} had an answer of neither model")
        elif old[query] != new[query]:
            if switched and answer == old[query]:
                said.append(f"query {query} had the old answer after the switch")
            switched = switched or answer == new[query]
    return said if switched else [*said, "no answer of the new model was seen"]


if __name__ == "__main__":
    main()
