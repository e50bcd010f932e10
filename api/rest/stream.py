"""GET stream: violations as they are found or change, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from api.calls import UnavailableError
from api.ports import StoredViolation
from api.problems import RESPONSES, ProblemError
from api.state import State, state_of
from api.violations import violation_out

router = APIRouter(tags=["violations"])

LOOK_S = 1.0
NEWEST = 200
BEAT_S = 15.0
LONGEST_S = 300.0
"""After so long the connection ends and the client makes another one, with its token looked at again."""
MOST = 100


@router.get(
    "/stream",
    summary="Violations as they are found or change (server-sent events)",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events."}, 503: RESPONSES[503]},
)
async def stream(
    request: Request,
    last_event_id: Annotated[str | None, Header(pattern=r"^\d{1,19}$", description="What came last.")] = None,
) -> StreamingResponse:
    """Send an event `violation` (its data is one as in the list) for each new one and each that changes.

    The id is the time it was first seen, in ns: sent back as Last-Event-ID, newer ones (of the last 200) come first.
    """
    shared = state_of(request)
    if shared.streams.open >= MOST:
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
    shared.streams.open += 1
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
                    data = orjson.dumps(violation_out(row).model_dump(mode="json"))
                    said = time.monotonic()
                    yield b"event: violation\nid: %d\ndata: %s\n\n" % (row.first_seen_ns, data)
            if time.monotonic() - said >= BEAT_S:
                said = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(LOOK_S)
    finally:
        shared.streams.open -= 1


async def _newest(shared: State) -> list[StoredViolation]:
    """Return the newest violations; all streams of a second share one look."""
    streams = shared.streams
    async with streams.lock:
        if time.monotonic() - streams.looked >= LOOK_S / 2:
            page = await shared.calls(shared.store.violations, None, None, NEWEST)
            streams.rows, streams.looked = page.items, time.monotonic()
        return streams.rows


def _marks(row: StoredViolation) -> tuple[object, ...]:
    return row.state, row.severity, row.summary
