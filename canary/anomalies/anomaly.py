"""What the catalogue says of one anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from canary.anomalies.violation import Severity

Scope = Literal["offline", "online", "spark", "watch"]
"""Who decides it: the checker of histories, the running tracker, the nightly reconciliation, the watch."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One entry of the catalogue: everything that metrics, API, documents, dashboards and runbooks say of an anomaly.

    Attributes:
        name: The name of ANOMALIES.md; the metrics' label ``kind``, and Jepsen's name where Jepsen has one.
        title: A few words for headlines.
        severity: The one it usually has; ``severities`` are all that it may have.
        meaning: What happened, in one sentence.
        implies: What that means for the data.
        do_first: What whoever is paged does first.
        source: The seed, paper or issue that it comes from, with its section.
        allowed: When the protocol allows it; "" if never.
        scopes: Who decides it.
        expected_online: The running tracker decides it from the stream of facts (every kind that it may raise).
        severities: Every severity a violation of this kind may have, the usual one first.
    """

    name: str
    title: str
    severity: Severity
    meaning: str
    implies: str
    do_first: str
    source: str
    allowed: str
    scopes: frozenset[Scope]
    expected_online: bool
    severities: tuple[Severity, ...]


def entry(
    name: str,
    title: str,
    severities: tuple[Severity, ...],
    *scopes: Scope,
    meaning: str,
    implies: str,
    do_first: str,
    source: str,
    allowed: str = "",
) -> Anomaly:
    """Return an entry whose usual severity is the first of ``severities``."""
    return Anomaly(
        name=name,
        title=title,
        severity=severities[0],
        meaning=meaning,
        implies=implies,
        do_first=do_first,
        source=source,
        allowed=allowed,
        scopes=frozenset(scopes),
        expected_online="online" in scopes,
        severities=severities,
    )
