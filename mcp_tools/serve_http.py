"""``gitstrata serve --http``: the MCP server of stdio over streamable HTTP, for a team."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import math
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import TokenVerifier
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from flows.errors import ConfigError, GitstrataError, UsageError
from flows.settings import Settings
from flows.wording import counted
from mcp_tools import access, guards, jwt_tokens, observe, render, scope
from mcp_tools.index import CONNECTIONS, Index
from mcp_tools.tokens import TokensFile

if TYPE_CHECKING:
    from mcp_tools.server import Server

log = logging.getLogger("gitstrata")

MAX_CONNECTIONS = 512  # a worker
IDLE_SECONDS = 30  # that a connection may wait for its next request
SHUTDOWN_SECONDS = 15  # for requests at work when the server is told to end
_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"


@dataclass(frozen=True, slots=True)
class Options:
    """How to serve."""

    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    allowed_hosts: tuple[str, ...] = ()
    per_minute: int = 600
    log_queries: bool = False
    projects: tuple[str, ...] = ()  # that are served without tokens; () = everything
    toolsets: tuple[str, ...] = ("code", "cases")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def serve(settings: Settings, options: Options) -> None:
    """Serve until SIGTERM or SIGINT; requests at work are answered first.

    Raises:
        UsageError: others could connect and there are no tokens, the tokens file is wrong, or the port is taken.
    """
    if not settings.has_tokens and not options.is_loopback:
        raise UsageError(
            f"--host {options.host} lets other machines connect, and there are no tokens: set GITSTRATA_TOKENS_FILE "
            "(gitstrata token new makes the first row), or leave --host out to serve this machine only"
        )
    if settings.has_tokens and options.projects:
        raise UsageError("--project is for a server without tokens: with them, each token names its projects")
    if options.workers < 1 or options.per_minute < 1:
        raise UsageError("--workers and --rate are 1 or more")
    if settings.tokens_file is not None:
        _check_tokens(settings.tokens_file)  # said here, once, instead of by every worker
    if settings.jwt is not None:
        jwt_tokens.check(settings.jwt)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=_FORMAT)
    if options.projects:
        with Index(settings) as index:
            scope.check_projects(index, options.projects, scope.NO_PROJECT)
    listener = _listen(options)
    if options.workers > 1:
        observe.share_counts()
    config = uvicorn.Config(
        functools.partial(make_app, settings, options),
        factory=True,
        http=guards.PromptProtocol,
        ws="none",
        lifespan="on",
        workers=options.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=30,  # a worker that is only busy is not to be killed
        h11_max_incomplete_event_size=16_384,
    )
    where = "holders of a token" if settings.has_tokens else "this machine only, without tokens"
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"gitstrata: http://{host}:{listener.getsockname()[1]}/mcp, for {where}", file=sys.stderr, flush=True)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn hands the signal on when it has ended
            if options.workers > 1:
                Multiprocess(config, [listener]).run()
            else:
                uvicorn.Server(config).run([listener])
    finally:
        listener.close()
        if options.workers > 1:
            observe.forget_counts()


def _check_tokens(path: Path) -> None:
    """Raise UsageError with one sentence if no server can start with this file."""
    try:
        TokensFile(path)
    except ConfigError as error:
        more = len(error.problems) - 1
        others = f"; and {counted(more, 'more problem')}" if more else ""
        raise UsageError(f"the tokens file is wrong: {error.problems[0]}{others}") from error


def _listen(options: Options) -> socket.socket:
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((options.host, options.port), family=family, backlog=512)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {options.host} port {options.port}: {error.strerror or error}; use another --port"
        ) from error


# --- the application -----------------------------------------------------------------------------------------------


def make_app(settings: Settings, options: Options, index: Index | None = None) -> Starlette:
    """Return the ASGI application of one worker."""
    from mcp_tools.server import build_server

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=_FORMAT)
    observe.log.setLevel(logging.INFO)
    opened = index or Index(settings)
    tokens = TokensFile(settings.tokens_file) if settings.tokens_file else None
    provider = jwt_tokens.JwtVerifier(settings.jwt) if settings.jwt else None
    opened.unnamed = None if settings.has_tokens else access.local(options.projects)
    server = build_server(opened, options.toolsets)
    inner = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=guards.MAX_BODY,
        transport_security=_security(options),
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await _observe(server, options)
        # More threads than connections would only wait for one another, and give up after a while.
        anyio.to_thread.current_default_thread_limiter().total_tokens = CONNECTIONS
        threading.Thread(target=opened.warm, name="warm", daemon=True).start()
        if provider is not None:
            provider.keys.refresh()
        async with inner.router.lifespan_context(inner):
            yield
        opened.close()

    probes = _Probes(opened, tokens, provider, shared=options.workers > 1)
    described = jwt_tokens.description(settings.jwt) if settings.jwt else None
    verifier = guards.Verifier(tokens, provider) if settings.has_tokens else None
    routes = [
        Route("/healthz", probes.healthz),
        Route("/readyz", probes.readyz),
        Route("/metrics", probes.metrics),
        *(described.routes if described else ()),
        Mount("/", _guarded(inner, verifier, described.url if described else "", options)),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def _observe(server: Server, options: Options) -> None:
    names = [tool.name for tool in await server.list_tools()]
    server.middleware.append(observe.Observer(names, log_queries=options.log_queries))


def _guarded(app: ASGIApp, verifier: TokenVerifier | None, metadata_url: str, options: Options) -> ASGIApp:
    """Return ``app`` behind what stands before it, the last line first to be passed."""
    app = guards.WholeBody(app)
    app = guards.RateLimit(app, options.per_minute)
    if verifier is not None:
        app = RequireAuthMiddleware(app, [], AnyHttpUrl(metadata_url) if metadata_url else None)
        app = AuthenticationMiddleware(
            app, BearerAuthBackend(verifier), lambda _, error: guards.refusal(error, metadata_url)
        )
    return guards.Refusals(app)


def _security(options: Options) -> TransportSecuritySettings:
    """Return the names that requests may call this server by: a web page cannot make a browser use others."""
    names = ["127.0.0.1", "localhost", "[::1]", *options.allowed_hosts]
    if not options.is_loopback:
        names += [options.host, socket.gethostname()]
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


class _Probes:
    """What a supervisor asks."""

    def __init__(
        self, index: Index, tokens: TokensFile | None, provider: jwt_tokens.JwtVerifier | None, *, shared: bool
    ) -> None:
        self._index, self._tokens, self._provider, self._shared = index, tokens, provider, shared
        self._lock = threading.Lock()
        self._last: tuple[float, bool, dict[str, Any]] = (-math.inf, False, {})

    async def healthz(self, request: Request) -> Response:
        """Say that the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Say whether the database answers and holds something, and how old that is."""
        ready, said = await run_in_threadpool(self._recent)
        return JSONResponse({"ready": ready, **said}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Show what was counted."""
        return Response(observe.exposition(self._shared), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _recent(self) -> tuple[bool, dict[str, Any]]:
        """Return what was found at most a second ago: whoever asks often costs nothing."""
        with self._lock:
            if time.monotonic() - self._last[0] > 1:
                ready, said = self._ready()
                self._last = (time.monotonic(), ready, said)
            return self._last[1:]

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        from flows.store.health import health

        if self._tokens is not None:
            self._tokens.refresh()
        tokens = {"tokens": (self._tokens.problem if self._tokens else "") or "ok"}
        if self._provider is not None:
            tokens["keys"] = _public(self._provider.keys.problem) or "ok"
        try:
            with access.granted(access.OWNER), self._index.snapshot() as connection:
                found = health(connection)
        except GitstrataError as error:
            return False, {"database": _public(str(error)), **tokens}
        age = (datetime.now(UTC) - found.published_at).total_seconds() if found.published_at else None
        is_lost = self._tokens is not None and self._tokens.is_lost
        return found.branches > 0 and not is_lost, {
            "database": "ok",
            "index": "ok" if found.branches else "empty",
            "branches": found.branches,
            "behind": found.behind,
            "published_at": render.clock(found.published_at) if found.published_at else "",
            "age_seconds": None if age is None else round(age),
            **tokens,
        }


def _public(message: str) -> str:
    """Return an error without its parenthesis, which says where the database is: probes need no token."""
    return message.partition(" (")[0]
