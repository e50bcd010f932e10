"""What is known of the writes of each mode to each topic: until when they are verified, and what is not.

A promise (a write that was acknowledged, and whose transaction, if any, committed) waits until a tail consumer was
given it. So "nothing waits" is knowledge, but not all of it: what expired, or went with its topic, waits no more and
was never read; where no consumer has been given anything, nothing is known; and a mode that promises nothing has
nothing that could wait. The mode ``group`` writes nothing: its promises are its commits, and a commit is read back when
the group is answered that offset, or a later one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from canary.anomalies.online.gauges import Waiting
from canary.anomalies.online.log import ISOLATIONS, Log
from canary.anomalies.online.meters import Meters
from canary.anomalies.online.state import Probed, State
from canary.workloads.catalogue import WORKLOADS

LEAST_SILENT_S: Final = 60.0
_SILENT_INTERVALS: Final = 10
"""A mode is silent where it has no acknowledged probe for so many of its intervals, and for LEAST_SILENT_S."""
_LEAST_LATE_S: Final = 30.0
_LATE_INTERVALS: Final = 3
"""A promise is late that was given to no consumer for so many intervals of its mode, and for _LEAST_LATE_S."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Partitions of which something is not known: the first few, of how many, and since when (ns) at the longest."""

    partitions: tuple[int, ...]
    of: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of the writes of one mode to one topic; of ``group``, of its commits.

    Attributes:
        partitions: Into how many of its partitions the mode writes.
        acknowledged_ns: When a write was promised last; 0: never.
        verified_ns: All that was promised until then was read back, or is counted as unverified; 0: nothing is known.
        unverified: How many promises expired, or went with their topic, before they were read; ``unverified_ns``: when
            the last of them did.
        silent: Where no write was promised for too long; None: nowhere.
        late: Where what was promised was not read for too long; None: nowhere.
    """

    topic: str
    mode: str
    partitions: int = 0
    acknowledged_ns: int = 0
    verified_ns: int = 0
    unverified: int = 0
    unverified_ns: int = 0
    silent: Shortfall | None = None
    late: Shortfall | None = None

    @property
    def promise(self) -> str:
        """What is promised, before its topic: "write of the mode plain to", "commit of the mode group in"."""
        what, where = ("commit", "in") if WORKLOADS[self.mode].topic == "none" else ("write", "to")
        return f"{what} of the mode {self.mode} {where}"


@dataclass(frozen=True, slots=True)
class _Place:
    """One partition, or all to which a mode writes in turn.

    Times in ns: when it promised last, since when it is probed, since when promises wait that no consumer was given.
    """

    partitions: tuple[int, ...]
    promised_ns: int
    began_ns: int
    unread_ns: int | None


Unread = dict[tuple[str, int, str], dict[str, int]]
"""By topic, partition and mode, and by consumer: when the oldest promise that it was not given was sent (ns)."""


def proofs(state: State, waiting: Iterable[Waiting]) -> tuple[Proof, ...]:
    """Return what is known of each mode and topic that this process probes; ``waiting`` has what was not read yet.

    Of what it probed before only what is unverified is in it.
    """
    unread: Unread = defaultdict(dict)
    for one in waiting:
        consumers = unread[one.topic, one.partition, one.mode]
        consumers[one.consumer] = min(one.oldest_ns, consumers.get(one.consumer, one.oldest_ns))
    probed = {
        (topic, mode): wanted for topic, wanted in state.probed.items() for mode in (*wanted.modes, *wanted.committing)
    }
    former = dict.fromkeys((topic, mode) for (topic, _), one in state.meters.items() for mode in one.unverified)
    found = [_proof(state, topic, wanted, mode, unread) for (topic, mode), wanted in probed.items()]
    found += [_closed(state, *key) for key in former if key not in probed]
    return tuple(one for one in found if one.partitions or one.unverified)


def _closed(state: State, topic: str, mode: str) -> Proof:
    meters = [one for (name, _), one in state.meters.items() if name == topic]
    number, at_ns = _unverified(meters, mode)
    return Proof(topic, mode, unverified=number, unverified_ns=at_ns)


def _unverified(meters: Iterable[Meters], mode: str) -> tuple[int, int]:
    """Return how many promises are unverified, and when the last of them was found to be; 0: that is not known."""
    mine = [one for one in meters if mode in one.unverified]
    return sum(one.unverified[mode] for one in mine), max((one.unverified_ns.get(mode, 0) for one in mine), default=0)


def _proof(state: State, topic: str, probed: Probed, mode: str, unread: Unread) -> Proof:
    known = state.topics.get(topic)
    logs = {} if known is None else known.logs
    mine = [number for number in logs or probed.partitions if state.probes(topic, number)]
    meters = [state.meters.get((topic, number), Meters()) for number in mine]
    places = [
        _place(state, mode, number, logs.get(number), counted, unread.get((topic, number, mode), {}))
        for number, counted in zip(mine, meters, strict=True)
    ]
    acknowledged_ns = max((one.promised_ns for one in places), default=0)
    interval_s = probed.intervals.get(mode, 0.0)
    silent_s = max(_SILENT_INTERVALS * interval_s, LEAST_SILENT_S)
    late_s = max(_LATE_INTERVALS * interval_s, _LEAST_LATE_S)
    each = places
    if places and not WORKLOADS[mode].every_partition:
        each = [_Place(tuple(mine), acknowledged_ns, min(one.began_ns for one in places), None)]
    waits = [one.unread_ns for one in places if one.unread_ns is not None]
    return Proof(
        topic,
        mode,
        len(mine),
        acknowledged_ns,
        min(waits, default=acknowledged_ns) if any(mode in one.given_ns for one in meters) else 0,
        *_unverified(meters, mode),
        silent=_shortfall(state.now_ns, silent_s, ((one, max(one.promised_ns, one.began_ns)) for one in each)),
        late=_shortfall(state.now_ns, late_s, ((one, one.unread_ns) for one in places)),
    )


def _place(
    state: State, mode: str, number: int, log: Log | None, counted: Meters, consumers: Mapping[str, int]
) -> _Place:
    """Return what is known of one partition.

    Either of the two tail consumers that read everything is enough; one that settings added begins anew at each start.
    """
    readers = [] if log is None else [name for name in ISOLATIONS if name in log.readers]
    oldest = [consumers.get(name) for name in readers]
    waits = max((ns for ns in oldest if ns is not None), default=None) if None not in oldest else None
    since = [ns for ns in (waits, counted.unread_ns.get(mode)) if ns is not None]
    promised_ns, began_ns = counted.promised_ns.get(mode, 0), state.started[1] or state.since_ns
    if not promised_ns and log is not None:
        began_ns = max(began_ns, log.led_ns)  # a partition that was added since
    return _Place((number,), min(promised_ns, state.now_ns), began_ns, min(since, default=None))


def _shortfall(now_ns: int, most_s: float, places: Iterable[tuple[_Place, int | None]]) -> Shortfall | None:
    found = [(one, since_ns) for one, since_ns in places if since_ns is not None and now_ns - since_ns > most_s * 1e9]
    numbers = [number for one, _ in found for number in one.partitions]
    return Shortfall(tuple(numbers[:_NAMED]), len(numbers), min(ns for _, ns in found)) if numbers else None


def merged(found: Iterable[Proof]) -> list[Proof]:
    """Return what several runners, which share the partitions of topics, know as if one knew it."""
    by_key: dict[tuple[str, str], Proof] = {}
    for one in found:
        known = by_key.get((one.topic, one.mode))
        by_key[one.topic, one.mode] = one if known is None else _together(known, one)
    return list(by_key.values())


def _together(one: Proof, other: Proof) -> Proof:
    times = [proof.verified_ns for proof in (one, other) if proof.partitions]
    return Proof(
        one.topic,
        one.mode,
        one.partitions + other.partitions,
        max(one.acknowledged_ns, other.acknowledged_ns),
        min(times, default=0),
        one.unverified + other.unverified,
        max(one.unverified_ns, other.unverified_ns),
        _both(one.silent, other.silent),
        _both(one.late, other.late),
    )


def _both(one: Shortfall | None, other: Shortfall | None) -> Shortfall | None:
    if one is None or other is None:
        return one or other
    numbers = sorted((*one.partitions, *other.partitions))
    return Shortfall(tuple(numbers[:_NAMED]), one.of + other.of, min(one.since_ns, other.since_ns))
