"""A receiver of notifications on loopback, that answers as it is told to."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Request:
    """What was sent, and when it came (s since the epoch)."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    at: float = field(default_factory=time.time)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Answer:
    """What is answered: "hang" waits for the end of the test, "die" closes the connection in the middle."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    does: str = ""


@dataclass
class Receiving:
    """``answers`` are given in turn, then ``always``; ``requests`` is what came, also what got no answer."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    always: Answer = field(default_factory=Answer)
    requests: list[Request] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Request) -> Answer:
        with self.lock:
            self.requests.append(request)
            return self.answers.pop(0) if self.answers else self.always


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiving]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            answer = server_state.take(Request(self.path, dict(self.headers.items()), body, self.command))
            if answer.does == "hang":
                server_state.over.wait(120)
                return
            if answer.does == "die":
                self.wfile.write(b"HTTP/1.1 20")
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST  # noqa: N815  # its name there

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        server_state = Receiving(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server_state
        finally:
            server_state.over.set()
            server.shutdown()
            thread.join(60)
