"""Measure semble beside gitstrata: on the repositories of a query file, in one run, with the same word vectors.

    .venv/bin/python scripts/bench_peers.py QUERIES.jsonl FOLDER --semble PYTHON [--home DIR] [--scope root|whole]

FOLDER holds a repository for each of the file's, as owner+name or owner+name/repo. PYTHON is the interpreter of a
virtual environment with semble 0.7 (`pip install semble==0.7.0`): it runs there, apart from ours. Its own model comes
from a model hub; here it gets gitstrata's table in model2vec's format, pooled as model2vec does. It searches checked
out files; gitstrata's index is made from git, of whole repositories in either scope. Figures: NDCG@10 (mean of
repositories), CPU seconds of the client to index (the database's are not in it; next to nothing if the index is there
already), and milliseconds of a query (median).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
sys.path.insert(0, str(PROJECT / "scripts"))

import eval_search  # noqa: E402

from flows import settings as settings_module  # noqa: E402
from flows.embed.export import tokenizer_json  # noqa: E402
from flows.embed.static import MODEL_FOLDER, read_model  # noqa: E402
from flows.report import cpu_seconds  # noqa: E402
from mcp_tools import evaluation  # noqa: E402
from mcp_tools.cli_eval import places  # noqa: E402
from mcp_tools.evaluation import Place, Query  # noqa: E402
from mcp_tools.index import Index  # noqa: E402

_SAVE = """
import sys, numpy as np
from tokenizers import Tokenizer
from model2vec import StaticModel
folder = sys.argv[1]
model = StaticModel(np.load(folder + "/table.npy"), Tokenizer.from_file(folder + "/tokenizer.json"), normalize=True)
model.save_pretrained(folder + "/model")
"""
_SEARCH = """
import json, sys, time
from pathlib import Path
from semble.index.index import SembleIndex
job = json.load(sys.stdin)
before = time.process_time()
index = SembleIndex.from_path(job["folder"], model_path=job["model"])
spent, answers = time.process_time() - before, []
for query in job["queries"]:
    began = time.perf_counter()
    found = index.search(query, top_k=10)
    took = time.perf_counter() - began
    rows = [(Path(r.chunk.file_path).as_posix(), r.chunk.start_line, r.chunk.end_line) for r in found]
    answers.append([rows, took])
json.dump({"cpu": spent, "answers": answers}, sys.stdout)
"""


def main() -> None:
    """Measure both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--semble", type=Path, required=True, help="python of an environment with semble")
    parser.add_argument("--home", default=tempfile.gettempdir() + "/gs-peers", help="gitstrata's index is kept here")
    parser.add_argument("--scope", choices=("root", "whole"), default="root")
    given = parser.parse_args()
    queries = evaluation.read_queries(given.queries)
    print("| system | NDCG@10 | choosing half | reporting half | index, CPU s | query, median ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    ours(queries, given.folder, given.home, given.scope)
    with tempfile.TemporaryDirectory() as scratch:
        theirs(queries, given.folder, given.semble, given.scope, Path(scratch))


def ours(queries: list[Query], folder: Path, home: str, scope: str) -> None:
    """Index with gitstrata, unless it is there already, and search."""
    settings = settings_module.load({"GITSTRATA_HOME": home})
    before = cpu_seconds()
    eval_search.index_all(settings, folder, queries)
    spent = cpu_seconds() - before
    with Index(settings) as index:
        index.warm()
        scores = evaluation.run(queries, lambda query: places(index, query, whole=scope == "whole"))
    _print("gitstrata", queries, {s.query.id: s.ndcg for s in scores}, spent, [s.milliseconds for s in scores])


def theirs(queries: list[Query], folder: Path, python: Path, scope: str, scratch: Path) -> None:
    """Check each repository out, index the searched folder with semble and search."""
    model = _model(python, scratch)
    values: dict[str, float] = {}
    spent, times = 0.0, []
    groups: dict[tuple[str, str, str], list[Query]] = defaultdict(list)
    for query in queries:
        groups[query.repo, query.commit, query.root if scope == "root" else ""].append(query)
    for (repo, commit, root), some in sorted(groups.items()):
        place = folder / repo.replace("/", "+")
        repository = place / "repo" if (place / "repo").exists() else place
        checkout = scratch / repo.replace("/", "+")
        if not checkout.exists():
            checkout.mkdir()
            archive = subprocess.run(["git", "-C", repository, "archive", commit], check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
        job = {"folder": str(checkout / root), "model": str(model), "queries": [query.query for query in some]}
        done = subprocess.run(
            [python, "-c", _SEARCH], input=json.dumps(job), capture_output=True, text=True, check=True
        )
        answer = json.loads(done.stdout)
        spent += answer["cpu"]
        for query, (rows, took) in zip(some, answer["answers"], strict=True):
            found = [Place(f"{root}/{path}".lstrip("/"), start, end) for path, start, end in rows]
            values[query.id] = evaluation.ndcg(found, query.targets)
            times.append(took * 1000)
    _print("semble 0.7, our word vectors", queries, values, spent, times)


def _model(python: Path, scratch: Path) -> Path:
    import numpy as np

    _, vocabulary, table = read_model(MODEL_FOLDER)
    np.save(scratch / "table.npy", table)
    (scratch / "tokenizer.json").write_text(tokenizer_json(vocabulary), encoding="utf-8")
    subprocess.run([python, "-c", _SAVE, scratch], check=True)
    return scratch / "model"


def _print(name: str, queries: list[Query], values: dict[str, float], cpu: float, times: list[float]) -> None:
    every, choosing, reporting = eval_search.means(queries, values)
    median = statistics.median(times)
    print(f"| {name} | {every:.3f} | {choosing:.3f} | {reporting:.3f} | {cpu:.1f} | {median:.1f} |", flush=True)


if __name__ == "__main__":
    started = time.time()
    main()
    print(f"{time.time() - started:.0f} s", file=sys.stderr)
