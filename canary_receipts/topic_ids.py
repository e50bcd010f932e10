"""The ids of topics: a topic that was deleted and made again has another one, and former receipts say nothing of it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

_TIMEOUT_S: Final = 5.0
_WAIT_S: Final = 2.0
"""How long a file waits for the ids; without them it says that they are not known."""
_NOT_FOR_IT: Final = {
    "transactional.id",
    "statistics.interval.ms",
    "on_delivery",
    "stats_cb",
    "error_cb",
    "throttle_cb",
}
"""Properties of a producer that a client for questions must not have."""
_NONE: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""A broker without topic ids says this."""


class TopicIds:
    """Asks for the id of each topic when its first receipt comes, and again before each file: equal, it is known.

    What could not be written is about the time since the last file that was, however often it is tried. The client is
    made for the first question, with the producer's own configuration.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {name: value for name, value in config.items() if name not in _NOT_FOR_IT}
        self._client: AdminClient | None = None
        self._asked: dict[str, Future[Any]] = {}
        self._again: dict[str, Future[Any]] = {}

    def look(self, topics: Collection[str]) -> None:
        """Ask for the ids of topics; do not wait for the answer."""
        self._asked |= self._ask(topics)

    def confirmed(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return the ids of topics that are what they were; None for those of which that is not known."""
        self._again = {}
        if not topics:
            return {}
        again = self._ask(topics)
        deadline = time.monotonic() + _WAIT_S
        now = {topic: _id(future, deadline) for topic, future in again.items()}
        self._again = again
        return {topic: one if one == _id(self._asked.get(topic), deadline) else None for topic, one in now.items()}

    def published(self) -> None:
        """Take note that the file is written for which ids were confirmed last."""
        self._asked |= self._again
        self._again = {}

    def close(self) -> None:
        """Let go of the client."""
        self._client = None

    def _ask(self, topics: Collection[str]) -> dict[str, Future[Any]]:
        try:
            if self._client is None:
                self._client = AdminClient(self._config)
            asked: dict[str, Future[Any]] = self._client.describe_topics(
                TopicCollection(sorted(topics)), request_timeout=_TIMEOUT_S
            )
        except (KafkaException, ValueError, TypeError):
            return {}
        return asked


def _id(future: Future[Any] | None, deadline: float) -> str | None:
    """Return what a future says within the time."""
    if future is None:
        return None
    try:
        answer = future.result(max(0.0, deadline - time.monotonic()))
    except (KafkaException, TimeoutError):
        return None
    found = str(answer.topic_id)
    return None if found == _NONE else found
