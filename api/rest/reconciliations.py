"""GET reconciliations, reconciliations/{id}; POST reconciliations (a request that the scheduler acts on)."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status

from api.actions import note
from api.paging import Cursor, Limit
from api.places import find_cluster, must_exist
from api.ports import Reconciliation
from api.problems import RESPONSES, ProblemError
from api.shapes import Listing, ReconciliationOut, ReconciliationRequest, moment, moment_or_none
from api.state import state_of

_WAITS = "waits for a scheduler (`canary up`, `canary schedule`) that has the cluster in its settings"

router = APIRouter(prefix="/reconciliations", tags=["reconciliations"], responses={k: RESPONSES[k] for k in (422, 503)})


@router.get("", summary="Reconciliations, newest first", responses={404: RESPONSES[404]})
async def reconciliations(
    request: Request,
    *,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[ReconciliationOut]:
    """List what was reconciled, is being reconciled, or waits."""
    shared = state_of(request)
    page = await shared.calls(shared.store.reconciliations, cluster=cluster, cursor=cursor, limit=limit)
    if not page.items:
        await must_exist(shared, cluster)
    return Listing[ReconciliationOut](items=[_out(row) for row in page.items], next_cursor=page.next_cursor)


@router.get("/{reconciliation_id}", summary="One reconciliation", responses={404: RESPONSES[404]})
async def reconciliation(request: Request, reconciliation_id: str) -> ReconciliationOut:
    """Return one reconciliation with its summary (the table of call-me-maybe) and verdicts."""
    shared = state_of(request)
    row = await shared.calls(shared.store.reconciliation, reconciliation_id)
    if row is None:
        raise ProblemError(404, f"There is no reconciliation with the id {reconciliation_id!r}.")
    return _out(row)


@router.post(
    "", summary="Ask for a reconciliation", status_code=status.HTTP_202_ACCEPTED, responses={404: RESPONSES[404]}
)
async def request_reconciliation(
    request: Request, response: Response, body: ReconciliationRequest
) -> ReconciliationOut:
    """Ask the scheduler to reconcile a cluster now; returns at once."""
    shared = state_of(request)
    find_cluster(await shared.knowledge(), body.cluster)
    await note(request, "reconcile", f"cluster {body.cluster}")
    row = await shared.calls(shared.store.request_reconciliation, body.cluster, "api", shared.now_ns())
    response.headers["Location"] = f"/api/v1/reconciliations/{row.id}"
    return _out(row)


def _out(row: Reconciliation) -> ReconciliationOut:
    return ReconciliationOut(
        id=row.id,
        cluster=row.cluster,
        state=row.state,
        requested_by=row.requested_by,
        requested_at=moment(row.requested_ns),
        started_at=moment_or_none(row.started_ns),
        ended_at=moment_or_none(row.ended_ns),
        progress=_WAITS if row.state == "requested" else row.progress,
        summary=dict(row.summary),
        verdicts=dict(row.verdicts),
        report=row.report,
        error=row.error,
    )
