"""GET topology (the timeline), violations/{id}/exposure."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from api.judgement.briefing import brokers_between
from api.judgement.exposure import BEFORE_NS, exposure
from api.judgement.known_places import must_exist
from api.judgement.timeline import TopologyOut, spans_of, topology_out
from api.knowledge.outages import outages
from api.problems import documented
from api.rest.violations import find_violation
from api.shapes import ClusterName, Cursor, Limit, Listing, Moment, Partition, Shape, TopicName, nanoseconds
from api.state import Shared, State
from api.store_calls import UnavailableError
from storage.store.values import StoredViolation, TopologyFilter

_LATE = frozenset({"scrub", "reconcile"})
MOST_SPANS = 200_000
"""At most so many states of a window are compared."""

router = APIRouter(tags=["topology"], responses=documented(422, 503, 404))


class ExposedOut(Shape):
    """A partition in the same state as the violated one."""

    topic: str
    partition: int = Field(validation_alias="number")
    leader: int
    isr: list[int]
    replicas: list[int]
    at: Moment = Field(validation_alias="at_ns")
    until: Moment | None = Field(validation_alias="until_ns")


class ExposureOut(Shape):
    """Other partitions to check; ``basis``: what they have in common with the violated one."""

    violation_id: str
    basis: Literal[
        "in-sync replicas all gone or out of reach at once",
        "leader gone in the same outage",
        "same leader and shrunken ISR",
        "same leader",
        "unknown",
    ]
    states: list[TopologyOut] = Field(description="The states of the violated partition when it was in danger.")
    items: list[ExposedOut]
    total: int = Field(description="How many partitions these are.")
    truncated: bool = Field(
        description=f"Whether the timeline has more than {MOST_SPANS:,} states then: the newest of them were compared, "
        "and there may be more partitions."
    )
    next_cursor: None = None


@router.get("/topology", summary="Leaders, replicas, brokers and controller over time, newest first")
async def topology(
    state: Shared,
    *,
    cluster: ClusterName = None,
    subject: Literal["partition", "broker", "controller", "cluster"] | None = None,
    topic: TopicName = None,
    partition: Partition = None,
    since: Annotated[datetime | None, Query(description="In force at this time or later (RFC 3339).")] = None,
    until: Annotated[datetime | None, Query(description="In force at this time or before (RFC 3339).")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[TopologyOut]:
    """List the states of all topics that are watched; a state lasts until the next change."""
    kind = "partition" if subject is None and (topic is not None or partition is not None) else subject
    wanted = TopologyFilter(cluster, kind, topic, partition, nanoseconds(since), nanoseconds(until))
    page = await state.calls(state.store.topology.page, wanted, cursor, limit)
    if not page.items:
        await must_exist(state, cluster, topic, partition)
    return Listing[TopologyOut](items=[topology_out(span) for span in page.items], next_cursor=page.next_cursor)


@router.get("/violations/{violation_id}/exposure", summary="Other partitions to check")
async def exposed(state: Shared, violation_id: str) -> ExposureOut:
    """Name every partition of every topic that had the same leader and the same shrunken ISR at the same time.

    Where several brokers were gone in one outage: every partition that had no in-sync replica beside them.
    """
    return await exposure_of(state, await find_violation(state, violation_id))


async def exposure_of(state: State, row: StoredViolation) -> ExposureOut:
    """Return the partitions that were exposed when that of ``row`` was.

    Raises:
        UnavailableError: the store does not answer.
    """
    if row.partition is None:
        return ExposureOut(violation_id=row.id, basis="unknown", states=[], items=[], total=0, truncated=False)
    since_ns = await _promised_ns(state, row) - BEFORE_NS
    wanted = TopologyFilter(row.cluster, "partition", since_ns=since_ns, until_ns=row.first_seen_ns)
    spans = await spans_of(state, [wanted], MOST_SPANS)
    brokers = await brokers_between(state, row.cluster, since_ns, row.first_seen_ns)
    lost = outages(brokers.items, since_ns, row.first_seen_ns)
    found = exposure(row.topic, row.partition, row.first_seen_ns, spans.items, lost)
    return ExposureOut(
        violation_id=row.id,
        basis=found.basis,  # type: ignore[arg-type]  # one of these
        states=[topology_out(span) for span in found.states],
        items=[ExposedOut.model_validate(one) for one in found.partitions],
        total=len(found.partitions),
        truncated=spans.truncated or brokers.truncated,
    )


async def _promised_ns(state: State, row: StoredViolation) -> int:
    """Return the earliest time of a loss's cause.

    Found by a scrub or at night, that is when the write was acknowledged; else, and if the probe log does not know the
    probe or does not answer, when the violation was first seen.
    """
    identity = row.identity
    if identity is None or not row.sightings or row.sightings[0].by not in _LATE:
        return row.first_seen_ns
    try:
        found = await state.ask_log(row.cluster, None, lambda log: log.find(identity))
    except UnavailableError:
        return row.first_seen_ns
    sent = (found or {}).get("probe") or {}
    acked = nanoseconds(sent.get("acked_at") or sent.get("sent_at"))
    return row.first_seen_ns if acked is None else min(acked, row.first_seen_ns)
