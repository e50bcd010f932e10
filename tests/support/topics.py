"""A topic as each broker of a lab knows it (one that lags or stalls knows it later than the others); its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from canary.wire import broker_view

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from canary.lab import Lab


def as_known(lab: Lab, topic: str) -> list[list[broker_view.PartitionState] | None]:
    """Return the topic's partitions as each broker knows them, [] where it knows none; None: it does not answer."""
    answers = [broker_view.ask(lab.port(broker), (topic,), timeout=10) for broker in lab.brokers]
    return [None if answer is None else list(answer.partitions.values()) for answer in answers]


def alter(admin: AdminClient, topic: str, **settings: str | None) -> None:
    """Set a topic's settings (min_insync_replicas="2"), or with None let them be the broker's again."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)
