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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flows.settings import Settings
from tests.mcp_tools.conftest import Client, connected, embedded, environment, text_of

TOOLS = ["code_search", "get_chunk", "who_knows", "index_status"]


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
        assert hints == {
            "read_only_hint": True,
            "destructive_hint": False,
            "idempotent_hint": True,
            "open_world_hint": False,
        }


def test_input_schemas_suit_every_provider(client: Client) -> None:
    for tool in client.tools():
        schema = tool.input_schema
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert not re.search(r'"(anyOf|oneOf|allOf|null|\$ref|\$defs)"', json.dumps(schema))
        for name, parameter in schema["properties"].items():
            assert parameter["type"] in ("string", "integer", "array"), name
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
        ("get_chunk", {"source_id": "src/retry.py#RetryPolicy.wait"}),
        ("get_chunk", {"source_id": "src/retry.py", "max_chars": 20}),
        ("index_status", {}),
        ("index_status", {"repo": "acme/copy"}),
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
        return "truncated" if value else ""
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


def test_ten_rows_cost_few_tokens(client: Client) -> None:
    result = client.call("code_search", query="retry after header", limit=10)
    assert len(text_of(result)) / 4 < 1_000
    assert len(json.dumps(result.structured_content)) / 4 < 1_500


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
        ("get_chunk", {"source_id": "../../etc/passwd"}, "is no source_id"),
        ("get_chunk", {"source_id": "src/retry.py#nope"}, r"no 'nope' in src/retry\.py; it has: RetryPolicy"),
        ("search_everything", {}, "unknown tool 'search_everything': there are code_search, get_chunk"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    client: Client, tool: str, arguments: dict[str, object], message: str
) -> None:
    check_error(client, tool, arguments, message)


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
        first = client.call("code_search", query="x")
        assert not first.is_error or "\n" not in text_of(first)
        second = client.call("code_search", query="x")
        assert "The index is empty" in text_of(second) and not second.is_error
        assert time.monotonic() - started < 15
        assert database.status().pid not in (None, pid)
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
