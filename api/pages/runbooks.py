"""The runbooks: what to do when an alert fires. The API serves them, so that they can be read without the internet."""

from functools import cache
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.headers import CONTENT_SECURITY_POLICY
from api.pages.placeholders import PLACEHOLDERS, filled, fitting
from api.pages.rendering import missing, render
from canary.anomalies.catalogue import CATALOGUE

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_LINKED = 'curl -sS "$CANARY/'
"""What a command begins with that reads from this API: its page has a link, too."""


@cache
def _served() -> dict[str, Any]:
    """Return what ``python -m dashboards`` generates from the rules and the runbooks."""
    found: dict[str, Any] = orjson.loads((Path(__file__).parent / "runbooks.json").read_bytes())
    return found


def alerts() -> dict[str, dict[str, Any]]:
    """Return the runbook of each alert, by its name."""
    found: dict[str, dict[str, Any]] = _served()["alerts"]
    return found


@router.get("/runbooks")
async def index() -> HTMLResponse:
    """List the runbooks, and what each is about."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, alert in alerts().items():
        groups.setdefault(alert["group"], []).append((name, alert))
    return render("runbooks.html", refresh=0, groups=groups)


@router.get("/runbooks/{name}")
async def runbook(request: Request, name: str) -> HTMLResponse:
    """Show the runbook of an alert, or of a kind of violation (which may have no alert).

    The query fills in the commands: cluster, topic, partition and the other names of PLACEHOLDERS. Only the button that
    copies a command needs a script.
    """
    known = alerts()
    found = name if name in known else next((one for one, alert in known.items() if alert["kind"] == name), None)
    alert = known[found] if found is not None else None
    entry = CATALOGUE.get(alert["kind"] if alert else name)
    steps = alert or _served()["kinds"].get(name)
    if steps is None:
        return missing(f"a runbook called {name}")
    values = fitting(request.query_params)
    answer = render(
        "runbook.html",
        refresh=0,
        name=found or name,
        alert=alert,
        entry=entry,
        prepare=_served()["prepare"],
        base=str(request.base_url).rstrip("/"),
        blanks={blank: PLACEHOLDERS[blank].meaning for blank in steps["blanks"]},
        values=values,
        sections=[_filled(section, values) for section in steps["sections"]],
    )
    answer.headers["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; script-src 'self'"
    return answer


def _filled(section: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    steps = [
        {"text": step["text"], "commands": [_ready(command, values) for command in step["commands"]]}
        for step in section["steps"]
    ]
    return {"title": section["title"], "steps": steps}


def _ready(command: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """Return a command with its blanks filled, and ``link``: where a browser can follow it ("" if it cannot)."""
    text = filled(command["text"], values)
    path = text.removeprefix(_LINKED).removesuffix('"')
    return command | {"text": text, "link": f"/{path}" if path != text and "{" not in path else ""}
