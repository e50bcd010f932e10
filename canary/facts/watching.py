"""What the cluster says about itself: rounds of questions, topics, partitions, brokers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Round:
    """A fact of the round ``sample`` of questions."""

    at_ns: int
    sample: int


@dataclass(frozen=True, slots=True)
class WatchAsked(_Round):
    """A round of questions begins; its answers are judged against the facts before this one."""


@dataclass(frozen=True, slots=True)
class WatchFailed(_Round):
    """A part of the round got no answer."""

    error: str


@dataclass(frozen=True, slots=True)
class ClusterSeen(_Round):
    """The cluster behind the address calls itself ``cluster_id``; ``brokers`` are the ids of the live ones, "1,2,3"."""

    cluster_id: str
    brokers: str
    controller: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterMet:
    """The brokers that ``client`` talks to have told it, and it alone, that they are the cluster ``cluster_id``.

    It comes before the first facts of a client, and before those that it gives after it was told another id.
    """

    at_ns: int
    client: str
    cluster_id: str


@dataclass(frozen=True, slots=True)
class BrokerSeen(_Round):
    """A live broker: its address ("host:port"), and its rack."""

    broker: int
    host: str
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopologySeen(_Round):
    """The round gave every change of leaders and replicas: of the probe topics (``extent`` "probe") or of "all"."""

    extent: str


@dataclass(frozen=True, slots=True)
class TopicSeen(_Round):
    """The topic exists, as incarnation ``topic_id`` (None where the cluster has no ids), with so many partitions.

    ``agreed``: a fetch, or every broker that answers, shows that this is the topic's id. None: it is one answer.
    """

    topic: str
    topic_id: str | None
    partitions: int
    agreed: bool | None = None


@dataclass(frozen=True, slots=True)
class TopicGone(_Round):
    """The cluster, asked with sufficient rights, has no such topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    """The topic's settings that excuse what disappears. -1 = unlimited; None = not known."""

    at_ns: int
    topic: str
    retention_ms: int | None
    retention_bytes: int | None
    cleanup_policy: str | None
    min_insync_replicas: int | None


@dataclass(frozen=True, slots=True)
class _Partition(_Round):
    topic: str
    partition: int
    leader: int
    replicas: str
    isr: str


@dataclass(frozen=True, slots=True)
class PartitionSeen(_Partition):
    """Leader (-1: none), replicas and in-sync replicas of a partition, as "1,2,3"."""


@dataclass(frozen=True, slots=True)
class Listed(_Round):
    """ListOffsets of a partition: first offset, end (exclusive), last stable offset, and the leader epoch."""

    topic: str
    partition: int
    start: int
    end: int
    stable: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class WatchedPartition(_Partition):
    """PartitionSeen of a topic that the canary does not write to: once at first sight, and at each change."""


@dataclass(frozen=True, slots=True)
class WatchedGone(_Round):
    """A topic that the canary does not write to is no longer in the metadata.

    ``by_name``: it was asked for by its name, some time later, and the cluster has no such topic; None: it was not.
    """

    topic: str
    by_name: bool | None = None


@dataclass(frozen=True, slots=True)
class WatchedConfigured:
    """min.insync.replicas of a topic that the canary does not write to; asked for when its replicas are out of sync."""

    at_ns: int
    topic: str
    min_insync_replicas: int | None


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """A leader epoch of a log that the operator named, and the offset at which it begins (OffsetForLeaderEpoch).

    ``leader`` is the broker that leads in the present epoch, -1 of a former one; ``end`` the high watermark that it has
    told in this epoch, -1: none yet.
    """

    at_ns: int
    topic: str
    topic_id: str | None
    partition: int
    leader: int
    leader_epoch: int
    start: int
    end: int = -1


@dataclass(frozen=True, slots=True)
class QuorumSeen:
    """The controller that leads a KRaft cluster, since its epoch, and the voters, "3001,3002" (DescribeQuorum).

    ``high_watermark``: up to where the metadata log is committed. ``through``: the broker that handed the question on;
    None: whichever was at hand.
    """

    at_ns: int
    controller: int
    leader_epoch: int
    brokers: str
    high_watermark: int | None = None
    through: int | None = None


@dataclass(frozen=True, slots=True)
class WatchedListed(_Round):
    """Listed of a partition that the operator named; ``topic_id`` comes from the same round."""

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    stable: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """A part that judges what it watches by itself has found a violation, or says that one has ended (``over``).

    ``part`` is the thread's name; ``violation`` has all its fields, as JSON (canary.anomalies.violation).
    ``cluster_id`` is what the client of the part was told; None where it rests on no client's answer, or on one that
    was told none.
    """

    at_ns: int
    part: str
    violation: str
    over: bool = False
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class LogSized:
    """Bytes of a partition's log on its leader (DescribeLogDirs), of all records there are, foreign ones too.

    There is no such fact of a topic with a remote tier: retention.bytes counts the records there, the answer does not.
    """

    at_ns: int
    topic: str
    partition: int
    size_bytes: int
