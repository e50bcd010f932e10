"""Which other partitions may have lost writes in the same way as a violated one. Pure.

A write is lost when only brokers that lose it had it. For example, partition 3 is led by broker 1 with ISR {1} out of
{1, 2, 3}, and broker 2 becomes its leader: what broker 1 alone acknowledged is gone. Every partition that broker 1 led
with ISR {1} at that time is exposed to the same loss.

So the violated partition's timeline is searched for its smallest ISR below its replicas before the loss. Exposed are
the partitions of any topic with the same leader and ISR at that time. If the timeline has no such state (it may be too
coarse), the partitions with the same leader are returned, and ``basis`` says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storage.store.values import TopologySpan

BEFORE_NS = 15 * 60 * 10**9
"""How long before the first sight of a violation its cause may lie."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """``basis``: "same leader and shrunken ISR", "same leader" or "unknown"; ``states``: the violated partition's.

    ``partitions``: the first such state of each exposed partition.
    """

    basis: str
    states: tuple[TopologySpan, ...]
    partitions: tuple[TopologySpan, ...]


def exposure(topic: str, partition: int, last_ns: int, spans: Iterable[TopologySpan]) -> Exposure:
    """Return the partitions that were in the state of (``topic``, ``partition``) before its loss.

    ``spans`` are those of all partitions in the window, oldest first. States after ``last_ns``, when the loss was first
    seen, cannot be its cause.
    """
    everywhere = [span for span in spans if span.subject == "partition"]
    own = [span for span in everywhere if (span.topic, span.number) == (topic, partition) and span.at_ns <= last_ns]
    states, basis = _endangered(own)
    if not states:
        return Exposure("unknown", (), ())
    found = [
        span
        for span in everywhere
        if (span.topic, span.number) != (topic, partition)
        and any(_alike(span, state, basis) and _overlap(span, state) for state in states)
    ]
    first = {(span.topic, span.number): span for span in reversed(found)}
    return Exposure(basis, tuple(states), tuple(first[place] for place in sorted(first)))


def _endangered(own: Sequence[TopologySpan]) -> tuple[list[TopologySpan], str]:
    led = _before_unclean(own)
    shrunken = [span for span in led if len(span.isr) < len(span.replicas)]
    if shrunken:
        least = min(len(span.isr) for span in shrunken)
        return [span for span in shrunken if len(span.isr) == least], "same leader and shrunken ISR"
    return led[-1:], "same leader"


def _before_unclean(own: Sequence[TopologySpan]) -> list[TopologySpan]:
    """Return the states of the leader before the first unclean election; without one, all states with a leader."""
    led: list[TopologySpan] = []
    isr: tuple[int, ...] = ()
    for span in own:
        if span.led:
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
