"""What a vendor's admin API answers and the Kafka protocol does not: versions, membership, health, decommissioning.

Where there is no such API, or it does not answer, NotAvailableError says so, and the rest of the canary works.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class NotAvailableError(Exception):
    """There is no such API, or it does not answer, refuses, or answers in another shape."""


@dataclass(frozen=True, slots=True)
class Member:
    """One broker. ``membership`` is "active" or "draining" (being decommissioned); None: not known."""

    id: int
    rack: str | None
    version: str | None
    membership: str
    alive: bool | None


@dataclass(frozen=True, slots=True)
class Members:
    """The brokers that belong to the cluster, dead ones too; a broker that is not among them was removed.

    ``version`` rises with each change; None where the answer has none, and may be old.
    """

    version: int | None
    brokers: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition: its leader (None: none), its replicas, and whether an operator has disabled it."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    disabled: bool


@dataclass(frozen=True, slots=True)
class Health:
    """Of the cluster as a whole; partitions as "namespace/topic/partition"."""

    healthy: bool
    down: tuple[int, ...]
    leaderless: tuple[str, ...]
    under_replicated: tuple[str, ...]


class VendorApi:
    """Each method raises NotAvailableError where there is no answer: here, with the Kafka protocol alone, always.

    ``name`` is the vendor's, for the operator.
    """

    name = "Kafka"

    def members(self) -> Members:
        """Return the brokers."""
        raise _unknown("brokers' versions and membership")

    def partitions(self, namespace: str, topic: str) -> Sequence[Placement]:
        """Return where a topic's partitions are."""
        raise _unknown(f"placement of {namespace}/{topic}")

    def health(self) -> Health:
        """Return the cluster's health."""
        raise _unknown("health")

    def settings(self) -> Mapping[str, object]:
        """Return the cluster's configuration, defaults included."""
        raise _unknown("the cluster's configuration")

    def replicas_left(self, broker: int) -> int:
        """Return how many replicas a broker that is being decommissioned still holds."""
        raise _unknown(f"decommissioning of broker {broker}")


def _unknown(what: str) -> NotAvailableError:
    return NotAvailableError(f"{what}: the Kafka protocol of this client has no call")
