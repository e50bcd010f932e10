"""What is written to the cluster beside the canary's probes, by an ordinary producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import Ground, Rig
from canary.drills.stage import ORDERS, PROBES
from canary.drills.steps.step import LiveStep, Step
from canary.drills.steps.waiting import Mark
from canary.lab import LabError
from canary.probe.record import Probe, decode, encode

_FLUSH_S: Final = 60.0
_NEWEST: Final = 100
"""Among so many offsets at the end of a log is a probe."""
FORGED: Final = "forged"
"""Where forged records went."""


def _same(value: bytes, _probe: Probe) -> bytes:
    return value


def _altered(value: bytes, _probe: Probe) -> bytes:
    return value[:-1] + bytes([value[-1] ^ 1])


def _never_sent(value: bytes, probe: Probe) -> bytes:
    ahead = probe.identity._replace(sequence=probe.identity.sequence + 1_000_000)
    return encode(
        ahead, tag=value[4:8], mode=probe.mode, transaction_id=None, sent_at_ns=probe.sent_at_ns, length=len(value)
    )


def _of_another(value: bytes, _probe: Probe) -> bytes:
    return bytes(byte ^ 1 for byte in value[:8]) + value[8:]


FORGERIES: Final[dict[str, tuple[str, Callable[[bytes, Probe], bytes]]]] = {
    "copy": ("a copy of the newest probe", _same),
    "altered": ("the newest probe with a bit flipped", _altered),
    "never sent": ("a whole probe with an identity that was never sent", _never_sent),
    "foreign": ("a record that does not bear the canary's mark", _of_another),
}
"""By name: what is written, in words, and its value made from the newest probe's."""


@dataclass(frozen=True, slots=True)
class Forge(LiveStep):
    """An ordinary producer appends bytes that are made from the newest probe's; their places are called FORGED."""

    how: str
    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Ground) -> None:
        """Read the newest probe, and write."""
        topic = rig.topics.get(self.topic, self.topic)
        value, probe = self._newest(rig, topic)
        (place,) = _written(rig, topic, self.partition, [FORGERIES[self.how][1](value, probe)])
        rig.places.setdefault(FORGED, set()).add(place)
        rig.note(f"its offset is {place.offset}")
        Mark().take(rig)

    def _newest(self, rig: Ground, topic: str) -> tuple[bytes, Probe]:
        newest = None
        for one in direct.records({**rig.kafka, "group.id": rig.group}, topic, newest=_NEWEST):
            probe = decode(one.value, None)
            if one.partition == self.partition and one.value is not None and isinstance(probe, Probe):
                newest = one.value, probe
        if newest is None:
            raise LabError(f"there is no probe in {topic}-{self.partition}")
        return newest

    def __str__(self) -> str:
        """Say it."""
        return f"an ordinary producer writes {FORGERIES[self.how][0]} to {self.topic}-{self.partition}"


def _written(rig: Ground, topic: str, partition: int, values: Iterable[bytes]) -> list[Place]:
    offsets: list[int] = []
    failures: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)
        else:
            offsets.append(message.offset())  # type: ignore[attr-defined]

    producer = Producer({**rig.kafka, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    if producer.flush(_FLUSH_S) or failures:
        raise LabError(f"{topic}-{partition} does not take a record: {failures[:1] or 'no answer'}")
    return [Place(topic, partition, offset) for offset in offsets]


@dataclass(frozen=True, slots=True)
class Produce(Step):
    """So many records of an application, to a topic that the canary does not write to; ``called``: their places."""

    count: int = 100
    partition: int = 0
    topic: str = ORDERS
    called: str = "ordered"

    def take(self, rig: Rig) -> None:
        """Write them, and wait until all are acknowledged."""
        places = _written(rig, self.topic, self.partition, (f"order {number}".encode() for number in range(self.count)))
        rig.places.setdefault(self.called, set()).update(places)

    def __str__(self) -> str:
        """Say it."""
        return f"an application writes {self.count} records to {self.topic}-{self.partition}"
