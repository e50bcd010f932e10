"""GET audit: what is unsafe about clusters and topics as they are set, as the runners last found it."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import Field

from api.places import must_exist
from api.problems import RESPONSES
from api.shapes import Moment, Severity, Shape, moment
from api.state import state_of

router = APIRouter(tags=["audit"], responses={k: RESPONSES[k] for k in (422, 503)})


class FindingOut(Shape):
    """One thing that is set unsafely."""

    cluster: str
    check: str = Field(description="Name of the check.")
    severity: Severity
    where: str = Field(description="The topic, brokers or cluster.")
    found: str = Field(description="What it is.")
    why: str = Field(description="Why it matters.")
    change: str = Field(description="How to change it.")


class NoteOut(Shape):
    """What is worth knowing and no finding: a risk that is taken everywhere, or what could not be looked at."""

    cluster: str
    where: str
    text: str


class AuditedOut(Shape):
    """When a cluster was last audited."""

    cluster: str
    at: Moment


class AuditOut(Shape):
    """The last audit of each cluster."""

    items: list[FindingOut]
    notes: list[NoteOut]
    audited: list[AuditedOut]
    next_cursor: None = None


@router.get("/audit", summary="What is unsafe about the settings", responses={404: RESPONSES[404]})
async def audit(request: Request, cluster: Annotated[str | None, Query(max_length=249)] = None) -> AuditOut:
    """List the findings of each cluster's last audit."""
    state = state_of(request)
    latest: dict[str, dict[str, Any]] = {}
    for view in await state.calls(state.store.views):
        found = orjson.loads(view.view).get("audit")
        known = latest.get(view.cluster)
        if found and cluster in (None, view.cluster) and (known is None or known["at_ns"] < found["at_ns"]):
            latest[view.cluster] = found
    if not latest:
        await must_exist(state, cluster)
    return AuditOut(
        items=[FindingOut(cluster=name, **one) for name, found in latest.items() for one in found["findings"]],
        notes=[NoteOut(cluster=name, **one) for name, found in latest.items() for one in found["notes"]],
        audited=[AuditedOut(cluster=name, at=moment(found["at_ns"])) for name, found in latest.items()],
    )
