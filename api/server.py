"""Serves the application over HTTP in its own thread; stops within seconds.

The caller (`canary serve`, `canary up`) handles signals: uvicorn installs no handlers.
"""

import contextlib
import socket
import threading
from collections.abc import Generator
from typing import Self

import structlog
import uvicorn
from fastapi import FastAPI

from canary.errors import UserError
from canary.settings.serving import TlsSettings, reachable

log = structlog.get_logger(__name__)

GRACE_S = 2
"""The time that running requests have at the end."""


class ServeError(UserError):
    """The server cannot start; the message says what is wrong and what to do. Exit status 2."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the caller."""
        yield


class ApiServer:
    """Listens from its construction on, answers from start() to stop(); a context manager.

    ``address`` is its URL on this machine, with the real port if 0 was given.
    """

    def __init__(self, app: FastAPI, host: str, port: int, tls: TlsSettings | None = None) -> None:
        """Bind the address; use TLS if ``tls`` is given.

        Raises:
            ServeError: the address is not free, or the certificate cannot be read.
        """
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ServeError(f"cannot listen on {host}:{port} ({reason}); set api.host and api.port") from None
        bound = self._socket.getsockname()
        here = reachable(bound[0])
        shown = f"[{here}]" if ":" in here else here
        self.address = f"{'https' if tls else 'http'}://{shown}:{bound[1]}"
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # else a forged X-Forwarded-For replaces a loopback peer's address
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=15,
                lifespan="off",
                ws="none",
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
        )
        try:
            self._server.config.load()
        except OSError as error:  # ssl.SSLError is one
            self._socket.close()
            reason = error.strerror or str(error)
            raise ServeError(f"TLS cannot be set up ({reason}); see api.tls.certificate and api.tls.key") from None
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="api", daemon=True
        )

    def start(self) -> Self:
        """Begin to answer; return at once (early connections wait a moment)."""
        self._thread.start()
        log.info("api_listening", address=self.address)
        return self

    def alive(self) -> bool:
        """Return whether it still serves."""
        return self._thread.is_alive()

    def stop(self, timeout: float = GRACE_S + 2) -> bool:
        """Finish running requests and end; return whether it ended within ``timeout`` seconds."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._socket.close()
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()
