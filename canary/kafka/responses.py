"""Answers of an AdminClient: asked for again until there is one; errors as text, topic ids."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from canary.threads import system

T = TypeVar("T")

PATIENCE_S: Final = 20.0
"""How long a cluster is asked: longer than a broker's session."""

GRACE_S: Final = 0.5
"""How much longer an answer is waited for than the client itself waits."""

_ONCE_S: Final = 5.0
_RENEW_S: Final = 3.0
_OLD_LEADER: Final = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
)
"""Refusals of a question that went to a leader, or in the epoch of one, that a client's metadata still names."""


def answer(
    admin: Any,
    ask: Callable[[float], Future[T]],
    *,
    until: float | None = None,
    final: Callable[[int], bool] = lambda code: code >= 0 and code not in _OLD_LEADER,
) -> T:
    """Return what the cluster answers; without an answer the question is put again.

    Most questions of an AdminClient go to the broker that the client takes for the controller. For example, broker 1 is
    controller and dies: until its session is over (9 s by default) the other brokers still name it, and the client
    waits for it as long as the question may take, and then again. So a question is short, and before the next one any
    broker is asked for metadata, which renews what the client knows of the controller.

    Args:
        admin: an AdminClient.
        ask: puts the question, given how many seconds it may take.
        until: when to give up (system.monotonic()); by default after PATIENCE_S.
        final: whether an error of this code is an answer; by default any of the cluster's, unless it is about a former
            leader, and none of the client's.

    Raises:
        KafkaException: the error that is an answer, or that of the last try.
    """
    end = system.monotonic() + PATIENCE_S if until is None else until
    while True:
        once = max(0.5, min(_ONCE_S, (end - system.monotonic()) / 2))
        try:
            return ask(once).result(once + GRACE_S)
        except KafkaException as error:
            if final(error.args[0].code()) or system.monotonic() >= end:
                raise
        except TimeoutError as error:
            if system.monotonic() >= end:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001  # public in librdkafka
        renew(admin, max(0.1, end - system.monotonic()))
        system.sleep(0.25)


def renew(admin: Any, most_s: float = _RENEW_S) -> None:
    """Have a client ask any broker for metadata, for 3 s at most; where none answers, what the client knows stays.

    Without it an AdminClient of librdkafka goes on for minutes to ask the leaders, in the epochs, that it once learned,
    whatever else it asks: after an election ListOffsets is refused (FENCED_LEADER_EPOCH) or, if the former leader is
    dead or frozen, answered with the offset -1001 and no error, as if there was no leader.
    """
    with contextlib.suppress(KafkaException):  # no answer to this either
        admin.list_topics(timeout=min(most_s, _RENEW_S))


def result(future: Future[T], most_s: float) -> T:
    """Return an answer that is waited for.

    Raises:
        KafkaException: an error is the answer, or there is none in time.
    """
    try:
        return future.result(most_s)
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001  # public in librdkafka


def describe_topic(admin: Any, topic: str) -> Callable[[float], Future[Any]]:
    """Return the question for a topic's partitions and id, as ``answer`` puts it."""
    return lambda most_s: admin.describe_topics(TopicCollection([topic]), request_timeout=most_s)[topic]


def describe_settings(admin: Any, topic: str) -> Callable[[float], Future[Any]]:
    """Return the question for a topic's settings, as ``answer`` puts it."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return lambda most_s: admin.describe_configs([resource], request_timeout=most_s)[resource]


def text_of(error: KafkaError) -> str:
    """Return an error as facts and messages carry it: its name, then its text."""
    return f"{error.name()}: {error.str()}"


def topic_id_of(described: Any) -> str | None:
    """Return the incarnation in an answer of describe_topics(); None from clusters that have no topic ids."""
    topic_id = described.topic_id
    if topic_id is None or not (topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()):
        return None
    return str(topic_id)
