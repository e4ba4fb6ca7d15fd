"""Searches of an index of up to a million chunks: latency, throughput, recall, and where the time goes.

    .venv/bin/python scripts/bench_search.py FOLDER [--chunks 40000,200000,1000000] [--home DIR] [--json FILE]

FOLDER holds repositories (owner+name, or owner+name/repo). Their files are cut as a sync would cut them, and loaded by
COPY; when they do not suffice, copies follow in which every third word is another one of the same corpus, a different
one in each copy, so that texts and vectors are distinct. At each size the script measures ``code_search`` in this
process, as the MCP server runs it: unfiltered, in one repository, and with the filters (language, folder, level) that
come nearest to leaving 50 %, 10 %, 1 % and .1 % of the chunks. Queries are sentences and names of the corpus's own
definitions. "first" is a search of a process that has nothing of the scope in memory. Recall is that of the ten nearest
texts against an exact scan. Eight clients then ask one process at once, and two processes. With --home the index is
kept, and a second run measures it again without loading.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench_index import server_cpu_seconds  # noqa: E402
from pgvector import HalfVector  # noqa: E402
from pgvector.psycopg import register_vector  # noqa: E402
from psycopg import sql  # noqa: E402

from chunkers import cut, words  # noqa: E402
from chunkers.chunk import Cut  # noqa: E402
from flows import git, policy, select  # noqa: E402
from flows import settings as settings_module  # noqa: E402
from flows.decode import decode  # noqa: E402
from flows.embed import Embedder, load_embedder  # noqa: E402
from flows.embed.shelf import Shelf  # noqa: E402
from flows.report import peak_memory_mb  # noqa: E402
from flows.select import Keep, Rules  # noqa: E402
from flows.settings import Settings  # noqa: E402
from flows.store import candidates, conditions, cuts, lexicon, signs, texts, vector_index  # noqa: E402
from flows.store.connect import Connection, Database, copy_rows, open_database  # noqa: E402
from flows.store.models import Model, use_model  # noqa: E402
from flows.store.resident import Resident  # noqa: E402
from mcp_tools import scope  # noqa: E402
from mcp_tools.code_search import code_search  # noqa: E402
from mcp_tools.index import Index  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

QUERIES = 150
RECALL_QUERIES = 25
CLIENTS = 8
WORKERS = 2
CLIENT_SECONDS = 12.0
START_SECONDS = 40.0  # until all workers have what they search in memory
BATCH = 5_000  # texts embedded and copied at once
CHANGED = 3  # every third word of a copy is another one
SHARES = (0.5, 0.1, 0.01, 0.001)
_WORD = re.compile(r"[A-Z]?[a-z]{3,}")


@dataclass(frozen=True, slots=True)
class File:
    """A real file, cut."""

    path: str
    language: str
    cut: Cut


def main() -> None:
    """Load and measure, size by size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", default="40000,200000,1000000")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", type=Path, dest="as_json")
    given = parser.parse_args()
    sizes = sorted(int(size) for size in given.chunks.split(","))
    found = []
    with _home(given.home) as settings, open_database(settings) as database:
        embedder = load_embedder()
        corpus = Corpus(given.folder)
        with database.connect() as connection:
            loader = Loader(connection, embedder, corpus)
            for size in sizes[-1:] if loader.kept else sizes:
                loader.load(size)
                loader.finish(database)
                found.append(measure(settings, database, embedder, corpus))
                if given.as_json:
                    given.as_json.write_text(json.dumps(found, indent=1))


@contextlib.contextmanager
def _home(folder: Path | None) -> Iterator[Settings]:
    if folder is None:
        with temporary_home("gs-bench-") as settings:
            yield settings
    else:
        yield settings_module.load({"GITSTRATA_HOME": str(folder)})


# --- the corpus ----------------------------------------------------------------------------------------------------


