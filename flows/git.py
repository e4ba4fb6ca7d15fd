"""Runs git, with ``flows/remotes.py`` beside it. Reads objects and refs; never a working tree, never executes anything.

Every child runs in one hardened environment: no hooks, no prompts, no lazy fetch, no replace objects, no file system
monitor, ownership of the folder ignored (nothing of it is executed), and no transport at all except for a fetch, where
https, ssh and file are allowed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from flows import settings
from flows.errors import NoSuchSource, SourceError, UsageError
from flows.urls import canonical_url, redact

if TYPE_CHECKING:
    import git as gitpython

_CONFIG = (
    ("safe.directory", "*"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("credential.interactive", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("protocol.ext.allow", "never"),
)


def hardened_environment(protocols: str = "none") -> dict[str, str]:
    """Return the environment of every git child; ``protocols`` as in GIT_ALLOW_PROTOCOL.

    Whoever reads objects may read anybody's repository; whoever fetches may not trust another user's configuration.
    """
    config = _CONFIG if protocols == "none" else [pair for pair in _CONFIG if pair[0] != "safe.directory"]
    env = settings.git_environment() | {
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_ASKPASS": "true",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS": "true",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    for i, (key, value) in enumerate(config):
        env[f"GIT_CONFIG_KEY_{i}"] = key
        env[f"GIT_CONFIG_VALUE_{i}"] = value
    return env


@dataclass(frozen=True, slots=True)
class Repository:
    """An opened repository: a checkout, a linked worktree or a bare one."""

    git_dir: Path
    location: Path  # what the user sees: the checkout's root or the bare folder
    origin: str  # canonical form of the URL of remote "origin", else the absolute path
    is_mirror: bool = False  # ours: its folder says nothing to the user


@dataclass(frozen=True, slots=True)
class Commit:
    """A resolved commit."""

    sha: str
    tree: str
    committed_at: datetime  # UTC
    branch: str  # the branch, tag or revision it stands for


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a commit's tree, as git lists it."""

    record: bytes  # mode, type, object id and path: equal records are equal files
    mode: str
    oid: str
    path: bytes


def open_repository(path: Path) -> Repository:
    """Open the repository at or above ``path``.

    Raises:
        NoSuchSource: there is none.
        SourceError: it is not for this user to read.
    """
    repo = _gitpython(path)
    git_dir = Path(repo.git_dir).absolute()
    root = Path(repo.working_tree_dir) if repo.working_tree_dir else git_dir
    location = root if (root / ".git").exists() else git_dir
    with contextlib.suppress(Exception):  # a broken remote section is not our business
        urls = repo.remote("origin").config_reader.get("url")
        if isinstance(urls, str) and urls:
            return Repository(git_dir, location, canonical_url(urls, base=location))
    return Repository(git_dir, location, str(location))


def require_git() -> None:
    """Raise UsageError if there is no git; GitPython would say so in many lines."""
    if shutil.which("git") is None:
        raise UsageError("git is not installed or not on PATH: install git 2.30 or newer")


def _gitpython(path: Path) -> gitpython.Repo:
    require_git()
    import git as gitpython

    if not path.exists():
        raise NoSuchSource(f"{path} does not exist: give the folder of a git repository, or its URL")
    try:
        return gitpython.Repo(path, search_parent_directories=True)
    except (gitpython.InvalidGitRepositoryError, gitpython.NoSuchPathError) as error:
        raise NoSuchSource(
            f"{path} is not in a git repository: give the folder of a git repository, or its URL"
        ) from error
    except PermissionError as error:
        raise SourceError(f"{path} cannot be read by this user: change its permissions, or give its URL") from error


