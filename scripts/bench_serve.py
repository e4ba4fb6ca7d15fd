"""Time calls to the server, over stdio and over HTTP, alone and with many clients at once, and its memory.

    python scripts/bench_serve.py --clients 50 --seconds 60 --calls 10000

The index is the one of the environment (GITSTRATA_HOME or GITSTRATA_DSN); fill it first. Prints one JSON object.
Times of the wall say as much about what else the machine does; CPU a call, of each process, does so less. The clients
are of the SDK, in one process. CPU and memory are read from /proc, and are 0 where that is not there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from flows import settings
from flows.store.connect import open_database

SERVE = ["-m", "mcp_tools.cli", "serve"]
CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("code_search", {"query": "register a handler for a request"}),
    ("search_code", {"pattern": "def .*request"}),
    ("code_search", {"query": "how long to wait before trying again", "limit": 5}),
    ("index_status", {}),
)


def start_to_tools() -> float:
    """Return the CPU seconds of a server over stdio when it has listed its tools, its warming up included."""
    head = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}
    asked: Sequence[dict[str, Any]] = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": head},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    process = subprocess.Popen(
        [sys.executable, *SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None and process.stdout is not None
    for message in asked:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        if "id" in message:
            process.stdout.readline()
    spent = cpu([process.pid])
    process.stdin.close()
    process.wait()
    return spent


@contextlib.asynccontextmanager
async def over_stdio() -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(command=sys.executable, args=SERVE, env=dict(os.environ))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def over_http(address: str) -> AsyncIterator[ClientSession]:
    async with (
        httpx2.AsyncClient(timeout=60) as http,
        streamable_http_client(address, http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


READY_SECONDS = 30
STEPS, FEW = 10, 8  # parts of a long run, and its clients


@contextlib.contextmanager
def serving(workers: int) -> Iterator[tuple[str, int]]:
    """Start a server; give its address and process id."""
    options = ["--http", "--port", "0", "--rate", "1000000", "--workers", str(workers)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([sys.executable, *SERVE, *options], stderr=log)
        deadline = time.monotonic() + READY_SECONDS
        try:
            while True:
                log.seek(0)
                if found := re.search(r"(http://\S+/mcp)", log.read()):
                    with contextlib.suppress(httpx2.TransportError):
                        if httpx2.get(found[1].replace("/mcp", "/readyz"), timeout=30).status_code == 200:
                            break
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
                if time.monotonic() > deadline:
                    raise SystemExit("the server is not ready: index a repository first, see /readyz")
                time.sleep(0.1)
            yield found[1], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


async def ask(session: ClientSession, times: list[float], errors: list[str], until: float, least: int = 0) -> None:
    """Call tools in turn until the time is over and ``least`` calls are done."""
    number = 0
    while time.perf_counter() < until or number < least:
        tool, arguments = CALLS[number % len(CALLS)]
        start = time.perf_counter()
        result = await session.call_tool(tool, arguments)
        times.append(time.perf_counter() - start)
        if result.is_error:
            errors.append(str(result.content)[:200])
        number += 1


async def alone(session: ClientSession) -> dict[str, float]:
    times: list[float] = []
    await ask(session, [], [], 0, least=len(CALLS) * 2)  # warm
    await ask(session, times, [], 0, least=100)
    return figures(times)


async def together(address: str, clients: int, seconds: float, least: int = 0) -> tuple[list[float], list[str]]:
    times: list[float] = []
    errors: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(over_http(address)) for _ in range(clients)]
        until = time.perf_counter() + seconds
        await asyncio.gather(*(ask(session, times, errors, until, least) for session in sessions))
    return times, errors


async def loaded(address: str, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """Return what many clients at once see, and what a call costs each process."""
    before, database, mine = cpu(family(pid)), cpu(backends()), time.process_time()
    start = time.perf_counter()
    times, errors = await together(address, clients, seconds)
    spent = time.perf_counter() - start
    used = {
        "server": cpu(family(pid)) - before,
        "postgres": cpu(backends()) - database,
        "clients": time.process_time() - mine,
    }
    return {
        **figures(times),
        "clients": clients,
        "errors": len(errors),
        "per_second": round(len(times) / spent, 1),
        "cpu_ms_a_call": {name: round(1000 * value / len(times), 1) for name, value in used.items()},
        **({"first_error": errors[0]} if errors else {}),
    }


async def remembered(address: str, pid: int, calls: int) -> list[float]:
    """Return the memory of the largest process in MB, ten times in the course of so many calls."""
    sizes = [largest_mb(pid)]
    for _ in range(STEPS):
        await together(address, FEW, 0, least=calls // STEPS // FEW)
        sizes.append(largest_mb(pid))
    return sizes


def figures(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {
        "calls": len(times),
        "p50_ms": round(1000 * cuts[49], 1),
        "p95_ms": round(1000 * cuts[94], 1),
        "p99_ms": round(1000 * cuts[98], 1),
    }


# --- what /proc says -----------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """Return a process and its children: the workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        return [pid, *map(int, children.read_text().split())]
    return [pid]


def backends() -> list[int]:
    """Return the processes of Postgres that answer the server; none that this machine can see where it is elsewhere."""
    with open_database(settings.load()) as database, database.connect() as connection:
        mine = "select pid from pg_stat_activity where application_name = 'gitstrata' and pid <> pg_backend_pid()"
        return [pid for (pid,) in connection.execute(mine)]


def cpu(pids: Sequence[int]) -> float:
    """Return the CPU seconds of processes."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def largest_mb(pid: int) -> float:
    """Return the resident memory of the largest process of a server."""
    sizes = [0.0]
    for one in family(pid):
        with contextlib.suppress(OSError):
            found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text())
            sizes.append(round(int(found[1]) / 1024, 1) if found else 0.0)
    return max(sizes)


async def measure(clients: int, seconds: float, workers: int, calls: int) -> dict[str, Any]:
    found: dict[str, Any] = {"load_average": os.getloadavg()[0], "cpus": os.cpu_count(), "workers": workers}
    found["start_to_tools_cpu_s"] = start_to_tools()
    async with over_stdio() as session:
        found["stdio"] = await alone(session)
    with serving(workers) as (address, pid):
        async with over_http(address) as session:
            found["http"] = await alone(session)
        found["load"] = await loaded(address, pid, clients, seconds)
        if calls:
            found["memory_mb"] = await remembered(address, pid, calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--calls", type=int, default=10_000, help="after which memory is looked at; 0 for none")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(given.clients, given.seconds, given.workers, given.calls)), indent=2))


if __name__ == "__main__":
    main()
