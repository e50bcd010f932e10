"""Topics that are deleted, on real brokers: what went with them is said before the canary makes its own again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import Canary
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka
RECORDS = 60


def one(canary: Canary, kind: str) -> dict[str, Any]:
    canary.until(lambda: canary.violations(kind), 40, f"{kind} is said")
    (found,) = canary.violations(kind)
    return dict(canary.get(f"/api/v1/violations/{found['id']}").json())


def test_what_went_with_a_probe_topic_and_with_a_watched_one_is_said_and_the_page_does_not_say_kept(
    lab: Lab, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(20)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("orders", b"an order", partition=number % 3)
    in_time(producer.flush(60) == 0, "all acknowledgements")
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "gone", "config": {"min.insync.replicas": "2"}},
        "modes": {"idempotent": {"interval": "250ms"}},
        "watch": {"topics": [], "offsets": ["orders"], "epochs": ["orders"]},
    }
    with Canary(tmp_path, lab.bootstrap, "gone", settings={"clusters": [cluster]}) as canary:
        canary.until_probing()
        canary.until(lambda: canary.metric("canary_probes_acked_total") >= RECORDS, 60, "probes are acknowledged")
        canary.until_all_seen()
        for topic in ("gone", "orders"):
            admin.delete_topics([topic])[topic].result(20)
        void = one(canary, "promises-void")
        assert (void["topic"], void["severity"]) == ("gone", "critical")
        assert void["evidence"]["promises_voided"] >= RECORDS
        watched = one(canary, "watched-topic-gone")
        assert (watched["topic"], watched["severity"], watched["evidence"]["records"]) == (
            "orders",
            "critical",
            RECORDS,
        )
        page = canary.get("/").text
        assert "kept every write" not in page
        assert "lost nothing" not in page
        again = one(canary, "topic-recreated")
        assert (again["topic"], again["severity"]) == ("gone", "warning"), "made by the canary, after that was said"
        assert again["evidence"]["promises_voided"] == void["evidence"]["promises_voided"]
        assert again["first_seen_at"] > void["first_seen_at"]
        canary.until_probing()
        canary.until_all_seen()
        assert {v["kind"] for v in canary.unexplained()} == {"promises-void", "watched-topic-gone", "topic-recreated"}
        assert canary.stop() == [0, 0]
