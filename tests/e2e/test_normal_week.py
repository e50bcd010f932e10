"""What happens to a cluster in a normal week, in minutes: of none of it is anybody told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from dashboards.rules.slowness import SLOWNESS
from tests.support.http_client import PATIENCE_S
from tests.support.monitoring import fired, monitoring
from tests.support.process import Canary
from tests.support.receiving import receiving
from tests.support.stalls import evidence
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.receiving import Receiving

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.kafka, pytest.mark.quick]

TOPIC = "normal-week"
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
ROUNDS = 4
"""So often each broker is restarted: twelve restarts."""
WATCHDOG = ("CanaryWatchdog", "")
SLOW = {(rule.name, "t") for rule in SLOWNESS if rule.name.endswith("Slow")}
"""What is so on a machine that stalls: one write in ten takes longer than half a second, for minutes."""
LOOKS = 6
"""So many evaluations more: half a minute, longer than most holds."""


@pytest.mark.timeout(1800)
def test_a_normal_week_is_told_to_nobody(lab: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 3, replica_assignment=REPLICAS)])[TOPIC].result(PATIENCE_S)
    with receiving() as bus:
        canary = Canary(tmp_path / "canary", lab.bootstrap, TOPIC, settings=_settings(lab.bootstrap, bus))
        with canary, monitoring(tmp_path, [canary.port], []) as prometheus:
            canary.until_probing()
            began = time.time()
            until(lambda: fired(prometheus, began), 60, "the watchdog fires")
            for broker in ROUNDS * lab.brokers:
                lab.restart(broker)
                _whole(lab)
            assert canary.stop() == [0, 0]
            canary.start()
            canary.until_probing()
            before = until(lambda: _members(admin), 60, "the group has members")
            until(lambda: before - _members(admin), 60, "a member has left it", step_s=1)
            lab.stop_broker(3)
            lab.wipe(3)
            lab.start_broker(3)
            _whole(lab)
            canary.until_all_seen()
            canary.until_no_doubt()
            ended = time.time()
            until(lambda: len(fired(prometheus, ended)[WATCHDOG]) > LOOKS, 60, "Prometheus has looked again", step_s=2)
            rang, promises = set(fired(prometheus, began)), canary.broken_promises()
    assert promises == []
    assert [request.json["data"] for request in bus.requests] == []
    assert rang - (SLOW if evidence(began) else set()) == {WATCHDOG}


def _settings(bootstrap: str, bus: Receiving) -> dict[str, Any]:
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": bootstrap},
        "topic": {"name": TOPIC, "partitions": 3},
        "modes": {"idempotent": {"interval": "300ms"}, "group": {"rebalance_every": "10s"}},
    }
    notify = [{"name": "bus", "kind": "webhook", "url": bus.url, "severities": ["critical", "warning"]}]
    return {"clusters": [cluster], "notify": notify}


def _whole(lab: Lab) -> None:
    """Wait until all replicas are in sync."""
    for partition, replicas in enumerate(REPLICAS):
        lab.wait_isr(TOPIC, partition, set(replicas))


def _members(admin: AdminClient) -> set[str]:
    """Return who is in the groups of the cluster."""
    groups = [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]
    described = [one.result(PATIENCE_S) for one in admin.describe_consumer_groups(groups).values()] if groups else []
    return {member.member_id for group in described for member in group.members}
