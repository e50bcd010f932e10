"""What the cluster did just before a violation, as far as the timeline has it. Pure.

The timeline is sampled about once a second: what it has is what was seen just before, and no proof. For example, broker
1 leads a partition at 12:01:04 while the ISR at 12:01:03 was {2, 3}: an unclean election was seen just before the loss.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from api.judgement.exposure import BEFORE_NS
from api.judgement.verified import named_brokers
from api.knowledge.outages import Outage, outages
from api.shapes import moment
from storage.store.values import StoredViolation, TopologySpan

Kind = Literal[
    "unclean election",
    "topic recreated",
    "early expiry",
    "leader restarted",
    "leader changed",
    "ISR shrank",
    "broker gone",
    "unknown",
]
_ORDER: Final[tuple[Kind, ...]] = (
    "unclean election",
    "topic recreated",
    "early expiry",
    "leader restarted",
    "leader changed",
    "ISR shrank",
    "broker gone",
    "unknown",
)
"""What explains a loss best comes first."""
_SAID: Final[dict[str, Kind]] = {
    "unclean-election": "unclean election",
    "topic-recreated": "topic recreated",
    "early-expiry": "early expiry",
}
"""Violations of the same incident that are a cause by themselves."""


OUTAGES: Final = 3
"""At most so many outages, the latest ones, are named beside a cause."""


class Cause(NamedTuple):
    """What was seen just before, for machines and for people; ``at_ns`` None: nothing was."""

    kind: Kind
    sentence: str
    at_ns: int | None = None


def likely_cause(
    violations: Sequence[StoredViolation], partition: Sequence[TopologySpan], brokers: Sequence[TopologySpan]
) -> Cause:
    """Return what explains an incident best; of two alike the later one.

    ``partition`` is the timeline of the violated partition, ``brokers`` that of brokers and cluster, oldest first. What
    was seen after the first violation explains nothing; what is older than ``BEFORE_NS`` is too old.
    """
    first_ns = min((one.first_seen_ns for one in violations), default=0)
    said = [Cause(_SAID[one.kind], one.summary, one.first_seen_ns) for one in violations if one.kind in _SAID]
    since_ns = first_ns - BEFORE_NS
    changes = [one for one in _changes(partition) if one.at_ns is not None and since_ns <= one.at_ns <= first_ns]
    lost = outages(brokers, since_ns, first_ns)
    departures = [_departure(one, partition) for one in reversed(lost)]
    found = sorted((*said, *changes, *departures), key=lambda one: (_ORDER.index(one.kind), -(one.at_ns or 0)))
    if found:
        several = len(frozenset().union(*(one.brokers for one in lost))) > 1
        return _with(found[0], departures) if several or found[0] in departures else found[0]
    if not partition:
        return Cause("unknown", "Cause unknown: the timeline does not have this partition at that time.")
    minutes = BEFORE_NS // (60 * 10**9)
    words = f"Cause unknown: no change of leader, ISR or brokers was seen in the {minutes} minutes before."
    return Cause("unknown", words)


def _with(cause: Cause, departures: Sequence[Cause]) -> Cause:
    """Return a cause that names every broker that was gone, so that none of several is taken for the only one."""
    others = [one.sentence for one in departures if one != cause]
    more = f"Brokers were gone {len(others) - OUTAGES} times more." if len(others) > OUTAGES else ""
    return cause._replace(sentence=" ".join(filter(None, (cause.sentence, *others[:OUTAGES], more))))


def _changes(partition: Sequence[TopologySpan]) -> Iterable[Cause]:
    isr: tuple[int, ...] = ()
    led: int | None = None
    for before, span in pairwise((None, *partition)):
        if before is not None and before.led:
            led = before.leader
        isr = (before.isr if before is not None else ()) or isr
        if before is None or span is None:
            continue
        if span.led and led is not None and span.leader != led:
            yield _election(span, led, isr)
        elif _again(before, span):
            epochs = f"leader epoch {before.leader_epoch} to {span.leader_epoch}"
            words = f"Broker {span.leader} was elected leader again at {_clock(span)} ({epochs}): it was away or stuck."
            yield Cause("leader restarted", words, span.at_ns)
        if span.isr and len(span.isr) < len(before.isr):
            away = sorted(set(before.isr) - set(span.isr))
            left = f"to {_set(span.isr)} of {len(span.replicas)} replicas"
            words = f"The ISR shrank {left} at {_clock(span)}: {named_brokers(away)} fell out."
            yield Cause("ISR shrank", words, span.at_ns)


def _election(span: TopologySpan, led: int, isr: tuple[int, ...]) -> Cause:
    at = f"took over from broker {led} at {_clock(span)}"
    if isr and span.leader not in isr and span.leader in span.replicas:
        words = f"Broker {span.leader} {at} although it was not in the ISR {_set(isr)}: an unclean election."
        return Cause("unclean election", words, span.at_ns)
    short = f" while only {_set(isr)} of {len(span.replicas)} replicas were in sync"
    return Cause(
        "leader changed", f"Broker {span.leader} {at}{short if len(isr) < len(span.replicas) else ''}.", span.at_ns
    )


def _departure(outage: Outage, partition: Sequence[TopologySpan]) -> Cause:
    led = [one.leader for one in partition if one.at_ns <= outage.last_ns and one.led]
    leader = led[-1] if led else None
    gone = sorted({span.number for span in outage.absences})
    if outage.silence is None and len(gone) == 1:
        who, at = f"roker {gone[0]}", _clock(outage.absences[0])
        named = f"The leader, b{who}," if leader == gone[0] else f"B{who}"
        words = f"{named} was gone at {at}{_back(outage.absences[:1], ', and back at')}."
    else:
        words = " ".join(filter(None, (_silent(outage), _together(outage, gone, leader))))
    return Cause("leader restarted" if leader in gone else "broker gone", words, outage.begin_ns)


def _silent(outage: Outage) -> str:
    if outage.silence is None:
        return ""
    until = f" to {moment(outage.silence.until_ns):%H:%M:%S}" if outage.silence.until_ns is not None else " on"
    all_of = (
        f"{named_brokers(sorted(outage.brokers))} {'were' if len(outage.brokers) > 1 else 'was'} gone or out of reach"
    )
    return f"No broker answered from {_clock(outage.silence)}{until}: {all_of}."


def _together(outage: Outage, gone: Sequence[int], leader: int | None) -> str:
    if not gone:
        return ""
    first, last = outage.absences[0], outage.absences[-1]
    at = _clock(first) if _clock(first) == _clock(last) else f"{_clock(first)} to {_clock(last)}"
    led = f" (broker {leader} led)" if leader in gone and len(gone) > 1 else ""
    who = named_brokers(gone)
    back = _back(outage.absences, "; all were back at" if len(gone) > 1 else "; back at")
    return f"{who[0].upper()}{who[1:]} {'were' if len(gone) > 1 else 'was'} gone at {at}{led}{back}."


def _back(absences: Sequence[TopologySpan], words: str) -> str:
    """Return when the last of some brokers was back, or which of them are not."""
    last = {span.number: span.until_ns for span in absences}
    away = sorted(number for number, until_ns in last.items() if until_ns is None)
    if away and len(away) < len(last):
        return f"; {named_brokers(away)} {'are' if len(away) > 1 else 'is'} not back"
    ends = [until_ns for until_ns in last.values() if until_ns is not None]
    return "" if away else f"{words} {moment(max(ends)):%H:%M:%S}"


def _again(before: TopologySpan, span: TopologySpan) -> bool:
    """Whether the same broker leads at a later epoch."""
    if before.leader != span.leader or before.leader_epoch is None or span.leader_epoch is None:
        return False
    return span.led and span.leader_epoch > before.leader_epoch


def _clock(span: TopologySpan) -> str:
    return f"{moment(span.at_ns):%H:%M:%S}"


def _set(numbers: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"
