"""The status page, a violation's page, and the description of the API: plain HTML that needs no script."""

import time
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from api.calls import UnavailableError
from api.clusters import summarise
from api.judgement import STORE_AWAY, judge, lost_writes, overall, plain_duration
from api.ports import StoredViolation, ViolationFilter
from api.shapes import moment
from api.state import Knowledge, State, state_of
from api.survived import Survived, survived
from api.views import ClusterView
from api.violations import evidence_of
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics.statistics import loss_rate_upper_95
from storage.store.topology import TopologyFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

REFRESH_S = 5
SURVIVED_S = 30.0
SPANS = 20_000
SHOWN = 20
"""Open violations on the status page; the list of REST has all."""
ANSWERS = {"safe": "Yes", "watch": "Yes, but", "unknown": "Nobody can say", "broken": "No"}
RANK = {"critical": 0, "warning": 1, "info": 2}


@router.get("/")
async def status(request: Request, refresh: Annotated[Literal["on", "off"], Query()] = "on") -> HTMLResponse:
    """Answer the one question, then show what the answer rests on."""
    state = state_of(request)
    seconds = REFRESH_S if refresh == "on" else 0
    try:
        knowledge = await state.knowledge()
        open_ones = await _open_violations(state)
    except UnavailableError as error:
        return render("unavailable.html", 503, refresh=seconds, judgement=STORE_AWAY, detail=error.detail)
    views = list(knowledge.clusters.values())
    judgements = {view.name: judge(view, knowledge) for view in views}
    return render(
        "status.html",
        refresh=seconds,
        judgement=overall(list(judgements.values())),
        clusters=[
            {
                "view": view,
                "judgement": judgements[view.name],
                "summary": summarise(view, knowledge),
                "consumers": sorted({name for row in view.partitions for name in row.get("consumers") or {}}),
            }
            for view in views
        ],
        totals=_totals(knowledge),
        survived=await _survived(state, views),
        violations=_grouped(open_ones[:SHOWN]),
        more=len(open_ones) > SHOWN,
        now_ns=knowledge.at_ns,
    )


@router.get("/violations/{violation_id}")
async def violation(request: Request, violation_id: str) -> HTMLResponse:
    """Show one violation: what it means, what to do first, and the evidence."""
    state = state_of(request)
    try:
        row = await state.calls(state.store.violation, violation_id)
    except UnavailableError as error:
        return render("unavailable.html", 503, refresh=REFRESH_S, judgement=STORE_AWAY, detail=error.detail)
    if row is None:
        return render("missing.html", 404, refresh=0, what=f"a violation with the id {violation_id}")
    evidence = evidence_of(row)
    return render(
        "violation.html",
        refresh=0,
        violation=row,
        entry=CATALOGUE.get(row.kind),
        plain=[(name, _plain(value)) for name, value in evidence.items() if not isinstance(value, dict | list)],
        nested=[(name, _pretty(value)) for name, value in evidence.items() if isinstance(value, dict | list)],
        now_ns=state.now_ns(),
    )


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Describe REST, from its own OpenAPI document, without the usual scripts from elsewhere."""
    document = request.app.openapi()
    operations = [
        {"path": path, "method": method.upper(), **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return render("docs.html", refresh=0, operations=operations, info=document["info"])


async def _survived(state: State, views: list[ClusterView]) -> Survived:
    """Return what the probes of all clusters have lived through; asked for at most every half minute."""
    memory = state.survived
    if time.monotonic() - memory.looked > SURVIVED_S:
        found = Survived()
        for view in views:
            topics = frozenset(row["topic"] for row in view.topics)
            for subject in ("partition", "broker"):
                wanted = TopologyFilter(cluster=view.name, subject=subject)
                spans = await state.calls(state.store.topology_spans, wanted, SPANS)
                found += survived(spans, topics)
        memory.looked, memory.value = time.monotonic(), found
    return memory.value


async def _open_violations(state: State) -> list[StoredViolation]:
    page = await state.calls(
        state.store.violations, ViolationFilter(state="open", severity="critical"), None, SHOWN + 1
    )
    found = list(page.items)
    if len(found) <= SHOWN:
        rest = await state.calls(state.store.violations, ViolationFilter(state="open"), None, 200)
        found += [row for row in rest.items if row.severity != "critical"]
    return sorted(found, key=lambda row: (RANK.get(row.severity, 3), -row.first_seen_ns))


def _grouped(rows: list[StoredViolation]) -> list[dict[str, Any]]:
    """Return the violations by severity, kind and cluster, so that the advice for many like ones stands once."""
    groups: dict[tuple[str, str, str], list[StoredViolation]] = {}
    for row in rows:
        groups.setdefault((row.severity, row.kind, row.cluster), []).append(row)
    return [
        {"severity": severity, "kind": kind, "cluster": cluster, "rows": members}
        for (severity, kind, cluster), members in groups.items()
    ]


def _totals(knowledge: Knowledge) -> dict[str, Any]:
    """Return the numbers for all clusters together."""
    views = list(knowledge.clusters.values())
    acked = sum(view.total("canary_probes_acked_total") for view in views)
    lost = sum(lost_writes(view.name, knowledge.standing) for view in views)
    since = [view.since_ns for view in views if view.since_ns is not None]
    return {
        "acked": acked,
        "lost": lost,
        "bound": loss_rate_upper_95(min(lost, acked), acked),
        "since_ns": min(since, default=None),
        "seen": sum(view.total("canary_probes_seen_total") for view in views),
        "unseen": sum(summarise(view, knowledge).probes.unseen for view in views),
        "open": sum(row.open for row in knowledge.counts),
    }


def render(template: str, status: int = HTTPStatus.OK, **context: Any) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(context), status)


def _plain(value: object) -> object:
    return {True: "yes", False: "no", None: "not known"}[value] if value is None or isinstance(value, bool) else value


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


def percent(rate: float) -> str:
    """Return a rate as a percentage of three digits: 0.0243 %."""
    return f"{rate * 100:.3g} %" if rate >= 1e-7 else f"{rate * 100:.2e} %"


def _date(ns: int) -> str:
    return moment(ns).strftime("%Y-%m-%d %H:%M:%S UTC")


def _iso(ns: int) -> str:
    return moment(ns).isoformat()


def _ago(ns: int) -> str:
    return plain_duration(max(0.0, (time.time_ns() - ns) / 1e9))


def _offsets(row: StoredViolation) -> str:
    """Return where a violation is: an offset, or a range of them with how many records it is about."""
    if row.count == 1:
        return _number(row.offset)
    return f"{_number(row.offset)} to {_number(row.last_offset)} ({row.count:,} records)"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{int(value):,}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"date": _date, "iso": _iso, "ago": _ago, "number": _number, "percent": percent}
    environment.filters["offsets"] = _offsets
    environment.globals |= {
        "version": version("kafka-durability-canary"),
        "answers": ANSWERS,
        "catalogue": CATALOGUE,
        "utc_now": lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    }
    return environment


_ENVIRONMENT = _environment()
