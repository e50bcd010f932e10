"""Records of applications that are lost or changed, as violations: what digests and receipts find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from canary.anomalies import policy
from canary.anomalies.violation import Records, Violation

KINDS: Final = {"lost": "record-lost", "changed": "record-changed", "replaced": "record-changed"}


def violation(
    what: str,
    place: tuple[str, str | None, int],
    records: Sequence[Records],
    seen: tuple[int, str | None],
    there_ns: int,
    summary: str,
    evidence: Mapping[str, Any],
) -> Violation:
    """Return a violation about records of one partition.

    Args:
        what: lost, or changed, or replaced after an election.
        place: topic, its id, and partition.
        records: by offset.
        seen: when it was found (ns since the epoch), and by which reconciliation, if by one.
        there_ns: when all of them were last known to be there.
        summary: what happened, in words.
        evidence: who says so (``by``), and what is known of it.
    """
    topic, topic_id, partition = place
    at_ns, reconciliation = seen
    kind = KINDS[what]
    return Violation(
        kind=kind,
        severity=policy.severity(kind),
        topic=topic,
        topic_id=topic_id or "",
        partition=partition,
        offset=records[0].offset,
        at_ns=at_ns,
        by="reconcile",
        summary=summary,
        evidence={**evidence, **({} if reconciliation is None else {"reconciliation": reconciliation})},
        happened_after_ns=there_ns or None,
    ).about(records)
