"""One alert for every anomaly that may be critical, made from the catalogue of anomalies.

It fires while a critical violation of its kind is open, and for five minutes after a new one was found: so the first
one is seen even if an operator acknowledges it at once. It resolves when all of them are acknowledged or resolved.
Violations that were found in a planned window are not open and do not count as new.
"""

from canary.anomalies.catalogue import CATALOGUE, Anomaly
from dashboards.boards.queries import gauge, increase
from dashboards.rules.rule import PLANNED, Rule


def alert_name(kind: str) -> str:
    """Return the alert of an anomaly: lost-write becomes CanaryLostWrite."""
    return "Canary" + "".join(part[:1].upper() + part[1:] for part in kind.split("-"))


def _alert(anomaly: Anomaly) -> Rule:
    selector = f'kind="{anomaly.name}", severity="critical"'
    still_open = gauge("canary_violations_open", selector)
    found = increase("canary_violations_total", selector, "5m")
    return Rule(
        name=alert_name(anomaly.name),
        expression=f"({still_open} > 0) or (({found} > 0) unless on (cluster) {PLANNED})",
        severity="critical",
        summary=f"{anomaly.title} in {{{{ $labels.cluster }}}}",
        meaning=f"{anomaly.meaning} {anomaly.implies}",
        now="{{ $value | humanize }} open or new in {{ $labels.cluster }}.",
        advice=(
            anomaly.do_first,
            "Open the status page of the canary: each violation has its evidence, and what else was exposed.",
            "Acknowledge the violation there when you work on it; resolve it with a reason when it is dealt with.",
            *((f"Not an error: {anomaly.allowed}",) if anomaly.allowed else ()),
        ),
        kind=anomaly.name,
    )


ANOMALIES = tuple(_alert(anomaly) for anomaly in CATALOGUE.values() if "critical" in anomaly.severities)
