"""scripts/index and scripts/test make, keep and repair their environment, and say what to do when they cannot."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .fake_project import PROJECT, FakeProject


@pytest.fixture(params=["sh", "bash"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> FakeProject:
    return FakeProject(tmp_path, shell=request.param)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the script did not get there within 10 s"
        time.sleep(0.02)


def test_first_run_installs_and_starts_the_tour_in_the_callers_folder(project: FakeProject, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    done = project.run("index", "a b", "--flag", cwd=elsewhere)
    assert (done.returncode, done.stdout) == (0, f"{elsewhere}|a b|--flag\n")
    lock, editable = project.pip_calls
    assert "--require-hashes" in lock and lock.endswith(f"-r {project.folder}/requirements.lock")
    assert editable.endswith(f"--no-build-isolation -e {project.folder}")


def test_second_run_is_quick_and_silent(project: FakeProject) -> None:
    project.run("index")
    before = len(project.pip_calls)
    started = time.monotonic()
    done = project.run("index")
    assert (done.returncode, done.stderr, len(project.pip_calls)) == (0, "", before)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("name", ["with two  spaces", "überprüft 東京", "-dash", "$HOME 'quoted' \"twice\" *"])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    project = FakeProject(tmp_path, name=name)
    link = tmp_path / "linked index"
    link.symlink_to(Path(name) / "scripts" / "index")
    first = project.run(str(link), "x")
    again = project.run("index", "x")
    assert (first.returncode, again.returncode, again.stderr) == (0, 0, "")
    assert len(project.pip_calls) == 2


def test_callers_python_settings_do_not_reach_the_tour(project: FakeProject, tmp_path: Path) -> None:
    (project.folder / "scripts" / "index_tour.py").write_text(
        "import os\nprint(sorted(k for k in os.environ if 'PY' in k))\n"
    )
    done = project.run("index", PYTHONPATH=str(tmp_path), PYTHONHOME=str(tmp_path), HOME=None)
    assert done.stdout == "['PYTHONNOUSERSITE']\n"


def without(tool: str) -> Callable[[FakeProject], None]:
    return lambda project: (project.bin / tool).unlink()


def only_python(version: str, *, can_make_environments: bool = True) -> Callable[[FakeProject], None]:
    return lambda project: project.add_python("python3", version=version, can_make_environments=can_make_environments)


def system(name: str) -> Callable[[FakeProject], None]:
    return lambda project: project.add_tool("uname", f"#!/bin/sh\necho {name}\n")


def full_disk(project: FakeProject) -> None:
    # a device name with a space, as macOS has
    rows = "Filesystem 1024-blocks Used Available Capacity Mounted on\nmap auto_home 99999 0 51200 99% /a b"
    project.add_tool("df", f"#!/bin/sh\necho '{rows}'\n")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (without("git"), "git is missing: install it"),
        (without("python3"), "no Python 3.11, 3.12 or 3.13 found: install one"),
        (only_python("3.9"), "no Python 3.11, 3.12 or 3.13 found (python3 is 3.9): install one"),
        (only_python("3.14"), "no Python 3.11, 3.12 or 3.13 found (python3 is 3.14): install one"),
        (only_python("3.12", can_make_environments=False), "apt install python3.12-venv"),
        (system("MINGW64_NT-10.0"), "run this inside WSL"),
        (system("SunOS"), "SunOS is not supported"),
        (full_disk, "only 50 MB free"),
        (lambda project: (project.folder / "requirements.lock").unlink(), "the checkout is not complete"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    project: FakeProject, spoil: Callable[[FakeProject], None], sentence: str
) -> None:
    spoil(project)
    done = project.run("index")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_python_is_chosen_by_name_and_by_ability(project: FakeProject) -> None:
    project.add_python("python3", version="3.9")
    project.add_python("python3.13", version="3.13", can_make_environments=False)
    project.add_python("python3.12", version="3.12")
    assert "with Python 3.12" in project.run("index").stderr
    project.add_python("my python", version="3.11")
    assert "with Python 3.11" in project.run("index", PYTHON=str(project.bin / "my python")).stderr
    assert project.run("index").stderr == "", "an environment that stands is kept"
    assert "PYTHON=/nowhere does not run" in project.run("index", PYTHON="/nowhere").stderr


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("WARNING: Retrying: Name or service not known\nERROR: No matching distribution found", "cannot reach"),
        ("ERROR: No matching distribution found for x==1", "no build of a locked package for this machine"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "differs from its hash"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "no permission to write"),
        ("something new", "the installation failed"),
    ],
)
def test_pip_failure_is_explained_and_the_next_run_starts_anew(tmp_path: Path, output: str, sentence: str) -> None:
    project = FakeProject(tmp_path)
    project.on_pip(f"echo '{output}'; exit 1")
    failed = project.run("index")
    assert failed.returncode == 2
    assert sentence in failed.stderr
    project.on_pip("")
    assert project.run("index").returncode == 0


def test_folder_that_cannot_be_written_gives_an_environment_in_the_cache(project: FakeProject) -> None:
    project.venv.write_text("a file where the folder would be")  # stops root too
    assert project.run("index").returncode == 0
    assert project.run("index").stderr == ""
    (made,) = (project.home / ".cache" / "gitstrata").iterdir()
    assert made.name.startswith("venv-")


def test_nowhere_to_write_is_an_error(project: FakeProject) -> None:
    project.venv.write_text("")
    assert "set HOME or XDG_CACHE_HOME" in project.run("index", HOME=None).stderr
    done = project.run("index", XDG_CACHE_HOME="/dev/null/cache")
    assert done.returncode == 2 and "nor to /dev/null/cache" in done.stderr


def test_environment_of_somebody_else_is_left_alone(project: FakeProject) -> None:
    (project.venv / "bin").mkdir(parents=True)
    assert project.run("index").returncode == 0
    assert [path.name for path in project.venv.iterdir()] == ["bin"]


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_interrupted_environment_is_remade(project: FakeProject, kind: signal.Signals, code: int) -> None:
    project.on_pip("exec sleep 20")
    with project.start("index") as running:
        wait_for(lambda: len(project.pip_calls) == 1)
        (project.venv / "half").touch()
        os.killpg(running.pid, kind)
        running.communicate(timeout=5)
    assert running.returncode == code
    project.on_pip("")
    done = project.run("index")
    assert done.returncode == 0 and "making the environment" in done.stderr
    assert not (project.venv / "half").exists()


def test_runs_at_once_install_once(project: FakeProject) -> None:
    project.on_pip("sleep 0.3")
    first, second = (project.start("index", str(number)) for number in range(2))
    ends = [process.communicate(timeout=20) for process in (first, second)]
    assert [out[-2:] for out, _ in ends] == ["0\n", "1\n"]
    assert len(project.pip_calls) == 2, "one lock file and one editable install"
    assert any("waiting for another run" in err for _, err in ends)


def test_index_and_test_share_one_environment(project: FakeProject) -> None:
    project.run("index")
    added = project.run("test")
    assert "adding to the environment" in added.stderr
    assert "requirements-dev.lock" in project.pip_calls[2]
    calls = len(project.pip_calls)
    assert project.run("index").stderr == ""
    (project.folder / "pyproject.toml").write_text("new")
    assert "adding to" in project.run("index").stderr
    assert "installed" not in project.run("test").stderr, "what `test` had added is still there"
    assert "requirements-torch.txt" not in "".join(project.pip_calls)
    project.run("test", "--all")
    assert [call.split("/")[-1] for call in project.pip_calls[calls + 2 :]] == [
        "requirements-all.lock",
        "requirements-torch.txt",
        project.folder.name,
    ]


@pytest.mark.parametrize("spoil", ["lock", "python", "place"])
def test_environment_that_no_longer_fits_is_remade(tmp_path: Path, spoil: str) -> None:
    project = FakeProject(tmp_path)
    project.run("index")
    (project.venv / "old").touch()
    if spoil == "lock":
        (project.folder / "requirements.lock").write_text("newer")
    elif spoil == "python":
        (project.venv / "bin" / "python").unlink()
    else:
        shutil.move(project.folder, tmp_path / "moved")
        project.folder = tmp_path / "moved"
        project.venv = project.folder / ".venv"
    done = project.run("index")
    assert done.returncode == 0 and "making the environment" in done.stderr
    assert not (project.venv / "old").exists()


def test_checks_run_in_order_and_pytest_last(project: FakeProject) -> None:
    done = project.run("test", "-k", "two words")
    assert [line.split()[1:4] for line in done.stdout.splitlines()] == [
        ["ruff", "check", "--quiet"],
        ["ruff", "format", "--check"],
        ["mypy", "--no-error-summary"],
        ["pytest", "-n", "2"],
    ]
    assert done.stdout.endswith("-k two words\n")
    assert project.run("test", "-n0").stdout.endswith("-m pytest -n0\n")


@pytest.mark.parametrize(
    ("checks", "code", "runs_pytest"),
    [
        ('case "$*" in *format*) exit 3 ;; *mypy*) exit 4 ;; esac', 3, False),  # the first failure counts
        ('case "$*" in *pytest*) exit 5 ;; esac', 5, True),
    ],
)
def test_code_is_that_of_the_first_failing_check(tmp_path: Path, checks: str, code: int, runs_pytest: bool) -> None:
    project = FakeProject(tmp_path)
    project.on_checks(checks)
    done = project.run("test")
    assert (done.returncode, "-m pytest" in done.stdout) == (code, runs_pytest)


@pytest.mark.parametrize("script", ["index", "test", "lib.sh", "lock"])
@pytest.mark.parametrize("checker", [["sh", "-n"], ["bash", "-n"], ["shellcheck", "-x", "-s", "sh", "-S", "warning"]])
def test_script_is_sound_shell(script: str, checker: list[str]) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed")
    subprocess.run([*checker, f"scripts/{script}"], cwd=PROJECT, check=True)
