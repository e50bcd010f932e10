"""All of it, real: brokers, canary, PostgreSQL, Prometheus, Alertmanager; a loss is caused, and somebody is paged."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.policy import REHEARSALS
from dashboards.boards.catalogue import boards
from dashboards.rules import GROUPS
from storage.store import Store
from tests.support.grafana import queries
from tests.support.harm import destroy
from tests.support.http_client import HTTP, PATIENCE_S
from tests.support.monitoring import Pager, monitoring, query
from tests.support.process import Canary
from tests.support.waiting import BUSY, until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.postgres import Postgres

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.postgres, pytest.mark.quick]

LOOKS_S = 2.0
"""Between two rounds of questions to Prometheus, which looks every five seconds."""
PAGED_S = 30.0
"""How long it may take on an idle machine from finding a loss to the webhook: a scrape, an evaluation, a group."""


OFF = {
    "canary_certificate_expiry_timestamp_seconds": "no TLS here",
    "canary_api_certificate_expiry_timestamp_seconds": "no TLS here",
    "canary_drill_last_success_timestamp_seconds": "the mode drill is off: see test_drill_reaches_pager",
    "canary_drill_detection_seconds": "the same",
    "canary_drill_page_seconds": "the same",
    "canary_quiet": "nothing is planned, and no cluster is in shadow mode",
    "canary_notifications_waiting": "nobody is notified but by Prometheus",
    "canary_notifications_oldest_seconds": "the same",
    "canary_notify_heartbeat_timestamp_seconds": "the same",
    "canary_notifications_failed_total": "the same",
    "canary_notifications_dropped_total": "the same",
    "canary_random_read_latency_seconds": "random reads are off",
    "canary_groups_unknown": "no groups of applications are watched: see tests.watching.test_groups_brokers",
    "canary_groups_left_out": "the same",
    "canary_group_lag": "the same",
    "canary_group_members": "the same",
    "canary_group_partitions": "the same",
    "canary_hanging_transactions": "the same",
    "canary_transactions_unknown": "the same",
    "canary_epochs_": "no elections are watched: see tests.runner.test_unclean_election",
    "canary_quorum_": "the same",
    "canary_mirror_": "nothing is mirrored: see tests.watching.test_mirrormaker",
    "canary_replicas_": "no replicas are compared: see tests.watching.replicas",
    "canary_digest_": "no topic is digested: see tests.spark_reconcile.test_digests",
    "canary_receipts_": "no application keeps receipts: see tests.spark_reconcile.test_receipts",
    "canary:objective_": "recorded of hours and days: see tests.dashboards.test_budgets_burn",
}
"""Metrics whose feature is off here, and why."""


UNSAFE = "e2e-unsafe"
"""A topic of which the audit has something to say."""


def settings(bootstrap: str, topic: str) -> dict[str, Any]:
    """Three modes, so that transactions and the group's commits have latencies as well."""
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": bootstrap},
        "topic": {"name": topic, "partitions": 1},
        "modes": {"idempotent": {"interval": "100ms"}, "transactional": {"interval": "500ms"}, "group": {}},
        "watch": {"audit": [UNSAFE]},
    }
    return {"clusters": [cluster], "schedule": {"reconcile": "0 3 * * *"}}


