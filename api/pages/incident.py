"""The page of an incident: what to do first, what happened in which order, and the log around its offsets."""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from pydantic import ValidationError
from starlette.responses import Response

from api.access.headers import CONTENT_SECURITY_POLICY
from api.pages import pictures
from api.pages.rendering import missing, render, unavailable
from api.problems import ProblemError
from api.rest.incidents import Resolve, acknowledge, resolve
from api.rest.topology import exposure_of
from api.rest.unseen import unseen_between
from api.rest.violations import Acknowledge
from api.shapes import moment
from api.state import Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from canary.extras import lacking
from storage.probe_log.windows import Window
from storage.store.values import Incident, StoredViolation, TopologyFilter, TopologySpan, ViolationFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

AROUND_NS = 5 * 60 * 10**9
LONGEST_NS = 2 * 3600 * 10**9
"""The longest time that is drawn, from the incident's beginning; the tables have all of it."""
NEIGHBOURS = 5
SHOWN = 200
MOST_BODY = 20_000
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Plotly creates an empty <style> element and sets its rules one by one; no other inline style is allowed."""
WITH_SCRIPTS = CONTENT_SECURITY_POLICY.replace("style-src 'self'", f"style-src 'self' {EMPTY_STYLE}") + (
    "; script-src 'self'"
)


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the timeline; ``at_ns`` in ns since the epoch."""

    at_ns: int
    what: str
    words: str
    link: str | None = None


@router.get("/incidents/{incident_id}")
async def incident(state: Shared, incident_id: str) -> HTMLResponse:
    """Show an incident. Only its pictures need a script."""
    try:
        row = await state.calls(state.store.incidents.get, incident_id)
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    if row is None:
        return missing(f"an incident with the id {incident_id}")
    page = await state.calls(state.store.violations.page, ViolationFilter(incident_id=incident_id), None, SHOWN)
    violations = sorted(page.items, key=lambda one: one.first_seen_ns)
    begin = row.first_ns - AROUND_NS
    end = min(row.last_ns + AROUND_NS, begin + LONGEST_NS)
    spans = await _spans(state, row, begin, end)
    own = [span for span in spans if span.subject == "partition" and row.partition in {None, span.number}]
    lead = next((one for one in violations if one.id == row.lead_id), violations[0] if violations else None)
    rows, unread = await _log(state, lead)
    drawn = _draws()
    answer = render(
        "incident.html",
        refresh=0,
        incident=row,
        entry=CATALOGUE.get(row.kind),
        violations=violations,
        more=page.next_cursor is not None,
        events=_events(row, violations, spans),
        rows=rows,
        unread=unread,
        exposure=await exposure_of(state, lead) if lead else None,
        lead=lead,
        timeline=pictures.timeline(own, violations, moment(begin), moment(end)) if own and drawn else None,
        unseen=await _unseen(state, row, begin, end) if drawn else None,
        plotly=plotly_name() if drawn else None,
        unwanted=pictures.unwanted_styles() if drawn else (),
    )
    answer.headers["Content-Security-Policy"] = WITH_SCRIPTS
    return answer


@router.post("/incidents/{incident_id}/{what}")
async def operate(
    request: Request, state: Shared, incident_id: str, what: Literal["acknowledge", "resolve"]
) -> Response:
    """Do what a form of the page asks for, and go back to the page."""
    form = await request.body()
    if len(form) > MOST_BODY:
        raise ProblemError(413, "The note is too long; keep it below 10,000 characters.")
    fields = {name: values[-1] for name, values in parse_qs(form.decode(errors="replace")).items()}
    words = fields.get("note", "")[:10_000].replace("\0", "")
    if await state.calls(state.store.incidents.get, incident_id) is None:
        return missing(f"an incident with the id {incident_id}")
    if what == "acknowledge":
        await acknowledge(request, state, incident_id, Acknowledge(note=words))
    else:
        try:
            body = Resolve.model_validate({"reason": fields.get("reason"), "note": words})
        except ValidationError:
            raise ProblemError(422, "body.reason: one of lost, planned, false.") from None
        await resolve(request, state, incident_id, body)
    return RedirectResponse(f"/incidents/{incident_id}", 303)


