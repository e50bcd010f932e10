"""Two canaries in one Prometheus: one dies, and it is told of its cluster alone, until it is back."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.command import canary as command
from tests.support.monitoring import SECONDS, fired, firing, forgetful_rules, monitoring, query
from tests.support.process import Canary
from tests.support.receiving import receiving
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.receiving import Receiving

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

DIES, LIVES = "east", "west"
GONE = frozenset({"CanaryVanished", "CanaryAbsent"})
HOLD_SHIPPED, HOLD_HERE = "2m", "10s"
"""How long a cluster has no series before it is told."""
TOLD_S = 60.0
LOOK_S = 2.0


@pytest.mark.timeout(1800)
def test_a_canary_that_dies_is_told_though_another_lives_and_until_it_is_back(lab: Lab, tmp_path: Path) -> None:
    canaries = {name: _canary(lab, tmp_path / name, name) for name in (DIES, LIVES)}
    dies, lives = canaries[DIES], canaries[LIVES]
    ports = [dies.port, lives.port]
    with receiving() as pager, dies, lives, monitoring(tmp_path, ports, [pager.url], _rules(canaries)) as prometheus:
        for canary in canaries.values():
            canary.until_probing()
        until(lambda: _served(prometheus) == set(canaries), TOLD_S, "Prometheus has scraped both")
        began = time.time()
        until(lambda: _watched(prometheus) == {"CanaryWatchdog"}, TOLD_S, "nothing fires but the watchdog")
        dies.kill()
        until(lambda: _gone(prometheus) >= {(one, DIES) for one in GONE}, TOLD_S, "it is missed", step_s=LOOK_S)
        until(lambda: _told(pager, "firing") == {(one, DIES) for one in GONE}, TOLD_S, "that pages", step_s=LOOK_S)
        lives.until_probing()
        dies.start()
        dies.until_probing()
        until(lambda: not _gone(prometheus), TOLD_S, "it is back", step_s=LOOK_S)
        until(lambda: _told(pager, "resolved") == {(one, DIES) for one in GONE}, TOLD_S, "that ends it", step_s=LOOK_S)
        rang = fired(prometheus, began)
        assert [one.broken_promises() for one in canaries.values()] == [[], []]
    step_s = float(SECONDS["evaluation_interval"].rstrip("s"))
    always = rang.pop(("CanaryWatchdog", ""))
    assert all(after - before == step_s for before, after in pairwise(always)), always
    assert set(rang) == {(one, DIES) for one in GONE}


def _canary(lab: Lab, directory: Path, name: str) -> Canary:
    cluster = {
        "name": name,
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": f"beside-{name}", "partitions": 3},
        "modes": {"idempotent": {"interval": "500ms"}},
    }
    return Canary(directory, lab.bootstrap, f"beside-{name}", name=name, settings={"clusters": [cluster]})


def _rules(canaries: dict[str, Canary]) -> Any:
    """Return the rules as shipped and those of `canary alert rules`, that miss a cluster sooner."""
    rules = forgetful_rules()
    for canary in canaries.values():
        made = command("alert", "rules", "--config", canary.config)
        assert made.status == 0, made.err
        (group,) = yaml.safe_load(made.out)["groups"]
        rules["groups"].append(group | {"name": f"absent-{canary.name}"})
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if rule.get("alert") in GONE):
        assert rule["for"] == HOLD_SHIPPED
        rule["for"] = HOLD_HERE
    return rules


def _served(prometheus: str) -> set[str]:
    return {one["metric"]["cluster"] for one in query(prometheus, "canary_api_cluster_store_up")["result"]}


def _watched(prometheus: str) -> set[str]:
    return {one["labels"]["alertname"] for one in firing(prometheus)}


def _gone(prometheus: str) -> set[tuple[str, str]]:
    """Return by which alert which cluster is missed now."""
    names = [(one["labels"]["alertname"], one["labels"].get("cluster", "")) for one in firing(prometheus)]
    return {one for one in names if one[0] in GONE}


def _told(pager: Receiving, status: str) -> set[tuple[str, str]]:
    alerts = [alert for request in list(pager.requests) for alert in request.json["alerts"]]
    return {(one["labels"]["alertname"], one["labels"]["cluster"]) for one in alerts if one["status"] == status}
