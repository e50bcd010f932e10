"""The page of an incident: what to do first, what happened in which order, and the log around its offsets."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from pydantic import ValidationError
from starlette.responses import Response

from api.access.headers import CONTENT_SECURITY_POLICY
from api.judgement.briefing import Briefing, Found, briefing, found_in
from api.judgement.log_claims import Place, places, shown_spans
from api.judgement.timeline import spans_of
from api.pages import pictures
from api.pages.incident_timeline import AROUND_NS, timeline
from api.pages.rendering import missing, render, unavailable
from api.problems import ProblemError
from api.rest.incidents import Resolve, acknowledge, resolve
from api.rest.topology import ExposureOut, exposure_of
from api.rest.unseen import unseen_between
from api.rest.violations import Acknowledge
from api.shapes import moment, nanoseconds
from api.state import Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from canary.extras import lacking
from storage.probe_log.windows import Window
from storage.store.cursors import Excerpt
from storage.store.values import (
    Incident,
    StoredViolation,
    TopologyFilter,
    TopologySpan,
    ViolationFilter,
    ViolationRange,
)

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

LONGEST_NS = 2 * 3600 * 10**9
"""The longest time that is drawn, from the incident's beginning; the tables have all of it."""
SHOWN = 200
MOST_SPANS = 5000
MOST_BODY = 20_000
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Plotly creates an empty <style> element and sets its rules one by one; no other inline style is allowed."""
WITH_SCRIPTS = CONTENT_SECURITY_POLICY.replace("style-src 'self'", f"style-src 'self' {EMPTY_STYLE}") + (
    "; script-src 'self'"
)


@router.get("/incidents/{incident_id}")
async def incident(state: Shared, incident_id: str) -> HTMLResponse:
    """Show an incident. Only its pictures need a script."""
    try:
        row = await state.calls(state.store.incidents.get, incident_id)
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    if row is None:
        return missing(f"incident with the id {incident_id}")
    page = await state.calls(state.store.violations.page, ViolationFilter(incident_id=incident_id), None, SHOWN)
    violations = sorted(page.items, key=lambda one: one.first_seen_ns)
    screen = await first_screen(state, row)
    found = screen.found
    drawn = [*found.firsts, *(end for lost in found.ranges.items for end in (lost.first, lost.last))]
    begin = max(row.first_ns, row.head_ns - LONGEST_NS // 2) - AROUND_NS
    end = min(row.last_ns + AROUND_NS, begin + LONGEST_NS)
    spans = await _spans(state, row, begin, end)
    own = [span for span in spans.items if span.subject == "partition"]
    draws = _draws()
    answer = render(
        "incident.html",
        refresh=0,
        **screen.shown,
        own="",
        entry=CATALOGUE.get(row.kind),
        violations=violations,
        total=found.violations,
        lost_words=found.words,
        events=timeline(row, found, spans.items, {loss.violation_id: loss.sentence for loss in screen.brief.losses}),
        only=spans.words("newest", "changes") if spans.truncated else None,
        rows=screen.rows,
        shown=screen.around,
        unread=screen.unread,
        timeline=pictures.timeline(own, drawn, moment(begin), moment(end)) if own and draws else None,
        unseen=await _unseen(state, row, begin, end) if draws else None,
        plotly=plotly_name() if draws else None,
        unwanted=pictures.unwanted_styles() if draws else (),
    )
    answer.headers["Content-Security-Policy"] = WITH_SCRIPTS
    return answer


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What is asked first about an incident, and the log ``around`` its largest loss, or its head."""

    incident: Incident
    found: Found
    brief: Briefing
    head: StoredViolation | None
    lead: StoredViolation | None
    exposure: ExposureOut | None
    around: list[StoredViolation]
    rows: list[Place]
    unread: str | None
    """Why the probe log could not be read."""

    @property
    def shown(self) -> dict[str, Any]:
        """What its template takes."""
        named = {name: getattr(self, name) for name in ("incident", "brief", "head", "lead", "exposure")}
        return named | {"head_ns": self.incident.head_ns or self.incident.first_ns}

    @property
    def blanks(self) -> dict[str, str]:
        """What it fills into the commands of a runbook."""
        one, head = self.incident, self.head
        leaders = self.brief.losses[0].leaders if self.brief.losses else []
        known = {"cluster": one.cluster, "topic": one.topic, "partition": one.partition, "incident": one.id}
        known |= {"violation": head.id if head else None, "offset": head.offset if head else None}
        known |= {"broker": leaders[-1].broker if leaders else None}
        return {name: str(value) for name, value in known.items() if value not in {None, ""}}


async def first_screen(state: State, row: Incident) -> FirstScreen:
    """Return what is asked first about an incident.

    Raises:
        UnavailableError: the store does not answer.
    """
    found = await found_in(state, row)
    lead = await state.calls(state.store.violations.get, row.lead_id)
    head = lead
    if row.head_id not in {"", row.lead_id}:
        head = await state.calls(state.store.violations.get, row.head_id)
    around = await _around(state, found.ranges.items, head)
    rows, unread = await _log(state, row, around)
    acked = {claim.identity: nanoseconds(claim.acked_at) for place in rows for claim in place.claims}
    brief = await briefing(state, row, found, acked.get)
    exposed = await exposure_of(state, lead) if lead else None
    return FirstScreen(row, found, brief, head, lead, exposed, around, rows, unread)


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
        return missing(f"incident with the id {incident_id}")
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


async def _spans(state: State, row: Incident, begin: int, end: int) -> Excerpt[TopologySpan]:
    """Return the timelines of the incident's partition (or topic), of the brokers and of the controller."""
    own = TopologyFilter(row.cluster, None, row.topic, row.partition, begin, end)
    wanted = [
        TopologyFilter(row.cluster, subject, None, None, begin, end) for subject in ("broker", "controller", "cluster")
    ]
    if row.topic:
        wanted += [replace(own, subject="partition"), replace(own, subject="topic", number=None)]
    return await spans_of(state, wanted, MOST_SPANS)


async def _around(
    state: State, ranges: Sequence[ViolationRange], head: StoredViolation | None
) -> list[StoredViolation]:
    """Return the violations at both ends of the largest lost range; without one, the head."""
    if not ranges:
        return [] if head is None else [head]
    ends = [ranges[0].first, ranges[0].last]
    spans = shown_spans(ends)
    return await state.calls(state.store.violations.about, ends[0], spans) if spans else ends


async def _log(state: State, row: Incident, shown: list[StoredViolation]) -> tuple[list[Place], str | None]:
    """Return the log around both ends of what is shown, and why the probe log could not be read; None: it was."""
    spans = shown_spans(shown)
    if not spans:
        return [], None
    place = row.cluster, shown[0].topic, shown[0].partition or 0
    try:
        found = await state.ask_log(
            row.cluster, [()] * len(spans), lambda log: [log.between(*place, *span, 100) for span in spans]
        )
    except UnavailableError as error:
        return places(shown, ()), error.detail
    return places(shown, [claim for known in found for claim in known]), None


async def _unseen(state: State, row: Incident, begin: int, end: int) -> str | None:
    """Return the picture of unread probes, None if the probe log cannot be read."""
    try:
        series = await unseen_between(state, Window(row.cluster, begin, end, row.topic, row.partition), 200)
    except (UnavailableError, ProblemError):
        return None
    return pictures.unseen(series) if series.items else None
