"""What an audit of the configuration finds."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator

from canary.anomalies.anomaly import Severity
from canary.metrics.metric import Measurement


def _known(severity: object) -> object:
    """Return the severity; "critical" for one that only another release has: it refuses no view, and hides nothing."""
    return severity if severity in get_args(Severity) else "critical"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is set unsafely: what, where, why it matters, how to change it."""

    check: str
    severity: Annotated[Severity, BeforeValidator(_known)]
    where: str = ""
    found: str = ""
    why: str = ""
    change: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Worth knowing, and no finding."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome, worst finding first, and when it was done (ns; 0: it is not published)."""

    findings: tuple[Finding, ...]
    notes: tuple[Note, ...] = ()
    at_ns: int = 0

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return it as the command line shows it."""
        return {"findings": [asdict(one) for one in self.findings], "notes": [asdict(one) for one in self.notes]}

    def measurements(self) -> list[Measurement]:
        """Return how many findings of each severity there are."""
        severities = [one.severity for one in self.findings]
        return [Measurement("canary_audit_findings", (one,), severities.count(one)) for one in get_args(Severity)]
