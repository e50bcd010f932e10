"""One alerting rule: its expression, its summary and its runbook text together."""

from dataclasses import dataclass
from typing import Any, Literal

from dashboards.boards.queries import HEARTBEAT, gauge

SILENCE = f"time() - max by (cluster) ({gauge(HEARTBEAT)})"
"""For how long (s) no runner of a cluster has judged anything."""
PLANNED = "max by (cluster) (" + gauge("canary_quiet", 'reason="maintenance"') + ")"
"""Clusters within a planned window."""
_SHADOW = "max by (cluster) (" + gauge("canary_quiet", 'reason="shadow"') + ")"
_ADDRESS = '{{ with query "canary_api_info" }}{{ . | first | label "url" }}'
"""The template of the pages' address, as the API exports it; empty if the API does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An alerting rule.

    Attributes:
        name: the alert.
        expression: PromQL; ``shadowed`` adds the part that silences clusters in shadow mode.
        summary: one line, a template.
        meaning: what has happened, for the description and the runbook.
        advice: the runbook's steps, the first one first.
        severity: which route Alertmanager takes.
        hold: Prometheus' ``for``.
        now: the values of this occurrence, a template.
        kind: the anomaly whose incidents the alert links to; "" if it is about the canary itself.
        shadowed: it does not fire for a cluster in shadow mode.
    """

    name: str
    expression: str
    summary: str
    meaning: str
    advice: tuple[str, ...]
    severity: Literal["critical", "warning"] = "warning"
    hold: str = "0s"
    now: str = ""
    kind: str = ""
    shadowed: bool = True

    def __post_init__(self) -> None:
        """Silence the rule for clusters in shadow mode: findings are recorded there, and alert no one."""
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
            "labels": {"severity": self.severity, "service": "kafka-durability-canary"},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{_ADDRESS}/runbooks/{self.name}{{{{ end }}}}",
                link: f"{_ADDRESS}{page}{{{{ end }}}}",
            },
        }
