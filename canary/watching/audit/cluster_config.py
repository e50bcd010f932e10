"""What an audit looks at: how a cluster, its brokers and its topics are set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from canary.metrics.findings import Note

Role = Literal["probe", "production", "internal"]
Origin = Literal["topic", "broker", "default"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value in force, and where it was set."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic: the broker ids of each partition's replicas, and its settings in force."""

    name: str
    role: Role
    replicas: Sequence[Sequence[int]]
    settings: Mapping[str, Setting]

    @property
    def replication_factor(self) -> int:
        """The lowest of its partitions; 0 without partitions."""
        return min((len(set(one)) for one in self.replicas), default=0)

    def set_here(self, name: str) -> str | None:
        """Return the value that a setting was given on this topic, None where it was given none."""
        setting = self.settings.get(name)
        return setting.value if setting is not None and setting.origin == "topic" else None

    def number(self, name: str) -> int | None:
        """Return a setting as a number, None where it is not known."""
        return number(self.settings.get(name))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker. ``settings`` is empty where the broker did not give them; ``version`` is None where not available."""

    id: int
    rack: str | None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster as it is set.

    ``reconcile_every_s`` is the time between two scheduled reconciliations, None for none; ``probe_rates`` are the
    bytes/s that are at least written to each partition of a probe topic; ``redpanda`` is Redpanda's cluster
    configuration; ``coordinators`` are the replicas of Redpanda's internal topics ("namespace/topic") that exist;
    ``mirrors`` names for each probe topic that mirrors a production topic the latter.
    """

    brokers: Sequence[BrokerConfig]
    topics: Sequence[TopicConfig]
    reconcile_every_s: float | None = None
    notes: Sequence[Note] = ()
    redpanda: Mapping[str, object] | None = None
    probe_rates: Mapping[str, float] = field(default_factory=dict)
    coordinators: Mapping[str, int] = field(default_factory=dict)
    mirrors: Mapping[str, str] = field(default_factory=dict)

    def on_brokers(self, name: str, *, explicit: bool = True) -> list[tuple[str, str]]:
        """Return (brokers in words, value) for each value that brokers have of a setting.

        With ``explicit`` only values that were set count, not the defaults in force.
        """
        by_value: dict[str, list[int]] = {}
        for broker in self.brokers:
            setting = broker.settings.get(name)
            if setting is not None and (setting.origin != "default" or not explicit):
                by_value.setdefault(setting.value.lower(), []).append(broker.id)
        return [(numbered("broker", ids), value) for value, ids in sorted(by_value.items())]


def number(setting: Setting | None) -> int | None:
    """Return a setting as a number, None where it is none."""
    try:
        return None if setting is None else int(setting.value)
    except ValueError:
        return None


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return "broker 1" or "brokers 1, 2, 3"."""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {listed(numbers)}"


def listed(numbers: Sequence[int]) -> str:
    """Return the first ten of some numbers, and how many more there are."""
    shown = ", ".join(map(str, numbers[:10]))
    return shown + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
