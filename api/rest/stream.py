"""GET stream: violations as they are found or change, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header
from starlette.responses import StreamingResponse

from api.problems import ProblemError, documented
from api.rest.violations import ViolationOut
from api.state import Shared, State
from api.store_calls import UnavailableError
from storage.store.values import StoredViolation

router = APIRouter(tags=["violations"])

LOOK_S = 1.0
NEWEST = 200
BEAT_S = 15.0
LONGEST_S = 300.0
"""After so long the connection ends; the client connects again, which checks its token."""
MOST = 100


@router.get(
    "/stream",
    summary="Violations as they are found or change (server-sent events)",
    response_class=StreamingResponse,
    responses=documented(503) | {200: {"content": {"text/event-stream": {}}, "description": "Events."}},
)
async def stream(
    shared: Shared,
    last_event_id: Annotated[str | None, Header(pattern=r"^\d{1,19}$", description="The id of the last event.")] = None,
) -> StreamingResponse:
    """Send an event `violation` (data: a violation as in the list) for each one that is new or changes.

    The event's id is the time of the first sighting, in ns. Sent back as Last-Event-ID, newer violations (of the last
    200) come first.
    """
    if len(shared.streams.open) >= MOST:
        raise ProblemError(503, f"{MOST} streams are open already; poll GET /api/v1/violations instead.")
    known = {row.id: _marks(row) for row in await _newest(shared)}
    if last_event_id is not None:
        for row in shared.streams.rows:
            if row.first_seen_ns > int(last_event_id):
                known.pop(row.id, None)
    return StreamingResponse(
        _events(shared, known), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _events(shared: State, known: dict[str, tuple[object, ...]]) -> AsyncIterator[bytes]:
    this = object()
    shared.streams.open.add(this)
    began = said = time.monotonic()
    try:
        yield b"retry: 2000\n\n"
        while time.monotonic() - began < LONGEST_S:
            try:
                rows = await _newest(shared)
            except UnavailableError:
                rows = []
            for row in sorted(rows, key=lambda row: row.first_seen_ns):
                if known.get(row.id) != _marks(row):
                    known[row.id] = _marks(row)
                    data = orjson.dumps(ViolationOut.model_validate(row).model_dump(mode="json"))
                    said = time.monotonic()
                    yield b"event: violation\nid: %d\ndata: %s\n\n" % (row.first_seen_ns, data)
            if time.monotonic() - said >= BEAT_S:
                said = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(LOOK_S)
    finally:
        shared.streams.open.discard(this)


async def _newest(shared: State) -> list[StoredViolation]:
    """Return the newest violations; all streams share one query a half second."""
    streams = shared.streams
    async with streams.lock:
        if time.monotonic() - streams.looked >= LOOK_S / 2:
            page = await shared.calls(shared.store.violations.page, None, None, NEWEST)
            streams.rows, streams.looked = page.items, time.monotonic()
        return streams.rows


def _marks(row: StoredViolation) -> tuple[object, ...]:
    return row.state, row.severity, row.summary