@cache
def _draws() -> bool:
    """Return whether Plotly is installed. Without it the page has its tables only."""
    return lacking("pictures", "pictures on incident pages") is None


@cache
def plotly_name() -> str:
    """Return the address of Plotly's script, with the hash of its content: browsers may keep it for ever."""
    digest = hashlib.sha256(pictures.plotly_js().read_bytes()).hexdigest()[:16]
    return f"/scripts/plotly-{digest}.js"


@router.get("/scripts/{name}")
async def script(name: str) -> Response:
    """Serve Plotly's script from its Python package."""
    if not _draws() or f"/scripts/{name}" != plotly_name():
        raise ProblemError(404, "There is no such script; load the page again.")
    return FileResponse(
        pictures.plotly_js(),
        media_type="text/javascript",
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


async def _spans(state: State, row: Incident, begin: int, end: int) -> list[TopologySpan]:
    wanted = TopologyFilter(cluster=row.cluster, since_ns=begin, until_ns=end)
    found = await state.calls(state.store.topology.spans, wanted, 5000)
    return [span for span in found if span.subject != "partition" or span.topic == row.topic]


async def _log(state: State, lead: StoredViolation | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the log around both ends of the range, a row for each offset, or why the probe log cannot be read."""
    if lead is None or lead.partition is None or lead.offset is None:
        return [], None
    last = lead.offset if lead.last_offset is None else lead.last_offset
    place = lead.cluster, lead.topic, lead.partition
    spans = [(max(0, end - NEIGHBOURS), end + NEIGHBOURS + 1) for end in dict.fromkeys((lead.offset, last))]
    try:
        found = await state.ask_log(
            lead.cluster, [()] * len(spans), lambda log: [log.between(*place, *span, 100) for span in spans]
        )
    except UnavailableError as error:
        return [], error.detail
    rows: dict[int, dict[str, Any]] = {}
    for span, known in zip(spans, found, strict=True):
        for offset in range(*span):
            claims = [one for one in known if one["offset"] == offset]
            rows[offset] = {"offset": offset, "disputed": lead.offset <= offset <= last, "claims": claims}
    return list(rows.values()), None


async def _unseen(state: State, row: Incident, begin: int, end: int) -> str | None:
    """Return the picture of unread probes, None if the probe log cannot be read."""
    try:
        series = await unseen_between(state, Window(row.cluster, begin, end, row.topic, row.partition), 200)
    except (UnavailableError, ProblemError):
        return None
    return pictures.unseen(series) if series.items else None


def _events(row: Incident, violations: list[StoredViolation], spans: list[TopologySpan]) -> list[Event]:
    """Return what happened around the incident, oldest first."""
    events = [Event(one.first_seen_ns, one.kind, one.summary, f"/violations/{one.id}") for one in violations[:SHOWN]]
    last: dict[tuple[str, str, int], TopologySpan] = {}
    for span in sorted(spans, key=lambda span: span.at_ns):
        place = (span.subject, span.topic, span.number)
        before, last[place] = last.get(place), span
        if before is None and span.at_ns < row.first_ns - AROUND_NS:
            continue
        words = _change(before, span)
        if words:
            events.append(Event(span.at_ns, span.subject, words))
    return sorted(events, key=lambda event: (event.at_ns, event.what != "broker"))


def _change(before: TopologySpan | None, span: TopologySpan) -> str:
    if span.subject == "broker":
        return f"Broker {span.number} is {'there: ' + span.detail if span.detail else 'gone'}."
    if span.subject == "controller":
        return f"Broker {span.leader} is the controller."
    if span.subject == "topic":
        return f"Topic {span.topic}: {span.detail or 'there'}."
    words = []
    if before is None or before.leader != span.leader:
        led = "has no leader" if span.leader in {None, -1} else f"is led by broker {span.leader}"
        words.append(f"{span.topic}-{span.number} {led}")
    if before is None or before.isr != span.isr:
        words.append(f"in sync: {', '.join(map(str, span.isr)) or 'none'} of {len(span.replicas)}")
    return "; ".join(words) + "." if words else ""
