"""The runbooks: what to do when an alert fires. The API serves them, so that they can be read without the internet."""

from functools import cache
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from api.pages.rendering import missing, render
from canary.anomalies.catalogue import CATALOGUE

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """Return the runbook of each alert, by its name; ``python -m dashboards`` generates them from the rules."""
    found: dict[str, dict[str, Any]] = orjson.loads((Path(__file__).parent / "runbooks.json").read_bytes())
    return found


@router.get("/runbooks")
async def index() -> HTMLResponse:
    """List the runbooks, and what each is about."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, alert in alerts().items():
        groups.setdefault(alert["group"], []).append((name, alert))
    return render("runbooks.html", refresh=0, groups=groups)


@router.get("/runbooks/{name}")
async def runbook(name: str) -> HTMLResponse:
    """Show the runbook of an alert, or of a kind of violation (which may have no alert)."""
    known = alerts()
    found = name if name in known else next((one for one, alert in known.items() if alert["kind"] == name), None)
    alert = known[found] if found is not None else None
    entry = CATALOGUE.get(alert["kind"] if alert else name)
    if alert is None and entry is None:
        return missing(f"a runbook called {name}")
    return render("runbook.html", refresh=0, name=found or name, alert=alert, entry=entry)
