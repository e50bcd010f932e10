"""What the cluster did just before a violation, as far as the timeline has it. Pure.

The timeline is sampled about once a second: what it has is what was seen just before, and no proof. For example, broker
1 leads a partition at 12:01:04 while the ISR at 12:01:03 was {2, 3}: an unclean election was seen just before the loss.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from api.judgement.exposure import BEFORE_NS
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


class Cause(NamedTuple):
    """What was seen just before, for machines and for people; ``at_ns`` None: nothing was."""

    kind: Kind
    sentence: str
    at_ns: int | None = None


def likely_cause(
    violations: Sequence[StoredViolation], partition: Sequence[TopologySpan], brokers: Sequence[TopologySpan]
) -> Cause:
    """Return what explains an incident best; of two alike the later one.

    ``partition`` and ``brokers`` are the timelines of the violated partition and of the brokers, oldest first. What was
    seen after the first violation explains nothing; what is older than ``BEFORE_NS`` is too old.
    """
    first_ns = min((one.first_seen_ns for one in violations), default=0)
    said = [Cause(_SAID[one.kind], one.summary, one.first_seen_ns) for one in violations if one.kind in _SAID]
    seen = [
        one
        for one in (*_changes(partition), *_departures(brokers, partition))
        if one.at_ns is not None and first_ns - BEFORE_NS <= one.at_ns <= first_ns
    ]
    found = sorted((*said, *seen), key=lambda one: (_ORDER.index(one.kind), -(one.at_ns or 0)))
    if found:
        return found[0]
    if not partition:
        return Cause("unknown", "Cause unknown: the timeline does not have this partition at that time.")
    minutes = BEFORE_NS // (60 * 10**9)
    words = f"Cause unknown: no change of leader, ISR or brokers was seen in the {minutes} minutes before."
    return Cause("unknown", words)


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
            words = f"The ISR shrank {left} at {_clock(span)}: {_brokers(away)} fell out."
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


def _departures(brokers: Sequence[TopologySpan], partition: Sequence[TopologySpan]) -> Iterable[Cause]:
    for span in brokers:
        if span.detail:
            continue
        led = [one.leader for one in partition if one.at_ns <= span.at_ns and one.led]
        back = f", and back at {moment(span.until_ns):%H:%M:%S}" if span.until_ns is not None else ""
        if led and led[-1] == span.number:
            words = f"The leader, broker {span.number}, was gone at {_clock(span)}{back}."
            yield Cause("leader restarted", words, span.at_ns)
        else:
            yield Cause("broker gone", f"Broker {span.number} was gone at {_clock(span)}{back}.", span.at_ns)


def _again(before: TopologySpan, span: TopologySpan) -> bool:
    """Whether the same broker leads at a later epoch."""
    if before.leader != span.leader or before.leader_epoch is None or span.leader_epoch is None:
        return False
    return span.led and span.leader_epoch > before.leader_epoch


def _clock(span: TopologySpan) -> str:
    return f"{moment(span.at_ns):%H:%M:%S}"


def _set(numbers: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


def _brokers(numbers: Sequence[int]) -> str:
    return f"broker{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
