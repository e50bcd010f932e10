"""The files of the repository in a real Prometheus and Alertmanager, and a pager that remembers."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import yaml

from canary.lab.state import free_ports
from dashboards.__main__ import GENERATED, ROOT
from tests.support.http_client import HTTP
from tests.support.prometheus import program, running, until_ready
from tests.support.prometheus import prometheus as started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NEW_SHIPPED, NEW_HERE = "[5m]", "[30s]"
"""How long a violation counts as new, and so how long an alert stays at least. test_rules_fire shows that those shipped
fire for five minutes."""
KEPT_SHIPPED, KEPT_HERE = "5m", "10s"
"""How long other alerts stay when their reason is over. The rules differ in nothing else here; test_rules_fire shows
that what comes and goes is one page."""
SECONDS = {"scrape_interval": "5s", "evaluation_interval": "5s"}
"""How often Prometheus looks here."""


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
def monitoring(directory: Path, canary_ports: Sequence[int], pagers: Sequence[str], rules: Any = None) -> Iterator[str]:
    """Run Prometheus and Alertmanager with the files of the repository; yield Prometheus' address.

    Args:
        directory: for their files.
        canary_ports: of the APIs that are scraped.
        pagers: addresses of the webhooks that critical alerts go to.
        rules: None: those of forgetful_rules.
    """
    (alertmanager_port,) = free_ports(1)
    alertmanager = yaml.safe_load((ROOT / "deploy/alertmanager.yml").read_text())
    alertmanager["route"] |= {"group_wait": "1s", "group_interval": "2s"}
    for receiver in alertmanager["receivers"]:
        if receiver["name"] == "page":
            receiver["webhook_configs"] = [{"url": pager, "send_resolved": True} for pager in pagers]
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    prometheus["global"] = SECONDS
    prometheus["rule_files"] = [str(directory / "rules.yml")]
    (directory / "rules.yml").write_text(yaml.safe_dump(rules or forgetful_rules()))
    prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager_port}"]
    (directory / "alertmanager.yml").write_text(yaml.safe_dump(alertmanager))
    with (
        running(
            program("ALERTMANAGER", "prometheus-alertmanager"),
            f"--config.file={directory}/alertmanager.yml",
            f"--storage.path={directory}/alertmanager",
            f"--web.listen-address=127.0.0.1:{alertmanager_port}",
            "--cluster.listen-address=",
            log=directory / "alertmanager.log",
        ),
        started(directory, prometheus, *canary_ports) as address,
    ):
        until_ready(f"http://127.0.0.1:{alertmanager_port}", directory)
        yield address


def forgetful_rules() -> Any:
    """Return the rules as shipped, but that all forget sooner what is over. They fire when those shipped do."""
    rules = yaml.safe_load((ROOT / GENERATED / "rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if rule.get("keep_firing_for") == KEPT_SHIPPED:
                rule["keep_firing_for"] = KEPT_HERE
    (anomalies,) = (group for group in rules["groups"] if group["name"] == "kafka-durability")
    for rule in anomalies["rules"]:
        assert rule["expr"].count(NEW_SHIPPED) == 1
        rule["expr"] = rule["expr"].replace(NEW_SHIPPED, NEW_HERE)
    return rules


def query(prometheus: str, expression: str, **when: float) -> Any:
    """Ask for an expression's value now, or for those from ``start`` to ``end``."""
    path, asked = "query_range" if when else "query", {"query": expression} | {k: str(v) for k, v in when.items()}
    answer = HTTP.get(f"{prometheus}/api/v1/{path}", params=asked)
    assert answer.status_code == 200, f"{expression}: {answer.text}"
    return answer.json()["data"]


def firing(prometheus: str) -> list[dict[str, Any]]:
    """Return the alerts that fire now."""
    answer = HTTP.get(f"{prometheus}/api/v1/alerts").raise_for_status()
    return [one for one in answer.json()["data"]["alerts"] if one["state"] == "firing"]


def fired(prometheus: str, since: float) -> dict[tuple[str, str], list[float]]:
    """Return when each alert has fired since a time, by its name and cluster: a time for each evaluation."""
    when = {"start": since, "end": time.time(), "step": float(SECONDS["evaluation_interval"].rstrip("s"))}
    expression = 'max by (alertname, cluster) (ALERTS{alertstate="firing"})'
    return {
        (one["metric"]["alertname"], one["metric"].get("cluster", "")): [float(at) for at, _ in one["values"]]
        for one in query(prometheus, expression, **when)["result"]
    }