def resolve(repository: Repository, revision: str = "", *, branch: str = "", full: bool = False) -> Commit:
    """Find the commit of a branch, tag or any revision; "" means what is checked out.

    ``branch`` names it in the index; with ``full``, ``revision`` is a whole ref and nothing else is tried.

    Raises:
        NoSuchSource: unknown revision.
        SourceError: a repository without a commit.
    """
    if "\n" in revision or "\0" in revision:
        raise UsageError("a revision is one line without NUL")
    branch = branch or revision or head_branch(repository)
    names = [f"refs/heads/{revision}", f"refs/tags/{revision}", f"refs/remotes/origin/{revision}", revision]
    if full:
        names = [revision]
    with ObjectReader(repository) as reader:
        for name in names if revision else ["HEAD"]:
            found = reader.find(f"{name}^{{commit}}")
            if found is not None:
                return _parse_commit(found[0], found[1], branch)
    where = repository.location
    _run(repository, "rev-parse", "--git-dir")  # a repository that git cannot open says so in git's own words
    for name in names if revision else ["HEAD"]:
        with contextlib.suppress(SourceError):
            sha = _run(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", name).decode().strip()
            if sha and sha != name:
                raise UsageError(f"{name} of {where} is {sha[:12]}, which cannot be read: run `git fsck` there")
    if revision and repository.is_mirror:
        raise NoSuchSource(f"{repository.origin} has no branch, tag or commit {revision!r}: check the name")
    if revision:
        raise NoSuchSource(f"{where} has no branch, tag or commit {revision!r}: see `git branch -a` there")
    where_shown = repository.origin if repository.is_mirror else where
    raise SourceError(f"{where_shown} has no commit at HEAD yet: commit something, or name a branch with --rev")


def branch_tip(repository: Repository, branch: str) -> str:
    """Return the commit that a local branch stands at, "" if there is no such branch."""
    with ObjectReader(repository) as reader:
        found = reader.find(f"refs/heads/{branch}^{{commit}}")
    return found[0] if found else ""


def is_ancestor(repository: Repository, older: str, newer: str) -> bool | None:
    """Say whether one commit is in the history of another, None where this clone cannot tell."""
    command = _command(repository.git_dir, "merge-base", "--is-ancestor", older, newer)
    code = subprocess.run(command, capture_output=True, env=hardened_environment()).returncode
    return {0: True, 1: False}.get(code)


def list_refs(repository: Repository) -> dict[str, str]:
    """Return the commit or tag object behind each ref below refs/heads and refs/tags, by full name."""
    output = _run(repository, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
    lines = output.decode(errors="surrogateescape").splitlines()
    return {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines}


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """How a checkout stands to an indexed commit."""

    head: str
    ahead: int | None  # commits in HEAD but not in the indexed one; None if this clone does not have it
    behind: int | None
    changed: int  # files that differ from HEAD, by git's index and lstat; none of them is read


def working_tree(repository: Repository, indexed: str) -> WorkingTree | None:
    """Compare a checkout with an indexed commit; None for a bare repository or one without a commit."""
    if repository.location == repository.git_dir:
        return None
    try:
        head = _run(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except SourceError:
        return None
    behind: int | None = None
    ahead: int | None = None
    with contextlib.suppress(SourceError):
        counts = _run(repository, "rev-list", "--left-right", "--count", f"{indexed}...{head}", "--").split()
        behind, ahead = int(counts[0]), int(counts[1])
    staged = _run(repository, "diff-index", "-z", "--cached", "--name-only", "--ignore-submodules", head)
    changed = set(staged.split(b"\0")) - {b""}
    return WorkingTree(head, ahead, behind, len(changed | set(_touched(repository))))


_STAT = re.compile(
    rb"(\d{6}) [0-9a-f]+ \d\t([^\0]*)\0  ctime: [\d:]+\n  mtime: (\d+):(\d+)\n[^\0]*?size: (\d+)\t[^\n]*\n"
)


def _touched(repository: Repository) -> Iterator[bytes]:
    """Yield the paths whose size or time differs from git's index. No file is opened, and git is not asked to look:
    it would run the repository's own filters on what it is not sure of.
    """
    listed = _run(repository, "ls-files", "--stage", "--debug", "-z")
    for mode, path, seconds, nanoseconds, size in _STAT.findall(listed):
        if mode == b"160000":
            continue
        try:
            now = os.lstat(os.path.join(os.fsencode(repository.location), path))  # noqa: PTH118 (a path of bytes)
        except OSError:
            yield path
            continue
        then = int(seconds) * 10**9 + int(nanoseconds)
        same_time = now.st_mtime_ns == then or (not int(nanoseconds) and now.st_mtime_ns // 10**9 == int(seconds))
        if not same_time or now.st_size & 0xFFFFFFFF != int(size):
            yield path


def head_branch(repository: Repository) -> str:
    """Return the branch that is checked out, or the default one of a mirror; "HEAD" if detached."""
    head = (repository.git_dir / "HEAD").read_text(errors="replace").strip()
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else "HEAD"


def _parse_commit(oid: str, content: bytes, branch: str) -> Commit:
    """Return a commit's tree and date; a date that is missing or out of range becomes 1970."""
    tree, seconds = "", 0
    for header in content.split(b"\n\n", 1)[0].split(b"\n"):
        if header.startswith(b"tree "):
            tree = header[5:].decode(errors="replace")
        elif header.startswith(b"committer ") and (found := re.search(rb" (\d{1,12}) [+-]\d+$", header)):
            seconds = int(found.group(1))
    if not tree:
        raise SourceError(f"commit {oid} has no tree: run `git fsck` in that repository")
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        when = datetime.fromtimestamp(0, UTC)
    return Commit(oid, tree, when, branch)


def list_tree(repository: Repository, commit: str) -> list[Entry]:
    """Return every entry below ``commit``, in git's order.

    Raises:
        SourceError: git failed; a failure is never read as an empty list.
    """
    output = _run(repository, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = []
    for record in output.split(b"\0"):
        if record:
            meta, path = record.split(b"\t", 1)
            mode, _kind, oid = meta.split(b" ")
            entries.append(Entry(record, mode.decode(), oid.decode(), path))
    return entries


def find_files(repository: Repository, commit: str, paths: Sequence[str]) -> list[Entry]:
    """Return the entries of those of some paths that are regular files in ``commit``."""
    output = _run(repository, "ls-tree", "-z", "--full-tree", commit, "--", *paths)
    records = [record for record in output.split(b"\0") if record.startswith(b"100")]
    return [
        Entry(r, r[:6].decode(), r.split(b"\t", 1)[0].split(b" ")[2].decode(), r.split(b"\t", 1)[1]) for r in records
    ]


def list_folder(repository: Repository, commit: str, folder: str) -> dict[str, str]:
    """Return name and object id of each file that lies directly in ``folder`` ("." = the root); {} if there is none."""
    where = [] if folder == "." else ["--", f"{folder}/"]
    output = _run(repository, "ls-tree", "-z", "--full-tree", commit, *where)
    found = {}
    for record in output.split(b"\0"):
        meta, _, path = record.partition(b"\t")
        if b" blob " in meta:
            found[path.decode(errors="surrogateescape").rpartition("/")[2]] = meta.rsplit(b" ", 1)[1].decode()
    return found


def blob_id(content: bytes, like: str) -> str:
    """Return the object id that ``content`` has as a blob, in the hash of the repository of ``like``."""
    data = b"blob %d\0" % len(content) + content
    return (hashlib.sha256(data) if len(like) == 64 else hashlib.sha1(data, usedforsecurity=False)).hexdigest()


def sizes(repository: Repository, oids: Sequence[str]) -> dict[str, int]:
    """Return the size in bytes of each object that exists, without reading its content."""
    if not oids:
        return {}
    output = _run(repository, "cat-file", "--batch-check", stdin="".join(f"{oid}\n" for oid in oids).encode())
    fields = (line.split(b" ") for line in output.splitlines())
    return {parts[0].decode(): int(parts[2]) for parts in fields if len(parts) == 3}


def shallow_boundary(repository: Repository) -> frozenset[str]:
    """Return the commits whose parents this clone was told to leave out; none in a whole clone."""
    name = _run(repository, "rev-parse", "--path-format=absolute", "--git-path", "shallow").decode().rstrip("\n")
    with contextlib.suppress(FileNotFoundError):
        return frozenset(Path(name).read_text().split())
    return frozenset()


def list_commits(repository: Repository, tip: str, known: str = "") -> Iterator[str]:
    """Yield the commits behind ``tip`` that are no merges, newest first, without those behind ``known``."""
    without = [f"^{known}"] if known else []
    lines = _stream(repository, b"\n", "rev-list", "--no-merges", "--end-of-options", tip, *without)
    return (line.decode() for line in lines)


_FIELDS = "%x01%H%x00%ct%x00%an%x00%ae%x00%s%x00%(trailers:key=Co-authored-by,valueonly,separator=%x01)"


def read_commits(repository: Repository, shas: Sequence[str]) -> Iterator[bytes]:
    """Yield NUL-separated fields for each commit: \\x01 and its id, time, author's name and e-mail, subject,
    co-authors (apart by \\x01), then what ``git diff-tree --raw -z`` says: changed paths, exact renames as such.
    """
    options = ["-r", "-z", "--root", "--raw", "-M100%", "--no-abbrev", "--always", "--encoding=UTF-8"]
    names = "".join(f"{sha}\n" for sha in shas).encode()
    return _stream(repository, b"\0", "diff-tree", "--stdin", *options, f"--format={_FIELDS}", stdin=names)


def _stream(repository: Repository, end: bytes, *arguments: str, stdin: bytes = b"") -> Iterator[bytes]:
    """Yield what git prints, apart by ``end``, as it comes; ``stdin`` is to be shorter than a pipe's buffer.

    Raises:
        SourceError: git failed; what it had printed is not all.
    """
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            _command(repository.git_dir, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=hardened_environment(),
            cwd=repository.location,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(stdin)
                process.stdin.close()
            rest = b""
            while chunk := process.stdout.read(1 << 16):
                *whole, rest = (rest + chunk).split(end)
                yield from whole
            if rest:
                yield rest
            if process.wait():
                complaints.seek(0)
                reason = complaint(complaints.read().decode(errors="replace"))
                raise SourceError(f"git {arguments[0]} failed in {repository.location}: {reason}")
        finally:
            process.stdout.close()
            process.kill()
            process.wait()


def canonical_people(repository: Repository, mailmap: str, people: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (name, e-mail) of each person as the blob ``mailmap`` has it; git's own reader applies it."""
    if not people or not mailmap:
        return list(people)
    config = ["-c", "core.bare=true", "-c", f"mailmap.blob={mailmap}", "-c", f"mailmap.file={os.devnull}"]
    command = ["git", f"--git-dir={repository.git_dir}", *config, "check-mailmap", "--stdin"]
    given = "".join(f"{name} <{email}>\n" for name, email in people).encode()
    with tempfile.TemporaryDirectory(prefix="gitstrata-") as nowhere:  # git would read a .mailmap that lies here
        done = subprocess.run(command, input=given, capture_output=True, env=hardened_environment(), cwd=nowhere)
    lines = done.stdout.decode(errors="replace").split("\n")[:-1]
    if done.returncode or len(lines) != len(people):
        raise SourceError(f"git check-mailmap failed: {complaint(done.stderr.decode(errors='replace'))}")
    found = [re.fullmatch(r"(?:(.*) )?<(.*)>", line) for line in lines]
    return [(m[1] or "", m[2]) if m else person for m, person in zip(found, people, strict=True)]


class ObjectReader:
    """One ``git cat-file --batch`` process; restarted when a corrupt object kills it."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def read(self, oid: str) -> bytes:
        """Return the content of an object.

        Raises:
            SourceError: it is missing (a partial clone) or corrupt.
        """
        found = self.find(oid)
        if found is None:
            raise SourceError(
                f"object {oid} is missing or corrupt in {self._repository.location}: run `git fsck` there"
            )
        return found[1]

    def find(self, name: str) -> tuple[str, bytes] | None:
        """Return (object id, content) of any object name, or None where git has none."""
        try:
            return self._ask(name)
        except (BrokenPipeError, EOFError):
            self.close()
            return None

    def _ask(self, name: str) -> tuple[str, bytes] | None:
        stdin, stdout = self._pipes()
        stdin.write(name.encode(errors="surrogateescape") + b"\n")
        stdin.flush()
        header = stdout.readline()
        if not header.endswith(b"\n"):
            raise EOFError
        fields = header.split()
        if len(fields) != 3 or not fields[2].isdigit():
            return None
        size = int(fields[2])
        content = stdout.read(size + 1)
        if len(content) != size + 1:
            raise EOFError
        return fields[0].decode(), content[:-1]

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = subprocess.Popen(
                _command(self._repository.git_dir, "cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=hardened_environment(),
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def _command(git_dir: Path, *arguments: str) -> list[str]:
    return ["git", f"--git-dir={git_dir}", *arguments]


def _run(repository: Repository, *arguments: str, stdin: bytes = b"") -> bytes:
    command = _command(repository.git_dir, *arguments)
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=hardened_environment(), cwd=repository.location
        )
    except FileNotFoundError as error:
        require_git()
        raise SourceError(f"{repository.location} is gone: give the folder of a git repository") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        reason = complaint(said)
        if "promisor" in said:
            reason = "it is a partial clone and lacks objects of this commit; index its URL, or clone it whole"
        raise SourceError(f"git {arguments[0]} failed in {repository.location}: {reason}")
    return done.stdout


# What git adds after the line that says what is wrong.
_NO_REASON = re.compile(
    r"fatal: (Could not read from remote|the remote end hung up|early EOF|fetch-pack: |index-pack )|fetch-pack: "
    r"|Please make sure you have the correct|and the repository exists\.|warning: |hint: ",
    re.I,
)
_MARK = re.compile(r"(fatal|error|remote): +", re.I)


def complaint(stderr: str) -> str:
    """Return git's own reason out of all that it said, without credentials and without a full stop at its end."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", stderr) if line.strip()]
    said = [line for line in lines if not _NO_REASON.match(line)] or lines or ["no message"]
    marked = [line for line in said if line.lower().startswith(("fatal:", "error:"))]
    return redact(_MARK.sub("", (marked[0] if marked else said[-1]), count=1)).removesuffix(".")
