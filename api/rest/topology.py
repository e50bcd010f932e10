"""GET topology (the timeline), violations/{id}/exposure."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from api.calls import UnavailableError
from api.exposure import BEFORE_NS, exposure
from api.paging import Cursor, Limit
from api.places import must_exist
from api.ports import StoredViolation, TopologyFilter
from api.problems import RESPONSES
from api.shapes import Listing, Moment, Shape, moment, moment_or_none, nanoseconds
from api.state import State, state_of
from api.timeline import TopologyOut, topology_out
from api.violations import find_violation

_LATE = frozenset({"scrub", "reconcile"})
MOST_SPANS = 200_000
"""Of a window; more partitions than that are not compared."""

router = APIRouter(tags=["topology"], responses={k: RESPONSES[k] for k in (422, 503)})


class ExposedOut(Shape):
    """A partition that stood as the violated one stood."""

    topic: str
    partition: int
    leader: int
    isr: list[int]
    replicas: list[int]
    at: Moment
    until: Moment | None


class ExposureOut(Shape):
    """Where else to look. ``basis`` says what the partitions have in common with the violated one."""

    violation_id: str
    basis: Literal["same leader and shrunken ISR", "same leader", "unknown"]
    states: list[TopologyOut] = Field(description="The violated partition's, when it was in danger.")
    items: list[ExposedOut]
    next_cursor: None = None


@router.get(
    "/topology",
    summary="Leaders, replicas, brokers and controller over time, newest first",
    responses={404: RESPONSES[404]},
)
async def topology(
    request: Request,
    *,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    subject: Literal["partition", "broker", "controller"] | None = None,
    topic: Annotated[str | None, Query(max_length=249)] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    since: Annotated[datetime | None, Query(description="What was so at this time or later (RFC 3339).")] = None,
    until: Annotated[datetime | None, Query(description="What was so at this time or before (RFC 3339).")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[TopologyOut]:
    """List what was so, of every topic that is watched; only changes are kept."""
    state = state_of(request)
    kind = "partition" if subject is None and (topic is not None or partition is not None) else subject
    wanted = TopologyFilter(cluster, kind, topic, partition, nanoseconds(since), nanoseconds(until))
    page = await state.calls(state.store.topology, wanted, cursor, limit)
    if not page.items:
        await must_exist(state, cluster, topic, partition)
    return Listing[TopologyOut](items=[topology_out(span) for span in page.items], next_cursor=page.next_cursor)


@router.get(
    "/violations/{violation_id}/exposure", summary="Which other partitions to look at", responses={404: RESPONSES[404]}
)
async def exposed(request: Request, violation_id: str) -> ExposureOut:
    """Name every partition of every topic that had the same leader and the same shrunken ISR at the same time."""
    state = state_of(request)
    return await exposure_of(state, await find_violation(state, violation_id))


async def exposure_of(state: State, row: StoredViolation) -> ExposureOut:
    """Return what else was exposed when ``row`` was.

    Raises:
        UnavailableError: the store does not answer.
    """
    if row.partition is None:
        return ExposureOut(violation_id=row.id, basis="unknown", states=[], items=[])
    since_ns = await _promised_ns(state, row) - BEFORE_NS
    wanted = TopologyFilter(row.cluster, "partition", since_ns=since_ns, until_ns=row.first_seen_ns)
    spans = await state.calls(state.store.topology_spans, wanted, MOST_SPANS)
    found = exposure(row.topic, row.partition, row.first_seen_ns, spans)
    items = [
        ExposedOut(
            topic=one.topic,
            partition=one.partition,
            leader=one.leader,
            isr=list(one.isr),
            replicas=list(one.replicas),
            at=moment(one.at_ns),
            until=moment_or_none(one.until_ns),
        )
        for one in found.partitions
    ]
    return ExposureOut(
        violation_id=row.id,
        basis=found.basis,  # type: ignore[arg-type]  # one of the three
        states=[topology_out(span) for span in found.states],
        items=items,
    )


async def _promised_ns(state: State, row: StoredViolation) -> int:
    """Return since when a loss may have its cause: at a late look (a scrub, a night), since the write was acknowledged.

    Where the probe log does not answer or does not know the probe, it is when the violation was first seen.
    """
    if row.identity is None or not row.sightings or row.sightings[0].by not in _LATE:
        return row.first_seen_ns
    try:
        found = await state.ask_log(row.cluster, None, state.probe_log.find, row.identity)
    except UnavailableError:
        return row.first_seen_ns
    sent = (found or {}).get("probe") or {}
    acked = nanoseconds(sent.get("acked_at") or sent.get("sent_at"))
    return row.first_seen_ns if acked is None else min(acked, row.first_seen_ns)
