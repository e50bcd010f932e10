"""Which broker coordinates a group or a transactional id, and which ids it takes to probe every coordinator.

The coordinator of an id is the leader of the partition of ``__transaction_state`` that the id hashes to, as Java hashes
strings; that of a group is found the same way in ``__consumer_offsets``. So one id tests one coordinator: with a single
id, a cluster whose other coordinators are broken looks healthy.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaException

from canary.metrics.client_meters import UNKNOWN
from canary.threads import system

log = structlog.get_logger(__name__)

STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
_CANDIDATES = 10_000
_LOOK_S = 15.0
"""How often the coordinators are looked at."""
_FIRST_LOOK_S = 1.0
"""How soon again, while they are not known."""
_ASK_S = 1.0


def java_hash(text: str) -> int:
    """Return Java's String.hashCode(): a signed 32-bit number.

    >>> java_hash("hello"), java_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def state_partition(transactional_id: str, partitions: int) -> int:
    """Return the partition of ``__transaction_state`` that is responsible for an id (Kafka's Utils.abs modulo)."""
    value = java_hash(transactional_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


class Coordinators:
    """The coordinators of groups (OFFSETS_TOPIC) or transactional ids (STATE_TOPIC), as they were at the last look."""

    def __init__(self, topic: str) -> None:
        self.leaders: Mapping[int, int] = {}
        """By partition of the topic; -1: none at the moment."""
        self._topic = topic
        self._look_at = 0.0

    def look(self, client: Any) -> bool:
        """Ask for them if it is time to, for a second at most; returns whether there was an answer."""
        now = system.monotonic()
        if now < self._look_at or client is None:
            return False
        self._look_at = now + _FIRST_LOOK_S
        try:
            found = client.list_topics(self._topic, timeout=_ASK_S).topics.get(self._topic)
        except KafkaException as error:
            log.debug("coordinators_not_known", topic=self._topic, error=str(error))
            return False
        if found is None or found.error is not None or not found.partitions:
            return False
        self._look_at = system.monotonic() + _LOOK_S
        self.leaders = {number: partition.leader for number, partition in found.partitions.items()}
        return True

    def of(self, name: str) -> str:
        """Return the id of the broker that coordinates a group or a transactional id; UNKNOWN: none is known."""
        leader = self.leaders.get(state_partition(name, len(self.leaders)), -1) if self.leaders else -1
        return UNKNOWN if leader < 0 else str(leader)


def missed(leaders: Mapping[int, int], present: Sequence[str]) -> list[int]:
    """Return the brokers that are coordinators and that none of the ids ``present`` meets, in order."""
    met = {leaders.get(state_partition(one, len(leaders))) for one in present} if leaders else set()
    return sorted({*leaders.values()} - {-1} - met)


def choose(prefix: str, leaders: Mapping[int, int], present: Sequence[str], most: int) -> list[str]:
    """Return the ids to use: those ``present``, which stay, and as many more as it takes to meet every coordinator.

    An id is ``prefix`` and a number; there are at most ``most``. ``leaders`` has the leader of each partition of
    ``__transaction_state`` (-1: none at the moment); empty: not known.
    """
    chosen = list(present)
    if not leaders:
        return chosen or [f"{prefix}0"]
    covered = {leaders.get(state_partition(one, len(leaders)), -1) for one in chosen}
    for number in range(_CANDIDATES):
        if len(chosen) >= most or {-1, *leaders.values()} <= {-1, *covered}:
            break
        candidate = f"{prefix}{number}"
        broker = leaders.get(state_partition(candidate, len(leaders)), -1)
        if broker not in {-1, *covered} and candidate not in chosen:
            chosen.append(candidate)
            covered.add(broker)
    return chosen or [f"{prefix}0"]
