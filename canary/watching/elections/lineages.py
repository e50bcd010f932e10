"""What of the epochs of watched logs is told already, and what is news: facts for the tracker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from canary.facts import EpochSeen

Place = tuple[str, int]
"""Topic and partition."""
_TOLD_NS: Final = 30 * 10**9
"""A high watermark that rises is told so often: what a start of the canary must remember of it."""
_LOWER_TIMES: Final = 5
"""A lower epoch so many times in a row is no answer of a former leader: the tracker counts alike."""


@dataclass(frozen=True, slots=True)
class Present:
    """A log as its leader has it now: its topic's id, its leader, and the leader epoch."""

    topic_id: str | None
    leader: int
    epoch: int


@dataclass(slots=True)
class _Told:
    """What was told last: the epoch and since when it begins; ``end`` is the highest high watermark, told or not."""

    present: Present
    start: int
    end: int
    told_end: int
    told_ns: int
    seen_ns: int
    lower: int = 0


class Lineages:
    """What was told of each log. Of a log that is not among ``presents`` any more it is forgotten.

    >>> lineages = Lineages()
    >>> log = {("orders", 0): Present("id", 1, 4)}
    >>> lineages.wanted(log)
    {('orders', 0): -1}
    >>> [(one.leader_epoch, one.start, one.end) for one in lineages.facts(1, log, {("orders", 0): [(4, 80)]}, {})]
    [(4, 80, -1)]
    """

    def __init__(self) -> None:
        self._told: dict[Place, _Told] = {}

    def wanted(self, presents: Mapping[Place, Present]) -> dict[Place, int]:
        """Return the logs whose boundaries must be asked for, with the last epoch that is known, -1: none."""
        found = {}
        for place, present in presents.items():
            told = self._told.get(place)
            if told is None or told.present.topic_id != present.topic_id:
                found[place] = -1
            elif told.present.epoch != present.epoch:
                found[place] = told.present.epoch if present.epoch > told.present.epoch else -1
        return found

    def facts(
        self,
        at_ns: int,
        presents: Mapping[Place, Present],
        boundaries: Mapping[Place, list[tuple[int, int]]],
        ends: Mapping[Place, int],
    ) -> list[EpochSeen]:
        """Return what is news, and take it as told.

        Args:
            at_ns: the time.
            presents: the logs that are watched and have a leader.
            boundaries: of those that were wanted: epochs and where they begin, the oldest first; as far as answered.
            ends: high watermarks, told by the leaders of ``presents``, as far as answered.
        """
        facts: list[EpochSeen] = []
        for place, present in presents.items():
            told = self._told.get(place)
            if told is None or told.present.topic_id != present.topic_id or told.present.epoch != present.epoch:
                facts += self._changed(at_ns, place, present, boundaries.get(place, []), ends.get(place, -1))
            else:
                told.seen_ns = at_ns
                facts += self._rose(at_ns, place, told, ends.get(place, -1))
                told.present, told.lower = present, 0
        return facts

    def forget(self, places: set[Place]) -> None:
        """Forget logs that are gone."""
        for place in places:
            self._told.pop(place, None)

    @property
    def places(self) -> set[Place]:
        """The logs of which something was told."""
        return set(self._told)

    def _rose(self, at_ns: int, place: Place, told: _Told, end: int) -> list[EpochSeen]:
        told.end = max(told.end, end)
        if told.end <= told.told_end or (told.told_end >= 0 and at_ns - told.told_ns < _TOLD_NS):
            return []
        return [self._tell(at_ns, place, told)]

    def _changed(
        self, at_ns: int, place: Place, present: Present, boundaries: list[tuple[int, int]], end: int
    ) -> list[EpochSeen]:
        if not boundaries:
            return []  # not answered: it is asked again
        told, facts = self._told.get(place), []
        alike = told is not None and told.present.topic_id == present.topic_id
        if not alike:  # a leader that has stalled may still have the log of a former topic of this name
            end = -1
        start = dict(boundaries).get(present.epoch, -1)
        if told is not None and alike and present.epoch < told.present.epoch:
            told.lower += 1
            if told.lower < _LOWER_TIMES:
                return [_fact(at_ns, place, present, present.epoch, start, end)]
        elif told is not None and alike and told.end >= 0 and told.seen_ns > told.told_ns:
            facts.append(self._tell(told.seen_ns, place, told))  # what the epoch before had told at last, and when
        after = told.present.epoch if told is not None and alike else -1
        for epoch, begins in boundaries:
            if after < epoch < present.epoch:
                facts.append(_fact(at_ns, place, Present(present.topic_id, -1, epoch), epoch, begins, -1))
        facts.append(_fact(at_ns, place, present, present.epoch, start, end))
        self._told[place] = _Told(present, start, end, end, at_ns, at_ns)
        return facts

    @staticmethod
    def _tell(at_ns: int, place: Place, told: _Told) -> EpochSeen:
        told.told_end, told.told_ns = told.end, at_ns
        return _fact(at_ns, place, told.present, told.present.epoch, told.start, told.end)


def _fact(at_ns: int, place: Place, present: Present, epoch: int, start: int, end: int) -> EpochSeen:
    topic, partition = place
    return EpochSeen(at_ns, topic, present.topic_id, partition, present.leader, epoch, start, end)
