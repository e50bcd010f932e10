"""A store as it is after a bad year: 100,000 violations, and a cluster with 1,000 probed partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import orjson

from storage.store import Store
from storage.store.models import INCIDENTS, VIOLATION_TOTALS, VIOLATIONS
from tests.api.serving import partition

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 10**9
PER_INCIDENT = 100


def fill(url: str, violations: int) -> None:
    """Write violations (resolved but for the newest hundred) and the incidents that hold them."""
    with Store.connect(url, timeout=5) as store:
        store.upgrade()
        now = time.time_ns()
        rows = [_violation(number, now - (violations - number) * SECOND, violations) for number in range(violations)]
        incidents = [_incident(rows[at]) for at in range(0, violations, PER_INCIDENT)]
        total = {"cluster": "prod", "kind": "lost-write", "severity": "critical", "total": violations}
        with store._database.writing() as connection:
            for at in range(0, violations, 10_000):
                connection.execute(VIOLATIONS.insert(), rows[at : at + 10_000])
            connection.execute(INCIDENTS.insert(), incidents)
            connection.execute(VIOLATION_TOTALS.insert(), [total])


def _violation(number: int, at_ns: int, violations: int) -> dict[str, object]:
    return {
        "id": f"{number:032x}",
        "kind": "lost-write",
        "severity": "critical",
        "cluster": "prod",
        "topic": "durability-canary",
        "topic_id": "q7Vb1nVZQbeh5w0m4hV6xA",
        "partition": number % 3,
        "offset": 1000 + number,
        "producer_id": 2**62 + 1,
        "generation": 3,
        "identity_partition": number % 3,
        "sequence": number,
        "mode": "idempotent",
        "state": "open" if number >= violations - 100 else "resolved",
        "reason": None if number >= violations - 100 else "lost",
        "note": None,
        "first_seen_ns": at_ns,
        "last_seen_ns": at_ns,
        "closed_ns": None,
        "sightings": [{"by": "online", "at_ns": at_ns}],
        "incident_id": f"{number - number % PER_INCIDENT:032x}",
        "summary": f"Probe {number} was acknowledged at offset {1000 + number} and is not there.",
        "evidence": {"acked_offset": 1000 + number, "confirmed": True},
    }


def _incident(lead: dict[str, object]) -> dict[str, object]:
    own = ("id", "cluster", "topic", "topic_id", "partition", "kind", "severity", "summary", "state", "reason", "note")
    at_ns = lead["first_seen_ns"]
    return {name: lead[name] for name in own} | {
        "place": f"prod {lead['partition']}",
        "lead_id": lead["id"],
        "lead_ns": at_ns,
        "first_ns": at_ns,
        "last_ns": at_ns,
    }


def wide_view(partitions: int, *, buckets: int = 14, acked: int = 100) -> bytes:
    """Return what a runner stores of a cluster with so many probed partitions: every series that it has of each."""
    found = [series for number in range(partitions) for series in _series(str(number), acked, buckets)]
    return orjson.dumps(
        {
            "version": 1,
            "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
            "measurements": found,
            "partitions": [partition(number, seen=acked) for number in range(partitions)],
            "topics": [{"topic": "durability-canary", "topic_id": "q7Vb1nVZQbeh5w0m4hV6xA", "mode": "idempotent"}],
            "since_ns": time.time_ns() - 3600 * SECOND,
            "waiting_for": None,
            "suspects": 0,
        }
    )


OUTCOMES = ("sent", "acked", "failed", "indeterminate")
OF_READERS = ("unseen_probes", "unseen_oldest_seconds", "consumer_position", "consumer_stalled")
OF_LOGS = (
    "log_start_offset",
    "log_end_offset",
    "leader_epoch",
    "partition_isr",
    "partition_under_min_isr",
    "unclean_elections_total",
    "offset_regressions_total",
    "scrub_position_ratio",
    "scrub_age_seconds",
)


def _series(partition: str, acked: int, buckets: int) -> Iterator[list[object]]:
    place = ["durability-canary", partition]
    counts = [0, 0, acked, *[0] * (buckets - 3)]
    names = [*(f"probes_{outcome}_total" for outcome in OUTCOMES), "unverified_expired_total"]
    yield from ([f"canary_{name}", [*place, "idempotent"], acked] for name in names)
    yield ["canary_produce_latency_seconds", [*place, "idempotent"], 0.7, counts]
    for consumer in ("read_committed", "read_uncommitted"):
        yield from ([f"canary_{name}", [*place, consumer], acked] for name in OF_READERS)
        yield ["canary_probes_seen_total", [*place, consumer, "idempotent"], acked]
        yield ["canary_end_to_end_latency_seconds", [*place, consumer, "idempotent"], 0.9, counts]
    yield from ([f"canary_{name}", place, 3] for name in OF_LOGS)
