"""One alert for every anomaly that a running canary or a night reports as more than info, made from the catalogue.

It is as severe as the violations that it fires for. It fires while one of its kind is open, and for five minutes after
a new one was found: so the first one is seen even if an operator acknowledges it at once. It resolves when all of them
are acknowledged or resolved. What happened in a planned window is not open and does not count as new.
"""

from canary.anomalies.catalogue import CATALOGUE, Anomaly
from dashboards.boards.queries import gauge, increase
from dashboards.rules.rule import PLANNED, Rule

_RINGING = ("critical", "warning")
"""Severities that somebody is told of: an info alone has no alert."""


def alert_name(kind: str) -> str:
    """Return the alert of an anomaly: lost-write becomes CanaryLostWrite."""
    return "Canary" + "".join(part[:1].upper() + part[1:] for part in kind.split("-"))


def rings(anomaly: Anomaly) -> bool:
    """Return whether an anomaly has an alert: the checker of recorded histories has none, nor has what is mere info."""
    return set(anomaly.scopes) != {"offline"} and any(one in _RINGING for one in anomaly.severities)


def _alert(anomaly: Anomaly) -> Rule:
    severities = [one for one in _RINGING if one in anomaly.severities]
    selector = f'kind="{anomaly.name}", severity=~"{"|".join(severities)}"'
    still_open = gauge("canary_violations_open", selector)
    counted = "records" if anomaly.class_ == "data" and not anomaly.ends else "places"
    found = increase("canary_violations_total", selector, "5m")
    return Rule(
        name=alert_name(anomaly.name),
        expression=f"({still_open} > 0) or (({found} > 0) unless on (cluster) {PLANNED})",
        severity=severities[0],
        milder=tuple(severities[1:]),
        summary=f"{anomaly.title} in {{{{ $labels.cluster }}}}",
        meaning=f"{anomaly.meaning} {anomaly.implies}",
        now=f"{{{{ $value | humanize }}}} {counted} open or new in {{{{ $labels.cluster }}}}. Its incidents:",
        advice=(
            anomaly.do_first,
            *((f"Not an error: {anomaly.allowed}",) if anomaly.allowed else ()),
        ),
        kind=anomaly.name,
    )


ANOMALIES = tuple(_alert(one) for one in CATALOGUE.values() if rings(one))
