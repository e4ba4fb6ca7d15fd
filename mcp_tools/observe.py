"""What becomes of each request: counted, timed, and one line in the log; never what was asked, unless told to."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Collection
from typing import Any

import prometheus_client
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from prometheus_client.multiprocess import MultiProcessCollector

from mcp_tools import access
from mcp_tools.access import Access

log = logging.getLogger("gitstrata.access")

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # of prometheus_client: where the workers of one server add up what they count
QUERIES = ("query", "pattern", "topic", "source_id", "concept")  # arguments that say what was asked
MAX_QUERY = 200
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

calls = prometheus_client.Counter("gitstrata_calls_total", "Requests by tool or method", ["tool", "outcome"])
seconds = prometheus_client.Histogram("gitstrata_call_seconds", "Time of requests", ["tool"], buckets=_BUCKETS)
refused = prometheus_client.Counter("gitstrata_refused_total", "HTTP requests that were refused", ["reason"])


def share_counts() -> None:
    """Let the workers that this process starts count together; to be called before this module counts anything."""
    os.environ[SHARED] = tempfile.mkdtemp(prefix="gitstrata-metrics-")


def forget_counts() -> None:
    """Remove what the workers shared."""
    shutil.rmtree(os.environ[SHARED], ignore_errors=True)


def exposition(shared: bool) -> bytes:
    """Return the metrics of this process, or of all workers, as Prometheus reads them."""
    registry = prometheus_client.REGISTRY
    if shared:
        registry = prometheus_client.CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prometheus_client.generate_latest(registry)


class Observer:
    """Middleware of the MCP server: acts for the token of the request, and notes how the request went."""

    def __init__(self, tools: Collection[str], *, log_queries: bool) -> None:
        self._tools, self._log_queries = frozenset(tools), log_queries

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Run the rest of the request for whoever sent it."""
        who = _who(ctx.request)
        start, outcome, result = time.perf_counter(), "failed", None
        try:
            with access.granted(who):
                result = await call_next(ctx)
            outcome = "error" if _field(result, "is_error", "isError") else "ok"
            return result
        finally:
            if ctx.request_id is not None:
                self._note(ctx, who, outcome, time.perf_counter() - start, result)

    def _note(
        self, ctx: ServerRequestContext[Any, Any], who: Access | None, outcome: str, spent: float, result: object
    ) -> None:
        tool = self._name(ctx)
        calls.labels(tool, outcome).inc()
        seconds.labels(tool).observe(spent)
        name = who.name if who else "-"
        line = f"who={name} tool={tool} outcome={outcome} ms={1000 * spent:.0f} rows={_rows(result)}"
        log.info(line + (self._query(ctx) if self._log_queries else ""))

    def _name(self, ctx: ServerRequestContext[Any, Any]) -> str:
        """Return the tool that is called, else the method; never a name that a client made up."""
        if ctx.method != "tools/call":
            return ctx.method if ctx.method in _METHODS else "other"
        name = (ctx.params or {}).get("name")
        return name if name in self._tools else "unknown"

    def _query(self, ctx: ServerRequestContext[Any, Any]) -> str:
        arguments = (ctx.params or {}).get("arguments")
        if not isinstance(arguments, dict):
            return ""
        asked = {key: str(arguments[key])[:MAX_QUERY] for key in QUERIES if key in arguments}
        return f" asked={json.dumps(asked)}"


_METHODS = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
    }
)


def _who(request: Any) -> Access | None:
    user = getattr(request, "scope", {}).get("user")
    if not isinstance(user, AuthenticatedUser):
        return None
    projects = (user.access_token.claims or {}).get("projects")
    return Access(user.access_token.client_id, None if projects is None else tuple(projects))


def _field(result: object, *names: str) -> Any:
    for name in names:
        found = result.get(name) if isinstance(result, dict) else getattr(result, name, None)
        if found is not None:
            return found
    return None


def _rows(result: object) -> int:
    if _field(result, "is_error", "isError"):
        return 0
    content = _field(result, "structured_content", "structuredContent")
    if not isinstance(content, dict):
        return 0
    return next((len(part) for part in content.values() if isinstance(part, list)), 1)
