"""One alert for every anomaly that may be critical, made from the catalogue of anomalies.

One about applications that is never critical has an alert that is a warning.

It fires while a violation of its kind, as severe as the alert, is open, and for five minutes after a new one was found:
so the first one is seen even if an operator acknowledges it at once. It resolves when all of them are acknowledged or
resolved. What happened in a planned window is not open and does not count as new.
"""

from typing import Literal

from canary.anomalies.application_anomalies import APPLICATION_ANOMALIES
from canary.anomalies.catalogue import CATALOGUE, Anomaly
from dashboards.boards.queries import gauge, increase
from dashboards.rules.rule import PLANNED, Rule


def alert_name(kind: str) -> str:
    """Return the alert of an anomaly: lost-write becomes CanaryLostWrite."""
    return "Canary" + "".join(part[:1].upper() + part[1:] for part in kind.split("-"))


def _alert(anomaly: Anomaly, severity: Literal["critical", "warning"]) -> Rule:
    selector = f'kind="{anomaly.name}", severity="{severity}"'
    still_open = gauge("canary_violations_open", selector)
    found = increase("canary_violations_total", selector, "5m")
    return Rule(
        name=alert_name(anomaly.name),
        expression=f"({still_open} > 0) or (({found} > 0) unless on (cluster) {PLANNED})",
        severity=severity,
        summary=f"{anomaly.title} in {{{{ $labels.cluster }}}}",
        meaning=f"{anomaly.meaning} {anomaly.implies}",
        now="{{ $value | humanize }} open or new in {{ $labels.cluster }}.",
        advice=(
            anomaly.do_first,
            *((f"Not an error: {anomaly.allowed}",) if anomaly.allowed else ()),
        ),
        kind=anomaly.name,
    )


ANOMALIES = (
    *(_alert(one, "critical") for one in CATALOGUE.values() if "critical" in one.severities),
    *(_alert(one, "warning") for one in APPLICATION_ANOMALIES if "critical" not in one.severities),
)
