"""HTTP servers for tests: as a process, as the command line starts it, or in this process, with other limits."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import uvicorn
from anyio.from_thread import start_blocking_portal
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette

from mcp_tools import guards
from tests.mcp_tools.conftest import Client, environment

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextlib.contextmanager
def process(errors: Path, *options: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run ``gitstrata serve --http`` on any port; give its address and the process."""
    command = [sys.executable, "-m", "mcp_tools.cli", "serve", "--http", "--port", "0", *options]
    with errors.open("wb") as log:
        started = subprocess.Popen(command, env=environment(**variables), stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield _address(errors, started), started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        started.wait(30)


def _address(errors: Path, started: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end and started.poll() is None:
        if found := re.search(r"gitstrata: (http://\S+)/mcp", errors.read_text()):
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"{found[1]}/healthz", timeout=5).status_code == 200:
                    return found[1]
        time.sleep(0.05)
    raise AssertionError(errors.read_text())


@contextlib.contextmanager
def thread(app: Starlette) -> Iterator[str]:
    """Serve an application from this process; give its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, http=guards.PromptProtocol, ws="none", log_config=None, lifespan="on")
    )
    running = threading.Thread(target=server.run)
    running.start()
    try:
        while not server.started:
            assert running.is_alive()
            time.sleep(0.01)
        (socket,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        running.join(30)


@contextlib.contextmanager
def connected(address: str, token: str) -> Iterator[Client]:
    """Open a session of the SDK's client with a token."""

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[ClientSession]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            streamable_http_client(f"{address}/mcp", http_client=http) as (read, write),
            ClientSession(read, write) as opened,
        ):
            await opened.initialize()
            yield opened

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(session()) as opened:
        yield Client(portal, opened)


def post(address: str, token: str = "", body: object = CALL, **headers: str) -> httpx2.Response:
    """Send one request by hand."""
    given = ACCEPT | ({"Authorization": f"Bearer {token}"} if token else {}) | headers
    return httpx2.post(f"{address}/mcp", json=body, headers=given, timeout=30)
