"""A cluster that is probed: how to reach it, the topic, and the modes."""

from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from canary.settings.fields import Name, Seconds, Section, TopicName, problem, property_text
from canary.settings.kafka import properties, revealed
from canary.settings.modes import Modes
from canary.settings.objectives import ObjectivesSettings
from canary.settings.watch import DigestsSettings, ReceiptsSettings, ReplicatedFromSettings, WatchSettings
from canary.workloads.catalogue import MAIN, WORKLOADS

_NOT_SHARED: Final = {"topics": (), "offsets": (), "groups": (), "transactions": (), "replicas": ()}
"""What one runner watches for all that share a cluster."""
_MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions whose number leaves the rest ``index`` when divided by ``of``."""

    index: int = 0
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the share that ``text`` (like 0/3) names.

        Raises:
            ValueError: it names none.
        """
        index, slash, of = text.partition("/")
        if not (slash and index.isdecimal() and of.isdecimal() and int(index) < int(of) <= 1000):
            raise ValueError(f"{text!r} is no share")
        return cls(int(index), int(of))

    def has(self, partition: int) -> bool:
        """Return whether a partition is in it."""
        return partition % self.of == self.index

    def mine(self, partitions: int) -> tuple[int, ...]:
        """Return those of so many partitions that are in it."""
        return tuple(range(self.index, partitions, self.of))


