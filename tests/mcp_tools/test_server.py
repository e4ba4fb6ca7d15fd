"""The MCP server as agents meet it: a process, a client session, and a database that may not be there."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flows.errors import UsageError
from flows.settings import Settings
from mcp_tools.index import Index
from mcp_tools.server import parse_toolsets
from tests.mcp_tools.conftest import ROOT, Client, connected, embedded, environment, in_memory, text_of

CODE_TOOLS = ["code_search", "search_code", "get_chunk", "find_related", "who_knows", "list_repos", "index_status"]
TOOLS = [*CODE_TOOLS, "query_knowledge_base", "add_case_reference"]
LOOP = "cerebrum_run_free_energy_loop"


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve") / "stderr"


@pytest.fixture(scope="module")
def client(served: Settings, errors: Path) -> Iterator[Client]:
    assert served.dsn
    with connected(errors, GITSTRATA_DSN=served.dsn) as opened:
        yield opened


def check_error(client: Client, tool: str, arguments: dict[str, object], message: str) -> None:
    result = client.call(tool, **arguments)
    text = text_of(result)
    assert result.is_error
    assert re.search(message, text), text
    assert "\n" not in text and "Traceback" not in text and len(text) < 1_000


# --- what a client is told -----------------------------------------------------------------------------------------


def test_the_tools_are_few_named_and_described(client: Client) -> None:
    tools = client.tools()
    assert [tool.name for tool in tools] == TOOLS
    for tool in tools:
        assert tool.title and tool.description and len(tool.description) < 1_000 and "  " not in tool.description
        assert tool.annotations is not None
        hints = tool.annotations.model_dump(exclude={"title"})
        adds = tool.name == "add_case_reference"
        assert hints == {
            "read_only_hint": not adds,
            "destructive_hint": False,
            "idempotent_hint": not adds,
            "open_world_hint": False,
        }


def test_what_a_client_is_told_is_pinned(library: Index, golden: Callable[[str, str], None]) -> None:
    """Names, descriptions, schemas and annotations of all toolsets, as a client gets them."""
    with in_memory(library, "code", "cases", "cerebrum") as opened:
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in opened.tools()]
    golden("tools", json.dumps(tools, indent=1))


def test_every_tool_and_parameter_is_documented(library: Index) -> None:
    lines = (ROOT / "docs/agents.md").read_text().split("\n")
    with in_memory(library, "code", "cases", "cerebrum") as opened:
        for tool in opened.tools():
            (line,) = [line for line in lines if line.startswith(f"| `{tool.name}` ")]
            assert not [name for name in tool.input_schema["properties"] if f"`{name}`" not in line]


@pytest.mark.parametrize(
    ("toolsets", "tools"),
    [
        (["cases"], TOOLS[-2:]),
        (["cases", "code"], TOOLS),  # the order is always the same
        (["cerebrum", "cases"], [*TOOLS[-2:], LOOP]),
    ],
)
def test_toolsets_choose_tools_and_what_is_said_of_them(library: Index, toolsets: list[str], tools: list[str]) -> None:
    with in_memory(library, *toolsets) as opened:
        assert [tool.name for tool in opened.tools()] == tools
        instructions = opened.session.instructions or ""
        assert {name for name in [*TOOLS, LOOP] if f"- {name}:" in instructions} == set(tools)


def test_an_unknown_toolset_is_told_with_the_nearest() -> None:
    assert parse_toolsets(" cases, code,") == ("cases", "code")
    with pytest.raises(UsageError, match=r"unknown toolset 'case': did you mean 'cases'\? There are code, cases, cer"):
        parse_toolsets("code,case")
    with pytest.raises(UsageError, match="no toolset is named: there are code"):
        parse_toolsets(",")


def test_the_process_takes_toolsets(served: Settings, errors: Path) -> None:
    with connected(errors, "--toolsets", "cerebrum", GITSTRATA_DSN=served.dsn or "") as opened:
        assert [tool.name for tool in opened.tools()] == [LOOP]
        assert opened.call(LOOP, observation={"sensor": 0}).structured_content["converged"] is True


def test_input_schemas_suit_every_provider(client: Client) -> None:
    for tool in client.tools():
        schema = tool.input_schema
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert tool.name != LOOP, "not in the default toolsets: its observation is an open object"
        assert not re.search(r'"(anyOf|oneOf|allOf|null|\$ref|\$defs)"', json.dumps(schema))
        for name, parameter in schema["properties"].items():
            assert parameter["type"] in ("string", "integer", "array", "boolean"), name
            assert len(parameter["description"]) > 10, name
            assert ("default" in parameter) == (name not in schema.get("required", [])), name
        jsonschema.Draft202012Validator.check_schema(schema)
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


def test_instructions_say_which_tool_and_when_grep_is_better(client: Client) -> None:
    instructions = client.session.instructions or ""
    assert all(tool in instructions for tool in TOOLS) and "grep" in instructions
    assert len(instructions) < 2_000


# --- answers -------------------------------------------------------------------------------------------------------


def test_structured_content_fits_its_schema_and_the_text_has_its_facts(client: Client) -> None:
    # P120: some clients show the model only one of the two
    schemas = {tool.name: tool.output_schema for tool in client.tools()}
    calls: list[tuple[str, dict[str, object]]] = [
        ("code_search", {"query": "how long to wait before a request is sent again", "limit": 3}),
        ("code_search", {"query": "retry", "paths": ["nowhere"]}),
        ("search_code", {"pattern": "retry", "limit": 4}),
        ("search_code", {"pattern": "RetryPolicy.wait"}),
        ("search_code", {"pattern": "no such text", "repo": "acme/http"}),
        ("search_code", {"paths": ["src", "*.png"]}),
        ("get_chunk", {"source_id": "src/retry.py#RetryPolicy.wait"}),
        ("get_chunk", {"source_id": "src/retry.py", "max_chars": 20}),
        ("index_status", {}),
        ("index_status", {"repo": "acme/copy"}),
        ("list_repos", {}),
        ("list_repos", {"name_contains": "nothing like it"}),
        ("add_case_reference", {"concept": "retry storms", "solution": "add jitter\nto the wait"}),
        ("query_knowledge_base", {"query": "storms of retries"}),
    ]
    for tool, arguments in calls:
        result = client.call(tool, **arguments)
        text = text_of(result)
        assert not result.is_error, text
        assert result.structured_content
        jsonschema.validate(result.structured_content, schemas[tool])
        for key, value in leaves(result.structured_content):
            assert shown(key, value) in text, (tool, key, value)


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, key)
    else:
        yield key, value


def shown(key: str, value: Any) -> str:
    """Return what must stand in the text for a value of the structured content."""
    if isinstance(value, bool):
        return ("exact" if key == "exact" else "truncated") if value else ""
    if isinstance(value, float):
        return f"{value:g}"
    if key in ("commit", "head"):
        return str(value)[:12]
    return value.rpartition("#")[2] if key == "url" else str(value)


def test_rows_of_text_and_structure_agree(client: Client) -> None:
    result = client.call("code_search", query="retry after header", limit=10)
    assert result.structured_content is not None
    rows = result.structured_content["result"]
    lines = text_of(result).split("\n")
    assert len(rows) == 10
    for n, row in enumerate(rows, 1):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{n}. "))
        place = row["url"].rpartition("#")[2]
        for fact in (row["repo"], row["source_id"], f"[{place}]", row["level"], row["language"], f"{row['score']:g}"):
            assert f" {fact}" in lines[at]
        assert lines[at + 1].strip() == row["snippet"]


ROWS, DEFINITIONS = 3, 4  # characters a token, less than a real tokenizer was seen to take: 3.2 and 4.3 by o200k


def tokens(text: str, characters: int) -> float:
    return len(text) / characters


def test_ten_rows_cost_few_tokens(client: Client) -> None:
    result = client.call("code_search", query="retry after header", limit=10)
    assert result.structured_content and len(result.structured_content["result"]) == 10
    assert tokens(text_of(result), ROWS) < 1_000
    assert tokens(json.dumps(result.structured_content), ROWS) < 1_500


def test_the_default_toolsets_cost_few_tokens(client: Client) -> None:
    tools = [tool.model_dump(by_alias=True, exclude_none=True, exclude={"output_schema"}) for tool in client.tools()]
    assert tokens(json.dumps(tools), DEFINITIONS) < 2_500


def test_a_question_and_its_code(client: Client) -> None:
    found = client.call("code_search", query="how long to wait before the request is sent again", repo="acme/http")
    assert found.structured_content is not None
    first = found.structured_content["result"][0]
    assert first["source_id"].startswith("src/retry.py#")
    chunk = client.call("get_chunk", source_id=first["url"], repo=first["repo"], level="class")
    assert "def parse_retry_after" in text_of(chunk)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (
            "code_search",
            {"query": "x", "repository": "acme/http"},
            "unknown argument 'repository': did you mean 'repo'",
        ),
        ("code_search", {"query": "x", "lang": ["go"]}, r"unknown argument 'lang': .*languages"),
        ("get_chunk", {"id": "x"}, r"unknown argument 'id': .*source_id"),
        ("index_status", {"branch": "main"}, "unknown argument 'branch': Valid arguments: repo"),
        ("code_search", {}, "query: .*required"),
        ("code_search", {"query": 5}, "query: .*string"),
        ("code_search", {"query": None}, "query: .*string"),
        ("code_search", {"query": "x", "limit": "many"}, "limit: .*integer"),
        ("code_search", {"query": "x", "paths": "src"}, "paths: .*list"),
        ("code_search", {"query": "x", "limit": 51}, "limit is 51: use 1 to 50"),
        ("code_search", {"query": "x", "limit": 10**30}, "limit"),
        ("code_search", {"query": "x", "repo": "acme/htp"}, "unknown repo 'acme/htp': did you mean 'acme/http'"),
        ("code_search", {"query": "x\0", "repo": "\0"}, "cannot be looked up"),
        ("search_code", {"pattern": "a(b"}, "no regular expression at character 2: missing"),
        ("search_code", {"query": "x"}, "unknown argument 'query': Valid arguments: pattern"),
        ("search_code", {}, "the pattern is empty: .* or paths to list files"),
        ("search_code", {"pattern": "x", "regex": True}, "unknown argument 'regex'"),
        ("get_chunk", {"source_id": "../../etc/passwd"}, "is no source_id"),
        ("get_chunk", {"source_id": "src/retry.py#nope"}, r"no 'nope' in src/retry\.py; it has: RetryPolicy"),
        ("list_repos", {"name": "x"}, "unknown argument 'name': did you mean 'name_contains'"),
        ("list_repos", {"cursor": "x"}, "this cursor is not one of ours"),
        ("list_repos", {"project": "x"}, "unknown project 'x': no projects are configured"),
        ("search_everything", {}, "unknown tool 'search_everything': there are code_search, search_code, get_chunk"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    client: Client, tool: str, arguments: dict[str, object], message: str
) -> None:
    check_error(client, tool, arguments, message)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("query_knowledge_base", {"query": " "}, "query is empty"),
        ("query_knowledge_base", {"query": "x", "limit": 101}, "limit is 101: use 1 to 100"),
        ("query_knowledge_base", {"query": "x" * 1_000_000}, "query has 1000000 characters: use at most 4000"),
        ("query_knowledge_base", {"quest": "x"}, "unknown argument 'quest': did you mean 'query'"),
        ("query_knowledge_base", {}, "query: Field required"),
        ("add_case_reference", {"concept": "x"}, "solution: Field required"),
        ("add_case_reference", {"concept": "x", "solution": None}, "solution: .*string"),
        ("add_case_reference", {"concept": "x", "solution": "\0"}, "solution is empty"),
    ],
)
def test_case_tools_keep_the_form_of_the_seed(
    client: Client, tool: str, arguments: dict[str, object], message: str
) -> None:
    result = client.call(tool, **arguments)
    assert result.is_error and result.structured_content is not None
    assert set(result.structured_content) == {"status", "message"}
    assert result.structured_content["status"] == "error"
    assert re.search(message, result.structured_content["message"])
    assert json.loads(text_of(result)) == result.structured_content
    assert "\n" not in text_of(result)


def test_calls_in_a_row_and_at_once(client: Client) -> None:
    queries = ["retry", "header", "client", "policy", "proxy", "wait", "unit", "guide", "first", "second"]
    one_by_one = [client.call("code_search", query=query).structured_content for query in queries]
    at_once = client.calls("code_search", [{"query": query} for query in queries[:8]])
    assert [result.structured_content for result in at_once] == one_by_one[:8]
    assert all(answer and answer["result"] for answer in one_by_one)


def test_nothing_was_logged_as_unexpected(client: Client, errors: Path) -> None:
    assert "Traceback" not in errors.read_text()


# --- the process ---------------------------------------------------------------------------------------------------


class Raw:
    """A server process spoken to line by line."""

    def __init__(self, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcp_tools.cli", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**variables),
        )
        self.lines: list[bytes] = []
        self.send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "0"})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        assert self.process.stdout is not None
        number = len(self.lines) + 1
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        assert select.select([self.process.stdout], [], [], 15)[0], f"no answer to {method}"
        line = self.process.stdout.readline()
        self.lines.append(line)
        answer: dict[str, Any] = json.loads(line)
        assert answer["id"] == number
        return answer

    def close(self) -> tuple[bytes, bytes]:
        """Close its input, as a client that goes away does; return what was left on its outputs."""
        return self.process.communicate(timeout=10)


def test_the_process_prints_only_messages_and_maps_no_torch_or_cocoindex(served: Settings) -> None:
    raw = Raw(GITSTRATA_DSN=served.dsn or "")
    assert raw.send("tools/list")["result"]["tools"]
    for query in ("retry", "😀 \u2028 \0", "x" * 10_000):
        answer = raw.send("tools/call", name="code_search", arguments={"query": query})
        assert "result" in answer or "error" in answer
    raw.send("tools/call", name="get_chunk", arguments={"source_id": "src/retry.py"})
    maps = Path(f"/proc/{raw.process.pid}/maps")
    if maps.exists():
        assert not re.search(r"/(torch|cocoindex|sentence_transformers|sklearn|scipy)/", maps.read_text())
    out, log = raw.close()
    assert raw.process.returncode == 0
    assert out == b"" and b"Traceback" not in log


def test_building_the_server_imports_nothing_heavy() -> None:
    code = (
        "import sys; from flows import settings; from mcp_tools.index import Index; from mcp_tools.server import"
        " build_server; build_server(Index(settings.load())); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "cocoindex", "numpy", "psycopg", "git", "yoyo", "tree_sitter"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_in_one_line(served: Settings, number: signal.Signals) -> None:
    raw = Raw(GITSTRATA_DSN=served.dsn or "")
    raw.send("tools/list")
    raw.process.send_signal(number)
    assert raw.process.wait(10) == 130  # although its input is still open
    out, log = raw.close()
    assert out == b"" and log.count(b"\n") <= 1 and b"Traceback" not in log


# --- a database that is not there ----------------------------------------------------------------------------------


def test_the_server_starts_without_a_database_and_works_when_it_comes(server: str, errors: Path) -> None:
    dsn = make_conninfo(server, dbname="comes_later")
    with connected(errors, GITSTRATA_DSN=dsn) as client:
        assert [tool.name for tool in client.tools()] == TOOLS
        check_error(client, "code_search", {"query": "x"}, "cannot connect to database comes_later at .*does not exist")
        check_error(client, "index_status", {}, "cannot connect to database comes_later")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("create database comes_later template template_gitstrata")
        empty = client.call("code_search", query="x")
        assert "The index is empty" in text_of(empty) and not empty.is_error
        assert "state empty" in text_of(client.call("index_status"))
        check_error(client, "get_chunk", {"source_id": "a.py"}, "The index is empty")


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("host=127.0.0.1 port=1 dbname=x password=hush", "cannot connect to database x at 127.0.0.1:1: .*refused"),
        ("postgresql://me:hush@localhost:1/x", "cannot connect to database x at localhost:1"),
        ("not a dsn hush", "GITSTRATA_DSN is not a connection string"),
    ],
)
def test_an_unreachable_database_is_one_sentence_without_its_password(errors: Path, dsn: str, message: str) -> None:
    with connected(errors, GITSTRATA_DSN=dsn) as client:
        check_error(client, "code_search", {"query": "x"}, message)
        assert "hush" not in text_of(client.call("index_status"))
    assert "hush" not in errors.read_text()


def test_a_postgres_that_was_killed_comes_back(tmp_path: Path, errors: Path) -> None:
    home = tmp_path / "home"
    with embedded(home) as database, connected(errors, GITSTRATA_HOME=str(home)) as client:
        assert "The index is empty" in text_of(client.call("code_search", query="x"))
        pid = database.status().pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        started = time.monotonic()
        while database.status().pid in (None, pid):  # a backend outlives its postmaster for a moment, and answers
            answer = client.call("code_search", query="x")
            assert not answer.is_error or "\n" not in text_of(answer)
            assert time.monotonic() - started < 15
        last = client.call("code_search", query="x")
        assert "The index is empty" in text_of(last) and not last.is_error
    assert "Traceback" not in errors.read_text()


def test_connections_cut_between_two_calls_are_made_again(served: Settings, errors: Path) -> None:
    dsn = served.dsn or ""
    with connected(errors, GITSTRATA_DSN=make_conninfo(dsn, application_name="cut_me")) as client:
        before = text_of(client.call("code_search", query="retry"))
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        assert text_of(client.call("code_search", query="retry")) == before
