"""What stands between the network and the MCP server: tokens, limits, and time for slow clients."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcp_tools import observe
from mcp_tools.jwt_tokens import PAUSE_SECONDS, JwtVerifier, KeysAway
from mcp_tools.tokens import TokensFile

MAX_BODY = 1_000_000  # bytes
HEADER_SECONDS = 10  # for the first byte of a connection to the end of a request's headers
BODY_SECONDS = 20  # for the whole body
MAX_CALLERS = 10_000  # whose rate is remembered


class Verifier:
    """The SDK's interface for tokens, over a tokens file, then an identity provider."""

    def __init__(self, tokens: TokensFile | None, provider: JwtVerifier | None) -> None:
        self._tokens, self._provider = tokens, provider

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who has this token; the token itself goes no further."""
        found = self._tokens.find(token) if self._tokens else None
        if found is None:
            is_jwt = token.count(".") == 2
            return await self._provider.verify_token(token) if self._provider and is_jwt else None
        projects = found.access.projects
        claims = {"projects": None if projects is None else list(projects)}
        return AccessToken(token="", client_id=found.name, scopes=[], claims=claims)


def refusal(error: AuthenticationError, metadata_url: str) -> Response:
    """Return the answer to a token that does not count, or that cannot be checked; in the form of the SDK's own."""
    if isinstance(error, KeysAway):
        said = str(error).partition(" (")[0]  # where the provider is, only the log says
        return PlainTextResponse(f"{said}: try again in a moment\n", 503, {"Retry-After": str(PAUSE_SECONDS)})
    where = f', resource_metadata="{metadata_url}"' if metadata_url else ""
    head = {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{error}"{where}'}
    return JSONResponse({"error": "invalid_token", "error_description": str(error)}, 401, head)


class Refusals:
    """Counts what the SDK's own middleware refuses."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _REASONS:
                observe.refused.labels(_REASONS[message["status"]]).inc()
            await send(message)

        await self.app(scope, receive, counted)


_REASONS = {401: "token", 403: "origin", 408: "slow", 413: "size", 421: "host", 429: "rate", 503: "keys"}


class Bucket:
    """A token bucket: so many a minute, and as many at once."""

    __slots__ = ("left", "seen")

    def __init__(self, left: float, seen: float) -> None:
        self.left, self.seen = left, seen


class RateLimit:
    """So many requests a minute for each token, or for each address where there are no tokens."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self.app, self._per_minute = app, per_minute
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = self._take(_caller(scope))
        if not wait:
            await self.app(scope, receive, send)
            return
        said = f"more than {self._per_minute} requests a minute: try again in {wait:.0f} s\n"
        response = PlainTextResponse(said, 429, {"Retry-After": f"{wait:.0f}"})
        await response(scope, receive, send)

    def _take(self, caller: str) -> float:
        """Take one request from the caller's bucket; return the seconds to wait if it is empty."""
        now = time.monotonic()
        bucket = self._buckets.pop(caller, None) or Bucket(self._per_minute, now)
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.seen) * self._per_minute / 60)
        bucket.seen = now
        self._buckets[caller] = bucket  # the one that asked last is forgotten last
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        if bucket.left < 1:
            return max(1.0, (1 - bucket.left) * 60 / self._per_minute)
        bucket.left -= 1
        return 0.0


def _caller(scope: Scope) -> str:
    user = scope.get("user")
    if isinstance(user, AuthenticatedUser):
        return f"token {user.access_token.client_id}"
    return f"address {(scope.get('client') or ('-',))[0]}"


class WholeBody:
    """Reads the body before anything else happens: within a time, up to a size."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes | None = b""
        try:
            with anyio.fail_after(BODY_SECONDS):
                body = await _read(receive)
        except TimeoutError:
            said = f"the request took longer than {BODY_SECONDS} s to arrive\n"
            await PlainTextResponse(said, 408, {"Connection": "close"})(scope, receive, send)
            return
        if body is None:
            said = f"the request is larger than {MAX_BODY} bytes\n"
            await PlainTextResponse(said, 413, {"Connection": "close"})(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self.app(scope, replay, send)


async def _read(receive: Receive) -> bytes | None:
    """Return a body, None if it is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            return None
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


class PromptProtocol(H11Protocol):
    """uvicorn's HTTP, with a limit on the time for headers, which it has none of: a slow client holds no connection."""

    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        between = self.cycle is None or self.cycle.response_complete
        if between and self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)
        super().data_received(data)
        if self._deadline is not None and self.cycle is not None and not self.cycle.response_complete:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            observe.refused.labels("slow").inc()
            self.transport.close()
