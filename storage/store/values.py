"""The values that the store returns: frozen, times in ns since the epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from canary.anomalies.anomaly import Class
from canary.anomalies.policy import class_of
from canary.anomalies.violation import Records
from canary.probe.identity import Identity

State = Literal["open", "acknowledged", "resolved"]
Reason = Literal["lost", "planned", "false", "ended"]
Scope = Literal["read", "operate"]
WINDOW: Final = "In a planned window"
"""How the note begins that a violation has from its window, until a person writes another one."""
ReconciliationState = Literal["requested", "running", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """The part that saw a violation (``by``), and when."""

    by: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class StoredViolation:
    """A stored violation (fields as in canary.anomalies.violation, CONTRACTS "REST").

    ``offset`` and ``identity`` belong to the first of its ``count`` records; a range has ``records``, its runs.
    It happened after ``happened_after_ns`` (None: not known) and before ``happened_before_ns`` (None: a row of before).
    ``evidence`` and ``records`` are empty in lists. ``reason`` is why it was resolved; "ended": the condition ended.
    """

    id: str
    kind: str
    severity: str
    cluster: str
    topic: str
    topic_id: str
    partition: int | None
    offset: int | None
    identity: Identity | None
    mode: str | None
    state: State
    reason: Reason | None
    note: str | None
    first_seen_ns: int
    last_seen_ns: int
    closed_ns: int | None
    sightings: Sequence[Sighting]
    incident_id: str
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    last_offset: int | None = None
    count: int = 1
    last_identity: Identity | None = None
    records: Sequence[Records] = ()
    leader_epoch: int | None = None
    happened_after_ns: int | None = None
    happened_before_ns: int | None = None

    @property
    def planned(self) -> bool:
        """Whether it happened in a planned window, or a person resolved it as planned."""
        return self.reason == "planned"


@dataclass(frozen=True, slots=True)
class Findings:
    """All violations of one kind and severity in an incident: the first one without its evidence, and how many.

    ``records``: how many these are about, without false alarms.
    """

    first: StoredViolation
    violations: int
    records: int


@dataclass(frozen=True, slots=True)
class ViolationRange:
    """Violations of one kind whose offsets are neighbours: the first and the last of them, and how many there are.

    ``records``: of all of them; ``first_seen_ns``: when one of them was first seen.
    """

    first: StoredViolation
    last: StoredViolation
    violations: int
    records: int
    first_seen_ns: int


@dataclass(frozen=True, slots=True)
class ViolationFilter:
    """Which violations to list; None = any.

    ``since_ns`` and ``until_ns``: seen between them, both included. ``offset``: at it, or in a range that contains it.
    """

    kind: str | None = None
    severity: str | None = None
    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    state: str | None = None
    incident_id: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class ViolationCount:
    """Counts of records. ``total``: ever found with this severity (never falls); ``open``: in open violations."""

    cluster: str
    kind: str
    severity: str
    total: int
    open: int


@dataclass(frozen=True, slots=True)
class OpenViolations:
    """How many violations of a cluster, kind and severity are open, and records in them; ``last_ns``: the newest."""

    cluster: str
    kind: str
    severity: str
    violations: int
    records: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class ViolationGroup:
    """How many records count in a group of violations, which were first seen from ``first_ns`` to ``last_ns``.

    ``note``: of one of those that are acknowledged as planned, which the window wrote, or a person since.
    """

    cluster: str
    kind: str
    severity: str
    mode: str | None
    state: State
    reason: Reason | None
    records: int
    first_ns: int
    last_ns: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Violations of one place and time; ``lead_id``: the first cause.

    ``head_id``: the worst that is open, or acknowledged where none is (`repositories.findings.heads`); ``kind``,
    ``severity``, ``summary`` and ``head_ns`` (when it was first seen) are its own. ``openings``: how often it was
    opened, also while acknowledged.
    """

    id: str
    cluster: str
    topic: str
    topic_id: str
    partition: int | None
    lead_id: str
    head_id: str
    head_ns: int
    kind: str
    severity: str
    summary: str
    state: State
    reason: Reason | None
    note: str | None
    first_ns: int
    last_ns: int
    openings: int = 1

    @property
    def class_(self) -> Class:
        """What it is about."""
        return class_of(self.kind)


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list; None = any. ``kind``: those that contain a violation of this kind."""

    cluster: str | None = None
    kind: str | None = None
    topic: str | None = None
    partition: int | None = None
    severity: str | None = None
    state: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The last view that a runner flushed (orjson bytes, version 1)."""

    cluster: str
    runner: str
    at_ns: int
    view: bytes


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A reconciliation. ``report`` is the place of its report.

    ``interrupted``: how often the process that ran it was ended before it was done.
    """

    id: str
    cluster: str
    state: ReconciliationState
    requested_by: str
    holder: str | None
    requested_ns: int
    started_ns: int | None
    ended_ns: int | None
    progress: str | None
    bounds: Mapping[str, Any]
    summary: Mapping[str, Any]
    verdicts: Mapping[str, Any]
    report: str | None
    error: str | None
    interrupted: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that we hold."""

    name: str
    holder: str
    counter: int


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that another process holds; it is alive while ``counter`` rises (measured on our monotonic clock)."""

    name: str
    holder: str
    counter: int


@dataclass(frozen=True, slots=True)
class Purged:
    """How many rows were deleted; ``changes``: of the topology."""

    violations: int
    incidents: int
    reconciliations: int
    changes: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the API, without its secret. ``scope`` operate includes read; None in ``expires_ns`` means never.

    ``clusters``: the only ones that it may see; None: all.
    """

    id: str
    name: str
    scope: Scope
    created_ns: int
    expires_ns: int | None
    revoked_ns: int | None
    clusters: tuple[str, ...] | None = None

    def valid(self, at_ns: int) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_ns is None and (self.expires_ns is None or at_ns < self.expires_ns)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that has signed in. ``id``: the SHA-256 of its cookie (hex); the others as of a token."""

    id: str
    name: str
    scope: Scope
    clusters: tuple[str, ...] | None
    created_ns: int
    expires_ns: int


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a person: ``action`` like "acknowledge", ``target`` like "incident 4f…"."""

    id: str
    at_ns: int
    actor: str
    action: str
    target: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A planned window [begin_ns, end_ns); violations that happened in it are planned. ``cluster`` None: all."""

    id: str
    cluster: str | None
    begin_ns: int
    end_ns: int
    reason: str
    requested_by: str


@dataclass(frozen=True, slots=True)
class DrillRun:
    """A drill of a live cluster, which harms ``topic`` from ``began_ns`` on, and until ``until_ns`` at the latest.

    ``knowable_ns``: from when on a direct client could know; ``detected_ns``: the runner reported it; ``paged_ns``: the
    pager's webhook came back; ``ended_ns``: it is over; each None as long as that has not happened. ``error``: why it
    failed; None: it did not. ``harmed``: by partition (as text), the offsets that it wrote or destroyed.
    """

    id: str
    cluster: str
    name: str
    topic: str
    began_ns: int
    until_ns: int
    requested_by: str
    knowable_ns: int | None = None
    detected_ns: int | None = None
    paged_ns: int | None = None
    ended_ns: int | None = None
    error: str | None = None
    harmed: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def explains(self, topic: str, partition: int | None, offset: int | None, at_ns: int) -> bool:
        """Tell whether what was found there, at that time, is this drill's doing."""
        if topic != self.topic:
            return False
        running = self.began_ns <= at_ns < (self.until_ns if self.ended_ns is None else self.ended_ns)
        return running or offset in self.harmed.get(str(partition), ())


@dataclass(frozen=True, slots=True)
class TopologySpan:
    """A state from ``at_ns`` to ``until_ns`` (ns since the epoch; None: it lasts)."""

    id: str
    cluster: str
    subject: str
    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    detail: str
    at_ns: int
    until_ns: int | None
    leader_epoch: int | None = None

    @property
    def led(self) -> bool:
        """Whether the partition has a leader in it."""
        return self.leader is not None and self.leader >= 0


@dataclass(frozen=True, slots=True)
class TopologyFilter:
    """Which spans; None = any. ``since_ns`` and ``until_ns``: in force at some time between them, both included."""

    cluster: str | None = None
    subject: str | None = None
    topic: str | None = None
    number: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
