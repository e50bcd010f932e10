"""What the client's answers and errors say, in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


def text_of(error: KafkaError) -> str:
    """Return an error as facts and messages carry it: its name, then what it says."""
    return f"{error.name()}: {error.str()}"


def topic_id_of(described: Any) -> str | None:
    """Return the incarnation that AdminClient.describe_topics() tells; None from clusters that have no topic ids."""
    topic_id = described.topic_id
    if topic_id is None or not (topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()):
        return None
    return str(topic_id)
