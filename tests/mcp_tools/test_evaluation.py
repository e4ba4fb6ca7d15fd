"""gitstrata eval: query files, the metric, and the ranking of a small set of queries kept in a golden file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.errors import UsageError
from mcp_tools import cli_eval, evaluation
from mcp_tools.evaluation import Place, Query, Target
from mcp_tools.index import Index

QUERIES = Path(__file__).parent / "golden" / "queries.jsonl"
TOP = 5


def query(*targets: Target) -> Query:
    return Query(id="q", repo="r", query="x", relevant=list(targets))


def test_the_ranking_is_as_before(library: Index, golden: Callable[[str, str], None]) -> None:
    rows = evaluation.read_queries(QUERIES)
    lines = []
    for row in rows:
        places = cli_eval.places(library, row, whole=False)
        lines.append(f"{row.id}: {row.query}  NDCG@10 {evaluation.score(row, places).ndcg:.3f}")
        lines += [f"   {place.path} {place.start}-{place.end}" for place in places[:TOP]]
    golden("ranking", "\n".join(lines))


def test_a_report_has_every_figure(library: Index) -> None:
    rows = evaluation.read_queries(QUERIES)
    found = evaluation.report(evaluation.run(rows, lambda row: cli_eval.places(library, row, whole=False)))
    assert found["all"]["queries"] == len(rows) and found["by_repo"]["acme/pictures"]["ndcg"] == 0
    assert set(found["by_category"]) == {"symbol", "semantic"} and "go" in found["by_language"]
    assert found["all"]["ndcg"] > 0.5
    budgets = list(found["all"]["recall_by_tokens"].values())
    assert budgets == sorted(budgets)
    assert json.loads(json.dumps(found)) == found
    assert "by category" in evaluation.text(found) and "p95" in evaluation.text(found)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([Place("a.py", 1, 9)], 1.0),
        ([Place("b.py", 1, 9), Place("a.py", 1, 9)], 0.631),
        ([Place("b.py", 1, 9), Place("b.py", 10, 19), Place("src/a.py", 1, 9)], 0.5),  # the end of a path is enough
        ([Place("ba.py", 1, 9)], 0.0),
        ([Place("b.py", 1, 9)] * 10 + [Place("a.py", 1, 9)], 0.0),
        ([], 0.0),
    ],
)
def test_the_gain_of_a_file_falls_with_its_rank(places: list[Place], expected: float) -> None:
    assert evaluation.ndcg(places, [Target(path="a.py")]) == pytest.approx(expected, abs=5e-4)


def test_lines_must_be_shared_where_a_target_has_lines() -> None:
    target = Target(path="a.py", start=10, end=12)
    assert evaluation.covers(Place("a.py", 12, 20), target) and evaluation.covers(Place("a.py", 1, 10), target)
    assert not evaluation.covers(Place("a.py", 1, 9), target) and not evaluation.covers(Place("a.py", 13, 20), target)


def test_a_budget_counts_only_rows_that_fit() -> None:
    places = [Place("b.py", 1, 2, 400), Place("a.py", 1, 2, 400)]
    found = evaluation.score(query(Target(path="a.py")), places)
    assert found.by_budget == {500: 0.0, 1_000: 1.0, 2_000: 1.0, 4_000: 1.0}
    assert (found.recall, found.reciprocal_rank) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no query"),
        ("{", "line 1: no JSON object"),
        ("[]", "line 1: row"),
        ('{"id": "a", "repo": "r", "query": "x"}', "line 1: relevant: Field required"),
        ('{"id": "a", "repo": "r", "query": "x", "relevant": []}', "line 1: relevant is empty"),
        ('{"id": "a", "repo": "r", "query": "", "relevant": [{"path": "p"}]}', "line 1: query"),
        ('\n{"id": "a", "repo": "r", "query": "x", "relevant": [{"path": 3}]}', "line 2: relevant.0.path"),
        ('{"id": "a", "repo": "r", "query": "x", "relevant": [{"path": "p"}]}\n' * 2, "line 2: the id 'a'"),
        ("[" * 100_000, "line 1: no JSON object"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=said) as raised:
        evaluation.read_queries(file)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        evaluation.read_queries(tmp_path / "none.jsonl")
