"""A project folder with our real shell scripts, and beside it a PATH with a Python that only pretends to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SCRIPTS = ("index", "test", "lib.sh")
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-all.lock", "requirements-torch.txt")
TOOLS = (
    *("awk", "bash", "cat", "chmod", "cksum", "cp", "cut", "date", "df", "dirname", "find", "git", "grep", "id", "ls"),
    *("mkdir", "mv", "readlink", "rm", "sed", "sh", "sleep", "sort", "tail", "touch", "tr", "uname"),
)

# Answers the scripts' questions by itself, makes an "environment" by copying itself, notes what pip and the checks
# were asked, and leaves all else (the lock, the final program) to the Python that runs this test.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) echo {version} ;;
  *"import venv, ensurepip"*) exit {no_venv} ;;
  *"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"-m pip "*)
    echo "$*" >>"{notes}"
    if [ -e "{notes}.pip" ]; then . "{notes}.pip"; fi
    ;;
  *"-m ruff "* | *"-m mypy "* | *"-m pytest"*)
    echo "$*"
    if [ -e "{notes}.checks" ]; then . "{notes}.checks"; fi
    ;;
  *) exec "{real}" "$@" ;;
esac
"""


class FakeProject:
    """One project folder, its private PATH, a home and the notes of the fake pip."""

    def __init__(self, root: Path, *, name: str = "project", shell: str = "sh") -> None:
        self.folder = root / name
        self.venv = self.folder / ".venv"
        self.home = root / "home"
        self.bin = root / "bin"
        self.notes = root / "pip-calls"
        self.shell = shell
        for folder in (self.folder / "scripts", self.home, self.bin):
            folder.mkdir(parents=True)
        for script in SCRIPTS:
            shutil.copy(PROJECT / "scripts" / script, self.folder / "scripts" / script)
        for file in (*LOCKS, "pyproject.toml"):
            (self.folder / file).write_text(f"{file}\n")
        tour = "import os, sys\nprint(os.getcwd(), *sys.argv[1:], sep='|')\n"
        (self.folder / "scripts" / "index_tour.py").write_text(tour)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None, f"this machine has no {tool}"
            (self.bin / tool).symlink_to(found)
        self.add_python("python3")

    def add_python(self, name: str, *, version: str = "3.11", can_make_environments: bool = True) -> None:
        no_venv = 0 if can_make_environments else 1
        text = FAKE_PYTHON.format(version=version, no_venv=no_venv, notes=self.notes, real=sys.executable)
        self.add_tool(name, text)

    def add_tool(self, name: str, text: str) -> None:
        """Put an executable on the private PATH, in place of the real one."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def on_pip(self, shell_text: str) -> None:
        """Have each call of the fake pip run this; an empty text makes it succeed again."""
        Path(f"{self.notes}.pip").write_text(shell_text)

    def on_checks(self, shell_text: str) -> None:
        """Have each call of ruff, mypy and pytest run this."""
        Path(f"{self.notes}.checks").write_text(shell_text)

    @property
    def pip_calls(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def environment(self, **changes: str | None) -> dict[str, str]:
        base: dict[str, str | None] = {"PATH": str(self.bin), "HOME": str(self.home), "LC_ALL": "C.UTF-8", **changes}
        return {key: value for key, value in base.items() if value is not None}

    def start(
        self, script: str, *arguments: str, cwd: Path | None = None, **changes: str | None
    ) -> subprocess.Popen[str]:
        """Start a script in a session of its own."""
        return subprocess.Popen(
            self._command(script, arguments),
            cwd=cwd or self.folder.parent,
            env=self.environment(**changes),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(
        self, script: str, *arguments: str, cwd: Path | None = None, **changes: str | None
    ) -> subprocess.CompletedProcess[str]:
        with self.start(script, *arguments, cwd=cwd, **changes) as process:
            out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def _command(self, script: str, arguments: Sequence[str]) -> list[str]:
        path = script if os.sep in script else str(self.folder / "scripts" / script)
        return [str(self.bin / self.shell), path, *arguments]
