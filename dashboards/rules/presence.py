"""Alerts about what is absent: the series of one cluster; and an alert that is itself absent when alerting fails.

No other rule fires for a cluster without series, because an expression over absent series is empty. Absence is
therefore judged here, and by cluster: `absent()` without a cluster is silent while another canary is scraped.
"""

from dashboards.boards.queries import SERVED, gauge, one
from dashboards.rules.rule import SEEN, Rule

_RETIRED = (
    "Nothing is wrong if the cluster was taken out on purpose: CanaryVanished ends 3 h after its last series, "
    "CanaryAbsent (`canary alert rules`) when its file is made again."
)
_LOOK = (
    "See whether the API's process (`canary serve`, `canary up`) that serves the cluster lives.",
    "See whether Prometheus scrapes it (Status, Targets).",
    _RETIRED,
)

PRESENCE = (
    Rule(
        name="CanaryVanished",
        notify="heartbeat",
        class_="blindness",
        expression=f"max by (cluster) ({one(f'max_over_time({SERVED}[{SEEN}])')}) unless on (cluster) {gauge(SERVED)}",
        hold="2m",
        keep="5m",
        severity="critical",
        summary="Prometheus has no series of {{ $labels.cluster }} any more",
        meaning="Prometheus has no series of the cluster: no alarm about it can reach you. Links to the canary's pages "
        "do not work while its API is down.",
        now="Cluster {{ $labels.cluster }}. " + " ".join(_LOOK),
        advice=_LOOK,
        shadowed=False,
    ),
    Rule(
        name="CanaryWatchdog",
        notify="heartbeat",
        class_="rehearsal",
        expression="vector(1)",
        severity="none",
        summary="Prometheus evaluates the canary's rules",
        meaning="This alert always fires and pages nobody. A dead man's switch outside rings when the alert no longer "
        "arrives there: Prometheus or Alertmanager is down, or cannot reach the switch.",
        advice=(
            "Nothing while it fires.",
            "If the dead man's switch rings: see whether Prometheus and Alertmanager live, and whether the rules load.",
        ),
        shadowed=False,
    ),
)
