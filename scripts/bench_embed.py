"""Measure an embedding model on a folder of Python source: speed, memory, and finding functions by their docstrings."""

from __future__ import annotations

import argparse
import ast
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flows.embed import Embedder, load_embedder
from flows.errors import EmbedderError

TEXT_CHARS = 900
MAX_SPEED_TEXTS = 30_000
BATCH = 512


def main() -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of Python source, outside the training manifest")
    parser.add_argument("--model", default="", help="sentence-transformers name or folder (default: the shipped model)")
    parser.add_argument("--functions", type=int, default=8_000, help="size of the searched set (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=1_500, help="docstrings searched for (default: %(default)s)")
    parser.add_argument("--texts", type=int, default=MAX_SPEED_TEXTS, help="texts to time (default: %(default)s)")
    options = parser.parse_args()
    files = [path.read_text(encoding="utf-8", errors="replace") for path in _python_files(options.folders)]
    texts = [file[start : start + TEXT_CHARS] for file in files for start in range(0, len(file), TEXT_CHARS)]
    memory, wall = _megabytes(), time.perf_counter()
    try:
        embedder = load_embedder(options.model)
    except EmbedderError as error:
        print(f"bench_embed: {error}", file=sys.stderr)
        return 1
    print(f"{embedder.name}: {embedder.dimension} dimensions, loaded in {(time.perf_counter() - wall) * 1e3:.0f} ms")
    measure_speed(embedder, texts[: options.texts])
    print(f"memory: {_megabytes() - memory:.0f} MB above the start, at the most")
    measure_docstrings(embedder, files, options.functions, options.queries)
    return 0


def _python_files(folders: list[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py")) if "test" not in path.as_posix()]


def _megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def measure_speed(embedder: Embedder, texts: list[str]) -> None:
    """Print texts and MB of source per CPU second of this process, all threads together."""
    start = time.process_time()
    for first in range(0, len(texts), BATCH):
        embedder.embed_documents(texts[first : first + BATCH])
    seconds = time.process_time() - start
    megabytes = sum(len(text.encode("utf-8", "replace")) for text in texts) / 1e6
    print(f"speed: {len(texts) / seconds:,.0f} texts, {megabytes / seconds:.2f} MB a CPU second ({len(texts)} texts)")


def measure_docstrings(embedder: Embedder, files: list[str], functions: int, queries: int) -> None:
    """Print how well the first sentence of a docstring finds its function, the docstring taken out."""
    pairs = sorted({pair for file in files for pair in _documented(file)})
    random.Random(1).shuffle(pairs)
    pairs = pairs[:functions]
    documents = embedder.embed_documents([code for _, code in pairs])
    wanted = np.stack([embedder.embed_query(sentence) for sentence, _ in pairs[:queries]])
    nearness = wanted @ documents.T
    own = nearness[np.arange(len(wanted)), np.arange(len(wanted))]
    ranks = 1 + (nearness > own[:, None]).sum(axis=1)
    found = ranks <= 10
    print(
        f"docstring to function: MRR@10 {np.where(found, 1 / ranks, 0).mean():.3f}, recall@10 {found.mean():.3f} "
        f"({len(wanted)} queries, {len(pairs)} functions)"
    )


def _documented(source: str) -> Iterator[tuple[str, str]]:
    """Yield (first sentence, code without docstring, at most 2,000 characters) of each documented function."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node)):
            sentence = " ".join(doc.split("\n\n")[0].split(". ")[0].split())
            docstring = node.body[0]
            code = lines[node.lineno - 1 : docstring.lineno - 1] + lines[docstring.end_lineno : node.end_lineno]
            if 20 < len(sentence) < 200 and len(node.body) > 1:
                yield sentence, "\n".join(code)[:2_000]


if __name__ == "__main__":
    sys.exit(main())
