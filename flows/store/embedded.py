"""Starts and stops the embedded Postgres, and shares one server between all processes that want it.

Owns the three locks of a server folder and the question whether a server lives. Knows nothing of schemas, nor of SQL
beyond creating the empty database. The kernel drops a lock with the last process that holds it:

- ``start.lock``: held while a server is started or stopped;
- ``clients.lock``: each client holds a share; who leaves and finds no other share stops the server;
- ``server.lock``: inherited by every process of the server, so it is free only when none of them lives.

A server lives if a connection to its socket works and its ``data_directory`` is ours; the kernel names the process that
listens there. No process id is read from a file.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo

from flows.errors import DatabaseError, UsageError
from flows.settings import NOT_A_PLACE
from flows.store import postgres_files as files
from flows.store import postgres_process as process
from flows.store.postgres_binaries import Account, find_binaries, first_closed, last_line, make_folders, server_account

DATABASE = "gitstrata"
_STARTING = ("starting up", "shutting down", "not yet accepting", "recovery mode")
_FULL = ("too many clients", "connection slots")
_RECOVERY_SECONDS = 300.0  # a crash may leave 2 GB of log to replay
_ANSWER_SECONDS = 10.0
_ORPHAN_SECONDS = 3.0  # processes without a server notice that within moments unless they compute
_STOP_SECONDS = 60.0  # the last checkpoint
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What can be said of an embedded server without starting it."""

    running: bool
    pid: int | None  # None if it is not running, or runs in another container
    version: str | None  # None if it is not running, or not ready to answer
    socket_dir: Path
    data_dir: Path
    log_file: Path


@dataclass(frozen=True, slots=True)
class _Live:
    """A server that answered."""

    pid: int  # 0: in another container
    version: str


@dataclass(frozen=True, slots=True)
class _NotReady:
    """A server that listens but did not let us in, and its words."""

    pid: int
    words: str

    def says(self, phrases: tuple[str, ...]) -> bool:
        return any(phrase in self.words for phrase in phrases)


