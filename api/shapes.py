"""The bodies of REST, as CONTRACTS.md has them. Times are RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

T = TypeVar("T")

LATEST_NS = 2**63 - 1
"""The latest time that can be stored; earlier than its negative cannot either."""


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]
Severity = Literal["critical", "warning", "info"]
ViolationState = Literal["open", "acknowledged", "resolved"]


def moment(ns: int) -> datetime:
    """Return the moment so many ns after the epoch, exact to the microsecond."""
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).replace(microsecond=ns % 1_000_000_000 // 1000)


@lru_cache(maxsize=4096)
def rfc3339(ns: int) -> str:
    """Return the moment so many ns after the epoch, as every answer writes it (milliseconds, Z)."""
    return _rfc3339(moment(ns))


def moment_or_none(ns: int | None) -> datetime | None:
    """Return the moment, or None for None."""
    return None if ns is None else moment(ns)


def nanoseconds(when: datetime | None) -> int | None:
    """Return ns since the epoch, at most what 63 bits hold (1678 to 2262); a time without an offset is UTC."""
    if when is None:
        return None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    exact = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return max(-LATEST_NS, min(exact, LATEST_NS))


class Shape(BaseModel):
    """A body; what is not in it is an error."""

    model_config = ConfigDict(extra="forbid")


class Listing(Shape, Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None = Field(None, description="Give it back as ?cursor= for the next page; null at the end.")


class ProbeIdentity(Shape):
    """Who a probe is. Numbers of up to 63 bits."""

    producer_id: int
    generation: int
    partition: int
    sequence: int


class ClusterOut(Shape):
    """A cluster that is probed."""

    name: str
    cluster_id: str | None
    healthy: bool
    level: Literal["safe", "watch", "unknown", "broken"]
    sentence: str
    since: Moment | None
    topics: list[dict[str, Any]]
    runners: list[RunnerOut]


class ForgottenOut(Shape):
    """What was deleted with a cluster (counts)."""

    cluster: str
    violations: int
    incidents: int
    reconciliations: int


class RunnerOut(Shape):
    """A runner, and when it last stored what it knows."""

    name: str
    last_seen_at: Moment
    fresh: bool
    waiting_for: str | None


class ProbeCounts(Shape):
    """Totals; ``seen`` counts deliveries (each consumer's), ``unseen`` probes that some consumer has yet to read."""

    sent: int
    acked: int
    failed: int
    indeterminate: int
    seen: int
    unseen: int


class Summary(Shape):
    """Is the data of this cluster safe, and how sure is that."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cluster": "prod-eu",
                    "healthy": True,
                    "sentence": "prod-eu has kept every write that it acknowledged.",
                    "since": "2026-01-01T00:00:00.000Z",
                    "probes": {"sent": 3000, "acked": 3000, "failed": 0, "indeterminate": 0, "seen": 6000, "unseen": 0},
                    "violations": {"lost-write": 0},
                    "loss_rate_upper_95": 0.00099807,
                }
            ]
        }
    )

    cluster: str
    healthy: bool
    sentence: str
    since: Moment | None
    probes: ProbeCounts
    violations: dict[str, int] = Field(
        description="Records that violations were ever found of, by kind; every kind is there."
    )
    loss_rate_upper_95: float | None


class Sighting(Shape):
    """Somebody saw the violation."""

    by: str
    at: Moment


class ViolationOut(Shape):
    """A broken promise."""

    id: str
    kind: str
    severity: Severity
    cluster: str
    topic: str
    partition: int | None
    offset: int | None = Field(description="The first record's; of a range that was found together, see last_offset.")
    last_offset: int | None
    count: int = Field(description="How many records it is about, which is what the metrics count.")
    identity: ProbeIdentity | None = Field(description="The first record's.")
    last_identity: ProbeIdentity | None
    mode: str | None
    state: ViolationState
    first_seen_at: Moment
    last_seen_at: Moment
    sightings: list[Sighting]
    incident_id: str | None
    summary: str
    note: str | None = None
    planned: bool = Field(False, description="Found in a planned window: recorded, and no alarm.")


class ViolationDetail(ViolationOut):
    """A broken promise with its evidence."""

    evidence: dict[str, Any]
    meaning: str
    implies: str
    do_first: str
    runbook: str = Field(description="The page that says what to do, as a path of this API.")


class IncidentOut(Shape):
    """Violations that belong together; the first cause leads."""

    id: str
    cluster: str
    topic: str
    partition: int | None
    kind: str
    severity: Severity
    state: ViolationState
    summary: str
    first_seen_at: Moment
    last_seen_at: Moment
    reason: str | None
    note: str | None


class IncidentDetail(IncidentOut):
    """An incident with its violations (the first 1,000 of them)."""

    violations: list[ViolationOut]


class Acknowledge(Shape):
    """Somebody is on it."""

    note: str = Field("", max_length=10_000, description="Who, and what is being done.")


class Resolve(Shape):
    """It is dealt with."""

    reason: Literal["lost", "planned", "false"] = Field(description="Data was lost, it was planned, or a false alarm.")
    note: str = Field("", max_length=10_000)


class Sight(Shape):
    """A consumer was given the probe."""

    by: str = Field(description="The consumer.")
    isolation: str | None = None
    offset: int | None = None
    at: Moment | None = None


class ProbeLife(Shape):
    """The life of one probe, as far as the probe log knows it."""

    cluster: str
    topic: str
    mode: str | None
    identity: ProbeIdentity
    transaction_id: int | None
    sent_at: Moment | None
    outcome: Literal["acked", "failed", "indeterminate"] | None
    offset: int | None
    acked_at: Moment | None
    error: str | None
    transaction: dict[str, Any] | None
    seen: list[Sight]


class LogItem(Shape):
    """An offset, what we know to be there, and who saw it."""

    offset: int
    topic_id: str | None = Field(None, description="The incarnation of the topic.")
    identity: ProbeIdentity
    outcome: str | None
    seen_by: list[str]


class ReconciliationOut(Shape):
    """A run of the nightly (or asked for) reconciliation."""

    id: str
    cluster: str
    state: str
    requested_by: str
    requested_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    progress: str | None
    summary: dict[str, Any]
    verdicts: dict[str, Any]
    report: str | None
    error: str | None


class ReconciliationRequest(Shape):
    """Please reconcile this cluster."""

    cluster: str = Field(min_length=1, max_length=249)


class ActionOut(Shape):
    """What somebody did."""

    id: str
    at: Moment
    actor: str = Field(description="The token's name, or whom the identity provider named.")
    action: str
    target: str
    address: str | None = Field(None, description="Where it came from; null: the command line.")
    forwarded_for: str | None = Field(None, description="What a proxy said of whom it asked for; unproven.")
    detail: dict[str, Any]


class MaintenanceOut(Shape):
    """A planned window."""

    id: str
    cluster: str | None = Field(description="null: all clusters.")
    begins_at: Moment
    ends_at: Moment
    reason: str
    requested_by: str
    active: bool


class MaintenanceRequest(Shape):
    """Please expect trouble then."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"cluster": "prod-eu", "ends_at": "2026-01-01T04:00:00Z", "reason": "upgrade to 4.1"}]
        }
    )

    cluster: str | None = Field(None, min_length=1, max_length=249, description="null: all clusters.")
    begins_at: datetime | None = Field(None, description="null: now.")
    ends_at: datetime
    reason: str = Field(min_length=1, max_length=1000)


class UnseenPoint(Shape):
    """At a moment, how many acknowledged probes a consumer had not read, and how old the oldest of them was."""

    at: Moment
    unseen: int
    oldest_s: float


class UnseenSeries(Shape):
    """Unseen over time, of one partition and consumer."""

    topic: str
    partition: int
    consumer: str
    points: list[UnseenPoint]


class UnseenOut(Shape):
    """Unseen over time; ``complete_until``: the probe log is about a minute behind."""

    cluster: str
    complete_until: Moment
    items: list[UnseenSeries]


ClusterOut.model_rebuild()
