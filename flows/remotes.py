"""Fetching: the other runner of git. A remote is asked for its refs and mirrored into a bare repository of ours.

https, ssh and file are the only transports; nothing ever asks for a password. A token comes from an environment
variable that the configuration names, goes to git by its environment and never into a URL, a file or a message.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flows.errors import SourceError
from flows.git import Repository, complaint, hardened_environment, require_git
from flows.urls import FETCH_PROTOCOLS, canonical_url, check_url, redact

if TYPE_CHECKING:
    import git as gitpython

_EVERYTHING = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
FetchProgress = Callable[[str, int, int], None]  # stage, done, total (0 = unknown)


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository somewhere else."""

    url: str
    token: str = field(default="", repr=False)

    def tip(self, branch: str) -> str:
        """Ask for the commit that a branch stands at now, "" if it is gone.

        Raises:
            SourceError: the remote cannot be reached or refused.
        """
        ref = f"refs/heads/{branch}"
        lines = (line.split("\t", 1) for line in self._ask("--refs", ref).split("\n"))
        return next((pair[0] for pair in lines if pair[1:] == [ref]), "")  # ls-remote matches the ends of names, too

    def head(self) -> str:
        """Ask for the ref that HEAD points to, "" if it is detached or there is none."""
        match = re.search(r"^ref: (refs/heads/\S+)\tHEAD$", self._ask("--symref", "HEAD"), re.M)
        return match.group(1) if match else ""

    def refs(self) -> list[str]:
        """Ask for the full names of all branches and tags.

        Raises:
            SourceError: the remote cannot be reached or refused.
        """
        lines = (line.partition("\t")[2] for line in self._ask("--refs", "refs/*").split("\n"))
        return [ref for ref in lines if ref.startswith(("refs/heads/", "refs/tags/"))]

    def _ask(self, option: str, ref: str) -> str:
        """Run ls-remote in an empty folder: git would obey the configuration of a repository around the caller's."""
        require_git()
        command = ["git", "ls-remote", option, "--end-of-options", check_url(self.url), ref]
        with tempfile.TemporaryDirectory(prefix="gitstrata-") as nowhere:
            env = self._environment() | {"GIT_CEILING_DIRECTORIES": str(Path(nowhere).parent)}
            done = subprocess.run(command, cwd=nowhere, env=env, capture_output=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise self._unreachable(done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="surrogateescape")

    def mirror(self, folder: Path, progress: FetchProgress | None = None, *, only: Sequence[str] = ()) -> Repository:
        """Bring a bare mirror in ``folder`` up to date, with all branches and tags; one that is damaged is made anew.

        With ``only``, full names of refs, it gets the commits that these stand at and no history; a call without brings
        the rest.

        Raises:
            SourceError: the remote cannot be reached or refused; the mirror stays as it was.
        """
        check_url(self.url)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.chmod(0o700)  # what a configuration denies is in here, too
        with _alone(folder):
            head = self.head()  # from here on the remote answers: what fails now is the mirror's fault
            try:
                self._update(folder, progress, only)
            except SourceError:
                self._replace(folder, progress)  # whole: not every server gives parts
            if head:
                (folder / "HEAD").write_text(f"ref: {head}\n")
        return Repository(folder, folder, canonical_url(self.url), is_mirror=True)

    def _replace(self, folder: Path, progress: FetchProgress | None) -> None:
        """Make a mirror anew beside the old one, which stays if that fails, too."""
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            self._update(fresh, progress, ())
            if folder.is_dir():
                shutil.rmtree(folder)
            else:
                folder.unlink(missing_ok=True)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _update(self, folder: Path, progress: FetchProgress | None, only: Sequence[str]) -> None:
        import git as gitpython

        try:
            is_new = not (folder / "HEAD").exists()
            if is_new:
                gitpython.Repo.init(folder, mkdir=True, bare=True)
            repo = gitpython.Repo(folder)
            repo.git.update_environment(**self._environment())
            is_shallow = (folder / "shallow").exists()
            depth = ["--unshallow"] if is_shallow else []
            if only and (is_new or is_shallow):
                depth = ["--depth=1"]
            _fetch(repo, self.url, depth, [f"+{ref}:{ref}" for ref in only] or _EVERYTHING, progress)
        except gitpython.GitCommandError as error:
            raise self._unreachable(str(error.stderr).strip().removeprefix("stderr: ").strip("'")) from error
        except OSError as error:
            raise SourceError(
                f"the mirror {folder} cannot be written: {error.strerror or error}. Check space and permissions there"
            ) from error
        except (gitpython.InvalidGitRepositoryError, gitpython.NoSuchPathError, configparser.Error) as error:
            raise SourceError(f"the mirror {folder} is damaged: delete it and run this again") from error

    def _environment(self) -> dict[str, str]:
        env = hardened_environment(":".join(FETCH_PROTOCOLS))
        if self.token:
            basic = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
            number = int(env["GIT_CONFIG_COUNT"])
            env |= {
                "GIT_CONFIG_COUNT": str(number + 1),
                f"GIT_CONFIG_KEY_{number}": f"http.{self.url}.extraHeader",
                f"GIT_CONFIG_VALUE_{number}": f"Authorization: Basic {basic}",
            }
        return env

    def _unreachable(self, stderr: str) -> SourceError:
        remedy = "Check the URL, the network and your access"
        return SourceError(f"{redact(self.url)} cannot be fetched: {complaint(stderr)}. {remedy}")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into a mirror."""
    lock = os.open(folder.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _fetch(
    repo: gitpython.Repo, url: str, depth: list[str], refspecs: list[str], progress: FetchProgress | None
) -> None:
    from git import RemoteProgress
    from git.cmd import handle_process_output

    class Progress(RemoteProgress):
        def update(
            self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
        ) -> None:
            if progress:
                stages = ((self.RECEIVING, "receiving"), (self.RESOLVING, "resolving"))
                stage = next((name for code, name in stages if op_code & code), "waiting")
                progress(stage, int(cur_count), int(max_count or 0))

    options = ["--prune", "--no-auto-gc", "--no-write-fetch-head", "--progress", *depth, "--end-of-options"]
    process = repo.git.execute(["git", "fetch", *options, url, *refspecs], as_process=True)
    parse = Progress().new_message_handler()
    lines: list[str] = []

    def on_line(line: bytes) -> None:  # names of refs are bytes: GitPython's own decoding fails on some
        text = line.decode(errors="replace")
        lines.append(text)
        parse(text)

    handle_process_output(process, None, on_line, finalizer=None, decode_streams=False)
    process.wait(stderr="\n".join(lines))
