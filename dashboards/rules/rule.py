"""An alerting rule: its expression, its summary and its runbook text together; and a recording rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canary.anomalies.anomaly import Class
from canary.anomalies.policy import class_of
from dashboards.boards.queries import HEARTBEAT, gauge

SILENCE = f"time() - max by (cluster) ({gauge(HEARTBEAT)})"
"""For how long (s) no runner of a cluster has judged anything."""
SERVED = "canary_api_cluster_store_up"
"""Of each cluster that an API serves there is a series, with or without the store: where it is absent, all is."""
SEEN = "3h"
"""A cluster that had series within this time and has none has vanished."""
PLANNED = "max by (cluster) (" + gauge("canary_quiet", 'reason="maintenance"') + ")"
"""Clusters within a planned window."""
_SHADOW = "max by (cluster) (" + gauge("canary_quiet", 'reason="shadow"') + ")"
_ADDRESS = '{{ with query "canary_api_info" }}{{ . | first | label "url" }}'
"""The template of the pages' address, as the API exports it; empty if the API does not know it."""
_PLACE = "{{ with $labels.cluster }}?cluster={{ urlquery . }}{{ end }}" + "".join(
    f"{{{{ with {label} }}}}&{blank}={{{{ urlquery . }}}}{{{{ end }}}}"
    for blank, label in {
        "topic": "$labels.topic",
        "partition": "$labels.partition",
        "broker": "or $labels.broker $labels.leader $labels.coordinator",
        "group": "$labels.group",
    }.items()
)
"""The template of a runbook's query: its commands are filled in with the labels that an alert has."""


def broker_in(label: str) -> dict[str, str]:
    """Return the labels ``broker`` and ``rack`` of an alert about the broker that a label of its series names.

    ``rack`` is looked up when the rule is evaluated, so that a broker without a known rack rings, too.
    """
    info = f'printf "canary_broker_info{{cluster=%q,broker=%q}}" $labels.cluster $labels.{label} | query'
    rack = f'{{{{ with {info} }}}}{{{{ . | first | label "rack" }}}}{{{{ end }}}}'
    return {"broker": f"{{{{ $labels.{label} }}}}", "rack": rack}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording rule: the result of ``expression`` becomes the series ``name``, with ``labels`` added."""

    name: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """Return the rule in Prometheus' shape."""
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"record": self.name, "expr": self.expression, **labels}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An alerting rule.

    Attributes:
        name: the alert.
        expression: PromQL; ``shadowed`` adds the part that silences clusters in shadow mode.
        summary: one line, a template.
        meaning: what has happened, for the description and the runbook.
        advice: the runbook's steps, the first one first.
        severity: which route Alertmanager takes; none: no person's.
        hold: Prometheus' ``for``.
        keep: Prometheus' ``keep_firing_for``: what comes and goes is one page, not one each time.
        now: the values of this occurrence, a template.
        kind: the anomaly whose incidents the alert links to; "" if it is about the canary itself.
        class_: what Alertmanager groups by, so that the echoes of a loss ring once, and a loss in an outage rings by
            itself; of a kind it is the catalogue's.
        shadowed: it does not fire for a cluster in shadow mode.
        labels: those that the expression's series lack, templates; Alertmanager inhibits by them.
    """

    name: str
    expression: str
    summary: str
    meaning: str
    advice: tuple[str, ...]
    severity: Literal["critical", "warning", "none"] = "warning"
    hold: str = "0s"
    keep: str = "0s"
    now: str = ""
    kind: str = ""
    class_: Class = "warning"
    shadowed: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Silence the rule for clusters in shadow mode: findings are recorded there, and alert no one."""
        if self.kind:
            object.__setattr__(self, "class_", class_of(self.kind))
        if self.shadowed:
            object.__setattr__(self, "expression", f"({self.expression}) unless on (cluster) {_SHADOW}")

    @property
    def description(self) -> str:
        """What it means, and the values of this occurrence."""
        return f"{self.meaning} {self.now}".strip()

    def as_yaml(self) -> dict[str, Any]:
        """Return the rule in Prometheus' shape, with a link to the incidents of its kind, or to the status page."""
        incidents = f"/incidents?cluster={{{{ urlquery $labels.cluster }}}}&kind={self.kind}"
        link, page = ("incident_url", incidents) if self.kind else ("status_url", "/")
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            **({"keep_firing_for": self.keep} if self.keep != "0s" else {}),
            "labels": {
                "severity": self.severity,
                "class": self.class_,
                "service": "kafka-durability-canary",
                **self.labels,
            },
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{_ADDRESS}/runbooks/{self.name}{_PLACE}{{{{ end }}}}",
                link: f"{_ADDRESS}{page}{{{{ end }}}}",
            },
        }
