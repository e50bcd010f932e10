"""What people do with the canary: GET actions, the record of it; GET drills, drills of live clusters.

POST drills/paged is the webhook by which Alertmanager proves that a drill's page has left.
"""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from api.access.record import note
from api.problems import documented
from api.shapes import Cursor, Limit, Listing, Moment, Shape
from api.state import Shared
from storage.store.values import Action

router = APIRouter(tags=["actions"], responses=documented(422, 503))

DRILL_ALERT = "CanaryDrill"
"""The alert whose page is proven."""


class ActionOut(Shape):
    """An action of a person."""

    id: str
    at: Moment = Field(validation_alias="at_ns")
    actor: str = Field(description="The token's name, or the name in the JWT.")
    action: str
    target: str
    address: str | None = Field(None, description="Where it came from; null: the command line.")
    forwarded_for: str | None = Field(None, description="The X-Forwarded-For header; unproven.")
    detail: dict[str, Any]


@router.get("/actions", summary="What people did, newest first")
async def actions(shared: Shared, cursor: Cursor = None, limit: Limit = 100) -> Listing[ActionOut]:
    """List what was acknowledged, resolved, planned or requested, by which actor; failed attempts are "refused"."""
    page = await shared.calls(shared.store.actions.page, cursor, limit)
    return Listing[ActionOut](items=[_out(row) for row in page.items], next_cursor=page.next_cursor)


def _out(row: Action) -> ActionOut:
    detail = dict(row.detail)
    source = {name: detail.pop(name, None) for name in ("address", "forwarded_for")}
    return ActionOut.model_validate(asdict(row) | source | {"detail": detail})


class DrillOut(Shape):
    """A drill of a live cluster; a moment is null as long as that has not happened."""

    id: str
    cluster: str
    name: str
    topic: str
    began_at: Moment = Field(validation_alias="began_ns")
    until_at: Moment = Field(validation_alias="until_ns", description="It is over by then, however it ends.")
    knowable_at: Moment | None = Field(validation_alias="knowable_ns", description="A direct client could know.")
    detected_at: Moment | None = Field(validation_alias="detected_ns", description="A runner reported it.")
    paged_at: Moment | None = Field(validation_alias="paged_ns", description="The pager's webhook came back.")
    ended_at: Moment | None = Field(validation_alias="ended_ns")
    error: str | None = Field(description="Why it failed; null: it did not.")
    requested_by: str
    harmed: dict[str, list[int]] = Field(description="By partition, the offsets that it wrote or destroyed.")


class Alert(Shape):
    """An alert in Alertmanager's notification; what else it holds is ignored."""

    model_config = ConfigDict(extra="ignore")

    status: str
    labels: dict[str, str]


class Notification(Shape):
    """Alertmanager's webhook, version 4; what else it holds is ignored."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"alerts": [{"status": "firing", "labels": {"alertname": DRILL_ALERT, "cluster": "prod-eu"}}]}]
        },
    )

    alerts: list[Alert]


class Proven(Shape):
    """How many running drills this notification proves the page of."""

    drills: int


@router.get("/drills", summary="Drills of live clusters, the latest first")
async def drills(shared: Shared, cursor: Cursor = None, limit: Limit = 100) -> Listing[DrillOut]:
    """List drills, also those that failed."""
    page = await shared.calls(shared.store.drills.page, cursor, limit)
    return Listing[DrillOut](
        items=[DrillOut.model_validate(asdict(row)) for row in page.items], next_cursor=page.next_cursor
    )


@router.post("/drills/paged", summary="Alertmanager's webhook: the page of a drill has left")
async def paged(request: Request, shared: Shared, body: Notification) -> Proven:
    """Take a notification. Of its alerts only a drill's that fires counts, and only while that drill runs."""
    firing = [
        one.labels for one in body.alerts if one.status == "firing" and one.labels.get("alertname") == DRILL_ALERT
    ]
    proven = 0
    for cluster in sorted({labels.get("cluster", "") for labels in firing}):
        await note(request, "drill-paged", f"cluster {cluster}")
        proven += await shared.calls(shared.store.drills.paged, cluster, shared.now_ns())
    return Proven(drills=proven)
