"""A second Postgres on 127.0.0.1 with a password and an ordinary owner: stands for "a team's Postgres by DSN"."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flows.store.postgres_binaries import SERVER_ENVIRONMENT, find_binaries, run_as, server_account
from flows.store.postgres_files import private_folder


@dataclass(frozen=True, slots=True)
class TcpServer:
    """Where the server listens, and how its owner and its administrator connect."""

    dsn: str  # an ordinary role that owns the database ``team``
    admin_dsn: str  # the superuser, same database
    port: int


@contextlib.contextmanager
def tcp_server(*, with_vector: bool = True) -> Iterator[TcpServer]:
    """Run a server until the block ends; ``with_vector`` says whether the administrator has created the extension."""
    directory = Path(tempfile.mkdtemp(prefix="gs-tcp-", dir="/tmp"))
    directory.chmod(0o755)
    admin, owner = secrets.token_hex(8), secrets.token_hex(8)
    try:
        process, port = _launch(directory, admin)
        try:
            base = f"host=127.0.0.1 port={port} connect_timeout=5"
            admin_dsn = make_conninfo(base, user="admin", password=admin, dbname="postgres")
            _create(admin_dsn, owner, with_vector=with_vector)
            yield TcpServer(
                dsn=make_conninfo(base, user="team", password=owner, dbname="team"),
                admin_dsn=make_conninfo(admin_dsn, dbname="team"),
                port=port,
            )
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    finally:
        shutil.rmtree(directory)


def _launch(directory: Path, password: str) -> tuple[subprocess.Popen[bytes], int]:
    data = directory / "data"
    account = server_account(data)
    binaries = find_binaries(None, directory, account)
    private_folder(data, account)
    secret = directory / "password"
    secret.write_text(password)
    secret.chmod(0o644)  # in a test; the server's user must read it
    options = ["-U", "admin", "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "--locale=C", "--no-sync"]
    result = run_as(account, binaries.folder / "initdb", "-D", data, *options)
    assert result.returncode == 0, result.stderr
    port = _free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
    command = [str(binaries.folder / "postgres"), "-D", str(data)]
    command += [f"--{name}={value}" for name, value in settings.items()]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    return process, port


def _create(admin_dsn: str, password: str, *, with_vector: bool) -> None:
    with _connect(admin_dsn) as connection:
        connection.execute(sql.SQL("CREATE ROLE team LOGIN PASSWORD {}").format(password))
        connection.execute("CREATE DATABASE team OWNER team")
    if with_vector:
        with psycopg.connect(make_conninfo(admin_dsn, dbname="team"), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")


def _connect(dsn: str) -> psycopg.Connection:
    end = time.monotonic() + 20
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
