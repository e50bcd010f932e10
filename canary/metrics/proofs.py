"""What is known of the writes of each mode to each topic: until when they are verified, and what is not.

A promise (a write that was acknowledged, and whose transaction, if any, committed) waits until a tail consumer was
given it. So "nothing waits" is knowledge, but not all of it: what expired, or went with its topic, waits no more and
was never read; where no consumer has been given anything, nothing is known; and a mode that promises nothing has
nothing that could wait.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from canary.anomalies.online.gauges import Waiting
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
    """What is known of the writes of one mode to one topic.

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


@dataclass(frozen=True, slots=True)
class _Place:
    """One partition, or all to which a mode writes in turn: when (ns) it promised last, and what waits since when."""

    partitions: tuple[int, ...]
    promised_ns: int
    unread_ns: int | None


def proofs(state: State, waiting: Iterable[Waiting]) -> tuple[Proof, ...]:
    """Return what is known of each mode and topic that this process probes; ``waiting`` has what was not read yet."""
    unread: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for one in waiting:
        consumers = unread[one.topic, one.partition, one.mode]
        consumers[one.consumer] = min(one.oldest_ns, consumers.get(one.consumer, one.oldest_ns))
    return tuple(
        _proof(state, topic, probed, mode, unread) for topic, probed in state.probed.items() for mode in probed.modes
    )


def _proof(
    state: State, topic: str, probed: Probed, mode: str, unread: dict[tuple[str, int, str], dict[str, int]]
) -> Proof:
    known = state.topics.get(topic)
    logs = {} if known is None else known.logs
    mine = [number for number in logs or probed.partitions if state.probes(topic, number)]
    meters = [state.meters.get((topic, number), Meters()) for number in mine]
    places = []
    for number, counted in zip(mine, meters, strict=True):
        readers = logs[number].readers if number in logs else {}
        consumers, promised_ns = unread.get((topic, number, mode), {}), counted.promised_ns.get(mode, 0)
        is_read = readers and mode in counted.given_ns
        oldest = [consumers.get(name) for name in readers] if is_read else [promised_ns or None]
        unread_ns = None if None in oldest else max((ns for ns in oldest if ns is not None), default=None)
        places.append(_Place((number,), promised_ns, unread_ns))
    acknowledged_ns = min(max((one.promised_ns for one in places), default=0), state.now_ns)
    waits = [one.unread_ns for one in places if one.unread_ns is not None]
    interval_s, began_ns = probed.intervals.get(mode, 0.0), state.started[1] or state.since_ns
    silent_s = max(_SILENT_INTERVALS * interval_s, LEAST_SILENT_S)
    late_s = max(_LATE_INTERVALS * interval_s, _LEAST_LATE_S)
    each = places if WORKLOADS[mode].every_partition else [_Place(tuple(mine), acknowledged_ns, None)]
    return Proof(
        topic,
        mode,
        len(mine),
        acknowledged_ns,
        min(waits, default=acknowledged_ns) if any(mode in one.given_ns for one in meters) else 0,
        sum(one.unverified.get(mode, 0) for one in meters),
        max((one.unverified_ns.get(mode, 0) for one in meters), default=0),
        _shortfall(state.now_ns, silent_s, ((one, max(one.promised_ns, began_ns)) for one in each)),
        _shortfall(state.now_ns, late_s, ((one, one.unread_ns) for one in places)),
    )


def _shortfall(now_ns: int, most_s: float, places: Iterable[tuple[_Place, int | None]]) -> Shortfall | None:
    found = [(one, since_ns) for one, since_ns in places if since_ns is not None and now_ns - since_ns > most_s * 1e9]
    numbers = [number for one, _ in found for number in one.partitions]
    return Shortfall(tuple(numbers[:_NAMED]), len(numbers), min(ns for _, ns in found)) if numbers else None
