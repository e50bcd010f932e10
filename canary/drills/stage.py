"""What a drill plays on: brokers, topics, and the canary's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from canary.lab import NodeProperties
from canary.lab.jars.pinned_jars import DEFAULT_VERSION

PROBES: Final = "probes"
"""The main probe topic of every drill."""
TRANSACTIONS: Final = f"{PROBES}-transactional"
"""The topic of the mode transactional."""
ORDERS: Final = "orders"
"""An application's topic, which the canary only watches; there where a stage has it."""
KNOWABLE: Final = "knowable"
"""The moment from which a direct client could know what was done; times to detect are counted from it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is made before the canary starts: the brokers of each partition's replicas, the leader first."""

    replicas: tuple[tuple[int, ...], ...] = ((1, 2, 3),)
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a drill plays on.

    Attributes:
        version: of Kafka.
        lab: further arguments of canary.lab.Lab, such as features.
        properties: of the nodes.
        guarded: the canary comes in by a listener of its own that asks for a password; see canary.drills.rig.guarded.
        topics: by name. min.insync.replicas is 2 where they do not say.
        modes: the canary's modes, with their settings.
        clients: properties of the canary's clients.
        cluster: further settings of the cluster in the canary's.
        postgres: the canary's store is a PostgreSQL server of the drill's own, and no file of SQLite.
        settings: further sections of the canary's settings.
    """

    version: str = DEFAULT_VERSION
    lab: Mapping[str, Any] = field(default_factory=dict)
    properties: NodeProperties = field(default_factory=NodeProperties)
    guarded: bool = False
    topics: Mapping[str, Topic] = field(default_factory=lambda: {PROBES: Topic()})
    modes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"idempotent": {"interval": "100ms"}})
    clients: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    postgres: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def same_brokers(self, other: Stage) -> bool:
        """Tell whether the brokers of both are alike, so that one cluster can serve both."""
        mine, theirs = ((one.version, dict(one.lab), one.properties, one.guarded) for one in (self, other))
        return mine == theirs

    def with_topic_config(self, **config: str) -> Stage:
        """Return a stage on which all topics have these settings as well; names with _ for a dot."""
        wanted = {name.replace("_", "."): value for name, value in config.items()}
        topics = {name: replace(one, config={**one.config, **wanted}) for name, one in self.topics.items()}
        return replace(self, topics=topics)

    def with_broker_properties(self, **properties: str) -> Stage:
        """Return a stage whose brokers have these properties as well; names with _ for a dot."""
        wanted = {name.replace("_", "."): value for name, value in properties.items()}
        brokers = {**self.properties.brokers, **wanted}
        return replace(self, properties=replace(self.properties, brokers=brokers))
