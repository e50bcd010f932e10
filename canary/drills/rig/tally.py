"""What was promised, place by place, what is there, and the table that "Call me maybe" ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.probe.identity import Identity
from canary.probe.record import Probe, decode


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


def read(bootstrap: str, probe_log: Path) -> Reading:
    """Read the topics of a probe log, and hold them beside it."""
    rows = _rows(probe_log / "probes")
    if not rows:
        return Reading()
    there: dict[Place, Identity | None] = {}
    for topic in {one["topic"] for one in rows}:
        for record in direct.records(bootstrap, topic):
            probe = decode(record.value, None)
            place = Place(topic, record.partition, record.offset)
            there[place] = probe.identity if isinstance(probe, Probe) else None
    committed = {_transaction(one) for one in _rows(probe_log / "transactions") if one["outcome"] == "committed"}
    acked = [
        one
        for one in rows
        if one["outcome"] == "acked" and (one["transaction_id"] is None or _transaction(one) in committed)
    ]
    promised: dict[Place, tuple[Identity, ...]] = {}
    for one in acked:
        if one["offset"] is not None:
            place = Place(one["topic"], one["partition"], one["offset"])
            promised[place] = (*promised.get(place, ()), _identity(one)[1])
    return Reading(count(map(_identity, rows), map(_identity, acked), _identities(there)), promised, there)


def count(
    attempted: Iterable[tuple[str, Identity]],
    acked: Iterable[tuple[str, Identity]],
    found: Iterable[tuple[str, Identity]],
) -> Tally:
    """Return the tally of identities, each with its topic."""
    sent, kept, here = set(attempted), set(acked), set(found)
    return Tally(len(sent), len(kept), len(sent & here), len(kept - here), len((sent - kept) & here))


def _identities(there: Mapping[Place, Identity | None]) -> Iterable[tuple[str, Identity]]:
    return ((place.topic, who) for place, who in there.items() if who is not None)


def _rows(directory: Path) -> list[dict[str, Any]]:
    return ds.dataset(directory).to_table().to_pylist() if directory.exists() else []


def _identity(row: Mapping[str, Any]) -> tuple[str, Identity]:
    return row["topic"], Identity(row["producer_id"], row["generation"], row["partition"], row["sequence"])


def _transaction(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["producer_id"], row["generation"], row["transaction_id"]
