"""Tools are found by clients that do not show them all at once, but look for them by words."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from chunkers import words
from mcp_tools.rules import STOP

# What else such a client offers: names and descriptions as common agents have them, in our words.
OTHERS = {
    "read_file": "Read a file from the local file system.",
    "write_file": "Write a file to the local file system.",
    "edit_file": "Replace text in a local file.",
    "list_directory": "List files and folders of a local directory.",
    "run_command": "Run a shell command and return its output.",
    "web_search": "Search the web and return pages.",
    "fetch_url": "Fetch a page by its URL and return it as text.",
    "create_issue": "Create an issue in a tracker.",
    "send_message": "Send a message to a channel or a person.",
    "query_database": "Run a read-only SQL query.",
}
ASKED = [  # P107: ten phrasings
    ("code_search", "search code by meaning"),
    ("code_search", "find where retries are implemented in our repositories"),
    ("code_search", "semantic code search"),
    ("search_code", "find all occurrences of a string in code"),
    ("search_code", "grep a regular expression across repositories"),
    ("who_knows", "who knows about this module"),
    ("who_knows", "find the people to ask about code, its experts"),
    ("get_chunk", "read the code behind a search hit"),
    ("find_related", "find code similar to this function"),
    ("list_repos", "which repositories are indexed"),
]


@pytest.fixture(scope="module")
def tools() -> dict[str, Counter[str]]:
    """Words of each tool: those of its name count three times, as deferred tool search weighs names most."""
    listed = json.loads((Path(__file__).parent / "golden" / "tools.txt").read_text("utf-8"))
    texts = {tool["name"]: f"{tool['title']} {tool['description']}" for tool in listed} | OTHERS
    return {name: Counter(_split(name) * 3 + _split(text)) for name, text in texts.items()}


def _split(text: str) -> list[str]:
    return [word for word in words.parts(text) if word not in STOP]


@pytest.mark.parametrize(("tool", "phrase"), ASKED)
def test_a_tool_is_among_the_first_two_for_what_it_does(tools: dict[str, Counter[str]], tool: str, phrase: str) -> None:
    asked = set(_split(phrase))
    rarity = {word: math.log(1 + len(tools) / (1 + sum(word in text for text in tools.values()))) for word in asked}
    mean = sum(text.total() for text in tools.values()) / len(tools)

    def score(name: str) -> float:
        text = tools[name]
        norm = 1.2 * (0.25 + 0.75 * text.total() / mean)
        return sum(rarity[word] * 2.2 * text[word] / (text[word] + norm) for word in asked)

    best = sorted(tools, key=lambda name: (-score(name), name))[:2]
    assert tool in best, (phrase, best)
