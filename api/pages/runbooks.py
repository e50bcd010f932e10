"""The runbooks: what to do when an alert fires. The API serves them, so that they can be read without the internet."""

import shlex
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.headers import CONTENT_SECURITY_POLICY
from api.judgement.briefing import bootstrap_of
from api.judgement.safety import silence
from api.pages.incident import FirstScreen, first_screen
from api.pages.placeholders import PLACEHOLDERS, filled, fitting
from api.pages.rendering import missing, render
from api.state import Shared, State
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from storage.store.values import Incident, IncidentFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_SAME_AS = {"CanaryAbsent": "CanaryVanished"}
"""Alerts of `canary alert rules`: no shipped rule has their names, so the runbook is another one's."""
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


@router.get("/alerts/{name}")
@router.get("/runbooks/{name}")
async def runbook(request: Request, state: Shared, name: str) -> HTMLResponse:
    """Show the runbook of an alert, or of a kind of violation (which may have no alert).

    The query fills in the commands: cluster, topic, partition and the other names of PLACEHOLDERS. With a cluster the
    worst incident of the alert that is not resolved is shown first, and fills in what the query does not. Only the
    button that copies a command needs a script.
    """
    known, name = alerts(), _SAME_AS.get(name, name)
    found = name if name in known else next((one for one, alert in known.items() if alert["kind"] == name), None)
    alert = known[found] if found is not None else None
    entry = CATALOGUE.get(alert["kind"] if alert else name)
    steps = alert or _served()["kinds"].get(name)
    if steps is None:
        return missing(f"runbook called {name}")
    given = fitting(request.query_params)
    try:
        now = await _now(state, alert["kind"] if alert else name, given)
    except UnavailableError as error:
        now = Now(unknown=error.detail)
    values = fitting(now.blanks) | given
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
        current=now,
        bootstrap=now.bootstrap or "broker-1:9092",
        sections=[_filled(section, values, now.bootstrap) for section in steps["sections"]],
    )
    answer.headers["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; script-src 'self'"
    return answer


@dataclass(frozen=True, slots=True)
class Now:
    """What goes on in a cluster that an alert names.

    ``screen``: of the worst incident that is not resolved; ``others``: how many there are besides; ``over``: without
    one, the last that was. ``bootstrap``: addresses of live brokers, "" where none is known. ``unknown``: why nothing
    of this is known; "": it is. ``silence``: why the cluster is not judged now; "": it is.
    """

    cluster: str = ""
    screen: FirstScreen | None = None
    others: int = 0
    over: Incident | None = None
    bootstrap: str = ""
    unknown: str = ""
    silence: str = ""

    @property
    def blanks(self) -> dict[str, str]:
        """What it fills into commands."""
        return self.screen.blanks if self.screen else {}


async def _now(state: State, kind: str, given: dict[str, str]) -> Now:
    """Return what goes on; of an alert without a ``kind`` ("") all that is open in the cluster counts.

    Raises:
        UnavailableError: the store does not answer.
    """
    cluster = given.get("cluster")
    if cluster is None:
        return Now()
    view = (await state.knowledge()).clusters.get(cluster)
    if view is None:
        return Now(cluster, unknown=f"this canary knows no cluster {cluster}, or you may not see it")
    partition = given.get("partition")
    wanted = IncidentFilter(cluster, kind or None, given.get("topic"), None if partition is None else int(partition))
    worst, totals = await state.calls(state.store.incidents.worst, 1, wanted)
    if not worst and wanted.topic:  # it may be one of the whole cluster
        wide = replace(wanted, topic="", partition=None)
        worst, totals = await state.calls(state.store.incidents.worst, 1, wide)
    over = [] if worst else (await state.calls(state.store.incidents.page, wanted, None, 1)).items
    screen = await first_screen(state, worst[0]) if worst else None
    others = sum(totals.values()) - len(worst)
    bootstrap = await bootstrap_of(state, cluster)
    return Now(cluster, screen, others, over[0] if over else None, bootstrap, silence=silence(view) or "")


def _filled(section: dict[str, Any], values: dict[str, str], bootstrap: str) -> dict[str, Any]:
    steps = [
        {"text": step["text"], "commands": [_ready(command, values, bootstrap) for command in step["commands"]]}
        for step in section["steps"]
    ]
    return {"title": section["title"], "steps": steps}


def _ready(command: dict[str, Any], values: dict[str, str], bootstrap: str) -> dict[str, Any]:
    """Return a command with its blanks filled, and ``link``: where a browser can follow it ("" if it cannot)."""
    text = filled(command["text"], values)
    text = text.replace("$BOOTSTRAP", shlex.quote(bootstrap)) if bootstrap else text
    path = text.removeprefix(_LINKED).removesuffix('"')
    return command | {"text": text, "link": f"/{path}" if path != text and "{" not in path else ""}
