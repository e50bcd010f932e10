"""All of it, real: brokers, canary, Prometheus, Alertmanager; a loss is caused, and somebody is paged.

Prometheus and Alertmanager are Debian's (or $PROMETHEUS and $ALERTMANAGER).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from canary.lab.state import free_ports
from dashboards.__main__ import ROOT
from dashboards.rules import RUNBOOKS, groups
from tests.support.process import Canary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]


def program(variable: str, name: str) -> str:
    found = os.environ.get(variable) or shutil.which(name)
    assert found, f"{name} is missing: install the package {name}, or set {variable}"
    return found


@contextmanager
def running(*command: str, log: Path) -> Iterator[None]:
    with log.open("ab") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


class Pager:
    """A webhook that remembers what it was told, and when."""

    def __init__(self) -> None:
        told: list[tuple[float, dict[str, Any]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told.append((time.monotonic(), body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.told = told
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def alerts(self, name: str, status: str) -> list[tuple[float, dict[str, Any]]]:
        return [
            (at, alert)
            for at, body in list(self.told)
            for alert in body["alerts"]
            if alert["labels"]["alertname"] == name and alert["status"] == status
        ]


@contextmanager
def monitoring(directory: Path, canary_port: int, pager: str) -> Iterator[str]:
    """Run Prometheus and Alertmanager with the files of the repository; yield Prometheus' address."""
    prometheus_port, alertmanager_port = free_ports(2)
    alertmanager = yaml.safe_load((ROOT / "deploy/alertmanager.yml").read_text())
    alertmanager["route"] |= {"group_wait": "1s", "group_interval": "2s"}
    for receiver in alertmanager["receivers"]:
        if receiver["name"] == "page":
            receiver["webhook_configs"] = [{"url": pager, "send_resolved": True}]
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    prometheus["global"] = {"scrape_interval": "5s", "evaluation_interval": "5s"}
    prometheus["rule_files"] = [str(ROOT / "dashboards/generated/rules.yml")]
    prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager_port}"]
    prometheus["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{canary_port}"]
    (directory / "alertmanager.yml").write_text(yaml.safe_dump(alertmanager))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(prometheus))
    address = f"http://127.0.0.1:{prometheus_port}"
    with (
        running(
            program("ALERTMANAGER", "prometheus-alertmanager"),
            f"--config.file={directory}/alertmanager.yml",
            f"--storage.path={directory}/alertmanager",
            f"--web.listen-address=127.0.0.1:{alertmanager_port}",
            "--cluster.listen-address=",
            log=directory / "alertmanager.log",
        ),
        running(
            program("PROMETHEUS", "prometheus"),
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/prometheus",
            f"--web.listen-address=127.0.0.1:{prometheus_port}",
            log=directory / "prometheus.log",
        ),
    ):
        for one in (address, f"http://127.0.0.1:{alertmanager_port}"):
            until(partial(_ready, one), 60, f"{one} is ready; see the logs in {directory}")
        yield address


def _ready(address: str) -> bool:
    return httpx.get(f"{address}/-/ready", timeout=2).status_code == 200


def until(reached: Any, timeout: float, what: str) -> Any:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            found = reached()
        except httpx.TransportError:
            found = None
        if found:
            return found
        time.sleep(0.25)  # asked over HTTP: there is no event to wait for
    raise AssertionError(f"not in {timeout:g} s: {what}")


def destroy(lab: Lab, topic: str, count: int) -> None:
    """Kill every broker, cut the last ``count`` records off every replica of partition 0, start them again."""
    end = max(lab.end_offset(broker, topic, 0) for broker in lab.brokers)
    for broker in lab.brokers:
        lab.kill(broker)
    for broker in lab.brokers:
        lab.truncate(broker, topic, 0, to_offset=end - count)
    for broker in lab.brokers:
        lab.start_broker(broker, timeout=0)
    lab.wait_ready(including=lab.brokers)


def test_a_loss_reaches_the_pager_within_30_s_and_its_resolution_too(whole_lab: Lab, tmp_path: Path) -> None:
    pager = Pager()
    topic = "e2e-loss"
    canary = Canary(tmp_path / "canary", whole_lab.bootstrap, topic, partitions=1)
    with canary, monitoring(tmp_path, canary.port, pager.address) as prometheus:
        canary.until_probing()
        until(lambda: _value(prometheus, "canary_violations_total") is not None, 60, "Prometheus scrapes")
        assert not pager.told
        canary.until_all_seen()
        destroy(whole_lab, topic, 20)
        canary.until(lambda: canary.violations("lost-write", "truncation"), 90, "the loss is found")
        found_at = time.monotonic()
        kinds = {violation["kind"] for violation in canary.violations() if violation["severity"] == "critical"}
        name = "CanaryLostWrite" if "lost-write" in kinds else "CanaryTruncation"
        until(lambda: pager.alerts(name, "firing"), 60, f"{name} at the webhook; there were {kinds}")
        at, alert = pager.alerts(name, "firing")[0]
        assert at - found_at < 30
        runbook = alert["annotations"]["runbook_url"].removeprefix(RUNBOOKS)
        assert (ROOT / "docs/runbooks" / runbook.lstrip("/")).is_file()
        incidents = canary.get("/api/v1/incidents", limit=1000).json()["items"]
        page = canary.get(f"/incidents/{incidents[0]['id']}")
        assert page.status_code == 200
        assert "What to do first" in page.text
        _every_query_answers(prometheus)
        canary.until(lambda: _resolved(canary), 60, "every incident is resolved")
        until(lambda: pager.alerts(name, "resolved"), 420, f"{name} resolved")


def _resolved(canary: Canary) -> bool:
    rows = canary.get("/api/v1/incidents", limit=1000).json()["items"]
    still = [row for row in rows if row["state"] != "resolved"]
    for row in still:
        httpx.post(f"{canary.base}/api/v1/incidents/{row['id']}/resolve", json={"reason": "lost"}, timeout=10)
    return not still


def _value(prometheus: str, expression: str) -> float | None:
    result = _query(prometheus, expression)["result"]
    return float(result[0]["value"][1]) if result else None


def _query(prometheus: str, expression: str) -> Any:
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": expression}, timeout=10)
    assert answer.status_code == 200, f"{expression}: {answer.text}"
    return answer.json()["data"]


def _every_query_answers(prometheus: str) -> None:
    """Run each rule and each panel's query: none may be an error, and panels about probing are not empty."""
    for rules in groups().values():
        for rule in rules:
            _query(prometheus, rule.expression)
    dashboard = (ROOT / "dashboards/generated/kafka-durability-canary.json").read_text()
    for found in re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', dashboard):
        expression = json.loads(found)
        for variable, value in {
            "$__rate_interval": "1m",
            "$__range": "5m",
            "$cluster": ".*",
            "$topic": ".*",
            "$partition": ".*",
        }.items():
            expression = expression.replace(variable, value)
        _query(prometheus, re.sub(r"\$\{?\w+\}?", ".*", expression))
