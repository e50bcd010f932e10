"""Clients do not reach one broker for more than a minute and a half: what is told of it begins once and ends once."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Cut, NodeProperties
from tests.support import labs
from tests.support.http_client import PATIENCE_S
from tests.support.monitoring import fired, monitoring, query
from tests.support.process import Canary
from tests.support.receiving import receiving
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.receiving import Receiving

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.quick]

TOPIC = "unreachable"
TOPICS = (TOPIC, f"{TOPIC}-transactional")
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
AWAY = 2
LED = 1
"""The partition of each topic that broker 2 leads."""
UNWRITABLE_S, RUNG_S = 60.0, 40.0
"""A partition takes no writes after so long; its broker rings a hold later, and goes on for a while here."""
WRITTEN_S = 10.0
"""Within so long of the end every partition acknowledges again."""
CALM_S = 30
"""Longer than the holds of the alerts about writes and two evaluations: one that is to come comes meanwhile."""
EVALUATED_S = LOOK_S = 5.0
RINGS = "Canary(Rack|Leader|Partition)Unwritable"
WAITS = "canary_unacknowledged_seconds"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Lab]:
    """Three brokers whose network can fail."""
    labs.discard()
    properties = NodeProperties({"min.insync.replicas": 2})
    more = {"profile": "quick", "proxied": True, "die_with_parent": True, **labs.PROFILES["quick"]}
    with labs.Watched(tmp_path / "lab", properties=properties, **more) as running:
        yield running


@pytest.mark.timeout(1800)
def test_a_broker_that_clients_do_not_reach_is_told_once_and_its_end_once(network: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": network.bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(one, 3, replica_assignment=REPLICAS) for one in TOPICS])
    for one in made.values():
        one.result(PATIENCE_S)
    with receiving() as bus:
        settings = _settings(network.bootstrap, bus)
        canary = Canary(tmp_path / "canary", network.bootstrap, TOPIC, settings=settings)
        with canary, monitoring(tmp_path, [canary.port], []) as prometheus:
            canary.until_probing()
            canary.until(lambda: canary.metric("canary_probes_seen_total", topic=TOPICS[1]) > 10, 60, "both are probed")
            assert bus.requests == []
            began = time.time()
            network.nemesis(Cut("client", AWAY))
            until(
                lambda: {(one, LED) for one in TOPICS} <= _unwritable(canary),
                UNWRITABLE_S + 30,
                "both stand",
                step_s=LOOK_S,
            )
            until(lambda: _rang_for(prometheus, 20), RUNG_S + 30, "the broker is unwritable for 20 s", step_s=LOOK_S)
            network.heal()
            canary.until(lambda: _waiting(canary) == 0, WRITTEN_S, "every partition acknowledges again")
            over = time.time()
            canary.until(lambda: not _unwritable(canary), 60, "all take writes again")
            until(lambda: _calm(prometheus), CALM_S + 30, f"nothing has waited for {CALM_S} s", step_s=LOOK_S)
            canary.until_all_seen()
            canary.until_no_doubt()
            until(lambda: all(len(one) > 1 for one in _told(bus).values()), 30, "every end is told")
            found, promises = canary.violations("unwritable"), canary.broken_promises()
            rang = {name: at for (name, _), at in fired(prometheus, began).items() if re.fullmatch(RINGS, name)}
    places = [(one["topic"], one["partition"]) for one in found]
    assert {(one, LED) for one in TOPICS} <= set(places)
    assert len(set(places)) == len(places), "one violation for each partition"
    assert set(_told(bus).values()) == {("opened", "resolved")}, _told(bus)
    assert [place for place, _ in _told(bus)].count(("", None)) == 1, "all of them are one incident of the cluster"
    assert "CanaryLeaderUnwritable" in rang
    assert all(begun < over for at in rang.values() for begun in _beginnings(at)), (over, rang)
    unread = [f"warning stalled in {one}[{LED}] at " for one in TOPICS]  # a consumer that stood before is said, too
    assert [one for one in promises if " unwritable in " not in one and not one.startswith(tuple(unread))] == []


def _settings(bootstrap: str, bus: Receiving) -> dict[str, Any]:
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": bootstrap},
        "topic": {"name": TOPIC, "partitions": 3},
        "modes": {"idempotent": {"interval": "300ms"}, "transactional": {"interval": "500ms", "abandon_every": "1h"}},
    }
    notify = [{"name": "bus", "kind": "webhook", "url": bus.url, "severities": ["critical", "warning"]}]
    return {"clusters": [cluster], "notify": notify}


def _unwritable(canary: Canary) -> set[tuple[str, int]]:
    """Return the partitions that take no writes now."""
    return {(one["topic"], one["partition"]) for one in canary.violations("unwritable") if one["state"] != "resolved"}


def _rang_for(prometheus: str, seconds: int) -> bool:
    rings = f'ALERTS{{alertname="CanaryLeaderUnwritable", broker="{AWAY}", alertstate="firing"}}'
    return bool(query(prometheus, f"{rings} and {rings} offset {seconds}s")["result"])


def _waiting(canary: Canary) -> float:
    """Return for how many whole seconds a partition has waited: a probe on its way is no wait."""
    return max(sample.value // 1 for sample in canary.scrape(WAITS) if sample.name == WAITS)


def _calm(prometheus: str) -> bool:
    """Tell whether nothing waited for some time, and nothing rings any more about writes."""
    waited = query(prometheus, f"max(max_over_time({WAITS}[{CALM_S}s])) < {WRITTEN_S}")["result"]
    rings = query(prometheus, f'ALERTS{{alertname=~"{RINGS}", alertstate="firing"}}')["result"]
    return bool(waited) and not rings


def _told(bus: Receiving) -> dict[tuple[tuple[str, int | None], str], tuple[str, ...]]:
    """Return what was told of each incident, in order, by its partition and id."""
    told: dict[tuple[tuple[str, int | None], str], tuple[str, ...]] = defaultdict(tuple)
    for request in list(bus.requests):
        data = request.json["data"]
        one = data["incident"]
        told[(one["topic"], one["partition"]), one["id"]] += (data["change"],)
    return told


def _beginnings(at: list[float]) -> list[float]:
    """Return when an alert began: at the first of its times, and where evaluations lie between two of them."""
    return [now for before, now in zip([0.0, *at], at, strict=False) if now - before > 2 * EVALUATED_S]
