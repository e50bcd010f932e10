"""What is written to the cluster beside the canary's probes, by an ordinary producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from canary.drills.rig import direct, recorded
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import Ground, Rig
from canary.drills.stage import KNOWABLE, ORDERS, PROBES
from canary.drills.steps.step import LiveStep, Step
from canary.drills.steps.waiting import Mark
from canary.lab import LabError
from canary.probe.record import Probe, decode, encode, header_fields

_FLUSH_S: Final = 60.0
_GIVEN_UP_MS: Final = 3000
_NEWEST: Final = 100
"""Among so many offsets at the end of a log is a probe."""
FORGED: Final = "forged"
"""Where a forged record went."""
APPLICATION: Final = "an-application"
"""The transactional id, and the client id, of an application's producer."""
Read = Sequence[tuple[bytes, Probe]]
"""The probes of a partition in the order of the log, aborted ones too: value, and what it says."""


def _same(read: Read) -> list[bytes]:
    return [read[-1][0]]


def _altered(read: Read) -> list[bytes]:
    value = read[-1][0]
    return [value[:-1] + bytes([value[-1] ^ 1])]


def _never_sent(read: Read) -> list[bytes]:
    return [_later(read[-1], 1_000_000)]


def _of_another(read: Read) -> list[bytes]:
    value = read[-1][0]
    return [bytes(byte ^ 1 for byte in value[:8]) + value[8:]]


def _of_a_zombie(read: Read) -> list[bytes]:
    newest = read[-1][1].identity.generation
    older = [one for one in read if one[1].identity.generation < newest]
    if not older:
        raise LabError("no generation has been fenced yet")
    return [_later(max(older, key=_order), 1)]


def _tail(read: Read) -> list[bytes]:
    first = read[0][1].identity.producer_id
    last = max((one for one in read if one[1].identity.producer_id == first), key=_order)
    return [_later(last, 1), _later(last, 2)]


def _swapped_tail(read: Read) -> list[bytes]:
    return _tail(read)[::-1]


def _order(one: tuple[bytes, Probe]) -> tuple[int, int]:
    return one[1].identity.generation, one[1].identity.sequence


def _later(one: tuple[bytes, Probe], by: int) -> bytes:
    value, probe = one
    return encode(
        probe.identity._replace(sequence=probe.identity.sequence + by),
        tag=value[4:8],
        mode=probe.mode,
        transaction_id=probe.transaction_id,
        sent_at_ns=probe.sent_at_ns,
        length=len(value),
    )


class Forgery(NamedTuple):
    """What is written, in words, and its values made from the ``newest`` probes that are there; None: from all."""

    words: str
    make: Callable[[Read], list[bytes]]
    newest: int | None = _NEWEST


