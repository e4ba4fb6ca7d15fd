"""Measure other code searches beside gitstrata, on the repositories of a query file, in one run.

    .venv/bin/python scripts/bench_peers.py QUERIES.jsonl FOLDER [--semble PYTHON] [--ccc PYTHON] [--scope root|whole]

FOLDER holds a repository for each of the file's, as owner+name or owner+name/repo. PYTHON is the interpreter of a
virtual environment of its own: with `semble==0.7.0`, and with `cocoindex-code==0.2.42 sentence-transformers torch`.
Their own models come from a model hub; here both get gitstrata's: semble its word vectors, pooled as model2vec pools
them, cocoindex-code the exported model as it is. ripgrep is asked for the words of the question, files by how many of
them they have, then by matching lines.

The others search checked out files; gitstrata's index is made from git, of whole repositories in either scope. Each
system indexes every repository, looks again where nothing has changed, and once more after one line was added to one
file of each. Figures: NDCG@10 (mean of repositories; of the choosing and the reporting half), CPU seconds of those
three (client + database), milliseconds of a query in a running process (median), peak memory of the process that
indexes, and what the index takes on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
sys.path.insert(0, str(PROJECT / "scripts"))

import eval_search  # noqa: E402
from bench_index import server_cpu_seconds  # noqa: E402

from chunkers import words  # noqa: E402
from flows import git  # noqa: E402
from flows.embed.export import tokenizer_json  # noqa: E402
from flows.embed.shelf import Shelf  # noqa: E402
from flows.embed.static import MODEL_FOLDER, read_model  # noqa: E402
from flows.report import cpu_seconds, peak_memory_mb  # noqa: E402
from flows.settings import Settings  # noqa: E402
from flows.store import vector_index  # noqa: E402
from flows.store.connect import open_database  # noqa: E402
from flows.store.models import use_model  # noqa: E402
from flows.sync import Target, sync  # noqa: E402
from mcp_tools import evaluation, rules  # noqa: E402
from mcp_tools.cli_eval import places  # noqa: E402
from mcp_tools.evaluation import Place, Query  # noqa: E402
from mcp_tools.index import Index  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

EDIT = "edited_line = 1\n"
SECONDS = 3_600  # that a peer may take for one repository

# What a peer runs for one repository: a job comes in as JSON, and goes out as JSON. ``cpu`` counts children, too.
_COMMON = """
import json, os, resource, sys, time
from pathlib import Path
job = json.load(sys.stdin)

def cpu():
    total = sum(time.process_time() if who is None else sum(resource.getrusage(who)[:2])
                for who in (None, resource.RUSAGE_CHILDREN))
    parents = {os.getpid()}
    for _ in range(3):
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) in parents and int(stat.parent.name) not in parents:
                parents.add(int(stat.parent.name))
                total += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return total

def edit():
    with open(job["edit"], "a") as file:
        file.write(job["line"])

def size(folder):
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())

def done(**result):
    peak = next(line for line in Path("/proc/self/status").read_text().split("\\n") if line.startswith("VmHWM"))
    result["memory"] = int(peak.split()[1]) * 1024
    print("\\n" + json.dumps(result))
"""
_SEMBLE = """
import tempfile
from semble.index.index import SembleIndex
def index():
    before = cpu()
    return SembleIndex.from_path(job["folder"], model_path=job["model"]), cpu() - before
made, first = index()
answers = []
for query in job["queries"]:
    began = time.perf_counter()
    found = made.search(query, top_k=10)
    took = time.perf_counter() - began
    answers.append([[(Path(r.chunk.file_path).as_posix(), r.chunk.start_line, r.chunk.end_line) for r in found], took])
with tempfile.TemporaryDirectory() as folder:
    made.save(Path(folder) / "index")
    disk = size(folder)
