"""Whether the canary said what it must, where it must, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from canary.drills.drill import Drill, Said
from canary.drills.rig.direct import GONE, Place
from canary.drills.rig.performance import Played
from canary.drills.rig.rig import Finding
from canary.probe.identity import Identity


@dataclass(frozen=True, slots=True)
class Detected:
    """What must be said, and when that was: seconds after it could be known; None: it was not said."""

    said: Said
    after_s: float | None

    @property
    def in_time(self) -> bool:
        """It was said within the time of the drill."""
        return self.after_s is not None and self.after_s <= self.said.within_s


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a drill.

    Attributes:
        detected: each thing that must be said.
        complaints: what is wrong, a sentence each; none: everything was said, and nothing false.
    """

    detected: tuple[Detected, ...]
    complaints: tuple[str, ...]


def judge(drill: Drill, played: Played) -> Verdict:
    """Hold what was said against what was done."""
    detected = tuple(Detected(one, _after(one, played)) for one in drill.says)
    complaints = [f"missed: nothing was said of {one.said.words}" for one in detected if one.after_s is None]
    for one in drill.says:
        complaints += _misplaced(one, played)
    for name in sorted(_read(drill.says, played)):
        if not played.readings[name]:
            complaints.append(f"nothing is {name}: the drill did not do what it should")
    told = "lost-write" in drill.allowed or any(GONE in one.names for one in drill.says)
    if played.gone and not drill.loses and not told:
        complaints.append(f"{len(played.gone)} records are gone, which the drill should not do, and nobody said so")
    return Verdict(detected, (*complaints, *played.complaints, *_false(played, drill.allowed)))


def judge_control(
    played: Played, may_say: frozenset[str], *, loses: bool = False, says: tuple[Said, ...] = ()
) -> Verdict:
    """Tell what was said where nothing may be; ``loses``: records may be gone; ``says``: what the drill must say."""
    broken = [
        f"{len(found)} records are {name} all the same"
        for name in sorted(_read(says, played) | {GONE})
        if (found := played.readings[name]) and not (loses and name == GONE)
    ]
    return Verdict((), (*broken, *played.complaints, *_false(played, may_say)))


def _read(says: tuple[Said, ...], played: Played) -> set[str]:
    """Return the names of direct readings that something is held against."""
    return {name for one in says for name in one.names} & set(played.readings)


def _after(said: Said, played: Played) -> float | None:
    since = played.marks.get(said.since, played.began)
    after = played.began if said.after is None else played.marks.get(said.after, inf)
    alike = (one for one in played.findings if one.kind == said.kind and said.severity in {None, one.severity})
    found = [one.at for one in alike if one.at > after or said.after is None]
    return max(min(found) - since, 0.0) if found else None


def _misplaced(said: Said, played: Played) -> Iterator[str]:
    found = [one for one in played.findings if one.kind == said.kind and said.severity in {None, one.severity}]
    if not found:
        return
    if said.partitions is not None:
        of = {one.partition for one in found}
        yield from (f"missed: {said.kind} is not said of {_partition(one)}" for one in said.partitions - of)
        yield from (f"false: {said.kind} is said of {_partition(one)}" for one in of - said.partitions)
    if not said.names:
        return
    identities: dict[Place, Identity] = {}
    for name in said.names:
        identities |= played.readings.get(name, {})
    wanted = set(identities).union(*(played.places.get(name, set()) for name in said.names))
    named = {place: who for one in found for place, who in one.records.items()}
    if said.how == "first":
        wanted = {min(one for one in wanted if one[:2] == log) for log in {one[:2] for one in wanted}}
    missed, beyond = wanted - set(named), set(named) - wanted
    if beyond:
        yield f"false: {said.kind} is said of {_places(beyond)}, not among what is {' or '.join(said.names)}"
    if missed and said.how != "within":
        yield f"missed: {said.kind} is not said of {_places(missed)}"
    if said.how == "exactly":
        wrong = {place for place, who in identities.items() if place in named and named[place] != who}
        if wrong:
            yield f"false: {said.kind} names another identity than the one that was at {_places(wrong)}"


def _false(played: Played, allowed: frozenset[str]) -> Iterator[str]:
    for one in played.findings:
        if one.kind not in allowed and not one.planned:
            yield f"false: {_line(one)}"


def _partition(one: tuple[str, int] | None) -> str:
    return f"{one[0]}-{one[1]}" if one else "no partition"


def _line(finding: Finding) -> str:
    return f"{finding.severity} {finding.kind} at {_places(set(finding.records)) or 'no offset'}: {finding.summary}"


def _places(places: set[Place]) -> str:
    some = sorted(places)
    words = [f"{one.topic}-{one.partition}@{one.offset}" for one in some[:5]]
    return ", ".join(words) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
