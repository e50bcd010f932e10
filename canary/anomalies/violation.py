"""What the engine says: violations, questions it wants answered, and nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.probe.identity import Identity

SENT_AGAIN = "sent_again_under_a_new_producer_epoch"
"""In the evidence of a duplicate that the client made: whoever finds it without knowing that does not make it worse."""

Severity = Literal["critical", "warning", "info"]
SightedBy = Literal["online", "scrub", "reconcile", "watch"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise, with its evidence.

    ``kind`` is a name of the catalogue. ``topic_id`` is the incarnation ("" where the cluster does not tell). The place
    (``partition``, ``offset``, ``identity``) follows CONTRACTS "Place of a violation"; None where the kind has none.
    ``evidence`` holds only JSON values. Times in ns since the epoch. ``key`` is what makes it one violation for ever.
    """

    kind: str
    severity: Severity
    topic: str
    topic_id: str
    partition: int | None
    offset: int | None
    identity: Identity | None
    mode: str | None
    at_ns: int
    by: SightedBy
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def key(self, cluster: str) -> str:
        """Return the id: kind, cluster, incarnation, partition, offset and identity, hashed (32 hex)."""
        place = (
            self.kind,
            cluster,
            self.topic,
            self.topic_id,
            self.partition,
            self.offset,
            self.identity and tuple(self.identity),
        )
        return hashlib.blake2b(repr(place).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RereadRequest:
    """Please read [start, end) of a partition with a fresh client, and tell (Polled, Refused, RereadEnded facts).

    ``request_id`` is given by the tracker and stable under replay. ``reason`` is for people: confirm, epoch, start.
    """

    request_id: int
    topic: str
    partition: int
    isolation: str
    start: int
    end: int
    reason: str
