"""GET audit: unsafe settings of clusters and topics, as the runners last found them."""

from dataclasses import asdict

from fastapi import APIRouter
from pydantic import Field

from api.judgement.known_places import must_exist
from api.knowledge.views import readable
from api.problems import documented
from api.shapes import ClusterName, Moment, Shape, moment
from api.state import Shared
from canary.anomalies.anomaly import Severity
from canary.metrics.findings import Audit

router = APIRouter(tags=["audit"], responses=documented(422, 503, 404))


class FindingOut(Shape):
    """An unsafe setting."""

    cluster: str
    check: str = Field(description="Name of the check.")
    severity: Severity
    where: str = Field(description="The topic, brokers or cluster.")
    found: str = Field(description="What it is.")
    why: str = Field(description="Why it matters.")
    change: str = Field(description="How to change it.")


class NoteOut(Shape):
    """Not a finding: a risk that every cluster has, or a part that could not be audited."""

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


@router.get("/audit", summary="What is unsafe about the settings")
async def audit(state: Shared, cluster: ClusterName = None) -> AuditOut:
    """List the findings of each cluster's last audit."""
    latest: dict[str, Audit] = {}
    for row, shown in readable(await state.calls(state.store.views.all)):
        known = latest.get(row.cluster)
        if shown.audit and cluster in {None, row.cluster} and (known is None or known.at_ns < shown.audit.at_ns):
            latest[row.cluster] = shown.audit
    if not latest:
        await must_exist(state, cluster)
    return AuditOut(
        items=[FindingOut(cluster=name, **asdict(one)) for name, found in latest.items() for one in found.findings],
        notes=[NoteOut(cluster=name, **asdict(one)) for name, found in latest.items() for one in found.notes],
        audited=[AuditedOut(cluster=name, at=moment(found.at_ns)) for name, found in latest.items()],
    )
