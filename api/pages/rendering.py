"""How pages are rendered: the templates, their filters, and the pages for what cannot be shown."""

import time
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from api.judgement.safety import STORE_AWAY, plain_duration
from api.principal import SIGNED_IN
from api.shapes import moment
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from storage.store.values import StoredViolation

ANSWERS = {"safe": "Yes", "watch": "Yes, but", "unknown": "Unknown", "broken": "No"}


def render(template: str, status: int = HTTPStatus.OK, **context: Any) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(context), status)


def unavailable(error: UnavailableError, refresh: int) -> HTMLResponse:
    """Return the page that is shown while the store does not answer; it reloads itself after ``refresh`` seconds."""
    return render("unavailable.html", 503, refresh=refresh, judgement=STORE_AWAY, detail=error.detail)


def missing(what: str) -> HTMLResponse:
    """Return the page that says that there is no such thing."""
    return render("missing.html", 404, refresh=0, what=what)


def percent(rate: float) -> str:
    """Return a rate as a percentage of three digits: 0.0243 %."""
    return f"{rate * 100:.3g} %" if rate >= 1e-7 else f"{rate * 100:.2e} %"


def _date(ns: int) -> str:
    return moment(ns).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ago(ns: int) -> str:
    return plain_duration(max(0.0, (time.time_ns() - ns) / 1e9))


def _offsets(row: StoredViolation) -> str:
    """Return where a violation is: an offset, or a range of them with how many records it is about."""
    if row.count == 1:
        return _number(row.offset)
    return f"{_number(row.offset)} to {_number(row.last_offset)} ({row.count:,} records)"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{int(value):,}"


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "date": _date,
    "iso": lambda ns: moment(ns).isoformat(),
    "ago": _ago,
    "number": _number,
    "percent": percent,
    "offsets": _offsets,
}
_ENVIRONMENT.globals |= {
    "version": version("kafka-durability-canary"),
    "answers": ANSWERS,
    "catalogue": CATALOGUE,
    "signed_in": SIGNED_IN.get,
    "utc_now": lambda: _date(time.time_ns()),
}
