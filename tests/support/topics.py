"""A topic as each broker of a lab knows it: one that lags or stalls knows it later than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.kafka import wire

if TYPE_CHECKING:
    from canary.lab import Lab


def as_known(lab: Lab, topic: str) -> list[list[wire.PartitionState] | None]:
    """Return the topic's partitions as each broker knows them, [] where it knows none; None: it does not answer."""
    answers = [wire.ask(lab.port(broker), (topic,), timeout=10) for broker in lab.brokers]
    return [None if answer is None else list(answer.partitions.values()) for answer in answers]
