"""Where leader epochs end in a partition's log: OffsetForLeaderEpoch (KIP-101, KIP-320).

A leader knows of each epoch in which something was appended the offset at which it starts. It answers "epoch e" with
the largest one that it has, not larger than e, and where that ends: the start of the next one, or the end of its log.
An epoch in which nothing was appended leaves no trace once the next one begins.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError

_T = TypeVar("_T")
Place = tuple[str, int]
"""Topic and partition."""
_WITH_EPOCH: Final = 1
"""The first version whose answer names the epoch: Kafka 2.0. Up to version 2 (2.2) it asks for ClusterAction."""
_CONSUMER: Final = -1
_LATEST: Final = -1
_FENCED: Final = 4
"""The first version of ListOffsets that names the leader epoch which the leader must have: Kafka 2.1."""


@dataclass(frozen=True, slots=True)
class Led:
    """Who leads a partition, and since which leader epoch; -1: whichever is the leader's."""

    leader: int
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """``epoch``: the largest that the leader has, not larger than was asked; ``end_offset``: the first after it.

    If it has none that early, ``epoch`` is what was asked, and ``end_offset`` where its first one starts.
    """

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """A leader epoch, and the offset at which it starts in the log."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The epochs of a partition's log, the oldest first.

    Attributes:
        epochs: those in which something was appended, and the present one. Where records were removed from the
            beginning the first one starts with what is left; epoch 0 is named even if nothing is left of it.
        end_offset: the end of the leader's log; it may be above the high watermark.
        whole: the first of ``epochs`` is the first of the log; False: there are older ones, which were not asked for.
    """

    epochs: tuple[Boundary, ...]
    end_offset: int
    whole: bool


def ends(
    admin: Any, wanted: Mapping[Place, tuple[Led, int]], *, fenced: bool = True
) -> dict[Place, EpochEnd | WireError]:
    """Return where an epoch of each partition ends; one request for each leader. Needs the right to Describe topics.

    Args:
        admin: a client (``canary.wire.client.opened``).
        wanted: the leader of each partition, and the epoch that is asked for.
        fenced: a leader that was elected since (its epoch is another) is no answer: FENCED_LEADER_EPOCH or
            UNKNOWN_LEADER_EPOCH.

    A partition without an answer has the error in its place: ``NOT_LEADER_OR_FOLLOWER``, ``OFFSET_NOT_AVAILABLE``
    (elected just now), ``TOPIC_AUTHORIZATION_FAILED``; ``UNKNOWN_LEADER_EPOCH`` also where the leader has no epochs at
    all, or none as late as the one asked for.
    """
    return _of_leaders(
        {place: led.leader for place, (led, _) in wanted.items()},
        lambda leader, places: {
            (topic.topic, one.partition): _end(one, topic.topic)
            for topic in asked(admin, _request(places, wanted, fenced=fenced), leader).topics
            for one in topic.partitions
        },
    )


def high_watermarks(admin: Any, leaders: Mapping[Place, Led]) -> dict[Place, int | WireError]:
    """Return up to where (exclusive) readers are given records; one request for each leader. Needs Describe.

    A leader of another epoch than is said gives no answer, nor one that was elected just now and does not know it yet
    (KIP-207). A partition without an answer has the error in its place, as with ``ends``.
    """

    def ask(leader: int, places: list[Place]) -> dict[Place, int | WireError]:
        topics = ListOffsetsRequest.ListOffsetsTopic
        parts = {
            place: topics.ListOffsetsPartition(
                partition_index=place[1],
                current_leader_epoch=leaders[place].epoch,
                timestamp=_LATEST,
                max_num_offsets=1,
            )
            for place in places
        }
        named = [topics(name=name, partitions=many) for name, many in _by_topic(parts)]
        request = ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=0, topics=named, min_version=_FENCED)
        return {
            (topic.name, one.partition_index): (
                failed(one.error_code, f"{topic.name}:{one.partition_index}") if one.error_code else one.offset
            )
            for topic in asked(admin, request, leader).topics
            for one in topic.partitions
        }

    return _of_leaders({place: led.leader for place, led in leaders.items()}, ask)