class TopicSettings(Section):
    """The probe topic: how it is made when it is missing. An existing one is taken as it is."""

    name: TopicName = Field("durability-canary", description="Name of the probe topic.")
    partitions: int = Field(3, ge=1, le=10_000, description="Number of partitions when the canary creates it (count).")
    replication_factor: int = Field(3, ge=1, le=32_767, description="Replicas of each partition (count).")
    config: dict[str, str] = Field(
        default_factory=dict,
        description="Topic configuration when the canary creates it, as Kafka names and values it. Left out: "
        "min.insync.replicas 2 (at most replication_factor), retention.ms 7 days (milliseconds).",
    )

    @field_validator("config", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        if not isinstance(value, dict):
            return {} if value is None else value
        return {str(name).replace("_", "."): property_text(one, str(name)) for name, one in value.items()}

    @model_validator(mode="after")
    def _with_defaults(self) -> Self:
        config = {_MIN_ISR: str(min(2, self.replication_factor)), "retention.ms": str(7 * 86_400_000), **self.config}
        least = config[_MIN_ISR]
        if not least.isdigit() or int(least) < 1:
            raise problem(f"{_MIN_ISR} {least!r} is no count", "set a whole number from 1", "config", _MIN_ISR)
        if int(least) > self.replication_factor:
            raise problem(
                f"{_MIN_ISR} {least} is more than the replication factor {self.replication_factor}: "
                "no write could ever be acknowledged",
                "lower it, or raise replication_factor",
                "config",
                _MIN_ISR,
            )
        object.__setattr__(self, "config", config)
        return self


class ReadersSettings(Section):
    """What else reads: further read_committed consumers of the main topic, and random reads of every probe topic.

    Brokers may show different views of one log to different clients. Each consumer costs a client, and reads everything
    once more.
    """

    racks: tuple[Name, ...] = Field(
        (),
        description="A consumer for each of these racks, with client.rack: where brokers have "
        "replica.selector.class set to the rack-aware one, it reads from followers of its rack (names).",
    )
    each_broker: bool = Field(
        False, description="A consumer for each broker that is there at the start, bootstrapped from that broker alone."
    )
    random_every: Seconds | None = Field(
        None,
        ge=1,
        le=3600,
        description="How often 100 old records of a probe topic, at a place drawn at random from what is retained, are "
        "read again by a fresh client and compared with what was promised. Left out: never (duration).",
    )


class ClusterSettings(Section):
    """One cluster. Without ``bootstrap.servers`` it is the embedded lab."""

    name: Name = Field("lab", description="Name of the cluster: a label of every metric, and in every report.")
    kafka: dict[str, str | SecretStr] = Field(
        default_factory=dict,
        description="librdkafka properties (bootstrap.servers, security.protocol, sasl.*, ssl.* and others, each in "
        "its own unit). A secret may come from a file: sasl.password: {file: PATH} or sasl.password_file: PATH.",
    )
    identifier_prefix: Name = Field(
        "durability-canary",
        description="What client, group and transactional ids begin with: allow it in the cluster's ACLs.",
    )
    topic: TopicSettings = Field(default_factory=TopicSettings, description="The probe topic.")  # type: ignore[arg-type]
    modes: Modes = Field(default_factory=Modes, description="Ways of probing, each by name with its own settings.")

    readers: ReadersSettings = Field(default_factory=ReadersSettings, description="Further readers of the main topic.")  # type: ignore[arg-type]
    shard: str = Field(
        "0/1",
        description="Which share of the partitions this runner probes, where several share a cluster: i/n, those whose "
        "number leaves the rest i when divided by n. Each runner has a name and a ledger of its own.",
    )
    watch: WatchSettings = Field(default_factory=WatchSettings, description="Other topics of the cluster.")  # type: ignore[arg-type]
    replicated_from: tuple[ReplicatedFromSettings, ...] = Field(
        (),
        description="The clusters from which MirrorMaker 2 copies topics to this one: probes are looked for in both.",
    )
    digests: DigestsSettings = Field(
        default_factory=DigestsSettings,  # type: ignore[arg-type]
        description="Topics of applications whose records are digested at night.",
    )
    receipts: ReceiptsSettings = Field(
        default_factory=ReceiptsSettings,  # type: ignore[arg-type]
        description="Receipts of applications' own records.",
    )
    objectives: ObjectivesSettings = Field(
        default_factory=ObjectivesSettings, description="What the cluster is to achieve, for alerts about it."
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_is_left_out(cls, value: Any) -> Any:
        return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value

    @field_validator("kafka", mode="before")
    @classmethod
    def _properties(cls, value: object) -> object:
        if not isinstance(value, dict):
            return {} if value is None else value
        return properties({str(key): one for key, one in value.items()})

    @field_validator("shard")
    @classmethod
    def _share(cls, value: str) -> str:
        try:
            Share.parse(value)
        except ValueError as error:
            raise problem(str(error), "write i/n with i from 0 to n-1, like 0/3") from None
        return value

    @model_validator(mode="after")
    def _what_is_shared(self) -> Self:
        """Leave to share 0 what needs all partitions, or is done once for a cluster."""
        share = self.share
        for mode in self.modes.enabled():
            if share.of > 1 and WORKLOADS[mode].source is not None:
                raise problem(f"{mode} reads the whole topic, which is shared", "leave it out", "modes", mode)
        if share.index > 0:
            modes = {name: None for name in self.modes.enabled() if not WORKLOADS[name].shared}
            object.__setattr__(self, "modes", self.modes.model_copy(update=modes))
            object.__setattr__(self, "replicated_from", ())
            object.__setattr__(self, "watch", self.watch.model_copy(update=_NOT_SHARED))
            if not self.modes.enabled():
                raise problem("there is no mode whose partitions can be shared", f"switch {MAIN} on", "modes")
        return self

    @property
    def share(self) -> Share:
        """Which partitions are this runner's."""
        return Share.parse(self.shard)

    def share_of(self, topic: str) -> Share:
        """Return which partitions of a probe topic are this runner's: all of a topic that is not shared."""
        shared = {self.topic_of(mode) for mode in self.modes.enabled() if WORKLOADS[mode].shared}
        return self.share if topic in shared else Share()

    @property
    def bootstrap_servers(self) -> str | None:
        """Where the cluster is, or None: the embedded lab."""
        found = self.client_config().get("bootstrap.servers") or self.client_config().get("metadata.broker.list")
        return str(found) if found else None

    @property
    def embedded(self) -> bool:
        """Whether the canary starts this cluster itself."""
        return self.bootstrap_servers is None and "test.mock.num.brokers" not in self.kafka

    def topic_of(self, mode: str) -> str:
        """Return the topic that a mode writes to; for a mode that only reads, the one that it reads."""
        workload = WORKLOADS[mode]
        if workload.topic == "none" and workload.source is not None:
            return self.topic_of(workload.source)
        if workload.topic == "main":
            return self.topic.name
        return getattr(self.modes.enabled()[mode], "topic", None) or f"{self.topic.name}-{mode}"

    @property
    def drill_topic(self) -> str | None:
        """The topic that drills of this cluster may harm; None: there is none."""
        return next((self.topic_of(mode) for mode in self.modes.enabled() if WORKLOADS[mode].rehearses), None)

    @model_validator(mode="after")
    def _topic_each(self) -> Self:
        taken: dict[str, str] = {}
        for mode in self.modes.enabled():
            if WORKLOADS[mode].topic == "none":
                continue
            other = taken.setdefault(self.topic_of(mode), mode)
            if other != mode:
                raise problem(
                    f"{mode} and {other} have the same topic {self.topic_of(mode)}",
                    "give each mode a topic of its own",
                    "modes",
                    mode,
                )
        return self

    def client_config(self) -> dict[str, Any]:
        """Return the user's properties with secrets revealed: for clients alone, never to be logged or shown."""
        return revealed(self.kafka)

    def at(self, bootstrap_servers: str) -> Self:
        """Return the same cluster at an address: for the lab, whose ports are known only once it runs."""
        return self.model_copy(update={"kafka": {**self.kafka, "bootstrap.servers": bootstrap_servers}})
