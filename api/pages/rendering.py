"""How pages are rendered: the templates, their filters, and the pages for what cannot be shown."""

import time
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import Response

from api.judgement.safety import STORE_AWAY
from api.judgement.verified import date_and_time, plain_duration
from api.pages.sparklines import lines
from api.principal import SIGNED_IN
from api.shapes import clock, moment
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from storage.store.values import WINDOW, Incident, StoredViolation

_FOR_PROGRAMS = ("/api/", "/metrics", "/healthz", "/readyz", "/openapi.json")
"""Below these paths errors are problem documents, whoever asks."""
ANSWERS = {"safe": "Yes", "watch": "Yes, but", "unknown": "Unknown", "broken": "No"}


def render(template: str, status: int = HTTPStatus.OK, **context: Any) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(context), status)


def unavailable(error: UnavailableError, refresh: int) -> HTMLResponse:
    """Return the page that is shown while the store does not answer; it reloads itself after ``refresh`` seconds."""
    return render("unavailable.html", 503, refresh=refresh, judgement=STORE_AWAY, detail=error.detail)


def missing(what: str) -> HTMLResponse:
    """Return the page that says that there is no such thing, named without an article."""
    return render("missing.html", 404, refresh=0, what=what)


def refused(request: Request, status: int, title: str, detail: str, headers: dict[str, str]) -> Response | None:
    """Return an error as a page, for a browser that asked for one; None: as a problem document."""
    path: str = request.scope["path"]
    if path.startswith(_FOR_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return None
    answer = render("refused.html", status, refresh=0, code=int(status), title=title, detail=detail)
    answer.headers.update(headers)
    return answer


def percent(rate: float) -> str:
    """Return a rate as a percentage of three digits: 0.0243 %."""
    return f"{rate * 100:.3g} %" if rate >= 1e-7 else f"{rate * 100:.2e} %"


def _ago(ns: int) -> str:
    return plain_duration(max(0.0, (time.time_ns() - ns) / 1e9))


def _offsets(row: StoredViolation) -> str:
    """Return where a violation is: an offset, or a range of them with how many records it is about."""
    if row.count == 1:
        return _number(row.offset)
    return f"{_number(row.offset)} to {_number(row.last_offset)} ({row.count:,} records)"


def _fate(one: StoredViolation | Incident) -> str:
    """Return its state and why; what only its window acknowledged is acknowledged by no operator."""
    if one.state == "acknowledged" and one.reason == "planned":
        return WINDOW[:1].lower() + WINDOW[1:]
    return one.state if one.reason is None else f"{one.state}: {one.reason}"


def _runbook(one: StoredViolation | Incident, **more: str | int | None) -> str:
    """Return the address of the runbook for a violation or an incident, whose commands are filled in."""
    known = {"cluster": one.cluster, "topic": one.topic, "partition": one.partition, **more}
    return f"/runbooks/{one.kind}?" + urlencode(
        {name: value for name, value in known.items() if value not in (None, "")}
    )


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{int(value):,}"


def _amount(value: float | None, unit: str) -> str:
    """Return a value that may be unknown: a count without a unit, else three digits and the unit."""
    return "unknown" if value is None else f"{value:.3g} {unit}" if unit else _number(value)


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "date": date_and_time,
    "iso": lambda ns: moment(ns).isoformat(),
    "ago": _ago,
    "date_time": clock,
    "amount": _amount,
    "clock": lambda ns: moment(ns).strftime("%H:%M:%S"),
    "number": _number,
    "percent": percent,
    "offsets": _offsets,
    "fate": _fate,
    "runbook": _runbook,
}
_ENVIRONMENT.globals |= {
    "version": version("kafka-durability-canary"),
    "answers": ANSWERS,
    "lines": lines,
    "catalogue": CATALOGUE,
    "signed_in": SIGNED_IN.get,
    "utc_now": lambda: date_and_time(time.time_ns()),
}
