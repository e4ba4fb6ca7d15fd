"""A pretended provider of embeddings: a real HTTP server on loopback that misbehaves on demand."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.stubs import StubEmbedder


@dataclass(slots=True)
class Reply:
    """What the provider sends; a ``hang`` in seconds comes before it."""

    status: int = 200
    body: Any = None  # JSON, or bytes as they are
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0


@dataclass(slots=True)
class Provider:
    """Embeds as the stub does. ``misbehave`` sees each request first and may answer in its place."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    misbehave: Callable[[dict[str, Any], list[dict[str, Any]]], Reply | None] | None = None

    @property
    def setting(self) -> str:
        return f"{self.url}#stub"

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def answer(self, request: dict[str, Any]) -> Reply:
        vectors = [StubEmbedder().embed_query(text).tolist() for text in request["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return (self.misbehave(request, data) if self.misbehave else None) or Reply(body={"data": data})


@contextlib.contextmanager
def running() -> Iterator[Provider]:
    """Serve until the end of the block."""
    provider = Provider()
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            provider.requests.append(request)
            provider.headers.append({name.lower(): value for name, value in self.headers.items()})
            reply = provider.answer(request) if self.path == "/v1/embeddings" else Reply(404, {"error": "no such path"})
            end = time.monotonic() + reply.hang
            while time.monotonic() < end and not stopped.wait(0.05):
                pass
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            with contextlib.suppress(OSError):  # the client may have gone
                self.send_response(reply.status)
                for name, value in ({"Content-Length": str(len(body))} | reply.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = "Content-Length" in reply.headers

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield provider
        finally:
            stopped.set()
            server.shutdown()
            thread.join()
