"""Which tail consumers a topic has: one of each isolation level, and on the main topic those that settings add."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from confluent_kafka import KafkaException

from canary.facts import Isolation
from canary.kafka import membership
from canary.kafka.responses import answer, text_of
from canary.settings import ClusterSettings, consumer_config

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """A tail consumer to be: its name in facts and metrics, and librdkafka properties of its own."""

    name: str
    isolation: Isolation
    properties: Mapping[str, object] = field(default_factory=dict)
    gathers_ms: int = 0
    """How long (ms) a broker gathers records for it; 0: it is sent them at once."""

    def config(self, cluster: ClusterSettings) -> dict[str, Any]:
        """Return its librdkafka properties. Holds secrets."""
        config = consumer_config(cluster, self.isolation)
        if self.gathers_ms:
            config = {"fetch.min.bytes": GATHERED_BYTES, "fetch.wait.max.ms": self.gathers_ms} | config
        if "bootstrap.servers" in self.properties:
            config.pop("metadata.broker.list", None)
        return config | dict(self.properties)


GATHERED_BYTES = 262_144
"""So many bytes end the gathering."""
_MANY = 100
"""Up to so many probes a second a reader is woken for each of them, and latencies are exact."""
_FAST_MS, _SLOW_MS = 100, 500


def readings(cluster: ClusterSettings, topic: str, admin: Any) -> tuple[Reading, ...]:
    """Return the tail consumers of a topic; ``admin`` is asked for the brokers if each has one.

    What a reader costs is wake-ups, not records. The one at read_committed tells latencies: brokers send it each probe
    at once, unless there are so many that the wake-ups cost more than all else; then its latencies are up to _FAST_MS
    too long. The one at read_uncommitted is there for what it is given, and brokers gather for it.
    """
    partitions = len(cluster.share_of(topic).mine(cluster.topic.partitions))
    modes = [mode for name, mode in cluster.modes.declared().items() if cluster.topic_of(name) == topic]
    probes_s = sum(partitions * mode.rate for mode in modes)
    both = (
        Reading("read_committed", "read_committed", gathers_ms=_FAST_MS if probes_s > _MANY else 0),
        Reading("read_uncommitted", "read_uncommitted", gathers_ms=_SLOW_MS),
    )
    wanted = cluster.readers
    if topic != cluster.topic.name:
        return both
    racks = [Reading(name, "read_committed", {"client.rack": rack}) for name, rack in racks_of(cluster).items()]
    brokers = _addresses(admin, topic) if wanted.each_broker else {}
    each = [
        Reading(f"broker-{broker}", "read_committed", {"bootstrap.servers": address})
        for broker, address in sorted(brokers.items())
    ]
    return (*both, *racks, *each)


def racks_of(cluster: ClusterSettings) -> dict[str, str]:
    """Return by name the rack of each tail consumer that the settings add for one."""
    return {f"rack-{rack}": rack for rack in cluster.readers.racks}


def _addresses(admin: Any, topic: str) -> dict[int, str]:
    """Return the address of each broker; none when the cluster does not answer."""
    try:
        brokers = answer(admin, membership.asked(admin, topic)).brokers
    except KafkaException as error:
        log.warning("brokers_have_no_readers", reason=text_of(error.args[0]))
        return {}
    return {one.id: f"[{one.host}]:{one.port}" if ":" in one.host else one.address for one in brokers}
