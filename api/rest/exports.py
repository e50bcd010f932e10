"""GET violations/{id}/export, incidents/{id}/export, export: what happened, as a history for any checker."""

import io
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.places import must_exist
from api.problems import RESPONSES, ProblemError
from api.shapes import nanoseconds
from api.state import State, state_of
from api.violations import find_violation
from canary.history import write_jsonl
from canary.history.edn_writing import write_edn
from storage.probe_log.windows import Window, WindowTooLargeError, as_history

router = APIRouter(tags=["export"], responses={k: RESPONSES[k] for k in (422, 503)})

Format = Annotated[Literal["jsonl", "edn"], Query(description="JSON Lines, or EDN as Jepsen writes it.")]
Around = Annotated[int, Query(ge=1, le=3600, description="Seconds before the first and after the last sighting.")]
KINDS = {"jsonl": ("application/x-ndjson", write_jsonl), "edn": ("application/edn", write_edn)}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}},
            "application/edn": {"schema": {"type": "string"}},
        },
        "description": "A history.",
    }
}
MOST_S = 6 * 3600


@router.get(
    "/violations/{violation_id}/export",
    summary="The history around a violation",
    response_class=Response,
    responses={404: RESPONSES[404], **FILE},
)
async def export_violation(
    request: Request,
    violation_id: str,
    *,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
    around: Around = 60,
) -> Response:
    """Return sends, transactions and polls of the violation's partition, from before its probe was sent."""
    state = state_of(request)
    row = await find_violation(state, violation_id)
    begin = row.first_seen_ns
    if row.identity is not None:
        found = await state.ask_log(row.cluster, None, state.probe_log.find, row.identity)
        probe = (found or {}).get("probe") or {}
        begin = min(begin, nanoseconds(probe.get("sent_at")) or begin)
    window = Window(row.cluster, begin - around * 10**9, row.last_seen_ns + around * 10**9, row.topic, row.partition)
    return await _answer(state, window, format, f"violation-{violation_id}")


@router.get(
    "/incidents/{incident_id}/export",
    summary="The history around an incident",
    response_class=Response,
    responses={404: RESPONSES[404], **FILE},
)
async def export_incident(
    request: Request,
    incident_id: str,
    *,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
    around: Around = 60,
) -> Response:
    """Return sends, transactions and polls of the incident's partition and time."""
    state = state_of(request)
    row = await state.calls(state.store.incident, incident_id)
    if row is None:
        raise ProblemError(404, f"There is no incident with the id {incident_id!r}.")
    window = Window(row.cluster, row.first_ns - around * 10**9, row.last_ns + around * 10**9, row.topic, row.partition)
    return await _answer(state, window, format, f"incident-{incident_id}")


@router.get(
    "/export",
    summary="The history of a time",
    response_class=Response,
    responses={404: RESPONSES[404], **FILE},
)
async def export_window(
    request: Request,
    *,
    cluster: Annotated[str, Query(max_length=249)],
    start: Annotated[datetime, Query(alias="from", description="RFC 3339.")],
    end: Annotated[datetime, Query(alias="to", description="RFC 3339.")],
    topic: Annotated[str | None, Query(max_length=249)] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
) -> Response:
    """Return sends, transactions and polls between two times."""
    window = Window(cluster, nanoseconds(start) or 0, nanoseconds(end) or 0, topic, partition)
    return await _answer(state_of(request), window, format, "history")


async def _answer(state: State, window: Window, kind: str, name: str) -> Response:
    if window.end_ns <= window.begin_ns:
        raise ProblemError(422, "query.to: it is not after from.")
    if window.end_ns - window.begin_ns > MOST_S * 10**9:
        raise ProblemError(422, f"query.to: at most {MOST_S // 3600} hours at once; `canary export` takes any time.")
    media_type, write = KINDS[kind]

    def written() -> bytes:
        file = io.BytesIO()
        write(as_history(state.probe_log.window(window)), file)
        return file.getvalue()

    try:
        body = await state.ask_log(window.cluster, b"", written)
    except WindowTooLargeError as error:
        raise ProblemError(422, f"query: {error}.") from None
    if not body:
        await must_exist(state, window.cluster, window.topic, window.partition)
    return Response(
        body, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    )
