"""The page of an incident: what happened, in order; what stands in the log there; what to do first."""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from pydantic import ValidationError
from starlette.responses import Response

from api import pictures
from api.actions import note
from api.calls import UnavailableError
from api.judgement import STORE_AWAY
from api.pages import render
from api.ports import Incident, StoredViolation, ViolationFilter
from api.problems import ProblemError
from api.security import CONTENT_SECURITY_POLICY
from api.shapes import Resolve, moment
from api.state import State, state_of
from api.topology import exposure_of
from api.unseen import unseen_between
from canary.anomalies.catalogue import CATALOGUE
from canary.extras import lacking
from storage.probe_log.windows import Window
from storage.store.topology import TopologyFilter, TopologySpan

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

AROUND_NS = 5 * 60 * 10**9
LONGEST_NS = 2 * 3600 * 10**9
"""So much of an incident's beginning is drawn; the lists have all."""
NEIGHBOURS = 5
SHOWN = 200
MOST_BODY = 20_000
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Plotly makes an empty <style> element, whose rules it then sets one by one: that is all that it may do inline."""
WITH_SCRIPTS = CONTENT_SECURITY_POLICY.replace("style-src 'self'", f"style-src 'self' {EMPTY_STYLE}") + (
    "; script-src 'self'"
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for the timeline; ``at_ns`` in ns since the epoch."""

    at_ns: int
    what: str
    words: str
    link: str | None = None


@router.get("/incidents/{incident_id}")
async def incident(request: Request, incident_id: str) -> HTMLResponse:
    """Show an incident; nothing of it needs a script."""
    state = state_of(request)
    try:
        row = await state.calls(state.store.incident, incident_id)
    except UnavailableError as error:
        return render("unavailable.html", 503, refresh=5, judgement=STORE_AWAY, detail=error.detail)
    if row is None:
        return render("missing.html", 404, refresh=0, what=f"an incident with the id {incident_id}")
    page = await state.calls(state.store.violations, ViolationFilter(incident_id=incident_id), None, SHOWN)
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
        now_ns=state.now_ns(),
    )
    answer.headers["Content-Security-Policy"] = WITH_SCRIPTS
    return answer


@router.post("/incidents/{incident_id}/{what}")
async def operate(request: Request, incident_id: str, what: Literal["acknowledge", "resolve"]) -> Response:
    """Take the form of the page; go back to the page."""
    state = state_of(request)
    body = await request.body()
    if len(body) > MOST_BODY:
        raise ProblemError(413, "The note is too long; keep it below 10,000 characters.")
    fields = {name: values[-1] for name, values in parse_qs(body.decode(errors="replace")).items()}
    words = fields.get("note", "")[:10_000].replace("\0", "")
    if await state.calls(state.store.incident, incident_id) is None:
        return render("missing.html", 404, refresh=0, what=f"an incident with the id {incident_id}")
    if what == "acknowledge":
        await note(request, "acknowledge", f"incident {incident_id}", note=words)
        await state.calls(state.store.acknowledge_incident, incident_id, words)
    else:
        try:
            reason = Resolve.model_validate({"reason": fields.get("reason")}).reason
        except ValidationError:
            raise ProblemError(422, "body.reason: one of lost, planned, false.") from None
        await note(request, "resolve", f"incident {incident_id}", reason=reason, note=words)
        await state.calls(state.store.resolve_incident, incident_id, reason, state.now_ns(), words)
    return RedirectResponse(f"/incidents/{incident_id}", 303)


@cache
def _draws() -> bool:
    """Return whether Plotly is installed: the pictures' facts stand on the page without it, too."""
    return lacking("pictures", "pictures on incident pages") is None


@cache
def plotly_name() -> str:
    """Return the address of Plotly's script: it holds the content's hash, so that it may be kept for ever."""
    digest = hashlib.sha256(pictures.plotly_js().read_bytes()).hexdigest()[:16]
    return f"/scripts/plotly-{digest}.js"


@router.get("/scripts/{name}")
async def script(name: str) -> Response:
    """Serve Plotly from its Python package; nothing comes from elsewhere."""
    if not _draws() or f"/scripts/{name}" != plotly_name():
        raise ProblemError(404, "There is no such script; load the page again.")
    return FileResponse(
        pictures.plotly_js(),
        media_type="text/javascript",
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


async def _spans(state: State, row: Incident, begin: int, end: int) -> list[TopologySpan]:
    wanted = TopologyFilter(cluster=row.cluster, since_ns=begin, until_ns=end)
    found = await state.calls(state.store.topology_spans, wanted, 5000)
    return [span for span in found if span.subject != "partition" or span.topic == row.topic]


async def _log(state: State, lead: StoredViolation | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return what is known to be around both ends of the range, a row an offset; or why the probe log cannot tell."""
    if lead is None or lead.partition is None or lead.offset is None:
        return [], None
    last = lead.offset if lead.last_offset is None else lead.last_offset
    rows: dict[int, dict[str, Any]] = {}
    for end in dict.fromkeys((lead.offset, last)):
        first, beyond = max(0, end - NEIGHBOURS), end + NEIGHBOURS + 1
        place = (lead.cluster, lead.topic, lead.partition, first, beyond)
        try:
            found = await state.ask_log(lead.cluster, (), state.probe_log.between, *place, 100)
        except UnavailableError as error:
            return [], error.detail
        for offset in range(first, beyond):
            claims = [one for one in found if one["offset"] == offset]
            rows[offset] = {"offset": offset, "disputed": lead.offset <= offset <= last, "claims": claims}
    return list(rows.values()), None


async def _unseen(state: State, row: Incident, begin: int, end: int) -> str | None:
    """Return the picture of unread probes, or None where the probe log cannot tell."""
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