again = index()[1]
edit()
done(cpu=[first, again, index()[1]], answers=answers, disk=disk)
"""
_CCC = """
import asyncio
from cocoindex_code.project import Project
from cocoindex_code.settings import EmbeddingSettings, default_project_settings, save_project_settings
from cocoindex_code.shared import create_embedder
async def main():
    root = Path(job["folder"])
    given = EmbeddingSettings(model=job["model"], provider="sentence-transformers", device="cpu")
    save_project_settings(root, default_project_settings())
    project = await Project.create(root, create_embedder(given), {}, {})
    async def index():
        before = cpu()
        await project.run_index()
        return cpu() - before
    first = await index()
    answers = []
    for query in job["queries"]:
        began = time.perf_counter()
        found = await project.search(query, limit=10)
        took = time.perf_counter() - began
        answers.append([[(r.file_path, r.start_line, r.end_line) for r in found], took])
    disk = size(root / ".cocoindex_code")
    again = await index()
    edit()
    done(cpu=[first, again, await index()], answers=answers, disk=disk)
    sys.stdout.flush()
    os._exit(0)
asyncio.run(main())
"""
_SAVE_FOR_SEMBLE = """
import sys, numpy as np
from tokenizers import Tokenizer
from model2vec import StaticModel
folder = sys.argv[1]
model = StaticModel(np.load(folder + "/table.npy"), Tokenizer.from_file(folder + "/tokenizer.json"), normalize=True)
model.save_pretrained(folder + "/model")
"""
_SAVE_FOR_CCC = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from flows.embed.export import export_sentence_transformer
export_sentence_transformer(Path(sys.argv[1]))
"""


@dataclass(slots=True)
class Measured:
    """What one system did; CPU seconds as (client, database) of the first index, of no change, of one edit."""

    values: dict[str, float] = field(default_factory=dict)  # NDCG@10 by query
    times: list[float] = field(default_factory=list)  # ms
    cpu: list[list[float]] = field(default_factory=lambda: [[0.0, 0.0] for _ in range(3)])
    memory: float = 0.0  # bytes
    disk: float = 0.0


