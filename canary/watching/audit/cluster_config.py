"""What an audit looks at, as plain values, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Severity = Literal["critical", "warning", "info"]
Role = Literal["probe", "production", "internal"]
Origin = Literal["topic", "broker", "default"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value in force, and where it was set."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class AuditedTopic:
    """One topic: the broker ids of each partition's replicas, and its settings in force."""

    name: str
    role: Role
    replicas: Sequence[Sequence[int]]
    settings: Mapping[str, Setting]

    @property
    def replication_factor(self) -> int:
        """The least of its partitions'."""
        return min((len(set(one)) for one in self.replicas), default=0)

    def number(self, name: str) -> int | None:
        """Return a setting as a number, None where it is not known."""
        return number(self.settings.get(name))


@dataclass(frozen=True, slots=True)
class AuditedBroker:
    """One broker. ``settings`` is empty where it did not tell them; ``version`` where it is not available."""

    id: int
    rack: str | None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A cluster as it is set. ``reconcile_every_s``: None when nothing is reconciled by the clock.

    ``probe_rates``: bytes/s that are written to each partition of a probe topic, at least.
    """

    brokers: Sequence[AuditedBroker]
    topics: Sequence[AuditedTopic]
    reconcile_every_s: float | None = None
    notes: Sequence[Note] = ()
    redpanda: Mapping[str, object] | None = None
    """Redpanda's cluster configuration, from its admin API."""
    probe_rates: Mapping[str, float] = field(default_factory=dict)
    coordinators: Mapping[str, int] = field(default_factory=dict)
    """Replicas of Redpanda's internal topics, "namespace/topic", as far as they are made and told."""
    mirrors: Mapping[str, str] = field(default_factory=dict)
    """Probe topics that mirror a production topic, and which."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is set unsafely: what, where, why it matters, how to change it."""

    check: str
    severity: Severity
    where: str
    found: str
    why: str
    change: str


@dataclass(frozen=True, slots=True)
class Note:
    """Worth knowing, and no finding."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome, worst first."""

    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]


def number(setting: Setting | None) -> int | None:
    """Return a setting as a number, None where it is none."""
    try:
        return None if setting is None else int(setting.value)
    except ValueError:
        return None
