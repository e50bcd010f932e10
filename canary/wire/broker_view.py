"""Asks one broker, over a plain socket, for its own view of the cluster. For the lab, on 127.0.0.1.

A Kafka client would ask *some* broker, maybe a dead one. Here the question is always what this very broker knows, which
is also the only sound test of readiness: a broker that was just restarted answers from a metadata image in which its
old session has been fenced. The controller is asked through a broker: one that was just resumed does not know yet that
it was fenced meanwhile.

kafka-python writes and reads the messages. Its client (``client``) cannot take this place: it has to learn of live
brokers before it asks anything, of which a broker that is starting knows none yet.
"""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol

_METADATA: Final = 7
"""Version: the first with leader epochs (Kafka 2.1)."""
_CREATE_TOPICS: Final = 4
"""Version: the first that every broker of Kafka 2.4 to 4.x knows."""


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]  # the library has no types
    """KIP-500; kafka-python has not this one."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    """Its answer."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as one broker sees it: replica ids in assignment order, and the ids of those in sync.

    ``leader`` is None when there is none; ``leader_epoch`` counts the changes of leader, -1: unknown.
    """

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A broker's answer: the registered, unfenced brokers, and the partitions asked for, by (topic, partition).

    ``controller`` is where a client sends what is for the controller: with KRaft any broker. -1: nobody knows.
    """

    brokers: frozenset[int]
    partitions: dict[tuple[str, int], PartitionState]
    controller: int


def ask(port: int, topics: tuple[str, ...] = (), *, timeout: float = 1.0) -> ClusterState | None:
    """Ask the broker at 127.0.0.1:``port`` for the cluster and for these topics, of which it leaves out unknown ones.

    Returns None if it does not connect, or does not answer, within ``timeout`` seconds each.
    """
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False, version=_METADATA)
    answer = _exchange(port, request, timeout)
    if answer is None:
        return None
    partitions = {
        (topic.name, one.partition_index): PartitionState(
            leader=one.leader_id if one.leader_id >= 0 else None,
            leader_epoch=one.leader_epoch,
            replicas=tuple(one.replica_nodes),
            isr=frozenset(one.isr_nodes),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    return ClusterState(frozenset(one.node_id for one in answer.brokers), partitions, answer.controller_id)


def accepts(port: int, *, timeout: float = 1.0) -> bool:
    """Return whether somebody takes connections at 127.0.0.1:``port``."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout).close()
    except OSError:
        return False
    return True


def unfenced(port: int, brokers: Iterable[int], *, timeout: float = 5.0) -> frozenset[int]:
    """Ask the controller, through the broker at ``port``, which of these brokers are not fenced; none without answer.

    The question is whether it would create a topic with its only replica on each one (CreateTopics with validate_only,
    so nothing is created): for a fenced broker the answer is INVALID_REPLICA_ASSIGNMENT. A replication factor would not
    do, because a fenced broker counts for it.
    """
    topic = CreateTopicsRequest.CreatableTopic
    names = {f"canary-lab-placed-on-{broker}": broker for broker in brokers}
    topics = [
        topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[topic.CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])],
            configs=[],
        )
        for name, broker in names.items()
    ]
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=int(timeout * 1000), validate_only=True, version=_CREATE_TOPICS
    )
    answer = _exchange(port, request, timeout)
    return frozenset(names[one.name] for one in answer.topics if one.error_code == 0) if answer else frozenset()


def registered(port: int, *, timeout: float = 1.0) -> frozenset[int] | None:
    """Ask the ZooKeeper at 127.0.0.1:``port`` which brokers have a session; None without answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection, connection.makefile("rb") as stream:
            connection.sendall(b"dump")
            answer = stream.read()
    except OSError:
        return None
    if b"Sessions with Ephemerals" not in answer:  # it is starting
        return None
    return frozenset(int(broker) for broker in re.findall(rb"/brokers/ids/(\d+)\s", answer))


def unregister(port: int, broker: int, *, timeout: float = 10.0) -> bool:
    """Have the broker at ``port`` unregister another one; returns whether that was done."""
    answer = _exchange(port, UnregisterBrokerRequest(broker_id=broker, version=0), timeout)
    return answer is not None and answer.error_code == 0


def _exchange(port: int, request: Any, timeout: float) -> Any:
    """Return the response to a request; None if the broker refuses, resets, or does not answer in time."""
    protocol = KafkaProtocol(client_id="canary-lab")
    protocol.send_request(request)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(protocol.send_bytes())
            while data := connection.recv(1 << 16):
                for _, response in protocol.receive_bytes(data):
                    return response
    except OSError:
        return None
    return None  # it hangs up
