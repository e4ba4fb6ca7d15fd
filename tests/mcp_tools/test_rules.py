"""The rules of the ranking, one table each; and that each of them can fail."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
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
    ("symbol", "path", "level", "query", "expected"),
    [
        ("Retry.parseRetryAfter", "src/app.py", 2, "parseRetryAfter", rules.DEFINES),
        ("Retry.parseRetryAfter", "src/app.py", 2, "parse_retry_after", 1.0),  # spelt otherwise
        ("Retry.parse", "src/app.py", 2, "parseRetryAfter", 1.0),
        ("", "src/app.py", 2, "module", 1.0),
        ("http.Router", "src/app.py", 1, "Router", rules.DEFINES * rules.IS_TYPE),
        ("http.router", "src/app.py", 1, "router", rules.DEFINES),  # a type, but not asked for as one
        ("http.Router", "src/router.py", 1, "Router", rules.DEFINES * rules.IS_TYPE * rules.OWN_FILE),
        ("_route", "src/app.py", 2, "route", rules.DEFINES),
        ("Router", "src/app.py", 3, "Router", 1.0),  # a later piece of it
    ],
)
def test_definitions_come_first(symbol: str, path: str, level: int, query: str, expected: float) -> None:
    assert rules.defines(replace(hit(path, symbol), level=level), rules.read(query)) == expected


def test_definitions_that_a_question_mentions() -> None:
    question = rules.read("where is ParseRetryAfter defined")
    assert rules.mentions(hit(symbol="Retry.parse_retry_after"), question) == rules.NAMED
    assert rules.mentions(hit(symbol="Retry.parse"), question) == 1.0


def test_a_file_called_like_the_identifier() -> None:
    assert rules.is_called_so(hit("lib/response.js"), rules.read("Response")) == rules.FILE_NAMED
    assert rules.is_called_so(hit("lib/responses.js"), rules.read("Response")) == 1.0


@pytest.mark.parametrize(
    ("symbol", "query", "of_name", "of_question"),
    [
        ("Client.send_request", "how a request is sent", 0.5, 0.5),  # sent is no form of send to a stemmer
        ("Client.routing_table", "table of the router", 1.0, 1.0),
        ("Client.close", "table of the router", 0.0, 0.0),
        ("route", "table of the router", 1.0, 0.5),
        ("get", "getter", 0.0, 0.0),  # three letters are too few to be a beginning
    ],
)
def test_names_of_definitions_that_the_question_says(
    symbol: str, query: str, of_name: float, of_question: float
) -> None:
    expected = 1 + rules.SAYS_SYMBOL * of_name * of_question**0.5
    assert rules.says_symbol(hit(symbol=symbol), rules.read(query)) == pytest.approx(expected)


def test_threads_that_stem_at_once_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["how are relational databases configured", "routing of requests", "authenticating connections quickly"]
    expected = [rules.read(query) for query in asked]
    monkeypatch.setattr(rules, "_stem", rules._stem.__wrapped__)  # without what is remembered
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: [rules.read(query) for query in asked], range(200)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [expected] * 200


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
    assert rules.says_path(hit("net/connector.py"), question) == 1 + rules.STEM
    assert rules.says_path(hit("connectors/x.py"), question) == 1 + rules.FOLDER
    assert rules.says_path(hit("net/other.py"), question) == 1.0
    assert rules.factors([hit("net/connector.py")], rules.read("pool")) == [1.0]  # an identifier asks for code


def test_a_definition_found_by_name_keeps_its_other_ranks() -> None:
    merged = hit("a.py", symbol="first", near=3)
    found = replace(merged, near=0, named=2, symbol="second", signature="def second()")
    other = replace(hit("b.py", symbol="second", near=0), named=1)
    both = rank.add_named([merged], [other, found])
    assert [(h.path, h.near, h.named, h.symbol) for h in both] == [("a.py", 3, 2, "second"), ("b.py", 0, 1, "second")]


def test_a_file_that_is_alike_as_a_whole_comes_before_its_equal() -> None:
    one, two = replace(hit("a.py"), cut_id=1), replace(hit("b.py", text=2), cut_id=2)
    assert [row.hit.path for row in rank.rank([one, two], rules.read("x y"), {1: 0.1, 2: 0.2})] == ["b.py", "a.py"]
    assert [row.hit.path for row in rank.rank([one, two], rules.read("x y"), {1: 0.2, 2: 0.2})] == ["a.py", "b.py"]


def test_a_file_that_was_changed_for_the_like_comes_before_its_equal() -> None:
    one, two = replace(hit("a.py"), cut_id=1), replace(hit("b.py", text=2), cut_id=2)
    past = {(two.branch_id, "b.py"): 0.5}
    assert [row.hit.path for row in rank.rank([one, two], rules.read("x y"), past=past)] == ["b.py", "a.py"]


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