class Corpus:
    """The files of all repositories below a folder, cut, and queries from what they define."""

    def __init__(self, folder: Path) -> None:
        places = sorted(path for path in folder.iterdir() if path.is_dir() and "+" in path.name)
        self.repositories = {path.name.replace("+", "/"): _files(path) for path in places}
        count: Counter[str] = Counter()
        for files in self.repositories.values():
            for file in files[::5]:
                for chunk in file.cut.chunks:
                    count.update(_WORD.findall(chunk.text))
        self.vocabulary = [word for word, n in count.most_common(40_000) if n > 1]
        symbols = [s for files in self.repositories.values() for file in files for s in file.cut.symbols]
        chance = random.Random(1)
        sentences = [s.doc for s in symbols if 20 <= len(s.doc) <= 150 and s.doc.count(" ") > 3]
        names = [s.name.rpartition(".")[2] for s in symbols if len(s.name) > 8]
        self.queries = chance.sample(sentences, QUERIES * 2 // 3) + chance.sample(names, QUERIES // 3)
        chance.shuffle(self.queries)
        chunks = sum(len(f.cut.chunks) for files in self.repositories.values() for f in files)
        print(f"{len(self.repositories)} repositories, {chunks} chunks, {len(symbols)} definitions", flush=True)


def _files(place: Path) -> list[File]:
    rules = Rules()
    repository = git.open_repository(place / "repo" if (place / "repo").exists() else place)
    files = []
    with git.ObjectReader(repository) as reader:
        entries = git.list_tree(repository, git.resolve(repository).sha)
        told = policy.read(repository, entries)
        for entry in entries:
            kept = select.by_path(entry, rules, told)
            if isinstance(kept, Keep):
                raw = reader.read(entry.oid)
                text, facts = decode(raw)
                decision = select.by_facts(kept, len(raw), facts, rules)
                if isinstance(decision, Keep):
                    path = entry.path.decode(errors="replace")
                    files.append(File(path, decision.language, cut.cut(text, decision.language)))
    return files


class _Variation(dict[str, str]):
    """Word -> what stands for it in one copy, chosen when first asked; the first copy keeps all words."""

    def __init__(self, number: int, vocabulary: Sequence[str]) -> None:
        self.number, self.vocabulary, self.chance = number, vocabulary, random.Random(number)

    def __missing__(self, word: str) -> str:
        changes = self.number and self.chance.randrange(CHANGED) == 0
        self[word] = self.chance.choice(self.vocabulary) if changes else word
        return self[word]

    def vary(self, text: str) -> str:
        return _WORD.sub(lambda found: self[found.group()], text) if self.number else text


# --- loading -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Loader:
    """Writes what syncs of the corpus would have written; ids are counted here, so that all goes by COPY."""

    connection: Connection
    embedder: Embedder
    corpus: Corpus
    known: dict[bytes, int] = field(default_factory=dict)
    waiting: dict[bytes, str] = field(default_factory=dict)
    loaded: int = 0
    number: int = 0  # of the next copy of a repository
    next_cut: int = 1
    model: Model = field(init=False)
    kept: bool = False  # from an earlier run: nothing is loaded

    def __post_init__(self) -> None:
        self.model = use_model(self.connection, Shelf(loaded=self.embedder))
        register_vector(self.connection)
        self.connection.adapters.register_dumper(texts.Terms, texts._TermsDumper)
        row = self.connection.execute("select coalesce(sum((select sum(x) from unnest(chunks) x)), 0) from branch")
        self.loaded = int((row.fetchone() or [0])[0])
        self.kept = self.loaded > 0

    def load(self, size: int) -> None:
        """Add repositories until there are about ``size`` chunks."""
        if self.kept:
            return
        began, names = time.perf_counter(), list(self.corpus.repositories)
        self.connection.execute("drop index if exists lex_terms")
        self.connection.execute(sql.SQL("drop index if exists {}").format(vector_index._name(self.model)))
        while self.loaded < size:
            copy, place = divmod(self.number, len(names))
            self._add(names[place], copy, size - self.loaded)
            self.number += 1
        self._flush()
        print(f"loaded {self.loaded} chunks in {time.perf_counter() - began:.0f} s", flush=True)

    def _add(self, name: str, copy: int, most: int) -> None:
        variation = _Variation(copy, self.corpus.vocabulary)
        full = f"{name}-{copy}" if copy else name
        row = self.connection.execute(
            "with r as (insert into repo (name, origin) values (%s, %s) returning repo_id) insert into branch (repo_id,"
            " name, is_default, generation, commit_sha, tree_sha, committed_at, rules_fp, files, failed, chunks)"
            " select repo_id, 'main', true, 1, md5(%s), '', now(), '', 0, 0, '{0,0,0,0}' from r returning branch_id",
            [full, full, full],
        ).fetchone()
        assert row is not None
        branch_id, first, levels = row[0], self.next_cut, [0, 0, 0, 0]
        files: list[tuple[Any, ...]] = []
        chunks: list[tuple[Any, ...]] = []
        for file in self.corpus.repositories[name]:
            if most <= 0:
                break
            ids = self._texts([variation.vary(chunk.text) for chunk in file.cut.chunks])
            counts = [0, 0, 0, 0]
            for ord, (chunk, text_id) in enumerate(zip(file.cut.chunks, ids, strict=True)):
                level = cuts.rank_of(chunk.level)
                counts[level] += 1
                lines = (chunk.start_line, chunk.end_line)
                signature, symbol = variation.vary(chunk.signature), variation.vary(chunk.symbol)
                head = (self.next_cut, ord, level, chunk.parent, chunk.anchor, symbol, signature)
                chunks.append((*head, *lines, text_id))
            files.append((branch_id, self.next_cut, file.path, file.language, counts))
            levels = [a + b for a, b in zip(levels, counts, strict=True)]
            most -= len(file.cut.chunks)
            self.next_cut += 1
        self._flush()
        self._copy(branch_id, first, files, chunks)
        self.connection.execute(
            "update branch set files = %s, chunks = %s where branch_id = %s", [len(files), levels, branch_id]
        )
        signs.rebuild(self.connection, self.model, branch_id)
        self.loaded += sum(levels)

    def _copy(self, branch_id: int, first: int, files: list[tuple[Any, ...]], chunks: list[tuple[Any, ...]]) -> None:
        oids = [f"{cut_id:040x}" for _, cut_id, *_ in files]
        copy_rows(
            self.connection,
            "blob",
            ["int8", "text", "int8", "jsonb", "timestamptz"],
            ((cut_id, oid, 0, "{}", _NOW) for oid, (_, cut_id, *_) in zip(oids, files, strict=True)),
        )
        copy_rows(
            self.connection,
            "cut",
            ["int8", "int8", "text", "text", "int4[]", "int4", "text", "timestamptz"],
            ((cut_id, cut_id, language, "x", counts, 0, "", None) for _, cut_id, _, language, counts in files),
        )
        types = ["int8", "int4", "int2", "int4", "text", "text", "text", "int4", "int4", "int8"]
        copy_rows(self.connection, "chunk", types, chunks)
        copy_rows(
            self.connection,
            "file",
            ["int4", "bytea", "text", "text", "text", "text", "text", "int8", "text"],
            (
                (branch_id, cut_id.to_bytes(16, "big"), path, "100644", oid, language, None, cut_id, "")
                for oid, (_, cut_id, path, language, _) in zip(oids, files, strict=True)
            ),
        )

    def _texts(self, bodies: list[str]) -> list[int]:
        ids = []
        for body in bodies:
            key = texts.text_hash(body)
            if key not in self.known:
                self.known[key] = len(self.known) + 1
                self.waiting[key] = body
            ids.append(self.known[key])
        if len(self.waiting) >= BATCH:
            self._flush()
        return ids

    def _flush(self) -> None:
        if not self.waiting:
            return
        ids = [self.known[key] for key in self.waiting]
        bodies = list(self.waiting.values())
        copy_rows(
            self.connection,
            "text",
            ["int8", "bytea", "text", "timestamptz"],
            ((n, key, body, _NOW) for n, (key, body) in zip(ids, self.waiting.items(), strict=True)),
        )
        lexed = ((n, texts.lex(body)) for n, body in zip(ids, bodies, strict=True))
        rows = ((n, words.WORDS_VERSION, text.length, text.terms, text.weights) for n, text in lexed)
        copy_rows(self.connection, "lex", ["int8", "int2", "int4", "tsvector", "sparsevec"], rows)
        vectors = self.embedder.embed_documents(bodies)
        pairs = ((n, HalfVector(vector)) for n, vector in zip(ids, vectors, strict=True))
        copy_rows(self.connection, self.model.vectors_name, ["int8", "halfvec"], pairs)
        self.waiting.clear()

    def finish(self, database: Database) -> None:
        """Build the indexes and renew the statistics, as the first syncs would have done."""
        if self.kept:
            return
        for name, step in (
            ("inverted index", lambda: self.connection.execute(_LEX_TERMS)),
            ("statistics", lambda: lexicon.refresh_if_moved(self.connection, self.model, force=True)),
            ("vacuum", lambda: self.connection.execute("vacuum (analyze)")),
            ("vector index", lambda: vector_index.build_if_large(database, self.model, lambda *_: None)),
        ):
            began = time.perf_counter()
            step()
            print(f"  {name}: {time.perf_counter() - began:.1f} s", flush=True)


_NOW = datetime.now(UTC)
_LEX_TERMS = "create index if not exists lex_terms on lex using gin (terms) with (fastupdate = off)"


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(settings: Settings, database: Database, embedder: Embedder, corpus: Corpus) -> dict[str, Any]:
    """Return all figures of the index as it is, and print them."""
    with database.connect() as connection:
        connection.execute("set max_parallel_workers_per_gather = 0")
        filters = choose_filters(connection)
        sizes = _sizes(connection)
        print(f"\n{sizes}\n")
        print("| filter | share | way | first ms | p50 ms | p95 ms | CPU ms: here | Postgres | recall@10 | @50 |")
        print("| --- " * 10 + "|")
        rows = []
        with Index(settings, embedder=embedder) as index:
            index.warm()  # as a server does
            for name, (arguments, share) in filters.items():
                row = _latency(index, settings, corpus.queries, arguments) | {"filter": name, "share": share}
                row |= _recall(connection, embedder, corpus.queries[:RECALL_QUERIES], arguments)
                rows.append(row)
                print(
                    f"| {name} | {share:.2%} | {row['way']} | {row['first']:.0f} | {row['p50']:.1f} |"
                    f" {row['p95']:.1f} | {row['client']:.1f} | {row['server']:.1f} | {row['recall10']:.3f} |"
                    f" {row['recall50']:.3f} |",
                    flush=True,
                )
            everything = [arguments for arguments, _ in filters.values()]
            crowds = {
                "unfiltered": crowd(index, settings, corpus.queries, [{}]),
                "all filters": crowd(index, settings, corpus.queries, everything),
            }
        for name, some in (("unfiltered", [{}]), ("all filters", everything)):
            crowds[f"{name}, {WORKERS} processes"] = crowd_of_workers(settings, corpus.queries, some)
    for name, row in crowds.items():
        print(f"{CLIENTS} clients, {name}: {row}")
    return {"sizes": sizes, "filters": rows, "clients": crowds, "peak_memory_mb": round(peak_memory_mb())}


def choose_filters(connection: Connection) -> dict[str, tuple[dict[str, Any], float]]:
    """Return filters by name, with the share of the chunks that they leave."""
    row = connection.execute("select sum((select sum(x) from unnest(chunks) x))::int8 from branch").fetchone()
    total = int(row[0]) if row else 1
    counts: dict[str, tuple[dict[str, Any], float]] = {}
    statement = (
        "select {0}, sum((select sum(x) from unnest(levels) x))::int8 from file f join cut k using (cut_id)"
        " join branch using (branch_id) join repo using (repo_id) group by 1 having {0} <> ''"
    )
    kinds: list[tuple[str, str, Callable[[str], dict[str, Any]]]] = [
        ("repository", "repo.name", lambda name: {"repo": name}),
        ("language", "f.language", lambda name: {"languages": [name]}),
        ("folder", "split_part(f.path, '/', 1)", lambda name: {"paths": [f"/{name}"]}),
        ("folders", "split_part(f.path, '/', -2)", lambda name: {"paths": [f"**/{name}/*"]}),
    ]
    by_kind: dict[str, list[tuple[str, float, dict[str, Any]]]] = {}
    for kind, expression, arguments in kinds:
        for name, count in connection.execute(statement.format(expression)):
            if re.fullmatch(r"[\w./-]+", name):
                by_kind.setdefault(kind, []).append((name, count / total, arguments(name)))
    counts["none"] = ({}, 1.0)
    largest = max(by_kind["repository"], key=lambda found: (found[1], found[0]))
    counts["largest repository"] = (largest[2], largest[1])
    row = connection.execute("select sum(chunks[3])::int8 from branch").fetchone()
    counts["level method"] = ({"level": "method"}, int(row[0]) / total if row else 0)
    for share in SHARES:
        for kind in ("repository", "language", "folder", "folders"):
            name, found, arguments_ = min(by_kind.get(kind, []), key=lambda f: (abs(f[1] - share), f[0]))
            if share / 2 <= found <= share * 2:
                counts[f"{share:.1%} {kind}"] = (arguments_, found)
    return counts


def _sizes(connection: Connection) -> dict[str, Any]:
    model = use_model(connection, Shelf())
    row = connection.execute(
        "select count(*), (select count(*) from chunk), (select count(*) from file),"
        " pg_database_size(current_database()),"
        f" pg_total_relation_size('{model.signs_name}'), pg_relation_size('{model.vectors_name}'),"
        f" pg_relation_size(to_regclass('{model.vectors_name}_hnsw')), pg_relation_size('lex_terms'),"
        " current_setting('shared_buffers') from text"
    ).fetchone()
    assert row is not None
    names = ("texts", "chunks", "files", "database", "signs", "vectors", "hnsw", "words index", "shared_buffers")
    plain = {"texts", "chunks", "files", "shared_buffers"}
    return {
        name: value if name in plain else f"{(value or 0) / 2**20:.0f} MB"
        for name, value in zip(names, row, strict=True)
    }


def _latency(index: Index, settings: Settings, queries: Sequence[str], arguments: dict[str, Any]) -> dict[str, Any]:
    index.resident.clear()
    began = time.perf_counter()
    code_search(index, queries[0], **arguments)
    first = (time.perf_counter() - began) * 1000
    for query in queries[:20]:
        code_search(index, query, **arguments)
    cpu, server, times = time.process_time(), server_cpu_seconds(settings), []
    for query in queries:
        began = time.perf_counter()
        code_search(index, query, **arguments)
        times.append((time.perf_counter() - began) * 1000)
    return {
        "first": first,
        "p50": statistics.median(times),
        "p95": sorted(times)[int(len(times) * 0.95)],
        "client": (time.process_time() - cpu) * 1000 / len(queries),
        "server": (server_cpu_seconds(settings) - server) * 1000 / len(queries),
    }


def _recall(
    connection: Connection, embedder: Embedder, queries: Sequence[str], arguments: dict[str, Any]
) -> dict[str, Any]:
    """Compare the nearest texts of a search with those of a scan of all vectors in scope."""
    where = scope.resolve(connection, **arguments)
    model = use_model(connection, Shelf(loaded=embedder))
    register_vector(connection)
    resident = Resident()
    found = candidates.measure(connection, model, where.filters, resident)
    at: dict[int, list[float]] = {10: [], 50: []}
    exact = sql.SQL(
        "select text_id from {} where text_id in (select c.text_id from file f join chunk c using (cut_id) where {})"
        " order by (vector <=> %(vector)s) + 0, text_id limit 50"
    ).format(model.vectors, conditions.where(where.filters))
    for query in queries:
        vector = embedder.embed_query(query)
        given = conditions.parameters(where.filters) | {"vector": HalfVector(vector)}
        nearest = [row[0] for row in connection.execute(exact, given)]
        with connection.transaction():
            hits = candidates.candidates(
                connection, model, where.filters, candidates.weigh(connection, query), vector, 200, resident
            )
        near = {hit.text_id: hit.near for hit in hits if hit.near}
        for k, shares in at.items():
            wanted = nearest[:k]
            shares.append(sum(text_id in near for text_id in wanted) / max(1, len(wanted)))
    return {"way": found.way.value, "recall10": statistics.mean(at[10]), "recall50": statistics.mean(at[50])}


def crowd(
    index: Index, settings: Settings, queries: Sequence[str], filters: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Let clients of one process ask at once, each as fast as it is answered."""
    server = server_cpu_seconds(settings)
    asked = _ask(index, queries, filters, CLIENTS)
    return _summary([asked], server_cpu_seconds(settings) - server)


def crowd_of_workers(settings: Settings, queries: Sequence[str], filters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Let as many clients ask several processes."""
    start = time.time() + START_SECONDS
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        work = [pool.submit(_worker, settings, queries, filters, start) for _ in range(WORKERS)]
        time.sleep(max(0.0, start - time.time()))
        server = server_cpu_seconds(settings)
        asked = [one.result() for one in work]
        return _summary(asked, server_cpu_seconds(settings) - server)


def _worker(settings: Settings, queries: Sequence[str], filters: Sequence[dict[str, Any]], start: float) -> Asked:
    with Index(settings, embedder=load_embedder()) as index:
        index.warm()
        for arguments in filters:
            for query in queries[:20]:
                code_search(index, query, **arguments)
        if time.time() > start:
            raise SystemExit(f"a worker took more than {START_SECONDS} s to begin")
        time.sleep(start - time.time())
        return _ask(index, queries, filters, CLIENTS // WORKERS)


@dataclass(frozen=True, slots=True)
class Asked:
    """What clients of one process saw: milliseconds of each answer, errors, CPU and wall seconds of the process."""

    times: list[float]
    errors: list[str]
    cpu: float
    wall: float


def _ask(index: Index, queries: Sequence[str], filters: Sequence[dict[str, Any]], clients: int) -> Asked:
    times: list[float] = []
    errors: list[str] = []
    end = time.perf_counter() + CLIENT_SECONDS

    def ask(number: int) -> None:
        chance = random.Random(number)
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                code_search(index, chance.choice(queries), **chance.choice(filters))
            except Exception as error:
                errors.append(str(error))
            times.append((time.perf_counter() - began) * 1000)

    cpu, began = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=ask, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Asked(times, errors, time.process_time() - cpu, time.perf_counter() - began)


def _summary(asked: Sequence[Asked], server: float) -> dict[str, Any]:
    times = sorted(found for one in asked for found in one.times)
    count = max(1, len(times))
    return {
        "queries_per_second": round(len(times) / max(one.wall for one in asked), 1),
        "p50": round(statistics.median(times), 1),
        "p95": round(times[int(count * 0.95)], 1),
        "cpu_ms_here": round(sum(one.cpu for one in asked) * 1000 / count, 1),
        "cpu_ms_postgres": round(server * 1000 / count, 1),
        "errors": sum(len(one.errors) for one in asked),
    }


if __name__ == "__main__":
    main()
