"""GET violations/{id}/export, incidents/{id}/export, export: a history for any checker."""

import io
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.judgement.known_places import must_exist
from api.problems import ProblemError, documented
from api.rest.incidents import find_incident
from api.rest.violations import find_violation
from api.shapes import Partition, TopicName, nanoseconds
from api.state import Shared, State
from canary.history.writing import write_edn, write_jsonl
from storage.probe_log.windows import Window, WindowRows, WindowTooLargeError, as_history

router = APIRouter(tags=["export"], responses=documented(422, 503, 404))

Format = Annotated[Literal["jsonl", "edn"], Query(description="JSON Lines, or EDN as Jepsen writes it.")]
Around = Annotated[int, Query(ge=1, le=3600, description="Seconds before the first and after the last sighting.")]
KINDS = {"jsonl": ("application/x-ndjson", write_jsonl), "edn": ("application/edn", write_edn)}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {media_type: {"schema": {"type": "string"}} for media_type, _ in KINDS.values()},
        "description": "A history.",
    }
}
_file = partial(router.get, response_class=Response, responses=FILE)
MOST_S = 6 * 3600


@_file("/violations/{violation_id}/export", summary="The history around a violation")
async def export_violation(
    state: Shared,
    violation_id: str,
    *,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
    around: Around = 60,
) -> Response:
    """Return sends, transactions and polls of the violation's partition, from before its probe was sent."""
    row = await find_violation(state, violation_id)
    begin = row.first_seen_ns
    if (identity := row.identity) is not None:
        found = await state.ask_log(row.cluster, None, lambda log: log.find(identity))
        probe = (found or {}).get("probe") or {}
        begin = min(begin, nanoseconds(probe.get("sent_at")) or begin)
    window = Window(row.cluster, begin - around * 10**9, row.last_seen_ns + around * 10**9, row.topic, row.partition)
    return await _answer(state, window, format, f"violation-{violation_id}")


@_file("/incidents/{incident_id}/export", summary="The history around an incident")
async def export_incident(
    state: Shared,
    incident_id: str,
    *,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
    around: Around = 60,
) -> Response:
    """Return sends, transactions and polls of the incident's partition and time."""
    row = await find_incident(state, incident_id)
    window = Window(row.cluster, row.first_ns - around * 10**9, row.last_ns + around * 10**9, row.topic, row.partition)
    return await _answer(state, window, format, f"incident-{incident_id}")


@_file("/export", summary="The history of a time")
async def export_window(
    state: Shared,
    *,
    cluster: Annotated[str, Query(max_length=249)],
    start: Annotated[datetime, Query(alias="from", description="RFC 3339.")],
    end: Annotated[datetime, Query(alias="to", description="RFC 3339.")],
    topic: TopicName = None,
    partition: Partition = None,
    format: Format = "jsonl",  # noqa: A002  # its name in CONTRACTS
) -> Response:
    """Return sends, transactions and polls between two times."""
    window = Window(cluster, nanoseconds(start) or 0, nanoseconds(end) or 0, topic, partition)
    return await _answer(state, window, format, "history")


async def _answer(state: State, window: Window, kind: str, name: str) -> Response:
    if window.end_ns <= window.begin_ns:
        raise ProblemError(422, "query.to: it is not after from.")
    if window.end_ns - window.begin_ns > MOST_S * 10**9:
        raise ProblemError(422, f"query.to: at most {MOST_S // 3600} hours at once; `canary export` takes any time.")
    try:
        body = await state.ask_log(window.cluster, b"", lambda log: _written(log.window(window), kind))
    except WindowTooLargeError as error:
        raise ProblemError(422, f"query: {error}.") from None
    if not body:
        await must_exist(state, window.cluster, window.topic, window.partition)
    return Response(
        body, media_type=KINDS[kind][0], headers={"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    )


def _written(rows: WindowRows, kind: str) -> bytes:
    file = io.BytesIO()
    KINDS[kind][1](as_history(rows), file)
    return file.getvalue()
