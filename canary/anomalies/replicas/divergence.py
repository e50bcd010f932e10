"""Differences that lie together, which broker is the odd one, and the violation that says so."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from canary.anomalies.replicas.copies import BROKEN, MISSING, Difference
from canary.anomalies.violation import Records, Violation

KIND: Final = "replica-divergence"
MOST_DIGESTS: Final = 5
"""Offsets of which the evidence has what each replica holds."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Replicas that differ in offsets ``first`` to ``last`` (inclusive), at ``count`` of them.

    Attributes:
        brokers: which are the odd ones; if not ``known``, all between which it lies.
        known: whether a majority agrees against them, or what they have cannot be sound.
        how: what the odd ones have: missing, extra, different, or a word of BROKEN.
        found: of the first offsets, what each broker has.
        leader: when it was found.
    """

    topic: str
    partition: int
    topic_id: str | None
    first: int
    last: int
    count: int
    brokers: tuple[int, ...]
    known: bool
    how: str
    found: Mapping[int, Mapping[int, str]]
    leader: int | None
    leader_epoch: int

    def joined(self, later: Self) -> Self | None:
        """Return it with ``later``, which goes on where it ends in the same way; None: that is another one."""
        if not self._goes_on(later):
            return None
        found = dict(list((dict(self.found) | dict(later.found)).items())[:MOST_DIGESTS])
        return replace(self, last=later.last, count=self.count + later.count, found=found)

    def _goes_on(self, later: Self) -> bool:
        same = (self.topic_id, self.brokers, self.how) == (later.topic_id, later.brokers, later.how)
        return same and self.known == later.known and later.first == self.last + 1

    @property
    def sentence(self) -> str:
        """What it is, in words."""
        names = ", ".join(map(str, self.brokers))
        many = len(self.brokers) > 1
        if not self.known:
            return f"brokers {names} hold different records, and no majority says which is right ({self.how})"
        words = {
            "missing": "lacks what the others have",
            "extra": "has what the others lack",
            "different": "has other records than the others",
            "bad-crc": "has batches whose CRC is wrong",
            "undecodable": "has batches that cannot be decoded",
            "out-of-order": "has batches out of order",
            "unreadable": "says that its log is corrupt",
        }[self.how]
        if many:
            words = words.replace("has", "have").replace("lacks", "lack").replace("says", "say")
        return f"broker{'s' if many else ''} {names} {words}"

    @property
    def evidence(self) -> dict[str, Any]:
        """What shows it, as JSON has it."""
        return {
            "brokers": list(self.brokers),
            "odd_one_known": self.known,
            "how": self.how,
            "last_offset": self.last,
            "differing_records": self.count,
            "digests": {
                str(offset): {str(broker): value for broker, value in of.items()} for offset, of in self.found.items()
            },
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
        }

    def violation(self, at_ns: int, command: str) -> Violation:
        """Return what is reported; ``command`` shows it anew."""
        size = self.last - self.first + 1
        return Violation(
            kind=KIND,
            severity="critical",
            topic=self.topic,
            topic_id=self.topic_id or "",
            partition=self.partition,
            offset=self.first,
            at_ns=at_ns,
            by="watch",
            summary=f"replicas of {self.topic}-{self.partition} differ: {self.sentence}. To look: {command}",
            evidence=self.evidence | {"command": command},
            records=(Records(self.first, size, None),) if size > 1 else (),
        )


def confirmed(first: Iterable[Difference], again: Iterable[Difference]) -> list[Difference]:
    """Return what was found in both of two readings, at the same offsets and in the same way."""
    before = {(one.first, one.last): dict(one.found) for one in first}
    return [one for one in again if before.get((one.first, one.last)) == dict(one.found)]


def odd_ones(found: Mapping[int, str]) -> tuple[tuple[int, ...], bool, str]:
    """Return which brokers are the odd ones, whether that is known, and what they have, in a word.

    >>> odd_ones({1: "a", 2: "a", 3: "missing"})
    ((3,), True, 'missing')
    >>> odd_ones({1: "a", 2: "b"})
    ((1, 2), False, 'different')
    >>> odd_ones({1: "a", 2: "bad-crc"})
    ((2,), True, 'bad-crc')
    """
    broken = {broker: value for broker, value in found.items() if value in BROKEN}
    sound = {broker: value for broker, value in found.items() if value not in BROKEN}
    counts = Counter(sound.values()).most_common()
    most = counts[0][0] if counts else None
    if most is not None and counts[0][1] * 2 > len(found):
        odd = {broker: value for broker, value in found.items() if value != most}
        return tuple(sorted(odd)), True, min(_how(value, most) for value in odd.values())
    if broken and len(counts) <= 1:
        return tuple(sorted(broken)), True, min(broken.values())
    return tuple(sorted(found)), False, MISSING if MISSING in sound.values() else "different"


def _how(value: str, most: str) -> str:
    if value in BROKEN or value == MISSING:
        return value
    return "extra" if most == MISSING else "different"


def together(
    place: tuple[str, int, str | None], leader: tuple[int | None, int], differences: Sequence[Difference]
) -> Iterator[Divergence]:
    """Yield the differences of a partition as divergences: those at consecutive offsets, of the same kind, are one.

    Args:
        place: topic, partition, topic id ("" where there is none).
        leader: the leader and its epoch.
        differences: ascending.
    """
    topic, partition, topic_id = place
    last: Divergence | None = None
    for one in differences:
        brokers, known, how = odd_ones(one.found)
        size = one.last - one.first + 1
        found = {one.first: dict(one.found)}
        this = Divergence(topic, partition, topic_id, one.first, one.last, size, brokers, known, how, found, *leader)
        joined = last.joined(this) if last is not None else None
        if joined is None and last is not None:
            yield last
        last = joined or this
    if last is not None:
        yield last