@pytest.mark.timeout(1800)
def test_a_loss_reaches_the_pager_within_30_s_and_its_resolution_too(
    lab: Lab, postgres: Postgres, tmp_path: Path
) -> None:
    pager = Pager()
    topic = "e2e-loss"
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(UNSAFE, 1, 1)])[UNSAFE].result(PATIENCE_S)
    url = postgres.database()
    canary = Canary(
        tmp_path / "canary",
        lab.bootstrap,
        topic,
        store=url,
        partitions=1,
        settings=settings(lab.bootstrap, topic),
    )
    with canary, monitoring(tmp_path, [canary.port], [pager.address]) as prometheus:
        canary.until_probing()
        _until_scraped(prometheus, "canary_violations_total")
        assert not pager.told
        _reconciled(url)
        _until_scraped(prometheus, "canary_scrub_position_ratio")
        _foreign(lab.bootstrap, topic)
        canary.until_all_seen()
        canary.until(lambda: canary.metric("canary_foreign_records_total") > 0, 30, "somebody else's record is seen")
        before = time.time()
        destroy(lab, topic, 0, 20)
        canary.until(lambda: canary.violations("lost-write", "truncation"), 90, "the loss is found")
        found_at = time.monotonic()
        kinds = {violation["kind"] for violation in canary.violations() if violation["severity"] == "critical"}
        name = "CanaryLostWrite" if "lost-write" in kinds else "CanaryTruncation"
        until(lambda: pager.alerts(name, "firing"), 60, f"{name} at the webhook; there were {kinds}")
        at, alert = pager.alerts(name, "firing")[0]
        assert at - found_at < PAGED_S * BUSY
        _every_query_answers(prometheus, before)
        runbook = alert["annotations"]["runbook_url"]
        assert runbook == f"{canary.base}/runbooks/{name}?cluster=t"
        assert "What to do" in HTTP.get(runbook).text
        linked = alert["annotations"]["incident_url"]
        assert linked == f"{canary.base}/alerts/{name}?cluster=t"
        first = HTTP.get(linked).raise_for_status().text
        assert "What now" in first
        incident = re.search(r'<a href="(/incidents/[0-9a-f]{32})">All of it</a>', first)
        assert incident is not None, first
        page = HTTP.get(canary.base + incident[1])
        assert page.status_code == 200
        for heading in ("What now", "Timeline", "What else was exposed", "Violations"):
            assert heading in page.text
        canary.until(lambda: canary.violations("truncation"), 90, "the cut is found")
        canary.until_probing()
        canary.until_all_seen()
        canary.until_no_doubt()
        _acknowledged(canary)
        assert all(row["state"] != "open" for row in canary.violations())
        canary.until(lambda: _resolved(canary), 60, "every incident is resolved")
        until(lambda: pager.alerts(name, "resolved"), 120, f"{name} resolved")


def _reconciled(url: str) -> None:
    """Write down a reconciliation that ended well, as the scheduler does (the nightly job has tests of its own)."""
    now = time.time_ns()
    with Store.connect(url, timeout=PATIENCE_S) as store:
        store.reconciliations.request("t", "e2e", now)
        claimed = store.reconciliations.claim("e2e", now)
        assert claimed is not None
        verdicts = {"survived": 100, "lost": 0, "pending": 3}
        assert store.reconciliations.finish(claimed.id, "e2e", now, summary={"unjudged": []}, verdicts=verdicts)


def _foreign(bootstrap: str, topic: str) -> None:
    """Write a record that is not ours."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"not a probe", partition=0)
    assert producer.flush(PATIENCE_S) == 0


def _acknowledged(canary: Canary) -> None:
    for row in canary.get("/api/v1/incidents", limit=1000, state="open").json()["items"]:
        answer = HTTP.post(
            f"{canary.base}/api/v1/incidents/{row['id']}/acknowledge", json={"note": "looking"}, timeout=PATIENCE_S
        )
        assert answer.status_code == 200


def _resolved(canary: Canary) -> bool:
    rows = canary.get("/api/v1/incidents", limit=1000).json()["items"]
    still = [row for row in rows if row["state"] != "resolved"]
    for row in still:
        HTTP.post(f"{canary.base}/api/v1/incidents/{row['id']}/resolve", json={"reason": "lost"})
    return not still


def _until_scraped(prometheus: str, metric: str) -> None:
    until(lambda: query(prometheus, metric)["result"], 60, f"Prometheus scrapes {metric}", step_s=LOOKS_S)


def _every_query_answers(prometheus: str, since: float) -> None:
    """Ask every rule and every panel: none may be an error, and none is empty since then unless its feature is off."""
    asked = {(uid, one) for uid, text in boards().items() for one in queries(json.loads(text))}
    # a panel that shows only what fails is empty while nothing does
    empty = {(uid, one.removesuffix(" > 0")) for uid, one in asked if not any(name in one for name in OFF)}
    for rules in GROUPS.values():
        for rule in rules:
            asked.add((rule.name, rule.expression))
            for name, braces in set(re.findall(r"(canary_\w+)(\{[^}]*\})?", rule.expression)):
                rehearsed = any(kind in braces for kind in REHEARSALS)
                if not (any(one in name for one in OFF) or rehearsed or rule.name == "CanaryApiDown"):
                    empty.add((rule.name, name + braces))
    for _, one in asked:
        query(prometheus, one)

    def all_answered() -> bool:
        when = {"start": since, "end": time.time(), "step": 5.0}
        empty.difference_update([one for one in empty if query(prometheus, one[1], **when)["result"]])
        return not empty

    try:
        until(all_answered, 30, "every query answers", step_s=LOOKS_S)
    finally:
        assert empty == set()
