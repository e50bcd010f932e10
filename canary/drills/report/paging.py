"""When somebody is paged: so long after a finding at most, with the intervals of the files in deploy."""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter

from api.pages.runbooks import alerts
from canary.drills.drill import Drill
from canary.drills.rig.performance import Played
from canary.settings.fields import Seconds

KEPT_S: Final = 1.0
"""api.metrics_cache, as it is by default."""
SCRAPE_S: Final = 15.0
EVALUATION_S: Final = 15.0
"""deploy/prometheus.yml."""
GROUP_WAIT_S: Final = 10.0
"""deploy/alertmanager.yml."""


def page_after_s(kind: str) -> float | None:
    """Return how long after a critical finding its first notification leaves Alertmanager, at most, in seconds.

    The kept answer of /metrics, a scrape, an evaluation, the rule's ``for``, and the wait for others of its group.
    None: no alert is about this kind.
    """
    holds = [alert["hold"] for alert in alerts().values() if alert["kind"] == kind and alert["severity"] == "critical"]
    if not holds:
        return None
    held: float = TypeAdapter(Seconds).validate_python(holds[0])
    return KEPT_S + SCRAPE_S + EVALUATION_S + held + GROUP_WAIT_S


def paged_after_s(drill: Drill, played: Played) -> float | None:
    """Return after how many seconds somebody is paged, at most, counted from when it could be known.

    None: nothing that must be said was said as critical; a warning pages nobody.
    """
    times = [
        max(found.at - played.marks.get(said.since, played.began), 0.0) + wait
        for said in drill.says
        for found in played.findings
        if found.kind == said.kind and found.severity == "critical" and (wait := page_after_s(said.kind)) is not None
    ]
    return min(times, default=None)
