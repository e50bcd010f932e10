"""GET unseen: how many acknowledged probes were not yet read, over time, from the probe log."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request

from api.places import must_exist
from api.problems import RESPONSES, ProblemError
from api.shapes import UnseenOut, UnseenPoint, UnseenSeries, moment, nanoseconds
from api.state import State, state_of
from storage.probe_log.windows import Unseen, Window, WindowTooLargeError, unseen_over_time

router = APIRouter(tags=["probes"], responses={k: RESPONSES[k] for k in (422, 503)})

BEHIND_NS = 60 * 10**9
"""The probe log is so far behind at most."""
BEFORE_NS = 300 * 10**9
"""Probes acknowledged so long before the window and not yet read at its beginning are looked for."""
MOST_NS = 6 * 3600 * 10**9
MOST_POINTS = 400


@router.get("/unseen", summary="Unread probes over time", responses={404: RESPONSES[404]})
async def unseen(
    request: Request,
    *,
    cluster: Annotated[str, Query(max_length=249)],
    topic: Annotated[str | None, Query(max_length=249)] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    since: Annotated[datetime | None, Query(description="RFC 3339; an hour before until, if left out.")] = None,
    until: Annotated[datetime | None, Query(description="RFC 3339; a minute ago, if left out.")] = None,
    points: Annotated[int, Query(ge=2, le=MOST_POINTS, description="How many moments, evenly spread.")] = 60,
) -> UnseenOut:
    """Return, for each partition and consumer, what was acknowledged and not yet read at moments of a time."""
    state = state_of(request)
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
        found = await state.ask_log(
            window.cluster, nothing, lambda: unseen_over_time(state.probe_log.window(wide), times)
        )
    except WindowTooLargeError as error:
        raise ProblemError(422, f"query: {error}.") from None
    items = [
        UnseenSeries(
            topic=topic,
            partition=number,
            consumer=consumer,
            points=[UnseenPoint(at=moment(one.at_ns), unseen=one.count, oldest_s=one.oldest_s) for one in series],
        )
        for (topic, number, consumer), series in found.items()
    ]
    return UnseenOut(cluster=window.cluster, complete_until=moment(end), items=items)
