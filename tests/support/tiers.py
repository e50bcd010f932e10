"""Brokers with a remote tier (KIP-405): a directory that all of them share, by Kafka's own LocalTieredStorage.

A topic of TIERED copies each segment to the tier as soon as it is full, and deletes it from the brokers' disks about a
second later. What is read of it from then on comes from the tier, whichever broker is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from canary.lab import NodeProperties
from canary.lab.jars import cache
from canary.lab.jars.pinned_jars import listed
from canary.wire.client import opened
from canary.wire.topics import log_start
from tests.support.waiting import until

if TYPE_CHECKING:
    from canary.lab import Lab

_PINNED: Final = Path(__file__).with_name("kafka-storage-test-4.1.0.txt")
"""Of the tests of Kafka's broker: the only storage that Apache publishes. Users never fetch it."""
SEGMENT_BYTES: Final = 2000
"""Kafka itself takes no less than 1 MiB, but for its own tests."""
TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(2 * SEGMENT_BYTES),
    "file.delete.delay.ms": "100",
}
"""Settings of a topic: its last two or three segments stay on the brokers' disks."""


def properties(tier: Path) -> NodeProperties:
    """Return the properties of brokers whose tier is a directory."""
    lib = cache._fetch(_PINNED.stem, lambda: listed(_PINNED.read_text()), "Kafka's LocalTieredStorage", None, None)
    return NodeProperties(
        {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "remote.log.storage.manager.class.path": f"{lib}/*",
            "rsm.config.dir": str(tier),
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
            "rlmm.config.remote.log.metadata.topic.replication.factor": 3,
            "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": 300,
            "remote.log.manager.task.interval.ms": 300,
            "log.retention.check.interval.ms": 500,
            "log.initial.task.delay.ms": 500,
            "min.insync.replicas": 2,
        },
        controller={"remote.log.storage.system.enable": "true"},  # it is who takes a topic's settings
    )


def starts(lab: Lab, topic: str, partition: int = 0) -> dict[int, tuple[int, int]]:
    """Return of each broker where its log begins, and where that on its own disk does."""
    with opened({"bootstrap.servers": lab.bootstrap}) as admin:
        return _starts(admin, lab, topic, partition)


def _starts(admin: Any, lab: Lab, topic: str, partition: int) -> dict[int, tuple[int, int]]:
    def ask(broker: int, *, local: bool) -> int:
        return log_start(admin, topic, partition, broker, local=local)

    return {broker: (ask(broker, local=False), ask(broker, local=True)) for broker in lab.brokers}


def wait_until_tiered(lab: Lab, topic: str, offset: int, partition: int = 0) -> None:
    """Wait until no broker has an offset on its own disk any more."""
    with opened({"bootstrap.servers": lab.bootstrap}) as admin:
        until(
            lambda: all(local > offset for _, local in _starts(admin, lab, topic, partition).values()),
            90,
            f"offset {offset} of {topic} is in the tier only",
        )


def hurry(lab: Lab) -> None:
    """Have brokers wait a millisecond for the tier, and give nothing if that is too short, as it mostly is."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    entry = ConfigEntry("remote.fetch.max.wait.ms", "1", incremental_operation=AlterConfigOpType.SET)
    for broker in lab.brokers:
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)
