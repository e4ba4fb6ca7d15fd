"""The server of a team: who may ask, what a token sees, and what bounds a client that means no good."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import psycopg
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from psycopg.conninfo import make_conninfo

from flows import settings
from flows.errors import DatabaseError, UsageError
from flows.settings import Settings
from flows.store.connect import connect
from mcp_tools import access, doctor, guards, serve_http, tokens
from mcp_tools.access import Access
from mcp_tools.code_search import code_search
from mcp_tools.index import Index
from mcp_tools.serve_http import Options
from mcp_tools.status import index_status
from tests.mcp_tools import http_server
from tests.mcp_tools.conftest import PROJECTS, Client, in_memory
from tests.mcp_tools.conftest import connected as over_stdio
from tests.mcp_tools.http_server import connected, post, process

# What only the other repositories hold: names, paths, symbols, branches, projects, texts.
SECRETS = ("web", "loose", "vault", "zebra", "dazzle", "both")


def write_tokens(path: Path, rows: Mapping[str, tuple[str, Sequence[str], str]]) -> None:
    """Write a tokens file: name -> token, projects, expiry."""
    lines = ["tokens:" if rows else "tokens: []"]
    for name, (token, projects, expires) in rows.items():
        digest = hashlib.sha256(token.encode()).hexdigest()
        lines.append(f"  - {{name: {name}, sha256: {digest}, projects: {json.dumps(projects)}, expires: {expires}}}")
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)


PAY, WEB, ALL, OLD = (
    ("gst_pay", ["pay"], "never"),
    ("gst_web", ["web"], "never"),
    ("gst_all", ["*"], "2999-12-31"),
    (
        "gst_old",
        ["pay"],
        "2020-01-01",
    ),
)
ROWS = {"pay": PAY, "web": WEB, "all": ALL, "old": OLD}


@dataclass(frozen=True)
class Team:
    """A database with repositories in projects, a tokens file, and a server over both."""

    address: str
    config: Settings
    tokens: Path
    log: Path


@pytest.fixture(scope="module")
def team(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("http")
    write_tokens(folder / "tokens.yaml", ROWS)
    assert filled.dsn
    variables = {"GITSTRATA_DSN": filled.dsn, "GITSTRATA_TOKENS_FILE": str(folder / "tokens.yaml")}
    with process(folder / "log", **variables) as (address, _):
        yield Team(address, filled, folder / "tokens.yaml", folder / "log")


@pytest.fixture(scope="module")
def pay(team: Team) -> Iterator[Client]:
    with connected(team.address, PAY[0]) as client:
        yield client


@pytest.fixture(scope="module")
def everything(team: Team) -> Iterator[Client]:
    with connected(team.address, ALL[0]) as client:
        yield client


def said(result: CallToolResult) -> str:
    """Return all that a client is told."""
    return json.dumps(result.model_dump(mode="json"), ensure_ascii=False)


# --- who may ask ---------------------------------------------------------------------------------------------------


def test_a_token_sees_its_projects_and_nothing_else(pay: Client, everything: Client) -> None:
    assert {row["repo"] for row in pay.call("code_search", query="settle an amount").structured_content["result"]} == {
        "acme/pay"
    }
    branches = pay.call("index_status").structured_content["branches"]
    assert [branch["repo"] for branch in branches] == ["acme/pay"]
    found = everything.call("index_status").structured_content["branches"]
    assert {branch["repo"] for branch in found} == set(PROJECTS)


@pytest.mark.parametrize("token", ["", "gst_wrong", "gst_old", " gst_pay", "GST_PAY", "gst_pay\u00fc", "x" * 5000])
def test_other_tokens_are_refused(team: Team, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}".encode()} if token else {}
    response = post(team.address, **headers)  # type: ignore[arg-type]
    assert response.status_code == 401 and "www-authenticate" in response.headers
    assert token not in response.text or not token


@pytest.mark.parametrize("header", ["Basic Z3N0X3BheTo=", "Bearer x", "gst_pay", "Bearer gst_pay, Bearer gst_all"])
def test_other_forms_of_authorization_are_refused(team: Team, header: str) -> None:
    assert post(team.address, Authorization=header).status_code == 401


def test_a_changed_tokens_file_counts_at_once(team: Team) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    brief = ("gst_brief", ["pay"], f'"{soon.isoformat()}"')
    try:
        write_tokens(team.tokens, {**ROWS, "brief": brief})
        assert post(team.address, brief[0]).status_code == 200
        write_tokens(team.tokens, {name: row for name, row in ROWS.items() if name != "web"})
        assert post(team.address, WEB[0]).status_code == 401
        write_tokens(team.tokens, {**ROWS, "brief": brief})
        time.sleep(max(0, (soon - datetime.now(UTC)).total_seconds()))
        assert post(team.address, brief[0]).status_code == 401  # expired meanwhile
        team.tokens.write_text("tokens:\n  - {name: pay")
        assert post(team.address, PAY[0]).status_code == 200  # what was in force stays in force
        team.tokens.unlink()
        assert post(team.address, PAY[0]).status_code == 401
    finally:
        write_tokens(team.tokens, ROWS)
    assert post(team.address, PAY[0]).status_code == 200


def test_the_log_says_who_and_how_long_but_not_what(team: Team, pay: Client) -> None:
    pay.call("code_search", query="a most private question")
    pay.call("query_knowledge_base", query="")
    pay.call("made_up\nwho=root")
    lines = [line for line in team.log.read_text().splitlines() if "gitstrata.access" in line]
    assert re.search(r"who=pay tool=code_search outcome=ok ms=\d+ rows=\d+$", "\n".join(lines), re.M)
    assert re.search(r"tool=query_knowledge_base outcome=error ms=\d+ rows=0$", "\n".join(lines), re.M)
    assert "private" not in team.log.read_text() and "gst_" not in team.log.read_text()
    assert any("who=pay tool=unknown outcome=" in line for line in lines)
    assert not any(line.startswith("who=root") for line in lines)


# --- what is out of scope is nowhere -------------------------------------------------------------------------------


def outside(everything: Client) -> list[str]:
    """Return every way to name what the token must not see."""
    commits = {
        branch["commit"]
        for branch in everything.call("index_status").structured_content["branches"]
        if branch["repo"] != "acme/pay"
    }
    rows = everything.call("code_search", query="zebra vault", repo="acme/web").structured_content["result"]
    names = ["acme/web", "acme/webb", "acme/loose", "web", "both", "wbe", "zebra-branch", "zebra-branhc"]
    names += [row[key] for row in rows for key in ("source_id", "url")]
    names += ["vault/zebra.py", "zebra.py", "vault/zebar.py#ZebraVault", "../web/vault/zebra.py", "*", "%", "zebra"]
    return [*names, *sorted(commits)]


def test_no_argument_of_any_tool_shows_what_is_outside(pay: Client, everything: Client) -> None:
    values = outside(everything)
    for tool in pay.tools():
        if tool.annotations is None or not tool.annotations.read_only_hint:
            continue
        properties = tool.input_schema["properties"]
        required: dict[str, Any] = {
            name: {"source_id": "src/charge.py", "observation": {"sensor": 1.0}}.get(name, "zebra")
            for name in tool.input_schema.get("required", [])
        }
        for name, schema in properties.items():
            is_list = schema["type"] == "array"
            if not is_list and schema["type"] != "string":
                continue
            for value in values:
                result = pay.call(tool.name, **{**required, name: [value] if is_list else value})
                # An answer may repeat what was asked, nothing more.
                answer = said(result).lower()
                for asked in sorted({value, *map(str, required.values())}, key=len, reverse=True):
                    answer = answer.replace(json.dumps(asked)[1:-1].lower(), "")
                    answer = answer.replace(asked.partition("#")[0].lower(), "")
                assert not [word for word in SECRETS if word in answer], (tool.name, name, value, said(result))


def test_a_repository_outside_is_as_unknown_as_one_that_never_was(pay: Client) -> None:
    for tool, arguments in (
        ("code_search", {"query": "x"}),
        ("search_code", {"pattern": "x"}),
        ("get_chunk", {"source_id": "vault/zebra.py"}),
        ("find_related", {"source_id": "vault/zebra.py"}),
        ("index_status", {}),
    ):
        answers = {
            said(pay.call(tool, repo=repo, **arguments)).replace(repo, "REPO") for repo in ("acme/web", "acme/qqq")
        }
        assert len(answers) == 1 and "unknown repo" in answers.pop(), tool


def test_totals_count_only_what_is_inside(pay: Client) -> None:
    totals = pay.call("search_code", pattern="zebra").structured_content["totals"]
    assert totals == {"matches": 0, "files": 0, "chunks": 0, "exact": True}
    assert pay.call("search_code", paths=["**"]).structured_content["totals"]["files"] == 2


def test_a_cursor_of_another_token_gives_nothing_away(pay: Client, everything: Client) -> None:
    cursor = everything.call("code_search", query="zebra", limit=1).structured_content["next_cursor"]
    assert cursor
    result = pay.call("code_search", query="zebra", limit=1, cursor=cursor)
    assert result.is_error and not [word for word in SECRETS if word in said(result).lower()]


def test_projects_narrow_a_search(everything: Client, pay: Client) -> None:
    def repos(client: Client, **arguments: str) -> set[str]:
        result = client.call("code_search", query="settle an amount", **arguments)
        assert not result.is_error, said(result)
        return {row["repo"] for row in result.structured_content["result"]}

    assert repos(everything) == set(PROJECTS)
    assert repos(everything, project="both") == {"acme/web"}
    assert repos(pay, project="pay") == {"acme/pay"}
    unknown = said(everything.call("code_search", query="x", project="bth"))
    assert "did you mean 'both'? There are both, pay, web" in unknown
    assert "There are pay" in said(pay.call("code_search", query="x", project="both"))


def test_resources_stay_inside(pay: Client, everything: Client) -> None:
    for branch in everything.call("index_status").structured_content["branches"]:
        repo, commit = quote(branch["repo"], safe=""), branch["commit"]
        paths = ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "src/../../web/vault/zebra.py"]
        if branch["repo"] != "acme/pay":
            paths.append("README.md")
        for path in paths:
            with pytest.raises(MCPError) as caught:
                pay.portal.call(pay.session.read_resource, f"code://{repo}/{commit}/{path}")
            assert "root:x:" not in str(caught.value) and "class ZebraVault" not in str(caught.value)


def test_a_guarded_index_shows_nothing_to_a_request_without_a_token(filled: Settings) -> None:
    with Index(filled) as index:
        index.unnamed = None
        with pytest.raises(UsageError, match="no token"):
            index_status(index)
        with access.granted(Access("pay", ("pay",))):
            assert [branch.repo for branch in index_status(index).branches] == ["acme/pay"]
        with access.granted(Access("none", ("empty",))):
            answer = index_status(index)
            assert answer.branches == [] and "this token's projects (empty)" in answer.note
        with access.granted(Access("odd", ("pay'; drop table repo; --", '"', "{"))):
            assert index_status(index).branches == []
        with access.granted(access.OWNER):
            assert {branch.repo for branch in index_status(index).branches} == set(PROJECTS)


def test_a_server_of_one_project_shows_no_other(filled: Settings, tmp_path: Path) -> None:
    assert filled.dsn
    for options in ([], ["--http"]):
        with contextlib.ExitStack() as stack:
            if options:
                started = process(tmp_path / "log", "--project", "pay", GITSTRATA_DSN=filled.dsn)
                client = stack.enter_context(connected(stack.enter_context(started)[0], ""))
            else:
                served = over_stdio(tmp_path / "log", "--project", "pay", GITSTRATA_DSN=filled.dsn)
                client = stack.enter_context(served)
            branches = client.call("index_status").structured_content["branches"]
            assert [branch["repo"] for branch in branches] == ["acme/pay"]
            refused = client.call("code_search", query="x", repo="acme/web")
            assert refused.is_error and "Indexed: acme/pay" in said(refused) and "loose" not in said(refused)


def test_a_role_that_can_only_read_is_enough(filled: Settings) -> None:
    # The grants of docs/operations.md, run as they stand there.
    text = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    grants = re.search(r"```sql\n(create role gitstrata_server.*?)```", text, re.S)
    assert grants and filled.dsn
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        for statement in re.sub(r"--.*", "", grants[1]).split(";"):
            if statement.strip() and "case_" not in statement:
                connection.execute(statement)  # type: ignore[arg-type]
    dsn = make_conninfo(filled.dsn, user="gitstrata_server", password="secret")
    try:
        with Index(settings.load({"GITSTRATA_DSN": dsn})) as index, access.granted(Access("pay", ("pay",))):
            assert [row.repo for row in code_search(index, "settle an amount", limit=2).result] == ["acme/pay"] * 2
        with connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from repo")
    finally:
        with psycopg.connect(filled.dsn, autocommit=True) as connection:
            connection.execute("drop owned by gitstrata_server")
            connection.execute("drop role gitstrata_server")


def test_the_reader_of_the_teams_guide_can_serve_one_project(filled: Settings) -> None:
    # The grants of docs/teams.md, run as they stand there.
    text = (Path(__file__).parents[2] / "docs/teams.md").read_text()
    grants = re.search(r"```sql\n(GRANT USAGE.*?)```", text, re.S)
    assert grants and filled.dsn
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        connection.execute("create role gitstrata_reader login password 'secret'")
        connection.execute(re.sub(r"--.*", "", grants[1]))  # type: ignore[arg-type]
    dsn = make_conninfo(filled.dsn, user="gitstrata_reader", password="secret")
    try:
        with Index(settings.load({"GITSTRATA_DSN": dsn})) as index, access.granted(Access("pay", ("pay",))):
            assert [branch.repo for branch in index_status(index).branches] == ["acme/pay"]
    finally:
        with psycopg.connect(filled.dsn, autocommit=True) as connection:
            connection.execute("drop owned by gitstrata_reader")
            connection.execute("drop role gitstrata_reader")


def test_a_role_that_may_not_use_the_limiting_views_reads_nothing(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Postgres leaves such a schema out of the search_path in silence: the tables themselves would answer.
    assert filled.dsn
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        connection.execute("create role half_granted login password 'secret'")
        connection.execute("grant select on all tables in schema public to half_granted")
    dsn = make_conninfo(filled.dsn, user="half_granted", password="secret")
    try:
        with Index(settings.load({"GITSTRATA_DSN": dsn})) as index, access.granted(Access("pay", ("pay",))):
            with pytest.raises(DatabaseError, match="half_granted may not use the schema public_scope"):
                index_status(index)
            with access.granted(access.OWNER):
                assert {branch.repo for branch in index_status(index).branches} == set(PROJECTS)
        monkeypatch.setenv("GITSTRATA_DSN", dsn)
        findings = {finding.check: finding for finding in doctor.examine(tmp_path / "repos.d")}
        assert findings["database"].state == "ok" and "half_granted" in findings["projects"].detail
    finally:
        with psycopg.connect(filled.dsn, autocommit=True) as connection:
            connection.execute("drop owned by half_granted")
            connection.execute("drop role half_granted")


# --- probes and limits ---------------------------------------------------------------------------------------------


def test_probes_need_no_token_and_name_nothing(team: Team, pay: Client) -> None:
    pay.call("index_status")
    assert httpx2.get(f"{team.address}/healthz").text == "ok\n"
    ready = httpx2.get(f"{team.address}/readyz")
    assert ready.status_code == 200 and ready.json()["ready"] and ready.json()["branches"] == 4
    metrics = httpx2.get(f"{team.address}/metrics").text
    assert 'gitstrata_calls_total{outcome="ok",tool="index_status"}' in metrics
    assert not [word for word in (*SECRETS, "acme", "gst_") if word in (ready.text + metrics).lower()]


def test_a_large_argument_is_refused(team: Team, pay: Client) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = call | {"params": {"name": "code_search", "arguments": {"query": "x" * 1_000_000}}}
    response = post(team.address, PAY[0], body)
    assert response.status_code == 413 and "larger than 1000000 bytes" in response.text
    long = pay.call("code_search", query="settle " * 100_000)
    assert not long.is_error and len(said(long)) < 20_000


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_other_host_names_are_refused(team: Team, host: str) -> None:
    assert post(team.address, PAY[0], Host=host).status_code in (400, 421)


def test_a_web_page_cannot_ask(team: Team) -> None:
    assert post(team.address, PAY[0], Origin="https://evil.example").status_code == 403


@pytest.fixture
def nowhere(tmp_path: Path) -> Settings:
    """Settings of a database that is not there."""
    return settings.load({"GITSTRATA_HOME": str(tmp_path), "GITSTRATA_DSN": "host=127.0.0.1 port=1 dbname=x"})


def test_a_token_has_a_rate(nowhere: Settings, tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens", ROWS)
    guarded = settings.load({"GITSTRATA_DSN": str(nowhere.dsn), "GITSTRATA_TOKENS_FILE": str(tmp_path / "tokens")})
    with http_server.thread(serve_http.make_app(guarded, Options(per_minute=3))) as address:
        assert [post(address, PAY[0]).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert post(address, WEB[0]).status_code == 200
        refused = post(address, PAY[0])
        assert int(refused.headers["retry-after"]) in range(1, 21) and "more than 3 requests" in refused.text


def test_slow_clients_hold_nothing(nowhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"
    with http_server.thread(serve_http.make_app(nowhere, Options())) as address:
        for sent, answer in (
            (b"", b""),
            (head, b""),  # no end of the headers
            (head + b"\r\n{", b"HTTP/1.1 408"),  # no end of the body
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET", b"HTTP/1.1 200"),  # a second request that stops
        ):
            with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as client:
                client.sendall(sent)
                received = b""
                while part := client.recv(65536):  # until the server closes
                    received += part
                assert received.startswith(answer) and (answer or not received)
        assert post(address).status_code == 200


def test_an_unreachable_database_is_one_sentence(nowhere: Settings) -> None:
    with http_server.thread(serve_http.make_app(nowhere, Options())) as address, connected(address, "") as client:
        result = client.call("index_status")
        assert result.is_error
        assert re.search(r"the database is unreachable since [\d:]{8} UTC \(.*\): try again in a moment", said(result))
        ready = httpx2.get(f"{address}/readyz", timeout=30)
        assert ready.status_code == 503 and ready.json()["database"].startswith("the database is unreachable since")


# --- starting and stopping -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_others_may_not_connect_without_tokens(nowhere: Settings, host: str) -> None:
    with pytest.raises(UsageError, match="set GITSTRATA_TOKENS_FILE"):
        serve_http.serve(nowhere, Options(host=host))


def test_a_port_that_is_taken_is_one_sentence(nowhere: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen on"):
        serve_http.serve(nowhere, Options(port=taken.getsockname()[1]))


def test_without_tokens_this_machine_is_served(filled: Settings, tmp_path: Path) -> None:
    assert filled.dsn
    with process(tmp_path / "log", "--log-queries", GITSTRATA_DSN=filled.dsn) as (address, started):
        with connected(address, "") as client:
            assert len(client.call("index_status").structured_content["branches"]) == 4
            client.call("code_search", query='odd "query"\nof two lines')
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
    log = (tmp_path / "log").read_text()
    assert "for this machine only, without tokens" in log
    assert 'asked={"query": "odd \\"query\\"\\nof two lines"}' in log
    assert "Traceback" not in log


def test_several_workers_answer_and_count_together(filled: Settings, tmp_path: Path) -> None:
    assert filled.dsn
    with process(tmp_path / "log", "--workers", "2", GITSTRATA_DSN=filled.dsn) as (address, started):
        for _ in range(20):
            assert post(address).status_code == 200
        metrics = httpx2.get(f"{address}/metrics").text
        assert 'gitstrata_calls_total{outcome="ok",tool="initialize"} 20.0' in metrics
        started.send_signal(signal.SIGTERM)
        assert started.wait(30) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


# --- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one key, `tokens:`"),
        ("tokens: 3", "one key, `tokens:`"),
        ("tokens:\n  - {name: a}", "`sha256`: field required"),
        ("tokens:\n  - {name: a b, sha256: x, projects: [], expires: soon}", "`sha256` is not what it must be"),
        ("tokens:\n  - {name: a, expires: 2026-13-01}", "no date: write YYYY-MM-DD, or never"),
        ("tokens:\n  - {name: a, token: gst_x}", "unknown key 'token': the keys are name, sha256, projects, expires"),
    ],
)
def test_a_wrong_tokens_file_says_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tokens.yaml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        tokens.read(tmp_path / "tokens.yaml")


def test_a_server_with_a_wrong_tokens_file_says_so_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tokens.yaml").write_text("tokens:\n  - {name: a}")
    with pytest.raises(
        UsageError, match=r"^the tokens file is wrong: .*tokens.yaml:2:5: `sha256`: .*; and 2 more problems$"
    ):
        serve_http._check_tokens(tmp_path / "tokens.yaml")
    with pytest.raises(UsageError, match=r"^the tokens file .*away.yaml cannot be read: No such file or directory$"):
        serve_http._check_tokens(tmp_path / "away.yaml")


def test_a_tokens_file_that_is_lost_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    token, row = tokens.new("ci", ["pay"], "never")
    path.write_text("tokens:\n" + tokens.as_yaml(row))
    known = tokens.TokensFile(path)
    path.write_text("tokens: 3")
    assert known.find(token) is not None and not known.is_lost and "still in force" in known.problem
    path.unlink()
    assert known.find(token) is None and known.is_lost and str(tmp_path) not in known.problem


def test_a_new_token_works_with_the_row_that_is_printed(tmp_path: Path) -> None:
    token, row = tokens.new("ci", ["pay", "web"], "90d")
    (tmp_path / "tokens.yaml").write_text("tokens:\n" + tokens.as_yaml(row))
    found = tokens.TokensFile(tmp_path / "tokens.yaml").find(token)
    assert found is not None and found.access == Access("ci", ("pay", "web"))
    assert found.expires is not None and 89 < (found.expires - datetime.now(UTC)).days <= 91
    assert token not in tokens.as_yaml(row) and list(row) == ["name", "sha256", "projects", "expires"]
    for name, projects, expires in (("a b", ["x"], "1d"), ("a", [], "1d"), ("a", ["x"], "soon"), ("a", ["x y"], "1d")):
        with pytest.raises(UsageError):
            tokens.new(name, projects, expires)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_tokens_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tokens.yaml").write_text("tokens: []")
    (tmp_path / "tokens.yaml").chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        tokens.read(tmp_path / "tokens.yaml")


# --- what an attacker sends ----------------------------------------------------------------------------------------

LARGE = {  # shapes of which one is bad for some pattern, glob or look-up
    "x": "x" * 900_000,
    "words": "aB " * 300_000,
    "dots": "../" * 300_000,
    "stars": "*a" * 450_000,
    "symbols": "a#" * 450_000,
    "credentials": "https://a:b" * 80_000,
}


@pytest.mark.parametrize("shape", LARGE)
def test_a_large_argument_costs_little_and_comes_back_short(filled: Settings, shape: str) -> None:
    value = LARGE[shape]
    with Index(filled) as index, in_memory(index) as client:
        for tool, name in (
            ("code_search", "repo"),
            ("code_search", "paths"),
            ("search_code", "project"),
            ("get_chunk", "source_id"),
            ("who_knows", "topic"),
            ("list_repos", "name_contains"),
            ("index_status", "repo"),
            ("index_status", value),
        ):
            required = {"code_search": {"query": "x"}, "search_code": {"pattern": "x"}}.get(tool, {})
            start = time.monotonic()
            answer = said(client.call(tool, **{**required, name: [value] if name == "paths" else value}))
            assert len(answer) < 25_000, (tool, name)
            assert time.monotonic() - start < 25, (tool, name)  # it was minutes; a loaded machine takes seconds


def test_so_many_filters_are_one_sentence(filled: Settings) -> None:
    with Index(filled) as index:
        for many in ({"paths": ["a"] * 101}, {"languages": ["python"] * 101}):
            with pytest.raises(UsageError, match=r"101 .* 100 are allowed"):
                code_search(index, "x", **many)  # type: ignore[arg-type]


def test_a_cursor_that_was_changed_is_one_sentence(pay: Client, everything: Client) -> None:
    asked = (
        ("code_search", {"query": "settle", "limit": 1}),
        ("search_code", {"pattern": "e", "limit": 1}),
    )
    for tool, arguments in asked:
        own = pay.call(tool, **arguments).structured_content["next_cursor"]
        others = everything.call(tool, **arguments).structured_content["next_cursor"]
        offset, request, state = json.loads(base64.urlsafe_b64decode(own + "=" * (-len(own) % 4)))
        made = [
            [-1, request, state],
            [True, request, state],
            ["0", request, state],
            [1e9, request, state],
            [offset],
            {},
        ]
        forged = [base64.urlsafe_b64encode(json.dumps(value).encode()).decode() for value in made]
        for cursor in (others, own[:-3], own[3:], "é", "\0", "[" * 190, *forged):
            result = pay.call(tool, cursor=cursor, **arguments)
            assert result.is_error and "cursor" in said(result), (tool, cursor)
            assert not [word for word in SECRETS if word in said(result).lower()]
        far = base64.urlsafe_b64encode(json.dumps([10**30, request, state]).encode()).decode()
        result = pay.call(tool, cursor=far, **arguments)
        assert "Traceback" not in said(result) and not [word for word in SECRETS if word in said(result).lower()]


def test_case_notes_stay_in_their_project(team: Team, pay: Client) -> None:
    with connected(team.address, WEB[0]) as web:
        number = web.call("add_case_reference", concept="zebra crossing", solution="dazzle").structured_content[
            "case_id"
        ]
        assert number in said(web.call("query_knowledge_base", query="zebra crossing"))
        for query in ("zebra crossing", number, "dazzle", "*", "%"):
            answer = said(pay.call("query_knowledge_base", query=query, limit=100))
            assert number not in answer and "dazzle" not in answer.replace(query, "")


def test_uris_of_resources_are_only_compared(team: Team, pay: Client, everything: Client) -> None:
    commits = {
        branch["repo"]: branch["commit"] for branch in everything.call("index_status").structured_content["branches"]
    }
    own, other = commits["acme/pay"], commits["acme/web"]
    for uri in (
        f"code://acme%2Fweb/{other}/vault/zebra.py",
        f"code://acme%2Fpay/{other}/vault/zebra.py",  # another repository's commit
        f"code://acme%252Fweb/{other}/vault/zebra.py",
        f"code://ACME%2FWEB/{other}/vault/zebra.py",
        f"code://acme%2Fpay%2F..%2Fweb/{other}/vault/zebra.py",
        f"code://acme%2Fpay/{own}/..%2F..%2Fweb%2Fvault%2Fzebra.py",
        f"code://acme%2Fpay/{own}/%2e%2e/%2e%2e/etc/passwd",
        f"code://acme%2Fpay/{own}/..%5c..%5cetc%5cpasswd",
        f"code://acme%2Fpay/{own}/src/charge.py%00.txt",
        f"code://acme%2Fpay/{own}/" + "a/" * 200_000,
        "file:///etc/passwd",
        "code://acme%2Fpay/HEAD/src/charge.py",
    ):
        try:
            told = pay.read(uri)
        except MCPError as error:
            told = str(error)
        assert "def " not in told, uri
        told = told.replace(uri, "").lower()
        assert len(told) < 2_500, uri[:80]
        assert "root:x:" not in told and "stripes" not in told and other[:12] not in told.replace(other, ""), uri
    assert "class Charge" in pay.read(f"code://acme%2Fpay/{own[:7]}/src/charge.py")


def test_headers_that_drip_hold_nothing(nowhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"
    with http_server.thread(serve_http.make_app(nowhere, Options())) as address:
        for first, drop in ((head, b"X-A: b\r\n"), (head + b"\r\n", b" ")):
            with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as client:
                client.sendall(first)
                start = time.monotonic()
                with contextlib.suppress(OSError):  # closed under our hands, as it should be
                    while time.monotonic() - start < 20:
                        client.sendall(drop)
                        time.sleep(0.05)
                assert time.monotonic() - start < 15
