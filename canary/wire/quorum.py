"""Which controller of a KRaft cluster leads, and how far the others are: DescribeQuorum (KIP-595, KIP-836)."""

from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin.cluster import DescribeQuorumRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError

_LOG: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A controller (a voter) or a broker (an observer), as the leader sees it.

    Attributes:
        node: its id.
        end_offset: the end of its log; -1: unknown.
        lag: how many entries of the leader's log it does not have; None: unknown.
        caught_up_ms: when it last had all of them, by the leader's clock, ms since 1970; None: unknown.
    """

    node: int
    end_offset: int
    lag: int | None
    caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum.

    Attributes:
        leader: the active controller.
        epoch: of its election.
        high_watermark: up to where the metadata are committed.
        voters: controllers, the leader too, by id.
        observers: brokers, and controllers that do not vote, by id.
    """

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


def quorum(admin: Any, broker: int | None = None) -> Quorum:
    """Ask the active controller, through one broker. Needs the right to Describe the cluster.

    Args:
        admin: a client (``canary.wire.client.opened``).
        broker: the id of the one that hands the question on, None: whichever is at hand.

    Raises:
        WireError: no answer; ``code`` says why: ``UNSUPPORTED_VERSION``: no KRaft cluster of Kafka 3.3 or later;
            ``CLUSTER_AUTHORIZATION_FAILED``; others while no controller leads.
    """
    topics = DescribeQuorumRequest.TopicData
    log = topics(topic_name=_LOG, partitions=[topics.PartitionData(partition_index=0)])
    answer = asked(admin, DescribeQuorumRequest(topics=[log]), broker)
    if answer.error_code:
        raise failed(answer.error_code, "the metadata quorum")
    found = next((one for topic in answer.topics for one in topic.partitions), None)
    if found is None:
        raise WireError("nothing is said of the metadata quorum")
    if found.error_code:
        raise failed(found.error_code, "the metadata quorum")
    if found.leader_id < 0:
        raise WireError("no controller leads")
    end = next((one.log_end_offset for one in found.current_voters if one.replica_id == found.leader_id), -1)
    return Quorum(
        leader=found.leader_id,
        epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=_replicas(found.current_voters, end),
        observers=_replicas(found.observers, end),
    )


def _replicas(states: Any, end: int) -> tuple[QuorumReplica, ...]:
    found = (
        QuorumReplica(
            node=one.replica_id,
            end_offset=one.log_end_offset,
            lag=max(0, end - one.log_end_offset) if min(end, one.log_end_offset) >= 0 else None,
            caught_up_ms=_time(one.last_caught_up_timestamp),
        )
        for one in states
    )
    return tuple(sorted(found, key=lambda one: one.node))


def _time(stamp: int | None) -> int | None:
    return stamp if stamp is not None and stamp >= 0 else None
