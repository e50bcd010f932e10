"""The status page, a violation's page, and the description of the API: plain HTML that needs no script."""

import time
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from api.judgement.safety import judge, lost_writes, overall
from api.knowledge.evidence import Survived, survived
from api.knowledge.views import ClusterView
from api.pages.rendering import missing, render, unavailable
from api.rest.clusters import ProbeCounts, summarise
from api.rest.violations import evidence_of
from api.state import Knowledge, Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics.statistics import loss_rate_upper_95
from storage.store.values import StoredViolation, TopologyFilter, ViolationFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

REFRESH_S = 5
SURVIVED_S = 30.0
SPANS = 20_000
SHOWN = 20
"""Open violations on the status page; REST lists all."""
RANK = {"critical": 0, "warning": 1, "info": 2}


@router.get("/")
async def status(state: Shared, refresh: Annotated[Literal["on", "off"], Query()] = "on") -> HTMLResponse:
    """Answer whether the data is safe, then show what the answer rests on."""
    seconds = REFRESH_S if refresh == "on" else 0
    try:
        knowledge = await state.knowledge()
        open_ones = await _open_violations(state)
    except UnavailableError as error:
        return unavailable(error, refresh=seconds)
    views = list(knowledge.clusters.values())
    judgements = [judge(view, knowledge) for view in views]
    summaries = [summarise(view, knowledge) for view in views]
    return render(
        "status.html",
        refresh=seconds,
        judgement=overall(judgements),
        clusters=[
            {
                "view": view,
                "judgement": judgement,
                "summary": summary,
                "consumers": sorted({name for row in view.partitions for name in row.consumers}),
            }
            for view, judgement, summary in zip(views, judgements, summaries, strict=True)
        ],
        totals=_totals(knowledge, [one.probes for one in summaries]),
        survived=await _survived(state, views),
        violations=_grouped(open_ones[:SHOWN]),
        more=len(open_ones) > SHOWN,
    )


@router.get("/violations/{violation_id}")
async def violation(state: Shared, violation_id: str) -> HTMLResponse:
    """Show one violation: what it means, what to do first, and the evidence."""
    try:
        row = await state.calls(state.store.violations.get, violation_id)
    except UnavailableError as error:
        return unavailable(error, refresh=REFRESH_S)
    if row is None:
        return missing(f"a violation with the id {violation_id}")
    evidence = evidence_of(row)
    return render(
        "violation.html",
        refresh=0,
        violation=row,
        entry=CATALOGUE.get(row.kind),
        plain=[(name, _plain(value)) for name, value in evidence.items() if not isinstance(value, dict | list)],
        nested=[(name, _pretty(value)) for name, value in evidence.items() if isinstance(value, dict | list)],
    )


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Describe REST from its OpenAPI document; the usual viewers load scripts from other sites."""
    document = request.app.openapi()
    operations = [
        {"path": path, "method": method.upper(), **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return render("docs.html", refresh=0, operations=operations, info=document["info"])


async def _survived(state: State, views: list[ClusterView]) -> Survived:
    """Return the faults that all clusters have been through; read from the store every half minute."""
    memory = state.survived
    if time.monotonic() - memory.looked > SURVIVED_S:
        found: list[Survived] = []
        for view in views:
            topics = frozenset(row.topic for row in view.topics)
            for subject in ("partition", "broker"):
                wanted = TopologyFilter(cluster=view.name, subject=subject)
                spans = await state.calls(state.store.topology.spans, wanted, SPANS)
                found.append(survived(spans, topics))
        memory.looked, memory.value = time.monotonic(), Survived(*map(sum, zip(*found, strict=True)))
    return memory.value


async def _open_violations(state: State) -> list[StoredViolation]:
    page = await state.calls(
        state.store.violations.page, ViolationFilter(state="open", severity="critical"), None, SHOWN + 1
    )
    found = list(page.items)
    if len(found) <= SHOWN:
        rest = await state.calls(state.store.violations.page, ViolationFilter(state="open"), None, 200)
        found += [row for row in rest.items if row.severity != "critical"]
    return sorted(found, key=lambda row: (RANK.get(row.severity, 3), -row.first_seen_ns))


def _grouped(rows: list[StoredViolation]) -> dict[tuple[str, str, str], list[StoredViolation]]:
    """Return the violations by severity, kind and cluster: each group has its advice once."""
    groups: dict[tuple[str, str, str], list[StoredViolation]] = {}
    for row in rows:
        groups.setdefault((row.severity, row.kind, row.cluster), []).append(row)
    return groups


def _totals(knowledge: Knowledge, probes: list[ProbeCounts]) -> dict[str, Any]:
    """Return the numbers for all clusters together."""
    views = knowledge.clusters.values()
    acked = sum(one.acked for one in probes)
    lost = sum(lost_writes(view.name, knowledge.groups) for view in views)
    return {
        "acked": acked,
        "lost": lost,
        "bound": loss_rate_upper_95(min(lost, acked), acked),
        "since_ns": min((view.since_ns for view in views if view.since_ns is not None), default=None),
        "seen": sum(one.seen for one in probes),
        "unseen": sum(one.unseen for one in probes),
        "open": sum(row.open for row in knowledge.counts),
    }


def _plain(value: object) -> object:
    return {True: "yes", False: "no", None: "not known"}[value] if value is None or isinstance(value, bool) else value


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
