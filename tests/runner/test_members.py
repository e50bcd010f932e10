"""Who belongs to the cluster, as a plan of the probe topics is told it: over HTTP, as documented for Redpanda."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from canary.runner.cluster import audit
from canary.settings import ClusterSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

VIEW = {
    "version": 7,
    "brokers": [
        {"node_id": 0, "membership_status": "active", "is_alive": True},
        {"node_id": 1, "membership_status": "draining", "is_alive": True},
    ],
}


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/v1/cluster_view" and self.headers["Authorization"] is not None
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(json.dumps(VIEW if known else {}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def admin_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def cluster(**redpanda: str) -> ClusterSettings:
    return ClusterSettings.model_validate({"name": "t", "watch": {"redpanda": redpanda}})


def test_members_are_asked_for_at_the_address_that_is_set_with_its_credentials(admin_url: str) -> None:
    members = audit.members(cluster(admin_url=admin_url, username="u", password="p"))  # noqa: S106  # a test's
    assert members is not None
    assert [(one.id, one.membership) for one in members] == [(0, "active"), (1, "draining")]


def test_members_are_not_known_without_an_address_or_an_answer(admin_url: str, free_port: int) -> None:
    assert audit.members(cluster()) is None
    assert audit.members(cluster(admin_url=admin_url)) is None
    assert audit.members(cluster(admin_url=f"http://127.0.0.1:{free_port}")) is None
