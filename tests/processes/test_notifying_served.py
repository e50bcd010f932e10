"""``canary serve`` tells the receivers of its settings, and ``canary alert test`` says whom it told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from canary.lab.state import free_ports
from storage.store import Store
from tests.api.serving import lost
from tests.support.receiving import receiving
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.receiving import Receiving

KEY = "a-key-that-nobody-may-see"


@pytest.mark.dear("runner, notifier and API are started as they are in production")
def test_a_test_of_the_alarm_reaches_a_receiver_by_way_of_the_store_and_the_api(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "canary.yaml"
    with receiving() as there:
        config.write_text(json.dumps(told(tmp_path, there, severities=["info"]) | {"api": {"port": port}}))
        command = [sys.executable, "-m", "canary.cli"]
        env = outside()
        with (tmp_path / "log").open("wb") as log:
            serve = subprocess.Popen([*command, "serve", "--config", config, "-vv"], env=env, stderr=log)
        try:
            until(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz").status_code, 60, "the API answers")
            ring = subprocess.Popen(
                [*command, "alert", "test", "--for", "3000", "--config", config],
                env=env,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert ring.stdout is not None
            try:
                assert "recorded" in ring.stdout.readline()
                assert ring.stdout.readline().startswith("bus was told after ")
            finally:
                ring.send_signal(signal.SIGINT)
                ring.wait(60)
            until(lambda: len(there.requests) == 2, 60, "its end is told, too")
            assert [request.json["data"]["change"] for request in there.requests] == ["opened", "resolved"]
            text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
            assert 'canary_notifications_failed_total{receiver="bus"} 0' in text
            assert 'canary_notifications_oldest_seconds{receiver="bus"}' in text
            serve.send_signal(signal.SIGTERM)
            assert serve.wait(60) == 0
        finally:
            serve.kill()
            serve.wait(60)
    said = (tmp_path / "log").read_text()
    assert "notified" in said
    assert KEY not in said + text
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        (released,) = [store.leases.acquire("notify/bus", "next")]
        assert released.holder == "next", "it was given back at the end"


DIES = """
import sys
from canary.cli import main
from canary.processes.notifying.notifier import Notifier
ticks, tick = [0], Notifier.tick
def dying(self):
    ticks[0] += 1
    if ticks[0] == 1:
        raise RuntimeError("a bug")
    tick(self)
Notifier.tick = dying
main(sys.argv[1:])
"""


@pytest.mark.dear("starts a server")
def test_a_notifier_that_ends_by_a_bug_is_started_again(tmp_path: Path) -> None:
    with receiving() as there:
        config = tmp_path / "canary.yaml"
        config.write_text(json.dumps(told(tmp_path, there)))
        with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
            store.upgrade()
            store.violations.record("prod", [lost(7)])
        with (tmp_path / "log").open("wb") as log:
            serve = subprocess.Popen(
                [sys.executable, "-c", DIES, "serve", "--config", config], env=outside(), stderr=log
            )
        try:
            until(lambda: there.requests, 60, "it tells")
        finally:
            serve.kill()
            serve.wait(60)
    assert "part_started_again" in (tmp_path / "log").read_text()


def told(tmp_path: Path, there: Receiving, **receiver: object) -> dict[str, object]:
    return {
        "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}],
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
        "api": {"port": 0},
        "notify": [{"name": "bus", "kind": "webhook", "url": there.url, "key": KEY} | receiver],
    }


def outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CANARY_")}
