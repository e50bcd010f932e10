"""Answers to ListOffsets as facts: first offset, end, last stable offset and leader epoch of each partition."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from canary.anomalies.groups.sample import Log, Place
from canary.facts import Fact, Listed, WatchedListed
from canary.kafka.responses import GRACE_S, renew, topic_id_of
from canary.threads import system

Question = tuple[str, str, int]
"""Which bound, topic, partition."""
_BOUNDS = {
    "start": (OffsetSpec.earliest, IsolationLevel.READ_UNCOMMITTED),
    "end": (OffsetSpec.latest, IsolationLevel.READ_UNCOMMITTED),
    "stable": (OffsetSpec.latest, IsolationLevel.READ_COMMITTED),
}


def ask(
    admin: Any, partitions: Iterable[tuple[str, int]], timeout_s: float, bounds: Iterable[str] = tuple(_BOUNDS)
) -> dict[Question, Future[Any]]:
    """Ask for these bounds (start, end, stable) of these partitions."""
    places = [TopicPartition(*one) for one in partitions]
    found: dict[Question, Future[Any]] = {}
    for bound in bounds if places else ():
        spec, isolation = _BOUNDS[bound]
        asked = {place: spec() for place in places}
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=timeout_s)
        found |= {(bound, place.topic, place.partition): future for place, future in answers.items()}
    return found


def logs(
    admin: Any, places: Collection[Place], timeout_s: float, bounds: Collection[str] = tuple(_BOUNDS)
) -> tuple[dict[Place, Log], KafkaException | None]:
    """Return what is known of the partitions whose end is answered, and the first refusal; a start not asked for is 0.

    Where one is not known the client learns who leads now, so that it does not ask a former leader again.
    """
    asked = ask(admin, places, timeout_s, bounds)
    system.done(set(asked.values()), timeout_s + GRACE_S)
    found: dict[Place, Log] = {}
    for place in places:
        start, end, stable = (_offset(asked.get((bound, *place))) for bound in _BOUNDS)
        if end is not None and (start is not None or "start" not in bounds):
            found[place] = Log(start or 0, end, stable)
    if len(found) < len(places):
        renew(admin)
    refusals = (one.exception() for one in asked.values() if one.done())
    return found, next((one for one in refusals if isinstance(one, KafkaException)), None)


def _offset(future: Future[Any] | None) -> int | None:
    if future is None or not future.done() or future.exception() is not None:
        return None
    offset = int(future.result().offset)
    return offset if offset >= 0 else None  # of a leader that does not answer librdkafka says -1001


class Offsets:
    """Remembers leader epochs and log starts from one round to the next."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, int], int] = {}
        self._starts: dict[tuple[str, int], int] = {}

    def new_leaders(self, answers: Mapping[Question, tuple[Any, Any]]) -> bool:
        """Return whether the leader epoch of a partition has risen. ``answers`` are (answer, error)."""
        risen = False
        for (bound, topic, partition), (answer, _) in answers.items():
            if bound == "end" and answer is not None and answer.leader_epoch is not None:
                risen |= answer.leader_epoch > self._epochs.get((topic, partition), answer.leader_epoch)
                self._epochs[topic, partition] = answer.leader_epoch
        return risen

    def risen_starts(self, facts: Iterable[Fact]) -> list[str]:
        """Return the topics of which a log's start is above where it was listed before."""
        starts = {(f.topic, f.partition): f.start for f in facts if isinstance(f, Listed)}
        risen = {place[0] for place, start in starts.items() if start > self._starts.get(place, start)}
        self._starts |= starts
        return sorted(risen)


def facts_of(
    answers: Mapping[Question, tuple[Any, Any]], named: Mapping[str, Any], sample: int, at_ns: int
) -> tuple[list[Fact], dict[str, Any]]:
    """Return the facts of the round ``sample``, and the first error of each partition by what was asked.

    ``answers`` are (answer, error); ``named`` are topics that are not ours, as described in this round (None: not).
    """
    facts: list[Fact] = []
    errors: dict[str, Any] = {}
    for _, topic, partition in (question for question in answers if question[0] == "start"):
        found, failed = zip(*(answers[bound, topic, partition] for bound in _BOUNDS), strict=True)
        errors |= {f"list_offsets {topic}[{partition}]": error for error in failed[::-1] if error is not None}
        bounds = _bounds(*found)
        if bounds is None:
            continue
        if topic not in named:
            facts.append(Listed(at_ns, sample, topic, partition, *bounds))
        elif named[topic] is not None:
            facts.append(WatchedListed(at_ns, sample, topic, topic_id_of(named[topic]), partition, *bounds))
    return facts, errors


def _bounds(start: Any, end: Any, stable: Any) -> tuple[int, int, int | None, int | None] | None:
    """Return start, end, last stable offset and leader epoch; None without start or end.

    Where there is no leader, or it does not answer, librdkafka says the offset -1001, and no error at all.
    """
    if start is None or end is None or start.offset < 0 or end.offset < 0:
        return None
    epoch = end.leader_epoch if end.leader_epoch is not None and end.leader_epoch >= 0 else None
    return start.offset, end.offset, stable.offset if stable is not None and stable.offset >= 0 else None, epoch
