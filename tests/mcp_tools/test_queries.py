"""Whatever is asked: rows or one sentence, never an error of the database; and an answer of ten rows stays small."""

from __future__ import annotations

import json

import pytest

from flows.errors import UsageError
from mcp_tools import render
from mcp_tools.code_search import code_search
from mcp_tools.index import Index

CHARS_A_TOKEN = 4
QUERIES = {
    "one letter": "a",
    "1,000 characters": "retry the request " * 56,
    "only stop words": "the of and to a in is it",
    "only punctuation": "?!.,;:()[]{}<>|&*'\"\\/-_=+~`@#$%^",
    "operators of full text": "'a' & !b | (c <-> d):* \\'; ''",
    "SQL": "'; drop table text; -- select * from file where path = 'x'",
    "stack trace": 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nValueError: bad header\n'
    * 5,
    "a function": "def parse_retry_after(header: str) -> float:\n    return float(header)\n",
    "CJK": "重試標頭 リトライ 재시도",
    "emoji": "🔥🚀",
    "a regex": r"^\s*def\s+(\w+)\((?P<args>[^)]*)\)\s*->.*$",
    "NUL and a surrogate": "a\0b \ud800",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_any_query_gets_rows_or_one_sentence(library: Index, query: str) -> None:
    answer = code_search(library, query)
    assert answer.result or (answer.note and "\n" not in answer.note)


@pytest.mark.parametrize("query", ["", "   ", "\0"])
def test_no_query_is_one_sentence(library: Index, query: str) -> None:
    with pytest.raises(UsageError, match="the query is empty"):
        code_search(library, query)


def test_ten_rows_are_a_small_answer(library: Index) -> None:
    answer = code_search(library, "the header of a request, its retry, a queue and an event", limit=10)
    assert len(answer.result) == 10
    assert len(render.search_text(answer)) / CHARS_A_TOKEN < 1_000
    assert len(json.dumps(answer.model_dump())) / CHARS_A_TOKEN < 1_500
