"""What happened around an incident, in order, each thing once: rows of the timeline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from api.judgement.briefing import Found
from canary.anomalies.catalogue import CATALOGUE
from storage.store.values import Findings, Incident, TopologySpan

AROUND_NS = 5 * 60 * 10**9
"""What is older than this before the incident is shown only as the state that it changed."""
NAMED = 4
"""At most so many places of one row are named."""
_PLURAL = {"is": "are", "has": "have"}
_TOGETHER_NS = 10**9
"""The timeline is sampled about once a second: equal changes within it are one row."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the timeline; ``at_ns`` in ns since the epoch; ``places`` have the same ``words`` in common."""

    at_ns: int
    what: str
    words: str
    link: str | None = None
    places: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The row for people."""
        if not self.places:
            return self.words
        more = len(self.places) - NAMED
        verb, _, rest = self.words.partition(" ")
        verb = verb if len(self.places) == 1 else _PLURAL.get(verb, verb)
        return f"{', '.join(self.places[:NAMED])}{f' and {more} more' if more > 0 else ''} {verb} {rest}"


def timeline(
    row: Incident,
    found: Found,
    spans: Sequence[TopologySpan],
    sentences: Mapping[str, str],
) -> list[Event]:
    """Return what happened, oldest first; ``sentences``: of lost ranges, by the id of the first violation.

    The largest ranges have a row each, the others one together.
    """
    events = [*_found(found, sentences), *_together(_changes(row, spans))]
    return sorted(events, key=lambda event: (event.at_ns, event.what != "broker"))


def _found(found: Found, sentences: Mapping[str, str]) -> Iterator[Event]:
    """Yield what was found: what is gone by range, of every other kind all together."""
    for lost in found.largest:
        place = f"{lost.first.topic}-{lost.first.partition}"
        words = f"{place}: {sentences.get(lost.first.id, lost.sentence)}"
        yield Event(lost.found.first_seen_ns, lost.first.kind, words, f"/violations/{lost.first.id}")
    if found.ranges.truncated:
        shown, total = found.ranges.items, found.ranges.total
        records = found.lost_records - sum(one.records for one in shown)
        many = "many" if total is None else f"{total - len(shown):,}"
        since_ns = min(one.first.first_seen_ns for one in found.losses)
        yield Event(since_ns, shown[0].first.kind, f"{records:,} records more, in {many} smaller ranges")
    said = {lost.first.kind for lost in found.ranges.items}
    for kind, same in groupby(sorted(found.findings, key=_kind), key=_kind):
        alike = list(same)
        first = min((one.first for one in alike), key=lambda one: one.first_seen_ns)
        number = sum(one.violations for one in alike)
        place = f"{first.topic}{'' if first.partition is None else f'-{first.partition}'}"
        title = CATALOGUE[kind].title if kind in CATALOGUE else kind
        words = first.summary if number == 1 else f"{title}, {number:,} times in {place}"
        if kind not in said:
            yield Event(first.first_seen_ns, kind, words, f"/violations/{first.id}")


def _kind(one: Findings) -> str:
    return one.first.kind


def _together(events: Iterable[Event]) -> list[Event]:
    """Return events with those that say the same at the same time made one."""
    made: dict[tuple[str, str], Event] = {}
    done: list[Event] = []
    for event in sorted(events, key=lambda one: one.at_ns):
        key = (event.what, event.words)
        last = made.get(key)
        if last is not None and event.at_ns - last.at_ns <= _TOGETHER_NS:
            made[key] = replace(
                last, places=tuple(sorted((*last.places, *event.places), key=lambda one: (len(one), one)))
            )
            continue
        if last is not None:
            done.append(last)
        made[key] = event
    return [*done, *made.values()]


def _changes(row: Incident, spans: Sequence[TopologySpan]) -> Iterator[Event]:
    last: dict[tuple[str, str, int], TopologySpan] = {}
    for span in sorted(spans, key=lambda span: span.at_ns):
        place = (span.subject, span.topic, span.number)
        before, last[place] = last.get(place), span
        if before is None and span.at_ns < row.first_ns - AROUND_NS:
            continue
        yield from _change(before, span)


def _change(before: TopologySpan | None, span: TopologySpan) -> Iterator[Event]:
    if span.subject == "broker":
        address = f": {span.detail}" if before is not None and span.detail != before.detail else ""
        words = f"is there{address}." if span.detail else "is gone."
        yield Event(span.at_ns, "broker", words, places=(f"Broker {span.number}",))
    elif span.subject == "cluster":
        yield Event(span.at_ns, "cluster", "No broker answers." if span.detail else "Brokers answer again.")
    elif span.subject == "controller":
        yield Event(span.at_ns, "controller", f"Broker {span.leader} is the controller.")
    elif span.subject == "topic":
        yield Event(span.at_ns, "topic", f"Topic {span.topic}: {span.detail or 'there'}.")
    else:
        words = _of_partition(before, span)
        if words:
            yield Event(span.at_ns, "partition", f"{words}.", places=(f"{span.topic}-{span.number}",))


def _of_partition(before: TopologySpan | None, span: TopologySpan) -> str:
    words = []
    led = "has no leader" if span.leader in {None, -1} else f"is led by broker {span.leader}"
    if before is None or before.leader != span.leader:
        words.append(led)
    elif before.leader_epoch is not None and span.leader_epoch not in {None, before.leader_epoch}:
        words.append(f"{led} again, epoch {before.leader_epoch} to {span.leader_epoch}")
    if before is None or before.isr != span.isr:
        words.append(f"in sync: {', '.join(map(str, span.isr)) or 'none'} of {len(span.replicas)}")
    return "; ".join(words)
