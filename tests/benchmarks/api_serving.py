"""A server in a process of its own: the canary's API over a full store, or an empty FastAPI route to compare with.

    python -m tests.benchmarks.api_serving STORE_URL            the API
    python -m tests.benchmarks.api_serving --empty BYTES        a route that answers so many bytes of JSON

Prints its port, and serves until its standard input is closed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.responses import Response

from api import create_app
from api.server import ApiServer
from storage.store import Store
from tests.api.serving import ProbeLogFake, settings

if TYPE_CHECKING:
    from collections.abc import Sequence


def empty(size: int) -> FastAPI:
    """Return an application with one route, which has nothing to do."""
    app = FastAPI()
    body = b'"' + b"x" * (size - 2) + b'"'

    @app.get("/empty")
    async def nothing() -> Response:
        return Response(body, media_type="application/json")

    return app


def full(url: str) -> FastAPI:
    """Return the API as it is served, with the settings' own defaults."""
    store = Store.connect(url, timeout=5)
    return create_app(settings("prod", metrics_cache="1s", answers_cache="250ms"), store, ProbeLogFake())


def main(arguments: Sequence[str]) -> None:
    """Serve until the standard input ends."""
    app = empty(int(arguments[1])) if arguments[0] == "--empty" else full(arguments[0])
    with ApiServer(app, "127.0.0.1", 0) as server:
        sys.stdout.write(server.address.rsplit(":", 1)[1] + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