def main() -> None:
    """Measure all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--semble", type=Path, help="python of an environment with semble")
    parser.add_argument("--ccc", type=Path, help="python of an environment with cocoindex-code")
    parser.add_argument("--scope", choices=("root", "whole"), default="root")
    given = parser.parse_args()
    queries = evaluation.read_queries(given.queries)
    print("| system | NDCG@10 | choosing | reporting | first index | no change | one edit | query | memory | on disk |")
    print("| --- " * 10 + "|")
    with tempfile.TemporaryDirectory(prefix="gs-peers-") as scratch:
        bench = Bench(queries, given.folder, given.scope, Path(scratch))
        bench.ours()
        if shutil.which("rg"):
            bench.ripgrep()
        if given.semble:
            bench.peer("semble 0.7, our word vectors", given.semble, _SEMBLE, bench.model_for_semble(given.semble))
        if given.ccc:
            bench.peer("cocoindex-code 0.2.42, our model", given.ccc, _CCC, bench.model_for_ccc(given.ccc))


@dataclass(slots=True)
class Bench:
    """The queries, where the repositories are, and a place for checkouts and clones."""

    queries: list[Query]
    folder: Path
    scope: str
    scratch: Path

    # --- gitstrata ---

    def ours(self) -> None:
        """Index, search, index again; then what each half of the search finds alone."""
        done = Measured()
        commits = {query.repo: query.commit for query in self.queries}
        clones = {repo: self._clone(repo) for repo in commits}
        with temporary_home("gs-peers-") as settings:
            self._sync(settings, done, 0, clones, commits)
            done.memory = peak_memory_mb() * 1e6
            with Index(settings) as index:
                index.warm()
                whole = self.scope == "whole"
                for score in evaluation.run(self.queries, lambda query: places(index, query, whole=whole)):
                    done.values[score.query.id] = score.ndcg
                    done.times.append(score.milliseconds)
                found = {query.id: eval_search.look_up(index, query, self.scope) for query in self.queries}
            self._sync(settings, done, 1, clones, commits)
            edited = {repo: self._commit(clones[repo], commits[repo], self._edited(repo)) for repo in commits}
            self._sync(settings, done, 2, clones, edited)
            with open_database(settings) as database, database.connect() as connection:
                row = connection.execute("select pg_database_size(current_database())").fetchone()
                done.disk = float(row[0]) if row else 0.0
        self._print("gitstrata", done)
        for name, left_out in (("BM25", "all but words (BM25 alone)"), ("vectors", "all but meaning (vectors alone)")):
            with eval_search.changed(eval_search.WITHOUT[left_out]):
                self._print(f"gitstrata, {name} alone, no rules", Measured(eval_search.scores(self.queries, found)))

    def _sync(
        self, settings: Settings, done: Measured, phase: int, clones: Mapping[str, Path], commits: Mapping[str, str]
    ) -> None:
        shelf = Shelf(settings.model)
        with open_database(settings) as database:
            before, server = cpu_seconds(), server_cpu_seconds(settings)
            for repo in sorted(commits):
                repository = git.open_repository(clones[repo])
                commit = git.resolve(repository, commits[repo], branch="eval")
                target = Target(repo, repository, commit, make_default=True, builds_index=False)  # as sync --all
                sync(database, settings, shelf, target)
            with database.connect() as connection:
                vector_index.build_if_large(database, use_model(connection, shelf), lambda *_: None)
            done.cpu[phase] = [cpu_seconds() - before, server_cpu_seconds(settings) - server]

    def _clone(self, repo: str) -> Path:
        clone = self.scratch / "clones" / repo.replace("/", "+")
        _run("git", "clone", "-q", "--shared", "--bare", str(self._mirror(repo)), str(clone))
        return clone

    def _commit(self, clone: Path, commit: str, path: str) -> str:
        """Return a commit in which the file has one more line."""
        text = _run("git", "-C", str(clone), "show", f"{commit}:{path}") + EDIT
        blob = _run("git", "-C", str(clone), "hash-object", "-w", "--stdin", given=text).strip()
        index = {"GIT_INDEX_FILE": str(clone / "bench-index")}
        _run("git", "-C", str(clone), "read-tree", commit, env=index)
        _run("git", "-C", str(clone), "update-index", "--cacheinfo", f"100644,{blob},{path}", env=index)
        tree = _run("git", "-C", str(clone), "write-tree", env=index).strip()
        who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        return _run("git", "-C", str(clone), *who, "commit-tree", tree, "-p", commit, "-m", "one line").strip()

    # --- the others ---

    def ripgrep(self) -> None:
        """Ask for the words of each question."""
        done = Measured()
        for query in self.queries:
            root = self._searched(query)
            asked = sorted({word for word in words.parts(query.query) if len(word) > 2} - rules.STOP)
            command = ["rg", "-i", "-n", "--no-heading", "--null", "-F", *(f"-e{word}" for word in asked), "."]
            began = time.perf_counter()
            lines = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace").stdout
            matches: dict[str, Counter[str]] = defaultdict(Counter)
            for line in lines.split("\n"):
                path, _, text = line.partition("\0")
                matches[path.removeprefix("./")].update(word for word in asked if word in text.lower())
            best = sorted(matches, key=lambda path: (-len(matches[path]), -matches[path].total(), path))[: evaluation.K]
            done.times.append((time.perf_counter() - began) * 1000)
            found = [Place(f"{self._prefix(query)}{path}", 1, 10**9) for path in best]
            done.values[query.id] = evaluation.ndcg(found, query.targets)
        self._print("ripgrep for the words", done)

    def peer(self, name: str, python: Path, script: str, model: Path) -> None:
        """Let a peer index each repository, search it, and index it again, twice."""
        done = Measured()
        groups: dict[tuple[str, str], list[Query]] = defaultdict(list)
        for query in self.queries:
            groups[query.repo, query.root if self.scope == "root" else ""].append(query)
        for _, some in sorted(groups.items()):
            folder = self._searched(some[0])
            path = self.scratch / "checkouts" / some[0].repo.replace("/", "+") / self._edited(some[0].repo)
            job = {"folder": str(folder), "model": str(model), "queries": [query.query for query in some]}
            job |= {"edit": str(path), "line": EDIT}
            before = path.read_bytes()
            output = _run(str(python), "-c", _COMMON + script, given=json.dumps(job), env={"HF_HUB_OFFLINE": "1"})
            path.write_bytes(before)
            answer: dict[str, Any] = json.loads(output.strip().rpartition("\n")[2])
            for phase, spent in enumerate(answer["cpu"]):
                done.cpu[phase][0] += spent
            done.memory, done.disk = max(done.memory, answer["memory"]), done.disk + answer["disk"]
            for query, (rows, took) in zip(some, answer["answers"], strict=True):
                found = [Place(f"{self._prefix(query)}{path}", start, end) for path, start, end in rows]
                done.values[query.id] = evaluation.ndcg(found, query.targets)
                done.times.append(took * 1000)
        self._print(name, done)

    def model_for_semble(self, python: Path) -> Path:
        """Write the word vectors in model2vec's format."""
        import numpy as np

        place = self.scratch / "semble"
        place.mkdir()
        _, vocabulary, table = read_model(MODEL_FOLDER)
        np.save(place / "table.npy", table)
        (place / "tokenizer.json").write_text(tokenizer_json(vocabulary), encoding="utf-8")
        _run(str(python), "-c", _SAVE_FOR_SEMBLE, str(place))
        return place / "model"

    def model_for_ccc(self, python: Path) -> Path:
        """Write the model as a folder of sentence-transformers."""
        place = self.scratch / "ccc-model"
        _run(str(python), "-c", _SAVE_FOR_CCC, str(place), str(PROJECT))
        return place

    # --- places ---

    def _mirror(self, repo: str) -> Path:
        place = self.folder / repo.replace("/", "+")
        return place / "repo" if (place / "repo").exists() else place

    def _searched(self, query: Query) -> Path:
        checkout = self.scratch / "checkouts" / query.repo.replace("/", "+")
        if not checkout.exists():
            checkout.mkdir(parents=True)
            archive = self.scratch / "archive.tar"
            _run("git", "-C", str(self._mirror(query.repo)), "archive", "-o", str(archive), query.commit)
            _run("tar", "-x", "-C", str(checkout), "-f", str(archive))
        return checkout / (query.root if self.scope == "root" else "")

    def _prefix(self, query: Query) -> str:
        return f"{query.root}/" if self.scope == "root" and query.root else ""

    def _edited(self, repo: str) -> str:
        """Return the file of a repository that gets a line: the first answer of its first question."""
        query = next(query for query in self.queries if query.repo == repo)
        tree = _run("git", "-C", str(self._mirror(repo)), "ls-tree", "-r", "--name-only", query.commit).split("\n")
        target = query.targets[0].path
        return next(path for path in tree if path == target or path.endswith(f"/{target}"))

    def _print(self, name: str, done: Measured) -> None:
        ndcg = " | ".join(f"{value:.3f}" for value in eval_search.means(self.queries, done.values))
        cpu = [f"{client:.1f}" + (f" + {server:.1f}" if server else "") for client, server in done.cpu]
        median = f"{statistics.median(done.times):.1f} ms" if done.times else ""
        sizes = [f"{value / 1e6:.0f} MB" if value else "" for value in (done.memory, done.disk)]
        seconds = [f"{value} s" if done.memory else "" for value in cpu]
        print(f"| {name} | {ndcg} | {' | '.join([*seconds, median, *sizes])} |", flush=True)


def _run(*command: str, given: str = "", env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise SystemExit(f"{_shown(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _shown(command: Sequence[str]) -> str:
    return re.sub(r"\s+", " ", " ".join(command))[:200]


if __name__ == "__main__":
    started = time.time()
    main()
    print(f"{time.time() - started:.0f} s, load {os.getloadavg()[0]:.0f}", file=sys.stderr)
