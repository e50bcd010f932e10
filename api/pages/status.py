"""The status page, a violation's page, and the description of the API: plain HTML that needs no script."""

import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from api.judgement.durability import lost_writes, stated, verified_writes
from api.judgement.lost_ranges import LostRange, gone
from api.judgement.safety import overall
from api.judgement.timeline import spans_of
from api.knowledge.evidence import Survived, survived
from api.knowledge.views import ClusterView
from api.openapi import body_of, operations
from api.pages.clusters import Shown, shown
from api.pages.rendering import missing, render, unavailable
from api.rest.violations import evidence_of
from api.state import Knowledge, Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import LOSSES
from storage.store import Store
from storage.store.cursors import Excerpt
from storage.store.values import OpenViolations, StoredViolation, TopologyFilter, ViolationFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

REFRESH_S = 5
SURVIVED_S = 30.0
SPANS = 20_000
SHOWN = 20
"""Lines about open violations on the status page; REST lists all."""
RANK = {"critical": 0, "warning": 1, "info": 2}


@router.get("/")
async def status(state: Shared, refresh: Annotated[Literal["on", "off"], Query()] = "on") -> HTMLResponse:
    """Answer whether the data is safe, then show what the answer rests on."""
    seconds = REFRESH_S if refresh == "on" else 0
    try:
        knowledge = await state.knowledge()
        clusters = await shown(state, knowledge, knowledge.clusters.values())
        groups, more = await state.calls(_groups, state.store)
    except UnavailableError as error:
        return unavailable(error, refresh=seconds)
    return render(
        "status.html",
        refresh=seconds,
        judgement=overall([one.judgement for one in clusters]),
        clusters=clusters,
        well=[one for one in clusters if one.well],
        totals=_totals(knowledge, clusters),
        survived=await _survived(state, list(knowledge.clusters.values())),
        groups=groups,
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
                spans = await spans_of(state, [wanted], SPANS)
                found.append(survived(spans.items, topics)._replace(older=spans.truncated))
        memory.looked, memory.value = time.monotonic(), Survived(*map(sum, zip(*found, strict=True)))
    return memory.value


@dataclass(frozen=True, slots=True)
class Case:
    """A line about open violations: one, or a range of lost writes."""

    first: StoredViolation
    words: str


@dataclass(frozen=True, slots=True)
class Group:
    """Open violations of one cluster, kind and severity: the first ``cases``, and in words, of how many."""

    of: OpenViolations
    cases: Excerpt[Case]
    words: str


def _groups(store: Store) -> tuple[list[Group], int | None]:
    """Return open violations, critical ones first, and how many there are if not all are shown."""
    every = sorted(store.violations.open(), key=lambda one: (RANK[one.severity], -one.last_ns))
    groups: list[Group] = []
    left = SHOWN
    for one in every[:SHOWN]:
        if left > 0 and (group := _group(store, one, left)).cases.items:
            groups.append(group)
            left -= len(group.cases.items)
    more = len(groups) < len(every) or any(one.cases.truncated for one in groups)
    return groups, sum(one.violations for one in every) if more else None


def _group(store: Store, one: OpenViolations, most: int) -> Group:
    wanted = ViolationFilter(state="open", cluster=one.cluster, kind=one.kind, severity=one.severity)
    if one.kind in LOSSES and (ranges := store.violations.ranges(wanted, [one.kind], most)).items:
        cases = Excerpt([Case(each.first, LostRange(each).sentence) for each in ranges.items], ranges.total)
        return Group(one, cases, f"{cases.words('largest', 'ranges')} ({gone(one.kind, one.records)})")
    rows = store.violations.page(wanted, None, most).items
    cases = Excerpt([Case(row, row.summary) for row in rows], max(one.violations, len(rows)))
    return Group(one, cases, cases.words("newest", "violations"))


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
