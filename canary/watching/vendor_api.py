"""What the Kafka protocol of the client does not tell: an interface, and the answer where nothing else can be asked.

Versions, membership, health, the cluster's configuration, and how far a decommissioning is. Whoever asks must live with
:class:`NotAvailableError`: the feature says "not available here", and the rest works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NotAvailableError(Exception):
    """It cannot be told: nobody can be asked, is away, refuses, or answers in another shape."""


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
    """The brokers that belong to the cluster, dead ones too; whoever is not among them was removed.

    ``version`` rises with each change; None where the answer has none, and may be old.
    """

    version: int | None
    brokers: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition: its leader (None: nobody), its replicas, and whether an operator has disabled it."""

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


class Beyond(Protocol):
    """Answers what the Kafka protocol does not. Each method may raise NotAvailableError."""

    @property
    def name(self) -> str:
        """Who is asked, in words for the operator."""

    def members(self) -> Members:
        """Return the brokers."""

    def partitions(self, namespace: str, topic: str) -> Sequence[Placement]:
        """Return where a topic's partitions are."""

    def health(self) -> Health:
        """Return the cluster's health."""

    def settings(self) -> Mapping[str, object]:
        """Return the cluster's configuration, defaults included."""

    def replicas_left(self, broker: int) -> int:
        """Return how many replicas a broker that is being decommissioned still holds."""


class KafkaAlone:
    """Nothing but the Kafka protocol: none of it is available."""

    name = "Kafka"

    def members(self) -> Members:
        """Raise NotAvailableError."""
        self._no("brokers' versions and membership")

    def partitions(self, namespace: str, topic: str) -> Sequence[Placement]:
        """Raise NotAvailableError."""
        self._no(f"placement of {namespace}/{topic}")

    def health(self) -> Health:
        """Raise NotAvailableError."""
        self._no("health")

    def settings(self) -> Mapping[str, object]:
        """Raise NotAvailableError."""
        self._no("the cluster's configuration")

    def replicas_left(self, broker: int) -> int:
        """Raise NotAvailableError."""
        self._no(f"decommissioning of broker {broker}")

    @staticmethod
    def _no(what: str) -> NoReturn:
        raise NotAvailableError(f"{what}: the Kafka protocol of this client has no call")
