"""install-agent and doctor: what they write and find, for real files."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.errors import UsageError
from flows.settings import Settings
from mcp_tools import agent_configs as configs
from mcp_tools import doctor
from mcp_tools.agent_configs import CLIENTS, Launch
from mcp_tools.cli import app
from tests.conftest import Indexer
from tests.repos import Repo

LOCAL = Launch("/opt/bin/gitstrata", ("serve",), (("GITSTRATA_HOME", "/srv/index"),))
REMOTE = Launch(url="https://code.example.org/mcp")


def parsed(client: str, text: str) -> dict[str, Any]:
    return tomllib.loads(text) if CLIENTS[client].is_toml else json.loads(text)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("launch", [LOCAL, REMOTE], ids=["local", "remote"])
def test_a_file_keeps_what_it_has_and_a_second_run_changes_nothing(tmp_path: Path, name: str, launch: Launch) -> None:
    client = CLIENTS[name]
    path = client.path(tmp_path / "project", tmp_path / "home")
    assert configs.write(client, launch, path) is None  # made with its folders
    entry = parsed(name, path.read_text())[client.key]["gitstrata"]
    assert ("/opt/bin/gitstrata" in json.dumps(entry)) == (launch is LOCAL)
    assert ("https://code.example.org/mcp" in json.dumps(entry)) == (launch is REMOTE)
    others = (
        f'# mine\nmodel = "o"\n\n[{client.key}.other]\ncommand = "x"  # kept\n\n[{client.key}.gitstrata]\nurl = "old"\n'
        f'[{client.key}.gitstrata.env]\nA = "b"\n\n[zz]\na = [1]\n'
        if client.is_toml
        else json.dumps({"theme": "dark", client.key: {"other": {"command": "ü"}, "gitstrata": {"url": "old"}}})
    )
    path.write_text(others)
    path.chmod(0o600)
    backup = configs.write(client, launch, path)
    assert backup is not None and backup.read_text() == others
    after = parsed(name, path.read_text())
    assert after[client.key] == {"other": parsed(name, others)[client.key]["other"], "gitstrata": entry}
    assert {k: v for k, v in after.items() if k not in (client.key, "inputs")} == {
        k: v for k, v in parsed(name, others).items() if k != client.key
    }
    assert "# kept" in path.read_text() or not client.is_toml
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert configs.write(client, launch, path) is None and path.read_text() == text
    assert "gst_" not in text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vscode", '{\n  // mine\n  "servers": {}\n}', "is not plain JSON (line 2, column 3; comments and trailing"),
        ("cursor", "[]", "has no object 'mcpServers' at its top"),
        ("gemini", '{"mcpServers": []}', "has no object 'mcpServers' at its top"),
        ("codex", "[mcp_servers\n", "is not valid TOML"),
        ("codex", 'mcp_servers = {gitstrata = {url = "x"}}\n', ""),
        ("codex", "[mcp_servers]\ngitstrata.url = 'x'\n", ""),
    ],
)
def test_a_file_that_is_not_understood_is_left_as_it_is(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        configs.write(CLIENTS[name], LOCAL, path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "dotfiles.json")
    configs.write(CLIENTS["cursor"], LOCAL, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and "gitstrata" in (tmp_path / "dotfiles.json").read_text()


def test_the_command_prints_lists_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert all(name in run(app, ["install-agent"]).output for name in CLIENTS)
    printed = run(app, ["install-agent", "claude-code"])
    assert printed.exit_code == 0 and '"mcpServers"' in printed.output and "Sub-agents" in printed.output
    assert not (tmp_path / ".mcp.json").exists()
    assert run(app, ["install-agent", "claude-code", "--write"]).exit_code == 0
    assert json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["gitstrata"]["type"] == "stdio"
    for arguments in (["install-agent", "emacs"], ["install-agent", "cursor", "--http", "code.example.org"]):
        assert isinstance(run(app, arguments).exception, UsageError)


# --- doctor --------------------------------------------------------------------------------------------------------


def found(findings: list[doctor.Finding]) -> dict[tuple[str, str], str]:
    return {(finding.check, finding.state): f"{finding.detail} -> {finding.fix}" for finding in findings}


@pytest.fixture
def examined(config: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Make doctor look at this test's database."""
    monkeypatch.setenv("GITSTRATA_DSN", str(config.dsn))
    monkeypatch.setenv("GITSTRATA_HOME", str(config.home))
    return config


def test_doctor_says_what_is_wrong_and_how_to_put_it_right(
    examined: Settings, index: Indexer, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = found(doctor.examine(tmp_path / "repos.d"))
    assert "gitstrata index" in empty["index", "note"]
    assert "PostgreSQL" in empty["database", "ok"] and "pgvector" in empty["database", "ok"]
    repo.write("a.py", "a = 1\n")
    repo.commit()
    index(repo, name="r")
    (tmp_path / "repos.d").mkdir()
    (tmp_path / "repos.d/r.yaml").write_text("name: r\nurl: https://example.org/r.git\nbranch: main\n")
    soon = (datetime.now(UTC) + timedelta(days=3)).date()
    (tmp_path / "tokens.yaml").write_text(
        "tokens:\n"
        f"  - {{name: a, sha256: {'a' * 64}, projects: [p], expires: 2020-01-01}}\n"
        f"  - {{name: b, sha256: {'b' * 64}, projects: [p], expires: {soon}}}\n"
    )
    (tmp_path / "tokens.yaml").chmod(0o644)
    monkeypatch.setenv("GITSTRATA_TOKENS_FILE", str(tmp_path / "tokens.yaml"))
    with index.database.connect() as connection:
        connection.execute(
            "update branch set published_at = now() - interval '9 days', head_sha = 'f00', run_failed = true"
        )
    said = found(doctor.examine(tmp_path / "repos.d"))
    assert "9 days ago -> does CI call gitstrata sync" in said["index", "note"]
    assert "1 branch is behind" in said["freshness", "note"]
    assert "the last run failed for r main" in said["runs", "failed"]
    assert "did you mean 'branches'" in said["repos.d", "failed"]
    assert "expired: a; expire soon: b" in said["tokens", "note"]
    assert "chmod 640" in said["tokens", "failed"]
    assert "model" in {check for check, _ in said}  # the stub's model cannot be loaded here
    (tmp_path / "tokens.yaml").write_text("tokens: [x]")
    assert "token new shows" in found(doctor.examine(tmp_path / "none"))["tokens", "failed"]


def test_doctor_has_an_exit_code_and_json(examined: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json", "--config", str(tmp_path / "none")])
    assert result.exit_code == 0  # an empty index is no fault
    value = json.loads(result.output)
    assert value["ok"] is True and {"check", "state", "detail", "fix"} == set(value["findings"][0])
    monkeypatch.setenv("GITSTRATA_DSN", "postgresql://user:hunter2@127.0.0.1:1/x")
    away = CliRunner().invoke(app, ["doctor", "--config", str(tmp_path / "none")])
    assert away.exit_code == 1 and "cannot connect" in away.output and "hunter2" not in away.output


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/gitstrata/below"])
def test_doctor_finds_a_home_that_cannot_be_written_whether_it_is_there_or_not(
    examined: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GITSTRATA_HOME", str(tmp_path / place))
    said = found(doctor.examine(tmp_path / "none"))
    assert "cannot be written: " in said["home", "failed"] and "GITSTRATA_HOME" in said["home", "failed"]
