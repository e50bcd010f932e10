"""GET reconciliations, reconciliations/{id}, its report; POST reconciliations (a request to the scheduler)."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response, status
from pydantic import ConfigDict, Field

from api.access.record import note
from api.judgement.known_places import find, find_cluster, must_exist
from api.problems import ProblemError, documented
from api.shapes import ClusterName, Cursor, Limit, Listing, Moment, Shape
from api.state import Shared
from storage.store.values import Reconciliation

_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
"""The page has its styles in itself, and no scripts."""
_WAITS = "waits for a scheduler (`canary up`, `canary schedule`) that has the cluster in its settings"

router = APIRouter(prefix="/reconciliations", tags=["reconciliations"], responses=documented(422, 503, 404))


class ReconciliationOut(Shape):
    """A nightly or requested reconciliation."""

    id: str
    cluster: str
    state: str
    requested_by: str
    requested_at: Moment = Field(validation_alias="requested_ns")
    started_at: Moment | None = Field(validation_alias="started_ns")
    ended_at: Moment | None = Field(validation_alias="ended_ns")
    progress: str | None
    summary: dict[str, Any]
    verdicts: dict[str, Any]
    report: str | None
    error: str | None
    interrupted: int = Field(description="How often it has begun again, because the process that ran it was ended.")


class ReconciliationRequest(Shape):
    """The cluster to reconcile."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cluster": "prod-eu"}]})

    cluster: str = Field(min_length=1, max_length=249)


@router.get("", summary="Reconciliations, newest first")
async def reconciliations(
    shared: Shared, *, cluster: ClusterName = None, cursor: Cursor = None, limit: Limit = 100
) -> Listing[ReconciliationOut]:
    """List finished, running and requested reconciliations."""
    page = await shared.calls(shared.store.reconciliations.page, cluster=cluster, cursor=cursor, limit=limit)
    if not page.items:
        await must_exist(shared, cluster)
    return Listing[ReconciliationOut](items=[_out(row) for row in page.items], next_cursor=page.next_cursor)


@router.get("/{reconciliation_id}", summary="One reconciliation")
async def reconciliation(shared: Shared, reconciliation_id: str) -> ReconciliationOut:
    """Return one reconciliation with its summary (the table of call-me-maybe) and verdicts."""
    return _out(await find(shared, shared.store.reconciliations, "reconciliation", reconciliation_id))


@router.get(
    "/{reconciliation_id}/report",
    summary="Its report",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "A page."}},
)
async def report(shared: Shared, reconciliation_id: str) -> Response:
    """Return the page that a reconciliation made: its table, losses, anomalies and cases, in HTML without scripts.

    The last 30 reports of a cluster are kept. Its numbers as JSON: GET reconciliations/{reconciliation_id}.
    """
    row = await find(shared, shared.store.reconciliations, "reconciliation", reconciliation_id)
    page = await shared.calls(shared.store.reconciliations.report, reconciliation_id)
    if page is None:
        place = f"; it was written to {row.report} where the scheduler runs" if row.report else ""
        raise ProblemError(404, f"No report of this reconciliation ({row.state}) is kept here{place}.")
    return Response(page, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _REPORT_POLICY})


@router.post("", summary="Request a reconciliation", status_code=status.HTTP_202_ACCEPTED)
async def request_reconciliation(
    request: Request, shared: Shared, response: Response, body: ReconciliationRequest
) -> ReconciliationOut:
    """Request that the scheduler reconciles a cluster now; returns at once."""
    find_cluster(await shared.knowledge(), body.cluster)
    await note(request, "reconcile", f"cluster {body.cluster}")
    row = await shared.calls(shared.store.reconciliations.request, body.cluster, "api", shared.now_ns())
    response.headers["Location"] = f"/api/v1/reconciliations/{row.id}"
    return _out(row)


def _out(row: Reconciliation) -> ReconciliationOut:
    return ReconciliationOut.model_validate(replace(row, progress=_WAITS) if row.state == "requested" else row)
