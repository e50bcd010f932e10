"""The status page, a violation's page, and the description of the API: plain HTML that needs no script."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from api.judgement.durability import lost_writes, stated, verified_writes
from api.judgement.lost_ranges import lost_ranges
from api.judgement.safety import overall
from api.knowledge.evidence import Survived, survived
from api.knowledge.views import ClusterView
from api.openapi import body_of, operations
from api.pages.clusters import Shown, shown
from api.pages.rendering import missing, render, unavailable
from api.rest.violations import evidence_of
from api.state import Knowledge, Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from storage.store.values import StoredViolation, TopologyFilter, ViolationFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

REFRESH_S = 5
SURVIVED_S = 30.0
SPANS = 20_000
SHOWN = 20
"""Lines about open violations on the status page; REST lists all."""
READ = 300
"""Open violations of each severity that are read for them."""
RANK = {"critical": 0, "warning": 1, "info": 2}


@router.get("/")
async def status(state: Shared, refresh: Annotated[Literal["on", "off"], Query()] = "on") -> HTMLResponse:
    """Answer whether the data is safe, then show what the answer rests on."""
    seconds = REFRESH_S if refresh == "on" else 0
    try:
        knowledge = await state.knowledge()
        clusters = await shown(state, knowledge, knowledge.clusters.values())
        open_ones, unread = await _open_violations(state)
    except UnavailableError as error:
        return unavailable(error, refresh=seconds)
    cases, more = _grouped(open_ones, more=unread)
    return render(
        "status.html",
        refresh=seconds,
        judgement=overall([one.judgement for one in clusters]),
        clusters=clusters,
        well=[one for one in clusters if one.well],
        totals=_totals(knowledge, clusters),
        survived=await _survived(state, list(knowledge.clusters.values())),
        violations=cases,
        more=more,
    )


@router.get("/violations/{violation_id}")
async def violation(state: Shared, violation_id: str) -> HTMLResponse:
    """Show one violation: what it means, what to do first, and the evidence."""
    try:
        row = await state.calls(state.store.violations.get, violation_id)
    except UnavailableError as error:
        return unavailable(error, refresh=REFRESH_S)
    if row is None:
        return missing(f"violation with the id {violation_id}")
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
    shown = [
        {"path": path, "method": method.upper(), "body": body_of(document, operation), **operation}
        for path, method, operation in operations(document)
    ]
    schemes = document["components"]["securitySchemes"]
    return render("docs.html", refresh=0, operations=shown, info=document["info"], schemes=schemes)


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


@dataclass(frozen=True, slots=True)
class Case:
    """A line about open violations: one, or a range of lost writes."""

    first: StoredViolation
    words: str


async def _open_violations(state: State) -> tuple[list[StoredViolation], bool]:
    """Return open violations, critical ones first, and whether there are more than were read."""
    found: list[StoredViolation] = []
    more = False
    for severity in RANK:
        wanted = ViolationFilter(state="open", severity=severity)
        page = await state.calls(state.store.violations.page, wanted, None, READ)
        found += page.items
        more = more or page.next_cursor is not None
    return sorted(found, key=lambda row: (RANK[row.severity], -row.first_seen_ns)), more


def _grouped(rows: Sequence[StoredViolation], *, more: bool) -> tuple[dict[tuple[str, str, str], list[Case]], bool]:
    """Return lines by severity, kind and cluster, each group with its advice once; and whether some are left out."""
    groups: dict[tuple[str, str, str], list[StoredViolation]] = {}
    for row in rows:
        groups.setdefault((row.severity, row.kind, row.cluster), []).append(row)
    shown: dict[tuple[str, str, str], list[Case]] = {}
    left = SHOWN
    for key, members in groups.items():
        cases = _cases(members, more=more)
        if left > 0:
            shown[key] = cases[:left]
        more = more or len(cases) > left
        left -= len(cases)
    return shown, more


def _cases(rows: Sequence[StoredViolation], *, more: bool) -> list[Case]:
    ranges = {one.first.id: one for one in lost_ranges(rows)}
    if not ranges:
        return [Case(row, row.summary) for row in rows]
    least = "at least " if more else ""
    found = [Case(one.first, f"{least}{one.sentence}") for one in ranges.values()]
    return sorted(found, key=lambda case: -case.first.first_seen_ns)


def _totals(knowledge: Knowledge, clusters: list[Shown]) -> dict[str, Any]:
    """Return the numbers for all clusters together; a probe that several consumers have read is read back once."""
    views = [one.view for one in clusters]
    acked = sum(one.summary.probes.acked for one in clusters)
    silent = any(view.unread is None and view.runners for view in views)
    lost = sum(lost_writes(view.name, knowledge.groups) for view in views)
    verified = sum(map(verified_writes, views))
    return {
        "acked": acked,
        "lost": lost,
        "bound": stated("all", max(verified, lost), lost).upper_95,
        "since_ns": min((view.since_ns for view in views if view.since_ns is not None), default=None),
        "seen": sum(view.read_back for view in views),
        "unseen": None if silent else sum(view.unread or 0 for view in views),
        "open": sum(row.open for row in knowledge.counts),
    }


def _plain(value: object) -> object:
    return {True: "yes", False: "no", None: "not known"}[value] if value is None or isinstance(value, bool) else value


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
