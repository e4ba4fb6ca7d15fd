"""The rules of the ranking, one table each; and that each of them can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.store.read import Hit
from mcp_tools import rank, rules


def hit(
    path: str = "src/app.py", symbol: str = "", *, text: int = 1, lines: tuple[int, int] = (1, 9), **ranks: int
) -> Hit:
    language = "markdown" if path.endswith(".md") else "python"
    near, worded = ranks.get("near", 1), ranks.get("worded", 0)
    return Hit(1, path, language, 1, text, 2, symbol or "module", symbol, "", *lines, text, near, worded)


@pytest.mark.parametrize(
    ("query", "is_identifier", "identifiers"),
    [
        ("parse_retry_after", True, {"parseretryafter"}),
        ("ParseRetryAfter", True, {"parseretryafter"}),
        ("Session.send", True, {"send"}),
        ("std::Vec", True, {"vec"}),
        ("`url_for`", True, {"urlfor"}),
        ("where is parseRetryAfter defined?", False, {"parseretryafter"}),
        ("how are rules matched", False, set()),
        ("HTTP", True, {"http"}),
        ("", False, set()),
        ("?!", False, set()),
    ],
)
def test_what_a_question_names(query: str, is_identifier: bool, identifiers: set[str]) -> None:
    question = rules.read(query)
    assert (question.is_identifier, question.identifiers) == (is_identifier, identifiers)


@pytest.mark.parametrize(
    ("symbol", "query", "expected"),
    [
        ("Retry.parseRetryAfter", "parse_retry_after", rules.DEFINES),
        ("Retry.parseRetryAfter", "where is ParseRetryAfter defined", rules.NAMED),
        ("Retry.parse", "parse_retry_after", 1.0),
        ("", "module", 1.0),
    ],
)
def test_definitions_come_first(symbol: str, query: str, expected: float) -> None:
    assert rules.defines(hit(symbol=symbol), rules.read(query)) == expected


@pytest.mark.parametrize(
    ("path", "query", "aside"),
    [
        ("src/app.py", "open a file", False),
        ("tests/helper.py", "open a file", True),
        ("src/test_app.py", "open a file", True),
        ("src/app_test.go", "open a file", True),
        ("src/AppTest.java", "open a file", True),
        ("web/button.spec.ts", "open a file", True),
        ("docs/guide.md", "open a file", True),
        ("README.md", "open a file", True),
        ("examples/one.py", "open a file", True),
        ("src/compat.py", "open a file", True),
        ("tests/helper.py", "fixtures of the tests", False),
        ("docs/guide.md", "documentation of options", False),
        ("examples/one.py", "an example of a plugin", False),
        ("src/attest/contest.py", "open a file", False),  # only whole names of folders and parts of names count
        ("src/latest.py", "open a file", False),
    ],
)
def test_what_stands_aside_unless_asked_for(path: str, query: str, aside: bool) -> None:
    assert (rules.stands_aside(hit(path), rules.read(query)) < 1) == aside


@pytest.mark.parametrize(
    ("path", "category", "aside"),
    [
        ("docs/conf.py", "", True),
        ("docs/conf.py", "code", False),
        ("src/app.py", "docs", True),
        ("a.md", "code", False),
    ],
)
def test_what_gitattributes_calls_documentation_goes_before_paths(path: str, category: str, aside: bool) -> None:
    told = replace(hit(path), category=category)
    assert (rules.stands_aside(told, rules.read("open a file")) < 1) == aside
    assert rules.stands_aside(told, rules.read("documentation of files")) == 1


def test_names_of_files_and_folders_that_the_question_says() -> None:
    question = rules.read("how are connectors pooled")
    assert rules.says_its_name(hit("net/connector.py"), question) == 1 + rules.STEM
    assert rules.says_its_name(hit("connectors/x.py"), question) == 1 + rules.FOLDER
    assert rules.says_its_name(hit("net/other.py"), question) == 1.0
    assert rules.says_its_name(hit("net/connector.py"), rules.read("connector")) == 1.0  # an identifier asks for code


def test_a_file_that_answers_in_several_places_comes_first() -> None:
    many = [hit("a.py", text=n, lines=(n * 10, n * 10 + 5), near=n + 3) for n in range(1, 5)]
    one = hit("b.py", text=9, near=3)
    ranked = rank.rank([one, *many], rules.read("anything"))
    assert ranked[0].hit.path == "a.py"
    assert [row.hit.path for row in ranked].count("a.py") == rank.FILE_CAP


def test_the_order_is_total_and_does_not_depend_on_the_order_of_hits() -> None:
    hits = [hit(f"{name}.py", text=n, near=1 + n % 3) for n, name in enumerate("dacbfe")]
    expected = rank.rank(hits, rules.read("x y"))
    assert rank.rank(reversed(hits), rules.read("x y")) == expected
