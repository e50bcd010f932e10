"""Which other partitions may have lost writes in the same way as a violated one. Pure.

A write is lost when only brokers that lose it had it. For example, partition 3 is led by broker 1 with ISR {1} out of
{1, 2, 3}, and broker 2 becomes its leader: what broker 1 alone acknowledged is gone. Every partition that broker 1 led
with ISR {1} at that time is exposed to the same loss.

So the violated partition's timeline is searched for its smallest ISR below its replicas before the loss. Exposed are
the partitions of any topic with the same leader and ISR at that time. If the timeline has no such state (it may be too
coarse), the partitions with the same leader are returned, and ``basis`` says so.

If several brokers were gone in one outage, and every in-sync replica of the violated partition among them, the danger
was the same for every partition of which that is so, whichever broker led it. For example, brokers 1, 2 and 3 are
killed: every partition was exposed, and not only those of broker 3. If only the leader was among them, exposed is what
any of these brokers led.

If the timeline shows that a shrunken ISR was followed by an unclean election, that is what lost the writes, whatever
was out of reach before, and every other partition that had an unclean election is exposed too, whoever led it. If such
an outage came after the election, either may have been it: exposed is what either exposes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from api.knowledge.outages import Outage
from storage.store.values import TopologySpan

BEFORE_NS = 15 * 60 * 10**9
"""How long before the first sight of a violation its cause may lie."""

ISR_GONE: Final = "in-sync replicas all gone or out of reach at once"
SHRUNKEN: Final = "same leader and shrunken ISR"
SAME_LEADER: Final = "same leader"
LEADER_GONE: Final = "leader gone in the same outage"
_Spans = Sequence[TopologySpan]


@dataclass(frozen=True, slots=True)
class Exposure:
    """``basis``: ISR_GONE, LEADER_GONE, SHRUNKEN, SAME_LEADER or "unknown".

    ``states``: those of the violated partition when it was in danger.

    ``partitions``: the first such state of each exposed partition.
    """

    basis: str
    states: tuple[TopologySpan, ...]
    partitions: tuple[TopologySpan, ...]


def exposure(
    topic: str, partition: int, last_ns: int, spans: Iterable[TopologySpan], lost: Sequence[Outage] = ()
) -> Exposure:
    """Return the partitions that were in the state of (``topic``, ``partition``) before its loss.

    ``spans`` are those of all partitions in the window, oldest first; ``lost``: its outages. States after ``last_ns``,
    when the loss was first seen, cannot be its cause.
    """
    everywhere = [span for span in spans if span.subject == "partition"]
    own = [span for span in everywhere if _place(span) == (topic, partition) and span.at_ns <= last_ns]
    others = [span for span in everywhere if _place(span) != (topic, partition)]
    states, basis, found = _danger(own, others, [outage for outage in lost if len(outage.brokers) > 1])
    if not states:
        return Exposure("unknown", (), ())
    first = {_place(span): span for span in sorted(found, key=lambda span: span.at_ns, reverse=True)}
    return Exposure(basis, tuple(states), tuple(first[place] for place in sorted(first)))


def _danger(own: _Spans, others: _Spans, lost: Sequence[Outage]) -> tuple[_Spans, str, _Spans]:
    """Return the states in which a partition was in danger, what the danger was, and states of others in the same."""
    election = _unclean_election(own)
    states, basis = _endangered([span for span in own if span.led] if election is None else election.before)
    alike = [span for span in others if any(_alike(span, one, basis) and _overlap(span, one) for one in states)]
    elected: list[TopologySpan] = []
    if election is not None and basis == SHRUNKEN:
        found = (_unclean_election(spans) for spans in _by_place(others))
        elected = [*alike, *(span for one in found if one is not None for span in one.before[-1:])]
        lost = [outage for outage in lost if outage.begin_ns >= election.at_ns]
    for reason, gone in ((ISR_GONE, _isr), (LEADER_GONE, _leader)):
        hit = [outage for outage in lost if any(_met(span, outage, gone) for span in own)]
        if hit and (reason == ISR_GONE or basis == SAME_LEADER):
            met = partial(_met_by_any, hit, gone)
            return [span for span in own if met(span)], reason, [*elected, *(span for span in others if met(span))]
    return states, basis, elected or alike


def _place(span: TopologySpan) -> tuple[str, int]:
    return span.topic, span.number


def _isr(span: TopologySpan) -> frozenset[int]:
    return frozenset(span.isr)


def _leader(span: TopologySpan) -> frozenset[int]:
    return frozenset() if span.leader is None else frozenset({span.leader})


def _met_by_any(hit: Sequence[Outage], gone: Callable[[TopologySpan], frozenset[int]], span: TopologySpan) -> bool:
    return any(_met(span, outage, gone) for outage in hit)


def _met(span: TopologySpan, outage: Outage, gone: Callable[[TopologySpan], frozenset[int]]) -> bool:
    """Return whether an outage met a partition in this state, and had all brokers that ``gone`` names of it."""
    met = span.at_ns <= outage.last_ns and (span.until_ns is None or span.until_ns > outage.begin_ns)
    return met and span.led and bool(span.isr) and outage.brokers >= gone(span)


def _endangered(led: _Spans) -> tuple[_Spans, str]:
    """Return those of the states with a leader in which the fewest were in sync; if that were all, the last one."""
    shrunken = [span for span in led if len(span.isr) < len(span.replicas)]
    if shrunken:
        least = min(len(span.isr) for span in shrunken)
        return [span for span in shrunken if len(span.isr) == least], SHRUNKEN
    return led[-1:], SAME_LEADER


@dataclass(frozen=True, slots=True)
class _Election:
    """An unclean election at ``at_ns``; ``before``: the states of the leader before it."""

    at_ns: int
    before: _Spans


def _unclean_election(own: _Spans) -> _Election | None:
    """Return the first unclean election of a partition; None: it had none."""
    led: list[TopologySpan] = []
    isr: tuple[int, ...] = ()
    for span in own:
        if span.led:
            if isr and span.leader not in isr and span.leader in span.replicas:
                return _Election(span.at_ns, [one for one in led if one.leader == led[-1].leader])
            led.append(span)
        isr = span.isr or isr
    return None


def _by_place(spans: _Spans) -> Iterable[_Spans]:
    found: dict[tuple[str, int], list[TopologySpan]] = {}
    for span in spans:
        found.setdefault(_place(span), []).append(span)
    return found.values()


def _alike(span: TopologySpan, state: TopologySpan, basis: str) -> bool:
    if span.leader != state.leader:
        return False
    return basis == SAME_LEADER or (span.isr == state.isr and len(span.isr) < len(span.replicas))


def _overlap(span: TopologySpan, state: TopologySpan) -> bool:
    return (state.until_ns is None or span.at_ns < state.until_ns) and (
        span.until_ns is None or state.at_ns < span.until_ns
    )
