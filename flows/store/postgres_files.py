"""What the embedded Postgres keeps on disk: its data folder, its configuration and its log.

Knows folders and permissions. Must not know who uses the server or whether one runs: ``embedded`` decides that, and
calls everything here while it holds the locks.

When root starts the server, the folders ``data``, ``log`` and ``s`` belong to the unprivileged user that runs it. That
user may be shared with other services, so root follows no link inside them; what root writes lies one level higher.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from flows.errors import DatabaseError
from flows.store.postgres_binaries import Account, Binaries, last_line, passwd_entry, run_as

SUPERUSER = "gitstrata"
SOCKET_NAME = ".s.PGSQL.5432"
MIB = 2**20
_SUN_PATH = 103  # bytes of a socket's path: 108 with the final NUL on Linux, 104 on macOS
_WITH_CONFIG = "\ninclude '../gitstrata.conf'  # rewritten at each start\n"


# Folders


def refuse_odd_name(directory: Path) -> None:
    """Refuse names that PostgreSQL's own files cannot hold."""
    try:
        encoded = str(directory).encode()
    except UnicodeEncodeError:
        encoded = b"\n"
    if b"\n" in encoded:
        raise DatabaseError(f"{str(directory)!a} is not UTF-8 or has a line break: choose another folder")


def private_folder(path: Path, account: Account | None) -> None:
    """Make ``path`` a folder that only the server's user (and root) can enter; refuse a link."""
    path.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if account is not None and os.fstat(handle).st_uid != account.uid:
            _give(path, account)
            os.fchown(handle, account.uid, account.gid)
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _give(tree: Path, account: Account) -> None:
    """Change the owner below ``tree``: a volume from a system where the user had another number."""
    for root, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(Path(root) / name, account.uid, account.gid, follow_symlinks=False)


def socket_dir(directory: Path) -> Path:
    """Return the folder of the socket: ``s``, or the one noted in ``socket`` if that path is too long for one."""
    usual = directory / "s"
    if _fits_socket(usual):
        return usual
    with contextlib.suppress(FileNotFoundError):
        noted = Path((directory / "socket").read_text("utf-8"))
        if _is_private(noted, (directory / "data").stat().st_uid):  # /tmp may have been emptied and filled by others
            return noted
    return usual  # where no server can be


def choose_socket_dir(directory: Path) -> Path:
    """Return ``s``, or a new private folder with a short name, which is noted in ``socket``."""
    if _fits_socket(directory / "s"):
        return directory / "s"
    forget_socket_dir(directory)
    for parent in ("/tmp", tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="gitstrata-", dir=parent))
            if _fits_socket(folder):
                (directory / "socket").write_text(str(folder), "utf-8")
                return folder
            folder.rmdir()
    raise DatabaseError(f"{directory} is too long for a socket and /tmp is closed: choose a shorter folder")


def forget_socket_dir(directory: Path) -> None:
    """Remove the short folder in /tmp, if there is one."""
    if (folder := socket_dir(directory)) != directory / "s":
        with contextlib.suppress(OSError):  # someone put files there: leave it
            folder.rmdir()
    (directory / "socket").unlink(missing_ok=True)


def _is_private(path: Path, uid: int) -> bool:
    """Say whether ``path`` is a real folder of ``uid`` that nobody else can enter."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077


def _fits_socket(folder: Path) -> bool:
    """Say whether libpq can reach a socket in ``folder``: it must be short, and a comma separates hosts."""
    return len(os.fsencode(folder / SOCKET_NAME)) <= _SUN_PATH and "," not in str(folder)


# The data folder


def create_cluster(data: Path, binaries: Binaries, account: Account | None, lock: int) -> None:
    """Run initdb beside ``data`` and move the result into place, so that no half data folder ever has that name.

    initdb inherits ``lock``: if we are killed, nobody starts a second one beside it.
    """
    if account is None and passwd_entry(os.geteuid()) is None:
        raise DatabaseError(
            f"user id {os.geteuid()} has no entry in /etc/passwd and PostgreSQL's initdb needs one: add a line for it, "
            "run as a user that has one, or set GITSTRATA_DSN to a database"
        )
    fresh = data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    private_folder(fresh, account)
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if binaries.major >= 17 else []
    options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", *locale, "--no-sync", "--no-instructions"]
    result = run_as(account, binaries.folder / "initdb", "-D", fresh, *options, keep=lock)
    if result.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        reason = complaint(result.stderr) or last_line(result.stderr) or f"exit status {result.returncode}"
        raise DatabaseError(f"cannot create a database in {data.parent}: {reason}{remedy(reason)}")
    handle = os.open(fresh / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    with os.fdopen(handle, "a", encoding="utf-8") as conf:
        conf.write(_WITH_CONFIG)
    fresh.rename(data)


def check_version(data: Path, binaries: Binaries) -> None:
    """Refuse a data folder of another major version; PostgreSQL cannot open it."""
    try:
        found = int((data / "PG_VERSION").read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        raise DatabaseError(f"{data} is not a complete PostgreSQL data folder: move it away and index again") from None
    if found != binaries.major:
        raise DatabaseError(
            f"{data} was made by PostgreSQL {found}, but these binaries are PostgreSQL {binaries.version}: "
            f"set GITSTRATA_PG_BIN to a PostgreSQL {found} (to take the data along by pg_dump, or the case notes by "
            "`gitstrata cases list --json`), or move the folder away and index again"
        )


def remove_leftovers(data: Path, sockets: Path) -> None:
    """Remove the pid files of a server that died; only call when no process of it lives.

    PostgreSQL would take them for a live server if their process id belongs to another process by now. It still
    refuses to start beside a living one: the shared memory is tied to the data folder.
    """
    for path in (data / "postmaster.pid", sockets / SOCKET_NAME, sockets / f"{SOCKET_NAME}.lock"):
        path.unlink(missing_ok=True)


# Configuration


def write_config(directory: Path, sockets: Path) -> None:
    """Write ``gitstrata.conf``, which the data folder's own configuration includes."""
    where = "../s" if sockets == directory / "s" else f'"{sockets}"'  # relative to the data folder: any name works
    lines = [f"{name} = '{value}'\n" for name, value in _config(memory(), shared_memory()).items()]
    text = "".join([*lines, "unix_socket_directories = '{}'\n".format(where.replace("'", "''"))])
    fresh = directory / "gitstrata.conf.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(directory / "gitstrata.conf")


