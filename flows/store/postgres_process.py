"""Locks, sockets and processes of the embedded Postgres: what the kernel knows about a server.

Nothing here reads a process id from a file, and nothing knows what the folders mean.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.store.postgres_binaries import SERVER_ENVIRONMENT, Account

if sys.platform != "win32":
    import fcntl


def lock_shared(path: Path) -> int:
    """Wait for a share of the lock at ``path`` and return its open file; closing that gives the share back."""
    return _lock(path, fcntl.LOCK_SH)


def lock(path: Path) -> int:
    """Wait for the lock at ``path``, alone."""
    return _lock(path, fcntl.LOCK_EX)


def try_lock(path: Path) -> int | None:
    """Return the lock at ``path``, or None if someone else holds it or a share of it."""
    try:
        return _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def unlock(handle: int) -> None:
    """Give a lock back even if forked children still hold the file open."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _lock(path: Path, mode: int) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


def spawn(command: Sequence[str | Path], account: Account | None, log: Path, lock: int) -> None:
    """Start a server that outlives us; it and all its children hold ``lock``, its first words go to ``log``."""
    handle = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        # The shell goes away at once, so that the server is no child of ours that nobody would reap.
        subprocess.run(
            ["/bin/sh", "-c", '"$0" "$@" &', *command],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            check=True,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            pass_fds=(lock,),
            start_new_session=True,  # a Ctrl-C in our terminal is not for the server
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    finally:
        os.close(handle)


def listener(path: Path) -> int | None:
    """Return the id of the process that listens at the socket ``path``, 0 if it is not in our container; else None."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return None
        return peer(probe)


def peer(connected: socket.socket) -> int:
    """Return the id of the process that listens at the other end of a connected socket."""
    if sys.platform == "darwin":
        return int(connected.getsockopt(0, 2))  # SOL_LOCAL, LOCAL_PEERPID
    else:  # noqa: RET505 -- mypy checks one branch a platform
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])


def processes_in(data: Path) -> list[int]:
    """Return the processes of a server on ``data``: Postgres makes it their current folder. Linux only."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").samefile(data) and (entry / "exe").readlink().name.split()[0] == "postgres":
                found.append(int(entry.name))
    return found
