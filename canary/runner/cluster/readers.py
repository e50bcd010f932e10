"""Which tail consumers a topic has: one of each isolation level, and on the main topic those that settings add."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from confluent_kafka import KafkaException

from canary.facts import Isolation
from canary.kafka.responses import answer, text_of
from canary.settings import ClusterSettings, consumer_config

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """A tail consumer to be: its name in facts and metrics, and librdkafka properties of its own."""

    name: str
    isolation: Isolation
    properties: Mapping[str, object] = field(default_factory=dict)

    def config(self, cluster: ClusterSettings) -> dict[str, Any]:
        """Return its librdkafka properties. Holds secrets."""
        config = consumer_config(cluster, self.isolation)
        if "bootstrap.servers" in self.properties:
            config.pop("metadata.broker.list", None)
        return config | dict(self.properties)


BOTH = (Reading("read_committed", "read_committed"), Reading("read_uncommitted", "read_uncommitted"))
"""What every topic has; called after their isolation level."""


def readings(cluster: ClusterSettings, topic: str, admin: Any) -> tuple[Reading, ...]:
    """Return the tail consumers of a topic; ``admin`` is asked for the brokers if each has one."""
    wanted = cluster.readers
    if topic != cluster.topic.name:
        return BOTH
    racks = [Reading(f"rack-{rack}", "read_committed", {"client.rack": rack}) for rack in dict.fromkeys(wanted.racks)]
    brokers = _addresses(admin) if wanted.each_broker else {}
    each = [
        Reading(f"broker-{broker}", "read_committed", {"bootstrap.servers": address})
        for broker, address in sorted(brokers.items())
    ]
    return (*BOTH, *racks, *each)


def _addresses(admin: Any) -> dict[int, str]:
    """Return the address of each broker; none when the cluster does not answer."""
    try:
        nodes = answer(admin, lambda most_s: admin.describe_cluster(request_timeout=most_s)).nodes
    except KafkaException as error:
        log.warning("brokers_have_no_readers", reason=text_of(error.args[0]))
        return {}
    return {node.id: f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}" for node in nodes}
