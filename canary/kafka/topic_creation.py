"""Creates the probe topic, once, and only when the cluster answers that there is none.

Canaries that guessed "missing" from a timeout or from a lack of rights have created topics on the wrong cluster, or
with the wrong replication. So only UNKNOWN_TOPIC_OR_PARTITION counts, and only with the right to describe the topic. A
topic that exists is used as it is, whatever its settings; the audit reports what is unsafe about it (CONTRACTS).
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from canary.errors import UserError
from canary.kafka import membership
from canary.kafka.membership import Members
from canary.kafka.responses import answer, describe_topic, text_of, topic_id_of
from canary.threads import system

_RACKS_S = 3.0
UNREACHABLE = 3
"""Exit status where the cluster gives no answer, or not enough rights."""


class TopicError(UserError):
    """The probe topic is not there and could not be made; the message says why and what to do.

    ``code`` is the name of the client's error, None where the cluster has answered all that it was asked.
    """

    def __init__(self, message: str, exit_status: int, code: str | None = None) -> None:
        super().__init__(message, exit_status)
        self.code = code


class Found(NamedTuple):
    """The probe topic as it is. ``topic_id`` is None where the cluster has no topic ids."""

    topic_id: str | None
    partitions: int
    created: bool


class Broker(NamedTuple):
    """A live broker and its rack, "": it has none; None: it was not told."""

    id: int
    rack: str | None


def ensure_topic(
    admin: Any,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    *,
    timeout_s: float = 15.0,
    setting: str = "clusters[].topic.replication_factor",
) -> Found:
    """Return topic ``name`` as it is; create it first, as described, if the cluster answers that it does not exist.

    Raises:
        TopicError: no answer in time, no rights, or fewer brokers than replicas.
    """
    deadline = system.monotonic() + timeout_s
    found = _described(admin, name, deadline)
    if found is not None:
        return found
    live = _live(admin, name, deadline)
    if len(live.brokers) < replication_factor:
        raise TopicError(
            f"topic {name!r} does not exist and cannot be made with replication factor {replication_factor}: "
            f"the cluster has {len(live.brokers)} live brokers. Start the missing brokers, or lower "
            f"{setting} (fewer replicas than production topics have prove little).",
            UNREACHABLE,
        )
    brokers = with_racks(admin, live)
    if all(broker.rack is not None for broker in brokers):
        where: dict[str, Any] = {"replica_assignment": spread(brokers, partitions, replication_factor)}
    else:  # the cluster knows the racks, and mixes them as well
        where = {"replication_factor": replication_factor}
    created = _created(admin, NewTopic(name, num_partitions=partitions, config=dict(config), **where), deadline)
    while (found := _described(admin, name, deadline)) is None:  # brokers learn of it one after another
        if system.monotonic() > deadline:
            raise TopicError(f"topic {name!r} was made but is not described after {timeout_s:g} s.", UNREACHABLE)
        system.sleep(0.1)
    return found._replace(created=created)


def spread(brokers: Iterable[Broker], partitions: int, replication_factor: int) -> list[list[int]]:
    """Return replicas for each partition, the leader first: leaders on every broker in turn, racks mixed.

    With more partitions than brokers the followers shift too, so that every pair of brokers comes to share one.
    """
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack, []).append(broker.id)
    ring = [i for row in itertools.zip_longest(*by_rack.values()) for i in row if i is not None]
    count = len(ring)
    assignment = []
    for partition in range(partitions):
        leader, turn = partition % count, partition // count
        rest = [ring[(leader + step) % count] for step in range(1, count)]
        shift = turn % len(rest) if rest else 0
        assignment.append([ring[leader], *(rest[shift:] + rest[:shift])[: replication_factor - 1]])
    return assignment


def _described(admin: Any, name: str, deadline: float) -> Found | None:
    """Return the topic, or None when there is none. Asks again until ``deadline``."""
    try:
        described: Any = answer(
            admin,
            describe_topic(admin, name),
            until=deadline,
            final={KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}.__contains__,
        )
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise _explained(reason, f"describe topic {name!r}", "DESCRIBE on the topic") from error
    return Found(topic_id_of(described), len(described.partitions), created=False)


def _created(admin: Any, new: NewTopic, deadline: float) -> bool:
    """Create the topic. Returns False if another client was faster."""
    try:
        answer(
            admin,
            lambda most_s: admin.create_topics([new], operation_timeout=4.0, request_timeout=most_s)[new.topic],
            until=deadline,
        )
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise _explained(reason, f"make topic {new.topic!r}", "CREATE on the topic (or on the cluster)") from error
    return True


def _live(admin: Any, topic: str, deadline: float) -> Members:
    try:
        return answer(admin, membership.asked(admin, topic), until=deadline)
    except KafkaException as error:
        raise _explained(error.args[0], "list the brokers", "DESCRIBE on the topic") from error


def with_racks(admin: Any, live: Members) -> list[Broker]:
    """Return the brokers of a cluster with their racks, as far as they tell them."""
    found = membership.racks(admin, (broker.id for broker in live.brokers), _RACKS_S)
    return [Broker(number, rack) for number, rack in found.items()]


def _explained(error: KafkaError, what: str, right: str) -> TopicError:
    if error.code() in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}:
        return TopicError(
            f"not allowed to {what}: {error.str()}. Grant {right} to the canary's principal.", UNREACHABLE, error.name()
        )
    return TopicError(
        f"could not {what}: {text_of(error)}. Nothing was concluded from that; is the cluster reachable "
        f"at bootstrap.servers, and does it have a controller?",
        UNREACHABLE,
        error.name(),
    )