class EmbeddedServer:
    """A Postgres of ours below ``directory``, shared by all processes that hold it open."""

    def __init__(self, directory: Path, *, postgres_bin: Path | None = None) -> None:
        if sys.platform == "win32":
            raise DatabaseError("the embedded database needs Linux or macOS: run gitstrata inside WSL")
        self.directory = directory.absolute()
        files.refuse_odd_name(self.directory)
        self._data = self.directory / "data"
        self._start_lock = self.directory / "start.lock"
        self._clients_lock = self.directory / "clients.lock"
        self._server_lock = self.directory / "server.lock"
        self._postgres_bin = postgres_bin
        self._mutex = threading.RLock()
        self._share: int | None = None
        self._owner = 0

    def start(self) -> str:
        """Make sure that the server runs, take a share in it, and return how to connect.

        The first call in a process takes the share, later ones only check that the server still answers.
        """
        with self._mutex, self._in_one_line():
            self._make_directory()
            with self._starting_or_stopping():
                self._ensure_running()
                if not self._holds_share():
                    self._take_share()
                return self._conninfo()

    def release(self) -> None:
        """Drop this process's share; whoever drops the last one stops the server. Runs by itself at exit.

        A server that cannot be stopped is logged, not raised: what its client came for is done.
        """
        with self._mutex:
            if self._share is None or not self._holds_share():
                return
            atexit.unregister(self.release)
            share, self._share = self._share, None
            try:
                with self._in_one_line():
                    self._give_back(share)
            except DatabaseError as error:
                _log.warning("%s", error)

    def stop(self) -> bool:
        """Stop the server whoever uses it, and say whether it was running."""
        with self._mutex, self._in_one_line():
            if not self._data.exists():
                return False
            with self._starting_or_stopping():
                return self._shut_down()

    def status(self) -> ServerStatus:
        """Say whether the server runs, and where its files are."""
        with self._in_one_line():
            answer = self._ask()
            return ServerStatus(
                running=answer is not None,
                pid=(answer.pid or None) if answer else None,
                version=answer.version if isinstance(answer, _Live) else None,
                socket_dir=self._socket_dir(),
                data_dir=self._data,
                log_file=files.newest_log(self.directory),
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _holds_share(self) -> bool:
        return self._share is not None and self._owner == os.getpid()  # a forked child inherits the file, not the share

    def _take_share(self) -> None:
        if self._share is not None:
            os.close(self._share)  # the parent's
        self._share = process.lock_shared(self._clients_lock)
        self._owner = os.getpid()
        atexit.register(self.release)

    def _give_back(self, share: int) -> None:
        if not self.directory.exists():  # someone removed it all; the server notices that by itself
            process.unlock(share)
            return
        with self._starting_or_stopping():
            process.unlock(share)
            if self._is_free(self._clients_lock):
                self._shut_down()

    # Starting

    def _ensure_running(self) -> None:
        """Wait for a server that answers; launch one if no process of any lives, end those that nobody can reach."""
        launched = cleared = silent = False
        since = time.monotonic()
        while not isinstance(answer := self._ask(), _Live):
            if silent != (answer is None):
                silent, since = answer is None, time.monotonic()
            if answer is None and (lock := process.try_lock(self._server_lock)) is not None:
                try:
                    if launched:
                        raise self._failed_start()
                    self._launch(lock)
                finally:
                    os.close(lock)
                launched, since = True, time.monotonic()
            if time.monotonic() - since > self._patience(answer, launched):
                if answer is not None or launched or cleared:
                    raise self._no_answer(answer)
                self._end_processes()
                cleared, since = True, time.monotonic()
            time.sleep(0.005)

    def _patience(self, answer: _NotReady | None, launched: bool) -> float:
        """Return how many seconds to wait for a server in that state."""
        if answer is None:
            return _RECOVERY_SECONDS if launched else _ORPHAN_SECONDS
        if answer.says(_FULL):
            raise DatabaseError(f"all connections of the database in {self.directory} are taken: end some clients")
        if answer.says((f'database "{DATABASE}" does not exist',)):
            self._create_database()
        return _RECOVERY_SECONDS if answer.says(_STARTING) else _ANSWER_SECONDS

    def _launch(self, lock: int) -> None:
        """Start a server whose processes all hold ``lock``; the caller waits until it answers."""
        account = server_account(self._data)
        self._refuse_closed_folder(account)
        binaries = find_binaries(self._postgres_bin, self.directory, account)
        if not self._data.exists():
            files.create_cluster(self._data, binaries, account, lock)
        files.check_version(self._data, binaries)
        socket_dir = files.choose_socket_dir(self.directory)
        for folder in (self._data, self.directory / "log", socket_dir):
            files.private_folder(folder, account)
        files.remove_leftovers(self._data, socket_dir)
        files.write_config(self.directory, socket_dir)
        command = (binaries.folder / "postgres", "-D", self._data)
        process.spawn(command, account, self.directory / "start.log", lock)

    def _refuse_closed_folder(self, account: Account | None) -> None:
        if account is not None and (closed := first_closed(self.directory, account)) is not None:
            raise DatabaseError(
                f"the database server runs as user {account.name}, who cannot enter {closed}: "
                f"open that folder (chmod o+x) or choose another place for {self.directory}"
            )

    def _create_database(self) -> None:
        with (
            contextlib.suppress(psycopg.errors.DuplicateDatabase),
            psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection,
        ):
            self._identify(connection)
            connection.execute(f'CREATE DATABASE "{DATABASE}"')

    def _failed_start(self) -> DatabaseError:
        reason = files.start_complaint(self.directory) or "it left no message"
        return DatabaseError(f"the database server in {self.directory} did not start: {reason}{files.remedy(reason)}")

    def _no_answer(self, answer: _NotReady | None) -> DatabaseError:
        reason = answer.words if answer else "its processes live but nothing listens, perhaps in another container"
        return DatabaseError(
            f"the database server in {self.directory} does not answer ({reason}): "
            f"wait, or run `gitstrata db stop`; its log is {files.newest_log(self.directory)}"
        )

    # Stopping

    def _shut_down(self) -> bool:
        answer = self._ask()
        if answer is None and self._is_free(self._server_lock):
            return False
        if answer is not None and not answer.pid:
            raise DatabaseError(f"the database server in {self.directory} runs in another container: stop it there")
        if answer is not None:
            os.kill(answer.pid, signal.SIGINT)  # "fast": end sessions, write a checkpoint, leave
        if answer is None or not self._wait_for_end(_STOP_SECONDS):
            self._end_processes()
        if not self._is_free(self._server_lock):
            raise self._no_answer(None)
        files.forget_socket_dir(self.directory)
        return True

    def _end_processes(self) -> None:
        """End processes of a server that cannot be reached; what was committed is recovered at the next start."""
        for number in (signal.SIGQUIT, signal.SIGKILL):
            for pid in process.processes_in(self._data):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if self._wait_for_end(_ORPHAN_SECONDS):
                return

    def _wait_for_end(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not (free := self._is_free(self._server_lock)) and time.monotonic() < end:
            time.sleep(0.005)
        return free

    # Asking

    def _ask(self) -> _Live | _NotReady | None:
        """Return who answers at our socket; None if nobody listens there."""
        path = self._socket_dir() / files.SOCKET_NAME
        if not path.exists():
            return None
        try:
            with psycopg.connect(self._conninfo(), autocommit=True) as connection:
                return self._identify(connection)
        except psycopg.OperationalError as error:
            words = files.complaint(str(error)) or last_line(str(error))
        pid = process.listener(path)
        return None if pid is None else _NotReady(pid, words)

    def _identify(self, connection: psycopg.Connection) -> _Live:
        row = connection.execute("SELECT current_setting('data_directory'), current_setting('server_version')")
        found, version = row.fetchone() or ("", "")
        with socket.socket(fileno=os.dup(connection.fileno())) as connected:
            pid = process.peer(connected)
        if os.path.realpath(found) != os.path.realpath(self._data):
            raise DatabaseError(
                f"the server at {self._socket_dir()} (process {pid}) keeps its data in {found}, not in {self._data}: "
                f"stop it with `kill -INT {pid}` (was the folder moved while it ran?)"
            )
        return _Live(pid, version)

    def _conninfo(self, database: str = DATABASE) -> str:
        # Everything that a PG* variable of the user's shell could change for the worse is given.
        return make_conninfo(
            host=str(self._socket_dir()),
            hostaddr="",
            port=5432,
            dbname=database,
            user=files.SUPERUSER,
            options="",
            client_encoding="UTF8",
            connect_timeout=int(_ANSWER_SECONDS),
            sslmode="disable",
            sslnegotiation="postgres",
            gssencmode="disable",
            channel_binding="disable",
            require_auth="",
            target_session_attrs="any",
        )

    # Folders and locks

    def _make_directory(self) -> None:
        is_root = os.geteuid() == 0
        try:
            make_folders(self.directory, 0o711 if is_root else 0o700)
        except OSError as error:
            if error.errno not in NOT_A_PLACE:
                raise
            raise UsageError(
                f"{self.directory} cannot be made: {error.strerror}; choose another folder with GITSTRATA_HOME"
            ) from error
        if is_root and not self.directory.stat().st_mode & 0o001:
            self.directory.chmod(0o711)  # the server's user must get through; what matters inside is closed

    def _socket_dir(self) -> Path:
        return files.socket_dir(self.directory)

    def _is_free(self, path: Path) -> bool:
        lock = process.try_lock(path)
        if lock is not None:
            os.close(lock)
        return lock is not None

    @contextlib.contextmanager
    def _starting_or_stopping(self) -> Iterator[None]:
        handle = process.lock(self._start_lock)
        try:
            if self._is_free(self._start_lock):  # locks that do not exclude, as on NFS: two servers could start
                raise DatabaseError(
                    f"{self.directory} is on a network file system without flock: "
                    "choose a local folder with GITSTRATA_HOME, or set GITSTRATA_DSN to a database"
                )
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """Turn what the system or the server refuses into one line with a remedy."""
        try:
            yield
        except (OSError, psycopg.Error) as error:
            reason = last_line(str(error)) if isinstance(error, psycopg.Error) else error.strerror or str(error)
            where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
            raise DatabaseError(
                f"cannot use the database server in {self.directory}: {reason}{where}{files.remedy(reason)}"
            ) from error
