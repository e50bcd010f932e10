"""What Alertmanager keeps back with the repository's file: what lies within a rack, or a broker, that pages."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from canary.lab.state import free_ports
from dashboards.__main__ import ROOT
from tests.support.http_client import PATIENCE_S
from tests.support.prometheus import program, running, until_ready
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

Alert = tuple[str, str]
"""Its name, and its labels as "broker=1 rack=a"."""
RACK, OTHER_RACK = "broker=1 rack=a", "broker=3 rack=b"
WITHIN = (
    "CanaryLeaderUnwritable",
    "CanaryPartitionUnwritable",
    "CanaryBrokerUnreachable",
    "CanaryLeaderSlow",
    "CanaryCoordinatorSlow",
    "CanaryCoordinatorUnavailable",
)


def inhibited(directory: Path, *alerts: Alert) -> set[Alert]:
    """Return which of the alerts of a cluster that fire together notify nobody."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    body = [
        {"labels": {"alertname": name, "cluster": "prod", "number": str(number)} | labelled(labels)}
        for number, (name, labels) in enumerate(alerts)
    ]
    with running(
        program("ALERTMANAGER", "prometheus-alertmanager"),
        f"--config.file={ROOT / 'deploy/alertmanager.yml'}",
        f"--storage.path={directory}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        log=directory / "log",
    ):
        until_ready(address, directory)
        assert httpx.post(f"{address}/api/v2/alerts", json=body, timeout=PATIENCE_S).status_code == 200
        shown = until(lambda: told(address, len(alerts)), PATIENCE_S, "every alert was routed")
    return {alerts[int(one["labels"]["number"])] for one in shown if one["status"]["inhibitedBy"]}


def told(address: str, n: int) -> list[dict[str, dict[str, str]]] | None:
    found = httpx.get(f"{address}/api/v2/alerts", timeout=PATIENCE_S).json()
    known = [one for one in found if one["status"]["state"] != "unprocessed"]
    return known if len(known) == n else None


def labelled(labels: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in labels.split())


def test_a_rack_keeps_back_all_that_is_in_it_and_nothing_of_another(tmp_path: Path) -> None:
    within = [(name, RACK) for name in WITHIN]
    beside = [(name, OTHER_RACK) for name in WITHIN[1:]] + [("CanaryLostWrite", RACK), ("CanaryLeaderSlow", "broker=9")]
    assert inhibited(tmp_path, ("CanaryRackUnwritable", "rack=a"), *within, *beside) == set(within)


def test_a_broker_keeps_back_its_partitions_also_where_no_rack_is_known(tmp_path: Path) -> None:
    within = [(name, "broker=1 partition=4") for name in WITHIN[1:]]
    others = [("CanaryPartitionUnwritable", "broker=2 partition=5"), ("CanaryPartitionUnwritable", "broker=none")]
    assert inhibited(tmp_path, ("CanaryLeaderUnwritable", "broker=1"), *within, *others) == set(within)


def test_a_store_that_is_away_keeps_back_what_is_about_its_clusters_and_nothing_of_another_canary(
    tmp_path: Path,
) -> None:
    mine = [("CanaryRunnerDown", ""), ("CanaryReconcileMissing", "")]
    others = [(name, "cluster=other") for name, _ in mine] + [("CanaryVanished", "cluster=third")]
    assert inhibited(tmp_path, ("CanaryStoreDown", ""), *mine, *others) == set(mine)


def test_the_watchdog_goes_to_the_dead_mans_switch_often_and_to_no_person() -> None:
    file = ROOT / "deploy/alertmanager.yml"
    for alert, receiver in {
        "alertname=CanaryWatchdog severity=none": "deadmansswitch",
        "alertname=CanaryVanished severity=critical cluster=prod": "page",
        "alertname=CanaryAbsent severity=critical cluster=prod": "page",
    }.items():
        asked = ["config", "routes", "test", f"--config.file={file}", *alert.split(), "service=kafka-durability-canary"]
        ran = subprocess.run([program("AMTOOL", "amtool"), *asked], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout.strip()) == (0, receiver), ran.stderr
    (route,) = (one for one in yaml.safe_load(file.read_text())["route"]["routes"] if "Watchdog" in one["matchers"][0])
    assert route["repeat_interval"] == "1m"


def test_a_warning_keeps_no_page_back_and_all_are_slow_at_once(tmp_path: Path) -> None:
    named = [("CanaryLeaderSlow", "broker=1"), ("CanaryCoordinatorSlow", "broker=2")]
    pages = [("CanaryLeaderUnwritable", "broker=1"), ("CanaryPartitionUnwritable", "broker=3")]
    warnings = [("CanaryClusterSlow", ""), ("CanaryBrokerUnreachable", "broker=3")]
    assert inhibited(tmp_path, *warnings, *named, *pages) == set(named)
