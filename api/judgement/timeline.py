"""The topology's timeline as bodies, and around a violation."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from api.shapes import Moment, Shape, moment, moment_or_none
from api.state import State
from storage.store.cursors import Excerpt
from storage.store.values import StoredViolation, TopologyFilter, TopologySpan

AROUND_NS = 10 * 60 * 10**9
MOST_AROUND = 200


class TopologyOut(Shape):
    """A state of a partition, a broker, the controller or the cluster from ``at`` to ``until`` (null: until now)."""

    subject: Literal["partition", "broker", "controller", "cluster"]
    cluster: str
    topic: str | None = Field(description="Of a partition.")
    partition: int | None
    broker: int | None = Field(description="Of a broker.")
    leader: int | None = Field(description="Of a partition (-1: none); the controller's broker.")
    leader_epoch: int | None = Field(description="Of probe topics and topics whose offsets or epochs are watched.")
    epoch_start: int | None = Field(
        description="The offset at which the leader epoch begins, of topics whose epochs are watched."
    )
    replicas: list[int]
    isr: list[int]
    address: str | None = Field(description="Of a broker; null while it is not in the cluster.")
    answers: bool | None = Field(description="Of the cluster: whether any broker answers the canary.")
    at: Moment
    until: Moment | None


async def spans_of(state: State, wanted: Iterable[TopologyFilter], most: int) -> Excerpt[TopologySpan]:
    """Return several timelines, one after the other, each oldest first; of each at most ``most`` spans, the newest.

    Raises:
        UnavailableError: the store does not answer.
    """
    found: Excerpt[TopologySpan] = Excerpt([], 0)
    for one in wanted:
        found += await state.calls(state.store.topology.spans, one, most)
    return found


async def topology_around(state: State, row: StoredViolation) -> dict[str, Any]:
    """Return the states of a violation's partition, of the brokers and of the controller around it, as evidence."""
    since, until = row.first_seen_ns - AROUND_NS, row.last_seen_ns + AROUND_NS
    subjects = "broker", "controller", "cluster"
    wanted = [TopologyFilter(row.cluster, subject, since_ns=since, until_ns=until) for subject in subjects]
    if row.partition is not None:
        wanted.insert(0, TopologyFilter(row.cluster, "partition", row.topic, row.partition, since, until))
    found = await spans_of(state, wanted, MOST_AROUND)
    spans = sorted(found.items, key=lambda span: span.at_ns)
    topology = [topology_out(span).model_dump(mode="json") for span in spans]
    return {"topology": topology, "topology_total": found.total, "topology_truncated": found.truncated}


def topology_out(span: TopologySpan) -> TopologyOut:
    """Return the body of one span."""
    of_partition, of_broker = span.subject == "partition", span.subject == "broker"
    return TopologyOut(
        subject=span.subject,  # type: ignore[arg-type]  # one of the three
        cluster=span.cluster,
        topic=span.topic if of_partition else None,
        partition=span.number if of_partition else None,
        broker=span.number if of_broker else None,
        leader=span.leader,
        leader_epoch=span.leader_epoch,
        epoch_start=int(span.detail) if of_partition and span.detail else None,
        replicas=list(span.replicas),
        isr=list(span.isr),
        address=span.detail or None if of_broker else None,
        answers=not span.detail if span.subject == "cluster" else None,
        at=moment(span.at_ns),
        until=moment_or_none(span.until_ns),
    )
