"""What was promised, place by place, what is there, and the table that "Call me maybe" ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from canary.drills.rig import direct
from canary.drills.rig.direct import Look, Place
from canary.probe.identity import Identity


@dataclass(frozen=True, slots=True)
class Tally:
    """How many probes came to what (call-me-maybe-kafka, "Results"); by identity, wherever a probe stands.

    Attributes:
        attempted: were sent.
        acked: were acknowledged and, where they are part of a transaction, committed.
        survivors: of those attempted, are in the log.
        lost: were acked and are nowhere.
        unacked_found: were not acked and are in the log all the same, which is no error.
    """

    attempted: int
    acked: int
    survivors: int
    lost: int
    unacked_found: int

    @property
    def ack_rate(self) -> float:
        """Acked, of those attempted."""
        return self.acked / self.attempted if self.attempted else 0.0

    @property
    def loss_rate(self) -> float:
        """Lost, of those acked."""
        return self.lost / self.acked if self.acked else 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A direct reading of the probe topics beside the probe log.

    Attributes:
        tally: None: there is no probe log.
        promised: the identities that were acknowledged at a place: more than one where it was given away again.
        there: what stands at a place now; None: a record that is no probe.
    """

    tally: Tally | None = None
    promised: Mapping[Place, tuple[Identity, ...]] = field(default_factory=dict)
    there: Mapping[Place, Identity | None] = field(default_factory=dict)


def read(seen: Look) -> Reading:
    """Hold the promises of a probe log beside what is there."""
    if not seen.sent:
        return Reading()
    acked = [one for one in seen.sent if seen.acked(one)]
    promised: dict[Place, tuple[Identity, ...]] = {}
    for one in acked:
        if one["offset"] is not None:
            place = direct.where(one)
            promised[place] = (*promised.get(place, ()), direct.identity(one))
    here = ((place.topic, who) for place, who in seen.probes.items())
    return Reading(count(map(_of_topic, seen.sent), map(_of_topic, acked), here), promised, seen.there)


def count(
    attempted: Iterable[tuple[str, Identity]],
    acked: Iterable[tuple[str, Identity]],
    found: Iterable[tuple[str, Identity]],
) -> Tally:
    """Return the tally of identities, each with its topic."""
    sent, kept, here = set(attempted), set(acked), set(found)
    return Tally(len(sent), len(kept), len(sent & here), len(kept - here), len((sent - kept) & here))


def _of_topic(row: Mapping[str, Any]) -> tuple[str, Identity]:
    return row["topic"], direct.identity(row)
