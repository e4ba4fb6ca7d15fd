"""Real git repositories made by the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ENV = {
    "GIT_AUTHOR_NAME": "Ann Example",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann Example",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    """Run git in ``folder`` and return its output without the last newline."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], input=stdin, capture_output=True, check=True, env=os.environ | _ENV
    )
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


class Repo:
    """A checkout to write and commit in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        git(path, "init", "-q", "-b", "main")

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        return git(self.path, *arguments, stdin=stdin)

    def write(self, path: str | bytes, content: str | bytes) -> None:
        full = self.path / (os.fsdecode(path) if isinstance(path, bytes) else path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str = "change", **files: str | bytes) -> str:
        """Commit everything, after writing ``files`` (keyword ``a_py`` writes a.py), and return the sha."""
        for name, content in files.items():
            self.write(name.replace("__", "/").replace("_", "."), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")
