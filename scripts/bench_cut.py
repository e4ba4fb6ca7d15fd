"""Cut every text file of repositories at HEAD and print what it costs and what comes out.

    .venv/bin/python scripts/bench_cut.py PATH ...

For each repository: files and MB of code with a grammar, CPU seconds of tree-sitter's parse alone and of the whole cut,
MB per CPU second, the share of code lines in a chunk that belongs to a symbol, chunk sizes, the files that fell back.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import tree_sitter  # noqa: E402

from chunkers import languages  # noqa: E402
from chunkers.chunk import Chunk  # noqa: E402
from chunkers.cut import cut  # noqa: E402
from flows import git, policy, select  # noqa: E402
from flows.decode import decode  # noqa: E402
from flows.select import Keep, Rules  # noqa: E402


def main() -> None:
    """Measure each repository and print a row of a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    print(
        "| repository | code files | MB | parse s | cut s | cut/parse | MB/CPU s | files/CPU s | symbol lines |"
        " chunks | chars p50 / p95 / max | fell back |"
    )
    print("| --- " * 12 + "|")
    for path in parser.parse_args().paths:
        print(measure(Path(path)), flush=True)


def texts(path: Path) -> list[tuple[str, str]]:
    """Return (language, text) of every file that selection keeps and that has a grammar."""
    repository, rules = git.open_repository(path), Rules()
    found = []
    with git.ObjectReader(repository) as reader:
        entries = git.list_tree(repository, git.resolve(repository).sha)
        told = policy.read(repository, entries)
        for entry in entries:
            kept = select.by_path(entry, rules, told)
            if not isinstance(kept, Keep):
                continue
            raw = reader.read(entry.oid)
            text, facts = decode(raw)
            decision = select.by_facts(kept, len(raw), facts, rules)
            if isinstance(decision, Keep) and languages.get(decision.language).grammar is not None:
                found.append((decision.language, text))
    return found


def measure(path: Path) -> str:
    """Return the row of one repository."""
    files = texts(path)
    for language in {language for language, _ in files}:
        cut("x", language)  # grammars and queries are loaded once a process
    start = time.process_time()
    for language, text in files:
        grammar = languages.get(language).grammar
        assert grammar is not None
        tree_sitter.Parser(grammar.load()).parse(text.encode())
    parsed = time.process_time() - start
    start = time.process_time()
    cuts = [cut(text, language) for language, text in files]
    spent = time.process_time() - start
    chunks = [chunk for made in cuts for chunk in made.chunks]
    sizes = sorted(len(chunk.text) for chunk in chunks) or [0]
    lines = sum(_code_lines(text) for _, text in files)
    named = sum(_named_lines(made.chunks, text) for made, (_, text) in zip(cuts, files, strict=True))
    size = sum(len(text.encode()) for _, text in files) / 1e6
    name = path.parent.name if path.name == "repo" else path.name
    fell = sum(bool(made.fallback) for made in cuts)
    return (
        f"| {name} | {len(files)} | {size:.2f} | {parsed:.2f} | {spent:.2f} | {spent / max(parsed, 1e-9):.1f} |"
        f" {size / spent:.1f} | {len(files) / spent:.0f} | {named / max(lines, 1):.1%} | {len(chunks)} |"
        f" {statistics.median(sizes):.0f} / {sizes[int(len(sizes) * 0.95)]} / {sizes[-1]} | {fell} |"
    )


def _code_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if any(map(str.isalnum, line)))


def _named_lines(chunks: tuple[Chunk, ...], text: str) -> int:
    """Count the lines with a letter or digit that lie in a chunk of a class, method or block of a symbol."""
    covered: set[int] = set()
    for chunk in chunks:
        if chunk.symbol:
            covered.update(range(chunk.start_line, chunk.end_line + 1))
    return sum(1 for n, line in enumerate(text.split("\n"), 1) if n in covered and any(map(str.isalnum, line)))


if __name__ == "__main__":
    main()
