"""CI files, container and shell scripts: valid by their published schemas, linted, and what they run is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
WORKFLOW, ACTION = ROOT / ".github/workflows/gitstrata.yml", ROOT / ".github/actions/gitstrata/action.yml"
AUDIT = ROOT / ".github/workflows/audit.yml"
GITLAB, COMPOSE = ROOT / "scripts/gitlab-ci.yml", ROOT / "scripts/container/compose.yaml"
DOCKERFILE = ROOT / "scripts/container/Dockerfile"
GUIDE = ROOT / "docs/teams.md"


def read(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())


def run(*command: str | Path, stdin: str = "") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def blocks(language: str) -> list[str]:
    """Return the examples of the guide in one language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.S) if GUIDE.exists() else []


@pytest.mark.parametrize(
    ("schema", "path", "more"),
    [
        ("github-workflows", WORKFLOW, ()),
        ("github-workflows", AUDIT, ()),
        ("github-actions", ACTION, ()),
        ("gitlab-ci", GITLAB, ("--data-transform", "gitlab-ci")),
        ("compose-spec", COMPOSE, ()),
    ],
)
def test_files_follow_their_schemas(schema: str, path: Path, more: tuple[str, ...]) -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *more, path)


def test_the_guides_workflows_follow_the_schema(tmp_path: Path) -> None:
    workflows = [block for block in blocks("yaml") if re.search("^jobs:", block, re.M)]
    assert workflows
    for number, block in enumerate(workflows):
        (tmp_path / f"{number}.yml").write_text(block)
        run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", tmp_path / f"{number}.yml")
        known = read(WORKFLOW)["on"]["workflow_call"]
        for job in read(tmp_path / f"{number}.yml")["jobs"].values():
            if "uses" in job:
                assert set(job.get("with", {})) <= set(known["inputs"])
                assert set(job.get("secrets", {})) <= set(known["secrets"])
                required = {name for name, one in known["inputs"].items() if one.get("required")}
                assert required <= set(job["with"])
                assert job["permissions"]["contents"] == "read"


def test_scripts_are_linted() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and is_shell(path)]
    assert {path.name for path in scripts} >= {"ci", "ci_comment", "index", "test", "lock", "audit"}
    run(BIN / "shellcheck", "--external-sources", "--source-path", ROOT, "--severity", "warning", *scripts)


def is_shell(path: Path) -> bool:
    return bool(re.match(rb"#!.*\b(ba)?sh\b", path.read_bytes()[:64]))


def test_the_shell_inside_the_files_is_linted() -> None:
    inside = [(ACTION, step["run"]) for step in read(ACTION)["runs"]["steps"] if "run" in step]
    jobs = read(GITLAB)
    inside += [
        (GITLAB, line) for job in jobs.values() for line in [*job.get("before_script", []), *job.get("script", [])]
    ]
    assert len(inside) > 5
    for path, text in inside:
        assert "${{" not in text, f"{path}: an expression inside a script may hold commands"
        run(BIN / "shellcheck", "--shell", "sh", "--severity", "warning", "-", stdin=text)


def test_nothing_is_granted_or_pinned_loosely() -> None:
    for path in (WORKFLOW, AUDIT, ACTION):
        for used in re.findall(r"uses: (\S+)", path.read_text()):
            if "OWNER" not in used and not used.startswith("./"):
                assert re.search(r"@[0-9a-f]{40}$", used), used
    for text in (WORKFLOW.read_text(), AUDIT.read_text()):
        assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")
        assert "pull_request_target" not in text and "secrets: inherit" not in text
    cached = read(ACTION)["runs"]["steps"][1]["with"]["path"]
    assert cached.endswith(".venv")  # the environment, never state


@pytest.mark.skipif(not (BIN / "hadolint").exists(), reason="hadolint has no wheel for this system")
def test_the_dockerfile_is_linted_and_finds_what_it_copies() -> None:
    run(BIN / "hadolint", DOCKERFILE)
    text = DOCKERFILE.read_text()
    allowed = {
        line[1:] for line in DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().split() if line[0] == "!"
    }
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M) for name in line.split()]
    assert set(copied) == allowed and all((ROOT / name).exists() for name in copied)
    assert re.search(r"^USER 10001$", text, re.M)
    assert all(re.search(r":\d+\.\d+\.\d+-", image) for image in re.findall(r"^FROM (\S+)", text, re.M))


def test_what_the_container_installs_answers(tmp_path: Path) -> None:
    """The wheel that the Dockerfile builds holds all that the program needs beside its dependencies."""
    source = tmp_path / "source"
    for name in ("chunkers", "flows", "mcp_tools"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    target = tmp_path / "target"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target, source)
    program = "import sys; from mcp_tools.cli import main; sys.argv = ['gitstrata', '--help']; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(target)}, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and "repos" in done.stdout, done.stderr
    for name in ("chunkers", "flows", "mcp_tools"):
        wanted = {path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file()}
        assert not {path for path in wanted if not (target / path).exists() and "__pycache__" not in path.parts}


def commands() -> list[list[str]]:
    services = read(COMPOSE)["services"].values()
    return [one["command"] for one in services if "command" in one and "entrypoint" not in one]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_each_command_of_the_compose_file_is_one_of_ours(command: list[str]) -> None:
    words = [word for word in command if re.fullmatch("[a-z]+", word)][: 2 if command[0] == "db" else 1]
    done = subprocess.run(
        [sys.executable, "-m", "mcp_tools.cli", *words, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0
    for option in (word for word in command if word.startswith("--")):
        assert option in done.stdout
