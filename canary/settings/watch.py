"""What is watched of a cluster besides the probe topics, and how long a condition holds before it is a violation."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from canary.settings.fields import Bytes, Name, Seconds, Secret, Section, TopicName, matching

_Pattern = Annotated[
    str,
    matching(
        r"[A-Za-z0-9._*?\[\]!-]{1,249}", "is no topic name or pattern", "write a name; * and ? stand for anything"
    ),
]
_Place = Annotated[
    str,
    matching(r"[A-Za-z0-9._-]{1,249}(:\d{1,9})?", "is no partition", "write TOPIC or TOPIC:PARTITION, like orders:0"),
]


_Group = Annotated[
    str,
    matching(r"[^\x00-\x1f\x7f]{1,255}", "is no group or pattern", "write a group id; * and ? stand for anything"),
]


class RedpandaSettings(Section):
    """Redpanda's admin API, for what the Kafka protocol does not expose. Untested against a live Redpanda."""

    admin_url: str | None = Field(
        None, description="Address of the admin API, like http://10.0.0.1:9644. Left out: it is not asked (URL)."
    )
    username: str | None = Field(None, description="User name, where the admin API wants one (name).")
    password: Secret | None = Field(None, description="Its password; may come from a file: {file: PATH}.")

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User name and password, revealed: for the client alone."""
        if self.username is None or not isinstance(self.password, SecretStr):
            return None
        return self.username, self.password.get_secret_value()


class ReplicatedFromSettings(Section):
    """A cluster of this configuration from which MirrorMaker 2 copies topics to this one."""

    cluster: Name = Field(description="Name of the source, another one of the clusters.")
    topics: tuple[TopicName, ...] = Field(
        (), description="The source's probe topics that are copied, as they are called there. Left out: its main one."
    )
    alias: Name | None = Field(
        None, description="What MirrorMaker 2 calls the source. Left out: as it is called here (name)."
    )
    separator: str = Field(
        ".",
        pattern=r"^[._-]{1,10}$",
        description="What lies between the alias and the topic in a mirrored topic's name "
        "(replication.policy.separator).",
    )
    policy: Literal["default", "identity"] = Field(
        "default",
        description="How a mirrored topic is called: default is alias, separator and topic (DefaultReplicationPolicy), "
        "identity is as in the source (IdentityReplicationPolicy).",
    )
    checkpoints: TopicName | None = Field(
        None,
        description="The topic of this cluster in which MirrorMaker 2 tells the translated offsets of groups. Left "
        "out: ALIAS.checkpoints.internal, with the separator.",
    )
    recovery_point: Seconds = Field(
        60.0,
        ge=1,
        description="How old the oldest probe may be that is not copied yet, before that is an alert (duration).",
    )

    def mirrored(self, topic: str) -> str:
        """Return what a topic of the source is called in this cluster."""
        return topic if self.policy == "identity" else f"{self.alias or self.cluster}{self.separator}{topic}"

    @property
    def checkpoints_topic(self) -> str:
        """The topic of translated offsets, in this cluster."""
        parts = (self.alias or self.cluster, "checkpoints", "internal")
        return self.checkpoints or self.separator.join(parts)


class DigestsSettings(Section):
    """Topics of applications whose records are digested every night, after the reconciliation.

    Of a record no value is kept, only its share of a hash over 64 offsets.
    """

    topics: tuple[_Pattern, ...] = Field(
        (),
        description="Names or patterns (* and ?) of the topics; internal ones by their whole name only. Needs the "
        "rights to Read and to Describe them, and DescribeConfigs to know which are compacted.",
    )
    reread: float = Field(
        0.03,
        ge=0,
        le=1,
        description="Share of the known records that is read again each night, those first that were not read for "
        "longest: 0.03 reads everything once a month. 0: only what is new, and the last records known (number).",
    )


class ReceiptsSettings(Section):
    """Receipts of applications' own records, which are compared with their topics every night."""

    url: str | None = Field(
        None,
        min_length=1,
        description="Where producers put their receipts: a directory, or s3://… and the like through fsspec. Left out: "
        "none are checked (URL).",
    )
    topics: tuple[_Pattern, ...] = Field(
        ("*",),
        description="Names or patterns (* and ?) of the topics whose receipts are checked. Needs the rights to Read "
        "and to Describe them, and DescribeConfigs to know which are compacted.",
    )


