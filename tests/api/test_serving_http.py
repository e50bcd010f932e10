from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from api import create_app
from api.server import ApiServer, ServeError
from tests.api.serving import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.store import Store


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`canary serve` as an operator starts it."""
    environment = {
        **os.environ,
        "CANARY_STORE__URL": f"sqlite:///{tmp_path}/store.db",
        "CANARY_API__PORT": "0",
        "CANARY_PROBE_LOG__URL": str(tmp_path / "probe-log"),
    }
    command = [sys.executable, "-c", "from canary.cli import main; main()", "serve"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[2]
        process.kill()


@pytest.mark.dear("starts a server")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_answers_and_ends_within_5_s(served: tuple[subprocess.Popen[str], str], number: signal.Signals) -> None:
    process, address = served
    with httpx.Client(base_url=address, timeout=60) as kept_open:
        assert kept_open.get("/healthz").text == "ok\n"
        assert "canary_api_store_up" in kept_open.get("/metrics").text
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(60) == 0
        assert time.monotonic() - began < 12  # 5 s and what a machine stalls; who keeps a connection may keep it for 15


def test_an_address_in_use_is_one_clear_sentence(store: Store) -> None:
    app = create_app(settings(), store)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1:{port} .*set api.host and api.port"):
            ApiServer(app, "127.0.0.1", port)


def test_the_server_tells_nobody_what_it_is(store: Store) -> None:
    with ApiServer(create_app(settings(), store), "127.0.0.1", 0) as server:
        headers = httpx.get(f"{server.address}/healthz", timeout=60).headers
        assert "server" not in headers
        assert headers["x-content-type-options"] == "nosniff"


def test_the_address_of_a_failed_attempt_is_the_peers_whatever_its_headers_say(store: Store) -> None:
    with ApiServer(create_app(settings(auth={"required": "always"}), store), "127.0.0.1", 0) as server:
        headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": "10.1.2.3"}
        assert httpx.get(f"{server.address}/", headers=headers, timeout=60).status_code == 401
    (attempt,) = store.actions.page().items
    assert (attempt.detail["address"], attempt.detail["forwarded_for"]) == ("127.0.0.1", "10.1.2.3")


def test_a_stopped_server_no_longer_listens(store: Store) -> None:
    with ApiServer(create_app(settings(), store), "127.0.0.1", 0) as server:
        assert httpx.get(f"{server.address}/healthz", timeout=60).status_code == 200
    assert not server.alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.address}/healthz", timeout=60)
