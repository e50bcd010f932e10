"""Who belongs to a cluster, as a broker tells it with a topic's metadata.

Nothing here or elsewhere calls describe_cluster(): librdkafka 2.16 ends the process (rdkafka_admin.c: Assertion
`rko_result' failed) when a broker names none, as it does while the controller has fenced all of them.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from canary.kafka.responses import result

RACK: Final = "broker.rack"
"""The setting."""


class Member(NamedTuple):
    """A live broker, and where clients reach it."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port, as facts have them."""
        return f"{self.host}:{self.port}"


class Members(NamedTuple):
    """The brokers of a cluster, at least one; who clients take for the controller; both None: not told."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[Member, ...]


def members(admin: Any, most_s: float, topic: str | None = None) -> Members:
    """Return what any broker tells of its cluster.

    Args:
        admin: an AdminClient.
        most_s: how long an answer is waited for.
        topic: to be named in the question, which does not create it; None: all are, so for rare questions only.

    Raises:
        KafkaException: no answer; _PARTIAL: one that names no broker, of which nothing follows.
    """
    told = admin.list_topics(topic, timeout=most_s) if topic else admin.list_topics(timeout=most_s)
    if not told.brokers:
        nobody = "a broker names none, not even itself: the controller has fenced all of them"
        raise KafkaException(KafkaError(KafkaError._PARTIAL, nobody))  # noqa: SLF001  # public in librdkafka
    brokers = tuple(Member(one.id, one.host, one.port) for _, one in sorted(told.brokers.items()))
    return Members(told.cluster_id, told.controller_id if told.controller_id >= 0 else None, brokers)


def asked(admin: Any, topic: str | None = None) -> Callable[[float], Future[Members]]:
    """Return the question for the members of a cluster, as ``canary.kafka.responses.answer`` puts it."""

    def ask(most_s: float) -> Future[Members]:
        told: Future[Members] = Future()
        try:
            told.set_result(members(admin, most_s, topic))
        except KafkaException as error:
            told.set_exception(error)
        return told

    return ask


def racks(admin: Any, brokers: Iterable[int], most_s: float) -> dict[int, str | None]:
    """Return the rack of each broker by its own settings, "": it has none; None: it does not tell us.

    Needs DescribeConfigs of the cluster.
    """
    resources = {number: ConfigResource(ResourceType.BROKER, str(number)) for number in brokers}
    futures = {n: admin.describe_configs([one], request_timeout=most_s)[one] for n, one in resources.items()}
    return {number: _rack(future, most_s) for number, future in futures.items()}


def _rack(future: Future[Any], most_s: float) -> str | None:
    try:
        told = result(future, most_s).get(RACK)
    except KafkaException:
        return None
    return told and (told.value or "")
