"""Which brokers were gone together, and since when it is not known whether any was there. Pure.

The timeline has what brokers say of each other, about once a second. While none answers it has no departures: of three
brokers that are killed, the first one that is back reports the others as gone, and itself was never seen to be. So the
time of the silence counts as one in which every broker was gone or out of reach; which of the two is unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from storage.store.values import TopologySpan

APART_NS: Final = 5 * 10**9
"""What is gone with less between them went in one outage."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Brokers that went shortly after each other. One that was away already when others went is not among them.

    ``absences``: those that the timeline has; ``silence``: while no broker answered; ``brokers``: all of both.
    """

    absences: tuple[TopologySpan, ...]
    silence: TopologySpan | None
    brokers: frozenset[int]

    @property
    def spans(self) -> tuple[TopologySpan, ...]:
        """The silence and the absences, which are at least one."""
        return (*([self.silence] if self.silence else []), *self.absences)

    @property
    def begin_ns(self) -> int:
        """When the first of them was gone."""
        return min(span.at_ns for span in self.spans)

    @property
    def last_ns(self) -> int:
        """When the last of them was gone."""
        return max(span.at_ns for span in self.spans)


def outages(spans: Iterable[TopologySpan], since_ns: int, until_ns: int) -> list[Outage]:
    """Return the outages that began between two times, oldest first, from the timelines of brokers and cluster.

    What begins shortly after ``until_ns`` is part of an outage that began before: the timeline is late by a second.
    """
    spans = sorted(spans, key=lambda span: span.at_ns)
    known = frozenset(span.number for span in spans if span.subject == "broker" and span.at_ns <= until_ns)
    away = [span for span in spans if _away(span) and since_ns <= span.at_ns <= until_ns + APART_NS]
    groups: list[list[TopologySpan]] = []
    for span in away:
        if groups and any(_went_with(one, span) for one in groups[-1]):
            groups[-1].append(span)
        elif span.at_ns <= until_ns:
            groups.append([span])
    return [_outage(group, known - _away_before(group, spans)) for group in groups]


def _away(span: TopologySpan) -> bool:
    return (span.subject == "broker" and not span.detail) or (span.subject == "cluster" and span.detail == "silent")


def _went_with(one: TopologySpan, later: TopologySpan) -> bool:
    """Return whether a broker went shortly after another one, or in a silence: of that it is not known when."""
    last_ns = one.at_ns if one.subject == "broker" else one.until_ns
    return last_ns is None or later.at_ns <= last_ns + APART_NS


def _away_before(group: Sequence[TopologySpan], spans: Iterable[TopologySpan]) -> frozenset[int]:
    """Return the brokers that were away when a group began to go."""
    begin_ns = group[0].at_ns
    before = [span for span in spans if span.subject == "broker" and not span.detail and span.at_ns < begin_ns]
    return frozenset(span.number for span in before if span.until_ns is None or span.until_ns > begin_ns)


def _outage(group: Sequence[TopologySpan], known: frozenset[int]) -> Outage:
    absences = tuple(span for span in group if span.subject == "broker")
    silence = next((span for span in group if span.subject == "cluster"), None)
    gone = frozenset(span.number for span in absences)
    return Outage(absences, silence, gone | known if silence else gone)
