"""GET unseen: how many acknowledged probes were unread, over time, from the probe log."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from api.judgement.known_places import must_exist
from api.problems import ProblemError, documented
from api.shapes import Moment, Partition, Shape, TopicName, moment, nanoseconds
from api.state import Shared, State
from storage.probe_log.windows import Unseen, Window, WindowTooLargeError, unseen_over_time

router = APIRouter(tags=["probes"], responses=documented(422, 503, 404))

BEHIND_NS = 60 * 10**9
"""The probe log lags by at most so much."""
BEFORE_NS = 300 * 10**9
"""Probes acknowledged at most so long before the window count as unread at its beginning."""
MOST_NS = 6 * 3600 * 10**9
MOST_POINTS = 400


class UnseenPoint(Shape):
    """At a moment, how many acknowledged probes a consumer had not read, and how old the oldest of them was."""

    at: Moment = Field(validation_alias="at_ns")
    unseen: int = Field(validation_alias="count")
    oldest_s: float


class UnseenSeries(Shape):
    """Unseen over time, of one partition and consumer."""

    topic: str
    partition: int
    consumer: str
    points: list[UnseenPoint]


class UnseenOut(Shape):
    """Unseen over time; ``complete_until``: the probe log is about a minute behind."""

    cluster: str
    complete_until: Moment
    items: list[UnseenSeries]


@router.get("/unseen", summary="Unread probes over time")
async def unseen(
    state: Shared,
    *,
    cluster: Annotated[str, Query(max_length=249)],
    topic: TopicName = None,
    partition: Partition = None,
    since: Annotated[datetime | None, Query(description="RFC 3339; an hour before until, if left out.")] = None,
    until: Annotated[datetime | None, Query(description="RFC 3339; a minute ago, if left out.")] = None,
    points: Annotated[int, Query(ge=2, le=MOST_POINTS, description="How many moments, evenly spread.")] = 60,
) -> UnseenOut:
    """Return, for each partition and consumer, the number of unread probes at moments of a window."""
    end = nanoseconds(until) or state.now_ns() - BEHIND_NS
    begin = nanoseconds(since) or end - 3600 * 10**9
    answer = await unseen_between(state, Window(cluster, begin, end, topic, partition), points)
    if not answer.items:
        await must_exist(state, cluster, topic, partition)
    return answer


async def unseen_between(state: State, window: Window, points: int) -> UnseenOut:
    """Return the series of a window.

    Raises:
        ProblemError: 422, the window is empty or too large.
    """
    begin, end = window.begin_ns, min(window.end_ns, state.now_ns() - BEHIND_NS)
    if not begin < end <= begin + MOST_NS:
        raise ProblemError(422, "query.since: it is before until and a minute ago, and at most six hours before.")
    if begin < -(2**62):
        raise ProblemError(422, "query.since: that is before the times that can be stored.")
    times = [begin + (end - begin) * number // (points - 1) for number in range(points)]
    wide = Window(window.cluster, begin - BEFORE_NS, end, window.topic, window.partition)
    nothing: dict[tuple[str, int, str], list[Unseen]] = {}
    try:
        found = await state.ask_log(window.cluster, nothing, lambda log: unseen_over_time(log.window(wide), times))
    except WindowTooLargeError as error:
        raise ProblemError(422, f"query: {error}.") from None
    items = [
        UnseenSeries.model_validate({"topic": topic, "partition": number, "consumer": consumer, "points": series})
        for (topic, number, consumer), series in found.items()
    ]
    return UnseenOut(cluster=window.cluster, complete_until=moment(end), items=items)