FORGERIES: Final[dict[str, Forgery]] = {
    "copy": Forgery("a copy of the newest probe", _same),
    "altered": Forgery("the newest probe with a bit flipped", _altered),
    "never sent": Forgery("a whole probe with an identity that was never sent", _never_sent),
    "foreign": Forgery("a record that does not bear the canary's mark", _of_another),
    "of a zombie": Forgery("the next probe of the generation before, which was fenced", _of_a_zombie, None),
    "tail": Forgery("the next two probes of the first producer, which is dead", _tail, None),
    "swapped tail": Forgery(
        "the next two probes of the first producer, which is dead, the second one first", _swapped_tail, None
    ),
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Forge(LiveStep):
    """An ordinary producer appends bytes that are made from the probes there; the first's place is called FORGED."""

    how: str
    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Ground) -> None:
        """Read the probes, and write."""
        topic, forgery = rig.topics.get(self.topic, self.topic), FORGERIES[self.how]
        read = [
            (one.value, probe)
            for one in direct.records(
                {**rig.kafka, "group.id": rig.group}, topic, "read_uncommitted", newest=forgery.newest
            )
            if one.partition == self.partition
            and one.value is not None
            and isinstance(probe := decode(one.value, None), Probe)
        ]
        if not read:
            raise LabError(f"there is no probe in {topic}-{self.partition}")
        places = _written(rig, topic, self.partition, forgery.make(read))
        rig.places.setdefault(FORGED, set()).add(places[0])
        rig.note(f"at offset {', '.join(str(one.offset) for one in places)}")
        Mark().take(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"an ordinary producer writes {FORGERIES[self.how].words} to {self.topic}-{self.partition}"


def headers_of(value: bytes) -> list[tuple[str, str | bytes | None]]:
    """Return the headers that a probe must have to be taken for one; none for what is no probe."""
    probe = decode(value, None)
    return [*header_fields(probe.identity, probe.form)] if isinstance(probe, Probe) else []


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
        producer.produce(topic, value, partition=partition, on_delivery=delivered, headers=headers_of(value))
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


@dataclass(frozen=True, slots=True)
class LeaveOpen(Step):
    """A transactional producer of an application writes one record, and is never heard of again; or it ``commits``.

    In either case it first aborts what was left open before.
    """

    partition: int = 0
    topic: str = PROBES
    commits: bool = False
    mark: str = KNOWABLE

    def take(self, rig: Rig) -> None:
        """Write it."""
        producer = Producer(
            {
                **rig.kafka,
                "transactional.id": APPLICATION,
                "transaction.timeout.ms": 900_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(_FLUSH_S)
        producer.begin_transaction()
        producer.produce(self.topic, b"order", partition=self.partition)
        if producer.flush(_FLUSH_S):
            raise LabError(f"{self.topic}-{self.partition} does not take a record")
        if self.commits:
            producer.commit_transaction(_FLUSH_S)
        Mark(self.mark).take(rig)

    def __str__(self) -> str:
        """Say it."""
        how = "commits it" if self.commits else "dies without ending its transaction"
        return f"an application writes a record to {self.topic}-{self.partition} and {how}"


@dataclass(frozen=True, slots=True)
class GiveUp(Step):
    """A transactional producer of an application has no answer for its only record, gives it up, and aborts."""

    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Write it, and abort when the client calls it lost."""
        producer = Producer(
            {
                **rig.kafka,
                "client.id": APPLICATION,
                "transactional.id": APPLICATION,
                "transaction.timeout.ms": 900_000,
                "message.timeout.ms": _GIVEN_UP_MS,
                "log_level": 0,
            }
        )
        producer.init_transactions(_FLUSH_S)
        producer.begin_transaction()
        said: list[object] = []
        producer.produce(
            self.topic, b"order", partition=self.partition, on_delivery=lambda error, _record: said.append(error)
        )
        if producer.flush(_FLUSH_S) or said[0] is None:
            raise LabError(f"{self.topic}-{self.partition} takes the record: nothing was held up")
        producer.abort_transaction(_FLUSH_S)
        rig.note(f"the client says of the record: {said[0]}; the transaction is aborted")

    def __str__(self) -> str:
        """Say it."""
        return f"an application has no answer for its record in {self.topic}-{self.partition}, and aborts"


@dataclass(frozen=True, slots=True)
class Overlap(Step):
    """Two applications' transactions overlap, and each reads in between; their history goes to ``canary check``."""

    isolation: str

    def take(self, rig: Rig) -> None:
        """Do it on a topic of its own, and remember what is found."""
        topic = "relayed"
        rig.admin.create_topics([NewTopic(topic, 2, len(rig.lab.brokers))])[topic].result(_FLUSH_S)
        history = recorded.overlapping(rig.kafka, topic, self.isolation)
        Mark().take(rig)
        file = rig.directory / "history.jsonl"
        rig.recorded += recorded.judged(history, file)
        rig.note(f"canary check {file}: {', '.join(one.kind for one in rig.recorded) or 'nothing'}")

    def __str__(self) -> str:
        """Say it."""
        return f"two transactions overlap, and each reads ({self.isolation}) what the other wrote, if it is shown"
