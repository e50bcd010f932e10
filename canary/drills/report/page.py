"""The report of ``canary drill run --report``: one file with everything in it; no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

import jinja2

from canary.drills.report import document
from canary.drills.report.picture import pictures
from canary.drills.rig.performance import Played
from canary.drills.rig.result import Result
from canary.drills.stage import KNOWABLE

_LOOKS: Final = {
    "found": "safe",
    "silent": "safe",
    "found late": "watch",
    "FAILED": "broken",
    "not possible here": "unknown",
}


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the timeline: s after the drill's moment, what, and who: did, saw or said (with its severity)."""

    after_s: float
    what: str
    who: str
    kind: str = ""
    severity: str = ""


def page(results: Sequence[Result]) -> str:
    """Return the page, in HTML."""
    template = resources.files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = resources.files("api").joinpath("static/canary.css").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        style=style, drills=[_drill(one) for one in results], written=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    )


def _drill(result: Result) -> dict[str, Any]:
    played, entry = result.played, result.entry
    tally = played.reading.tally if played else None
    return {
        "name": entry.name,
        "drill": entry.drill,
        "story": [part for part in entry.story.split("\n\n") if part.rstrip(".") != entry.drill.title],
        "word": document.word(result),
        "look": _LOOKS[document.word(result)],
        "sentence": document.sentence(result),
        "complaints": result.complaints,
        "detected": result.verdict.detected if result.verdict else (),
        "knowable": {name: f"{_clock(at)}" for name, at in (played.marks if played else {}).items()},
        "paged": document.paged(result),
        "events": timeline(played) if played else (),
        "origin": _clock(_origin(played)) if played else "",
        "pictures": pictures(played) if played else (),
        "tally": document.rows(tally) if tally else (),
        "control": result.control,
        "seconds": result.seconds,
    }


def timeline(played: Played) -> list[Event]:
    """Return what was done, seen and said, in order."""
    origin = _origin(played)
    events = [Event(one.at - origin, one.what, "did" if one.done else "saw") for one in played.timeline]
    events += [Event(one.at - origin, one.summary, "said", one.kind, one.severity) for one in played.findings]
    return sorted(events, key=lambda one: one.after_s)


def _origin(played: Played) -> float:
    return played.marks.get(KNOWABLE, played.began)


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f}"[:-3]
