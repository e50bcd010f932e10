"""Where else to look: which partitions stood as the violated one stood when it was in danger. Pure.

A write is lost because one broker alone had it. So the violated partition's timeline is searched for the states before
the loss in which some of its replicas were out of sync, and of these for the smallest ISR; whatever partition, of
whatever topic, had the same leader and the same shrunken ISR at the same time may have lost writes in the same way.
Without such a state (the timeline may be too coarse) whatever had the same leader is named, and said to be that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.store.topology import TopologySpan

BEFORE_NS = 15 * 60 * 10**9
"""So long before a violation was first seen its cause is searched for."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """A partition that stood the same, from ``at_ns`` to ``until_ns`` (None: it still does)."""

    topic: str
    partition: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    at_ns: int
    until_ns: int | None


@dataclass(frozen=True, slots=True)
class Exposure:
    """``basis``: "same leader and shrunken ISR", "same leader" or "unknown"; ``states``: the violated partition's."""

    basis: str
    states: tuple[TopologySpan, ...]
    partitions: tuple[Exposed, ...]


def exposure(topic: str, partition: int, last_ns: int, spans: Iterable[TopologySpan]) -> Exposure:
    """Return what stood as (``topic``, ``partition``) stood before it lost what it lost.

    ``spans`` are those of all partitions in the window, oldest first; states after ``last_ns``, when it was first seen,
    are not its cause, however often it is seen again.
    """
    everywhere = [span for span in spans if span.subject == "partition"]
    own = [span for span in everywhere if (span.topic, span.number) == (topic, partition) and span.at_ns <= last_ns]
    states, basis = _endangered(own)
    if not states:
        return Exposure("unknown", (), ())
    found = [
        Exposed(span.topic, span.number, span.leader or 0, span.isr, span.replicas, span.at_ns, span.until_ns)
        for span in everywhere
        if (span.topic, span.number) != (topic, partition)
        and any(_alike(span, state, basis) and _overlap(span, state) for state in states)
    ]
    return Exposure(basis, tuple(states), _merged(found))


def _endangered(own: Sequence[TopologySpan]) -> tuple[list[TopologySpan], str]:
    led = _before_unclean(own)
    shrunken = [span for span in led if len(span.isr) < len(span.replicas)]
    if shrunken:
        least = min(len(span.isr) for span in shrunken)
        return [span for span in shrunken if len(span.isr) == least], "same leader and shrunken ISR"
    return led[-1:], "same leader"


def _before_unclean(own: Sequence[TopologySpan]) -> list[TopologySpan]:
    """Return the states with the leader before the first one outside the ISR; all led states without such a one."""
    led: list[TopologySpan] = []
    isr: tuple[int, ...] = ()
    for span in own:
        if span.leader is not None and span.leader >= 0:
            if isr and span.leader not in isr and span.leader in span.replicas:
                former = led[-1].leader if led else None
                return [one for one in led if one.leader == former]
            led.append(span)
        isr = span.isr or isr
    return led


def _alike(span: TopologySpan, state: TopologySpan, basis: str) -> bool:
    if span.leader != state.leader:
        return False
    return basis == "same leader" or (span.isr == state.isr and len(span.isr) < len(span.replicas))


def _overlap(span: TopologySpan, state: TopologySpan) -> bool:
    return (state.until_ns is None or span.at_ns < state.until_ns) and (
        span.until_ns is None or state.at_ns < span.until_ns
    )


def _merged(found: Iterable[Exposed]) -> tuple[Exposed, ...]:
    """Return one entry for each partition: its first state."""
    first: dict[tuple[str, int], Exposed] = {}
    for one in found:
        first.setdefault((one.topic, one.partition), one)
    return tuple(first[key] for key in sorted(first))