class WatchSettings(Section):
    """Other topics than the probe topics. Only metadata is read; records only where ``replicas`` says so."""

    topics: tuple[_Pattern, ...] = Field(
        ("*",),
        description="Names or patterns (* and ?) of the topics whose leaders and replicas are watched, internal ones "
        "too; none: []. Stored as changes only.",
    )
    offsets: tuple[_Place, ...] = Field(
        (),
        description="TOPIC or TOPIC:PARTITION, of topics that are not probed, whose start and end offsets are watched: "
        "an end that goes back is loss. Costs a request for each of their leaders and round.",
    )
    audit: tuple[_Pattern, ...] = Field(
        (),
        description="Names or patterns of further topics whose settings the audit looks at; those under offsets are.",
    )
    audit_interval: Seconds = Field(600.0, ge=10, description="How often the audit is done (duration).")
    offline_after: Seconds = Field(
        5.0,
        ge=1,
        description="How long a partition has no leader before it is a violation; longer than an election (duration).",
    )
    isr_of_one_after: Seconds = Field(
        10.0,
        ge=1,
        description="How long one replica alone may hold what is acknowledged in a probe topic before it is a "
        "violation (duration).",
    )
    under_replicated_after: Seconds = Field(
        600.0,
        ge=1,
        description="How long replicas may be out of sync before it is a violation (under-replicated, isr-below-half, "
        "under-min-isr, isr-of-one of a topic that is not probed, and an offline partition that has one replica); "
        "longer than a broker's restart (duration).",
    )
    groups: tuple[_Group, ...] = Field(
        (),
        description="Names or patterns of consumer groups of applications whose lag is measured, and which are watched "
        "for partitions that are stuck, resets and expired offsets: at most 100. Needs the right to Describe them.",
    )
    groups_interval: Seconds = Field(
        10.0, ge=1, description="How often groups and transactions are looked at (duration)."
    )
    group_partitions: int = Field(
        50,
        ge=1,
        le=10_000,
        description="Partitions of a group that have series of their own; further ones are only in its sums (count).",
    )
    group_stuck_after: Seconds = Field(
        600.0,
        ge=1,
        description="How long a group with members may commit nothing in a partition to which records are added, "
        "before it is a violation; longer than a deployment of the application takes. A group that usually takes "
        "longer from one commit to the next is given three times as long as that (duration).",
    )
    transactions: tuple[_Pattern, ...] = Field(
        (),
        description="Names or patterns of topics in which transactions that hang are looked for. Who holds one is told "
        "where the canary has the right to Read the topic, which is not read.",
    )
    hanging_after: Seconds | None = Field(
        None,
        ge=1,
        description="How long a transaction may be open before it is a violation. Left out: as long as the cluster "
        "lets one be open (transaction.max.timeout.ms), and a minute more (duration).",
    )
    epochs: tuple[_Pattern, ...] = Field(
        (),
        description="Names or patterns of topics that are not probed whose leader epochs are watched: where each "
        "begins, and whether an election cut off what readers had been given. Needs the right to Describe them; their "
        "leaders and replicas are watched, too.",
    )
    quorum: bool = Field(
        False,
        description="Whether the metadata quorum of a KRaft cluster is asked which controller leads, and how far the "
        "others are; and whether its metadata has gone back. Needs the right to Describe the cluster.",
    )
    replicas: tuple[_Pattern, ...] = Field(
        (),
        description="Names or patterns of topics whose replicas are compared, record by record where their bytes "
        "differ, over and over. Needs the right to Read them; of records nothing is kept.",
    )
    replicas_bytes_per_second: Bytes = Field(
        1_000_000,
        ge=1_000,
        description="What may be read in a second to compare replicas, from all of them together: 1MB is 86 GB a day, "
        "29 GB of each of three replicas (bytes).",
    )
    redpanda: RedpandaSettings = Field(default_factory=RedpandaSettings, description="Redpanda only.")  # type: ignore[arg-type]