def _config(machine: int, shm: int) -> dict[str, str]:
    """Return the settings for a machine with that many bytes of memory and of /dev/shm."""
    build = _between(128, machine // MIB // 16, 1024)
    return {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": f"{_between(128, machine // MIB // 8, 4096)}MB",  # a million chunks take 3 GB
        "effective_cache_size": f"{machine // MIB // 2}MB",
        "work_mem": "32MB",
        "maintenance_work_mem": f"{build}MB",
        "autovacuum_work_mem": "128MB",
        "autovacuum_max_workers": "2",
        # A parallel index build keeps maintenance_work_mem in /dev/shm, and sessions may ask for more than the default.
        "max_parallel_maintenance_workers": "2" if shm // MIB >= 4 * build else "0",
        "dynamic_shared_memory_type": "posix" if shm >= 128 * MIB else "mmap",
        "jit": "off",
        "random_page_cost": "1.1",
        "fsync": "on",
        "synchronous_commit": "off",  # a crash may lose the last .6 s, never the order; publishing turns it on
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "wal_compression": "on",  # pglz: the wheel has neither lz4 nor zstd
        "max_wal_size": "512MB",
        "checkpoint_timeout": "15min",
        "timezone": "UTC",
        "lc_messages": "C",  # the launcher reads a few of the messages
        "logging_collector": "on",
        "log_directory": "../log",
        "log_filename": "server-%a.log",  # one file a weekday, emptied when its day comes again
        "log_rotation_age": "1d",
        "log_rotation_size": "0",
        "log_truncate_on_rotation": "on",
        "log_file_mode": "0600",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",  # statements hold source text
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
        "log_autovacuum_min_duration": "-1",
    }


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))


def memory() -> int:
    """Return the bytes of memory that this machine or container may use."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(name)
        if path.is_file() and (text := path.read_text("utf-8").strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def shared_memory() -> int:
    """Return the free bytes of /dev/shm; where the system has no such folder, as macOS, there is no such limit."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return 0 if sys.platform == "linux" else 2**40
    return found.f_bavail * found.f_frsize


# Log


def newest_log(directory: Path) -> Path:
    """Return the log file written last."""
    logs = sorted((directory / "log").glob("server-*.log"), key=lambda path: path.stat().st_mtime_ns)
    return logs[-1] if logs else directory / "start.log"


def start_complaint(directory: Path) -> str:
    """Return why the last start failed, in the server's words; "" if it said nothing."""
    first = _tail(directory / "start.log")  # emptied before each start; its last line points to the other log
    later = _tail(newest_log(directory)).rpartition("starting PostgreSQL")[2]
    return complaint(first) or complaint(later)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 8192))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def complaint(text: str) -> str:
    """Return the last line of ``text`` that reports an error, without its time stamp."""
    found = re.findall(r"(?:^|\s)((?:FATAL|PANIC|ERROR|initdb: error): .*)$", text, re.MULTILINE)
    return next((line.strip() for line in reversed(found) if "starting up" not in line), "")  # that is our own asking


def remedy(reason: str) -> str:
    """Return what to do about ``reason``, as the end of a sentence."""
    for sign, advice in _REMEDIES.items():
        if sign.lower() in reason.lower():
            return f": {advice}"
    return ""


_REMEDIES = {
    "No space left": "free some disk space or choose another folder with GITSTRATA_HOME",
    "Disk quota": "free some disk space or choose another folder with GITSTRATA_HOME",
    "File too large": "raise the file size limit (ulimit -f) of this process",
    "Read-only file system": "choose a folder that can be written with GITSTRATA_HOME",
    "Permission denied": "give this user that permission or choose another folder with GITSTRATA_HOME",
    "Operation not permitted": "choose a folder that this user owns with GITSTRATA_HOME",
    "Not a directory": "choose another folder with GITSTRATA_HOME",
    "No locks available": "choose a folder on a local disk with GITSTRATA_HOME",
    "Cannot allocate memory": "free some memory",
}