def boundaries(
    admin: Any, leaders: Mapping[Place, Led], *, known: Mapping[Place, int] | None = None, most: int = 100
) -> dict[Place, Boundaries | WireError]:
    """Return the epochs of each partition's log: one request for each leader and epoch, for all logs at once.

    Args:
        admin: a client (``canary.wire.client.opened``).
        leaders: who leads each partition; its epoch is the one to begin with.
        known: of a partition an epoch whose start is known already: older ones are not asked for.
        most: how many epochs of a log, the latest ones.

    A partition without an answer has the error in its place, as with ``ends``.
    """
    walks = {place: _Walk(led, (known or {}).get(place, -1), most) for place, led in leaders.items()}
    while wanted := {place: (walk.led, walk.ask) for place, walk in walks.items() if walk.ask >= 0}:
        for place, answer in ends(admin, wanted).items():
            walks[place].take(answer)
    return {place: walk.result() for place, walk in walks.items()}


class _Walk:
    """From the present epoch of one partition down: each answer has the start of the epoch before, and the next one."""

    def __init__(self, led: Led, known: int, most: int) -> None:
        self.led = led
        self.ask = led.epoch
        self._known = known
        self._most = most
        self._answers: list[EpochEnd] = []  # each starts where the next one ends
        self._whole = False
        self._error = WireError("its leader epoch is not known") if led.epoch < 0 else None

    def take(self, answer: EpochEnd | WireError) -> None:
        if isinstance(answer, WireError):
            self._error, self.ask = answer, -1
            return
        if len(self._answers) > 1 and answer.end_offset >= self._answers[-1].end_offset:
            self._whole, self.ask = True, -1  # the last answer was an echo of what was asked: nothing is below
            return
        self._answers.append(answer)
        self.ask = answer.epoch - 1
        starts = len(self._answers) - 1
        if starts and (starts >= self._most or self._answers[-2].epoch <= self._known):
            self.ask = -1
        elif self.ask < 0:
            self._whole = True
            if starts == 0 or answer.end_offset > 0:
                self._answers.append(EpochEnd(-1, 0))

    def result(self) -> Boundaries | WireError:
        if self._error is not None:
            return self._error
        found = [Boundary(one.epoch, below.end_offset) for one, below in itertools.pairwise(self._answers)]
        return Boundaries(tuple(reversed(found)), self._answers[0].end_offset, self._whole)


def _of_leaders(
    leaders: Mapping[Place, int], ask: Callable[[int, list[Place]], Mapping[Place, _T | WireError]]
) -> dict[Place, _T | WireError]:
    """Ask each leader of its partitions; what is not answered has the reason in its place."""
    by_leader: defaultdict[int, list[Place]] = defaultdict(list)
    for place, leader in leaders.items():
        by_leader[leader].append(place)
    found: dict[Place, _T | WireError] = {}
    for leader, places in by_leader.items():
        try:
            found.update(ask(leader, places))
        except WireError as error:
            found.update(dict.fromkeys(places, error))
    silent = {place: WireError(f"nothing is said of {place[0]}:{place[1]}") for place in leaders if place not in found}
    return {**found, **silent}


def _by_topic(parts: Mapping[Place, Any]) -> Iterable[tuple[str, list[Any]]]:
    """Return what is asked of each partition by its topic, as requests have it."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, _), part in parts.items():
        found[topic].append(part)
    return found.items()


def _request(places: list[Place], wanted: Mapping[Place, tuple[Led, int]], *, fenced: bool) -> Any:
    topics = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    parts = {
        place: topics.OffsetForLeaderPartition(
            partition=place[1],
            current_leader_epoch=wanted[place][0].epoch if fenced else -1,
            leader_epoch=wanted[place][1],
        )
        for place in places
    }
    named = [topics(topic=name, partitions=many) for name, many in _by_topic(parts)]
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=named, min_version=_WITH_EPOCH)


def _end(answer: Any, topic: str) -> EpochEnd | WireError:
    if answer.error_code:
        return failed(answer.error_code, f"{topic}:{answer.partition}")
    if answer.leader_epoch < 0 or answer.end_offset < 0:
        name = "UNKNOWN_LEADER_EPOCH"
        return WireError(f"{name}: the leader of {topic}:{answer.partition} has none as late", code=name)
    return EpochEnd(answer.leader_epoch, answer.end_offset)
