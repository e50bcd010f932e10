"""An alerting rule: its expression, its summary and its runbook text together; and a recording rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canary.anomalies.anomaly import Class, Severity
from canary.anomalies.policy import class_of
from dashboards.boards.queries import BEGAN, HEARTBEAT, gauge
from dashboards.rules.thresholds import COVERED

UNLOOKED = "no: it is about what is not looked at; the pages and /metrics say it"
"""Why a receiver of ``notify`` is not told of a rule."""
SILENCE = f"time() - max by (cluster) ({gauge(HEARTBEAT)})"
"""For how long (s) no runner of a cluster has judged anything."""
UNWRITTEN = f"(max by (cluster) ({gauge('canary_api_store_writable')}) == 0)"
"""Clusters whose store takes writes of no API that shows them: then the silence of a runner says nothing of it."""
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
_INCIDENTS = (
    'sort_desc(topk by (cluster, incident) (1, canary_incident_info{cluster=%q,class="CLASS"}) '
    f"* on (cluster, incident) group_left (topic, partition) (0 * {gauge(BEGAN)} + 1))"
)
_FACTS = (
    f"{{{{ with printf `{_INCIDENTS}` $labels.cluster | query }}}}{{{{ if gt (len .) 5 }}}} the worst 5 of "
    "{{ len . }}{{ end }}{{ range $number, $one := . }}{{ if lt $number 5 }}\n"
    '{{ with label "topic" $one }}{{ . }}{{ with label "partition" $one }}-{{ . }}{{ end }}{{ else }}'
    "the whole cluster{{ end }}"
    f"{{{{ with printf `{BEGAN}{{incident=%q}}` (label `incident` $one) | query }}}}"
    ", since {{ . | first | value | humanizeTimestamp }}{{ end }}: "
    '{{ label "summary" $one }}'
    '{{ with query "canary_api_info" }} {{ . | first | label "url" }}/incidents/{{ label "incident" $one }}{{ end }}'
    "{{ end }}{{ end }}{{ end }}"
)
"""The template of the incidents of the alert's class in its cluster: place, time, what is gone, link."""


def age(metric: str, asked: str = "") -> str:
    """Return the time (s) since a metric says that something was last done, by cluster.

    What was never done (0, or no series) is as old as the probing, where it is asked for: where there is the metric
    ``asked`` (by default the same one). What a canary of minutes has not done yet is not overdue for days.
    """
    last, wanted, began = (
        f"max by (cluster) ({gauge(one)})"
        for one in (metric, asked or metric, "canary_probing_since_timestamp_seconds")
    )
    return f"time() - ({last} > 0 or ({began} and {wanted}) or {last})"


def covered(series: str, hours: int) -> str:
    """Return the series of which there were samples in at least COVERED of so many hours: of others it is no window."""
    return f"count_over_time(({series})[{hours}h:5m]) >= {COVERED * hours * 12:g}"


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
        milder: the other severities that it may have, by the label ``severity`` of its series.
        hold: Prometheus' ``for``.
        keep: Prometheus' ``keep_firing_for``: what comes and goes is one page, not one each time.
        now: the values of this occurrence, a template.
        kind: the anomaly whose incidents the alert links to; "" if it is about the canary itself.
        notify: without a kind, how a receiver of the settings (``notify``) is told of the same, or why it is not.
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
    severity: Literal["critical", "warning", "info", "none"] = "warning"
    milder: tuple[Severity, ...] = ()
    hold: str = "0s"
    keep: str = "0s"
    now: str = ""
    kind: str = ""
    notify: str = ""
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
        """What it means, and the values of this occurrence: of a kind also where it is, since when, and how many."""
        facts = _FACTS.replace("CLASS", self.class_) if self.kind else ""
        return f"{self.meaning} {self.now}".strip() + facts

    def as_yaml(self) -> dict[str, Any]:
        """Return the rule in Prometheus' shape, with a link to its incidents, or to the status page."""
        link, page = ("incident_url", f"/alerts/{self.name}{_PLACE}") if self.kind else ("status_url", "/")
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            **({"keep_firing_for": self.keep} if self.keep != "0s" else {}),
            "labels": {
                "severity": "{{ $labels.severity }}" if self.milder else self.severity,
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
