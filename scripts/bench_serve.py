"""Time calls to the server, over stdio and over HTTP, alone and with many clients at once.

    python scripts/bench_serve.py --clients 50 --seconds 20

The index is the one of the environment (GITSTRATA_HOME or GITSTRATA_DSN); fill it first. Prints one JSON object.
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

SERVE = ["-m", "mcp_tools.cli", "serve"]
CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("code_search", {"query": "register a handler for a request"}),
    ("search_code", {"pattern": "def .*request"}),
    ("code_search", {"query": "how long to wait before trying again", "limit": 5}),
    ("index_status", {}),
)


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


async def together(address: str, clients: int, seconds: float) -> tuple[list[float], list[str]]:
    times: list[float] = []
    errors: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(over_http(address)) for _ in range(clients)]
        until = time.perf_counter() + seconds
        await asyncio.gather(*(ask(session, times, errors, until) for session in sessions))
    return times, errors


def figures(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {
        "calls": len(times),
        "p50_ms": round(1000 * cuts[49], 1),
        "p95_ms": round(1000 * cuts[94], 1),
        "p99_ms": round(1000 * cuts[98], 1),
    }


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process, 0 where /proc is not there."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return round(int(found[1]) / 1024, 1) if found else 0.0
    return 0.0


async def measure(clients: int, seconds: float, workers: int) -> dict[str, Any]:
    async with over_stdio() as session:
        stdio = await alone(session)
    with serving(workers) as (address, pid):
        async with over_http(address) as session:
            http = await alone(session)
        before = memory_mb(pid)
        times, errors = await together(address, clients, seconds)
        load: dict[str, Any] = figures(times) | {"errors": len(errors), "clients": clients, "workers": workers}
        load |= {"per_second": round(len(times) / seconds, 1), "memory_mb": [before, memory_mb(pid)]}
    if errors:
        load["first_error"] = errors[0]
    return {"stdio": stdio, "http": http, "load": load}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(given.clients, given.seconds, given.workers)), indent=2))


if __name__ == "__main__":
    main()
