"""What somebody who is paged for an incident asks first: which writes, written by whom, why, and what now.

Where and since when are fields of the incident itself; what else was in danger is the exposure of its first cause.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field

from api.judgement.exposure import BEFORE_NS
from api.judgement.first_steps import Broker, first_steps
from api.judgement.likely_cause import Kind, likely_cause
from api.judgement.lost_ranges import LostRange, gone, losses, timed
from api.judgement.timeline import spans_of
from api.knowledge.outages import APART_NS
from api.shapes import Moment, ProbeIdentity, Shape, moment, moment_or_none
from api.state import State
from canary.probe.identity import Identity
from storage.store.cursors import Excerpt
from storage.store.repositories.violations import MOST_JOINED
from storage.store.values import (
    Findings,
    Incident,
    StoredViolation,
    TopologyFilter,
    TopologySpan,
    ViolationFilter,
    ViolationRange,
)

RANGES = 20
"""At most so many ranges, the largest ones, are in a briefing."""
_HOLDERS = 3
"""At most so many brokers have a command that keeps their copy."""
SPANS = 20_000
"""At most so many states of a timeline, the newest ones, are looked at for the cause."""


class LeaderOut(Shape):
    """A broker that led the partition while the writes were acknowledged."""

    broker: int
    address: str | None = Field(description="Host and port; null: not known.")
    leader_epoch: int | None


class LossOut(Shape):
    """Writes at neighbouring offsets that are gone."""

    sentence: str
    kind: str
    topic: str
    partition: int
    first_offset: int | None
    last_offset: int | None
    records: int
    timed: str = Field(description='What the times are of: "acknowledged", "sent", or "" where they are not known.')
    first_at: Moment | None
    last_at: Moment | None
    workload: str | None
    first_identity: ProbeIdentity | None
    last_identity: ProbeIdentity | None
    leaders: list[LeaderOut] = Field(description="Those that led at these times, in the order of time.")
    violation_id: str = Field(description="The first of the violations.")


class CauseOut(Shape):
    """What the timeline has just before; it is no proof."""

    kind: Kind
    sentence: str
    at: Moment | None
    total: int | None = Field(description="How many states of the partition and of brokers the timeline has then.")
    truncated: bool = Field(description="Whether only the newest of them were looked at, as the sentence says.")


class StepOut(Shape):
    """What to do, where, and the command for it."""

    words: str
    where: str = Field(description='The host of a broker; "": any host.')
    command: str = Field(description='For a shell; "": there is none. LOG_DIR is a broker\'s log.dirs.')


class Briefing(Shape):
    """The first answers of an incident."""

    lost_records: int = Field(description="How many records are gone in all; 0: none is known to be.")
    lost_ranges: int | None = Field(
        description=f"How many ranges these are; null: more than {MOST_JOINED:,} violations say so, "
        "of which the largest ones are joined, and the ranges are not counted."
    )
    losses: list[LossOut] = Field(
        description=f"The largest ranges first, {RANGES} at most; empty where no write is known to be lost."
    )
    losses_total: int | None = Field(description="Of how many ranges the losses are the largest: lost_ranges.")
    losses_truncated: bool = Field(description="Whether there are more ranges than are listed.")
    cause: CauseOut
    steps: list[StepOut] = Field(description="The most urgent first.")
    brokers: dict[int, str] = Field(description="The address of each broker that the timeline knows.")


@dataclass(frozen=True, slots=True)
class Found:
    """What an incident has, and the ``ranges`` that are gone, the largest ones of them first."""

    findings: Sequence[Findings]
    ranges: Excerpt[ViolationRange] = field(default_factory=lambda: Excerpt([], 0))

    @property
    def firsts(self) -> list[StoredViolation]:
        """The first violation of each kind."""
        return [one.first for one in self.findings]

    @property
    def violations(self) -> int:
        """How many violations it has."""
        return sum(one.violations for one in self.findings)

    @property
    def losses(self) -> list[Findings]:
        """Those of its findings that say what is gone; a false alarm does not."""
        firsts = losses(one.first for one in self.findings if one.records)
        return [one for one in self.findings if one.first in firsts]

    @property
    def lost_records(self) -> int:
        """How many records are gone."""
        return sum(one.records for one in self.losses)

    @property
    def words(self) -> str:
        """What is listed of all that is gone: "the largest 20 of 10,000 ranges (200,000 writes)"; "": nothing is."""
        kinds = [one.first.kind for one in self.losses]
        return f"{self.ranges.words('largest', 'ranges')} ({gone(kinds[0], self.lost_records)})" if kinds else ""

    @property
    def largest(self) -> list[LostRange]:
        """The ranges that are shown one by one."""
        return [LostRange(one) for one in self.ranges.items]


async def found_in(state: State, incident: Incident) -> Found:
    """Return what an incident has.

    Raises:
        UnavailableError: the store does not answer.
    """
    findings: list[Findings] = await state.calls(state.store.violations.of_incident, incident.id)
    kinds = {one.first.kind for one in Found(findings).losses}
    wanted = ViolationFilter(cluster=incident.cluster, incident_id=incident.id)
    return Found(findings, await state.calls(state.store.violations.ranges, wanted, kinds, RANGES))


async def briefing(
    state: State,
    incident: Incident,
    found: Found,
    acknowledged: Callable[[Identity], int | None] = lambda _: None,
) -> Briefing:
    """Return the briefing of an incident; ``acknowledged`` as in lost_ranges.timed.

    Raises:
        UnavailableError: the store does not answer.
    """
    lost = [timed(one, acknowledged) for one in found.largest]
    since_ns = min([incident.first_ns, *(one.times[0] for one in lost if one.times)]) - BEFORE_NS
    partition = await _partition(state, incident, since_ns)
    before = await brokers_between(state, incident.cluster, since_ns, incident.first_ns)
    now = await _brokers_now(state, incident.cluster)
    brokers = _brokers(span for span in (*before.items, *now) if span.subject == "broker")
    cause = likely_cause(found.firsts, partition.items, before.items)
    looked_at = partition + before
    if looked_at.truncated:
        only = f"Only {looked_at.words('newest', 'states')} of the timeline were looked at."
        cause = cause._replace(sentence=f"{cause.sentence} {only}")
    holders = _holders(partition.items, lost[0] if lost else None, incident.first_ns)
    alive = next(iter(_alive(brokers)), "")
    here = [one for one in lost if one.first.topic == incident.topic]
    named = [brokers.get(number, Broker(number, there=False)) for number in holders[:_HOLDERS]]
    steps = first_steps(incident.cluster, incident.topic, incident.partition, here, named, alive, cause)
    return Briefing(
        lost_records=found.lost_records,
        lost_ranges=found.ranges.total,
        losses=[_loss(one, _leaders(partition.items, one), brokers) for one in lost],
        losses_total=found.ranges.total,
        losses_truncated=found.ranges.truncated,
        cause=CauseOut(
            kind=cause.kind,
            sentence=cause.sentence,
            at=moment_or_none(cause.at_ns),
            total=looked_at.total,
            truncated=looked_at.truncated,
        ),
        steps=[StepOut.model_validate(one) for one in steps],
        brokers={number: one.address for number, one in brokers.items() if one.address},
    )


async def brokers_between(state: State, cluster: str, since_ns: int, until_ns: int) -> Excerpt[TopologySpan]:
    """Return the timelines of a cluster's brokers, and of the cluster: when none of them answered.

    What begins shortly after ``until_ns`` may be part of an outage that began before, and is there, too.

    Raises:
        UnavailableError: the store does not answer.
    """
    between = TopologyFilter(cluster, since_ns=since_ns, until_ns=until_ns + APART_NS)
    return await spans_of(state, [replace(between, subject=one) for one in ("broker", "cluster")], SPANS)


async def _brokers_now(state: State, cluster: str) -> list[TopologySpan]:
    wanted = TopologyFilter(cluster, "broker", since_ns=state.now_ns())
    return (await spans_of(state, [wanted], SPANS)).items


async def _partition(state: State, incident: Incident, since_ns: int) -> Excerpt[TopologySpan]:
    place = incident.cluster, "partition", incident.topic, incident.partition
    wanted = TopologyFilter(*place, since_ns, incident.last_ns)
    return await spans_of(state, [] if incident.partition is None else [wanted], SPANS)


async def bootstrap_of(state: State, cluster: str) -> str:
    """Return the addresses of a cluster's live brokers, three at most; "": none is known.

    Raises:
        UnavailableError: the store does not answer.
    """
    return ",".join(_alive(_brokers(await _brokers_now(state, cluster)))[:3])


def _brokers(spans: Iterable[TopologySpan]) -> dict[int, Broker]:
    """Return each broker with its last known address."""
    known: dict[int, Broker] = {}
    for span in spans:
        address = span.detail.partition(" ")[0].rstrip(",") if span.detail else ""
        before = known.get(span.number, Broker(span.number))
        named = before.address if address in {"", "somewhere"} else address
        known[span.number] = Broker(span.number, named, there=bool(span.detail))
    return dict(sorted(known.items()))


def _alive(brokers: Mapping[int, Broker]) -> list[str]:
    """Return the addresses of those that are there."""
    return [one.address for one in brokers.values() if one.there and one.address]


def _leaders(partition: Sequence[TopologySpan], lost: LostRange) -> list[TopologySpan]:
    """Return the states in which the writes of a range were acknowledged; [] where their times are not known."""
    if lost.times is None:
        return []
    begin, end = lost.times
    led = [span for span in partition if span.led]
    return [span for span in led if span.at_ns <= end and (span.until_ns is None or span.until_ns > begin)]


def _holders(partition: Sequence[TopologySpan], lost: LostRange | None, first_ns: int) -> list[int]:
    """Return the brokers that may hold what is gone: who led then, then its ISR, then the other replicas.

    Without times, the leader before the present one is the likeliest.
    """
    led = [span for span in partition if span.led and span.at_ns <= first_ns]
    then = (_leaders(partition, lost) if lost is not None else []) or _before_the_last(led)
    numbers = [span.leader for span in then if span.leader is not None]
    numbers += [number for span in then for number in span.isr]
    numbers += [number for span in (then or led)[-1:] for number in span.replicas]
    return list(dict.fromkeys(numbers))


def _before_the_last(led: Sequence[TopologySpan]) -> list[TopologySpan]:
    """Return the last state of the leader before the present one; of the present one if there was no other."""
    former = [span for span in led if span.leader != led[-1].leader]
    return list(former[-1:] or led[-1:])


def _loss(lost: LostRange, leaders: Sequence[TopologySpan], brokers: dict[int, Broker]) -> LossOut:
    epochs = dict.fromkeys((span.leader, span.leader_epoch) for span in leaders if span.leader is not None)
    addresses = {number: one.address or None for number, one in brokers.items()}
    first, last = lost.found.first, lost.found.last
    return LossOut(
        sentence=lost.sentence,
        kind=first.kind,
        topic=first.topic,
        partition=first.partition or 0,
        first_offset=first.offset,
        last_offset=lost.last_offset,
        records=lost.records,
        timed=lost.timed,
        first_at=moment(lost.times[0]) if lost.times else None,
        last_at=moment(lost.times[1]) if lost.times else None,
        workload=first.mode,
        first_identity=None if first.identity is None else ProbeIdentity.model_validate(first.identity),
        last_identity=None if last.last_identity is None else ProbeIdentity.model_validate(last.last_identity),
        leaders=[
            LeaderOut(broker=number, address=addresses.get(number), leader_epoch=epoch) for number, epoch in epochs
        ],
        violation_id=first.id,
    )
