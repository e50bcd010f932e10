"""The tables, for SQLite and PostgreSQL. Every time is a BIGINT of ns since the epoch (UTC).

The table of a value (`storage.store.values`) has a column for each of its fields: ``partition: int | None`` becomes a
BIGINT that may be NULL. Only what a value does not say is written here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Literal, get_args, get_origin

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

from storage.store.receivers import Notification, Receiver
from storage.store.values import (
    Action,
    DrillRun,
    Incident,
    Lease,
    Maintenance,
    Reconciliation,
    Session,
    StoredViolation,
    Token,
    TopologySpan,
    View,
    ViolationCount,
)

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_TYPES: Final[Mapping[Any, Any]] = {int: BigInteger, str: Text, bytes: LargeBinary, Literal: Text, Mapping: JSON}


def _table(
    name: str, of: type, *others: Column[Any] | Index, keys: Sequence[str] = (), without: Sequence[str] = ()
) -> Table:
    """Return the table of a value; ``others`` has the columns that differ from its fields or are not among them."""
    passed_over = {*without, *(one.name for one in others if isinstance(one, Column))}
    columns = [
        _column(field.name, field.type, primary_key=field.name in keys)
        for field in fields(of)
        if field.name not in passed_over
    ]
    return Table(name, METADATA, *columns, *others)


def _column(name: str, hint: Any, *, primary_key: bool) -> Column[Any]:
    kinds = [get_origin(hint) or hint] if get_origin(hint) in _TYPES else [*get_args(hint)] or [hint]
    known = next(kind for kind in kinds if kind is not type(None))
    return Column(name, _TYPES[get_origin(known) or known], nullable=type(None) in kinds, primary_key=primary_key)


def _id(length: int = 32) -> Column[Any]:
    return Column("id", String(length), primary_key=True)


INSTALLATION: Final = Table(
    "installation",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(32), nullable=False),
)
"""One row: the name of this installation, which is in every probe's tag."""

CLUSTERS: Final = Table(
    "clusters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("cluster_id", Text, nullable=False),
)
"""The cluster.id first seen at a configured cluster's address."""

PRODUCERS: Final = Table(
    "producers",
    METADATA,
    *(Column(name, Text, primary_key=True) for name in ("cluster", "runner", "topic", "mode")),
    Column("producer_id", BigInteger, unique=True, nullable=False),
    Column("generation", BigInteger, default=0, nullable=False),
)
"""The first producer id of (cluster, runner, topic, mode); transactional ids and groups are named after it.

``generation`` was used before version 0.3; GENERATIONS replaces it.
"""

GENERATIONS: Final = Table(
    "generations",
    METADATA,
    Column("producer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
)
"""The last generation of every producer id; each start of a runner has one of each mode."""

VIOLATIONS: Final = _table(
    "violations",
    StoredViolation,
    _id(),
    *(Column(name, BigInteger) for name in ("producer_id", "generation", "identity_partition", "sequence")),
    Column("record_count", BigInteger, nullable=False, server_default="1"),
    Column("last_identity", JSON(none_as_null=True)),
    Column("records", JSON(none_as_null=True)),
    Column("ended_ns", BigInteger),
    Column("sightings", JSON, nullable=False),
    Column("incident_id", String(32), nullable=False),
    Index(None, "first_seen_ns", "id"),
    Index(None, "cluster", "kind", "topic", "partition", "offset"),
    Index(None, "cluster", "kind", "topic", "partition", "last_offset"),
    Index(None, "incident_id"),
    Index(None, "state", "cluster", "kind", "severity"),
    without=("identity", "count"),
)
"""Violations, kept for ever; ``id`` is Violation.key(cluster), the place is that of the first record.

``last_offset``, ``last_identity`` and ``records`` (runs of offset, count, first identity) are of ranges only.
``closed_ns``: when it was resolved, by a person or because it ended. ``ended_ns``: when a condition ended, also one
that a person had resolved; NULL while it holds, and for violations that are no conditions.
"""

_KEPT: Final = (
    *("cluster", "kind", "topic", "topic_id", "partition", "offset", "last_offset"),
    *("producer_id", "generation", "identity_partition", "sequence", "records", "leader_epoch"),
)

FORGOTTEN: Final = Table(
    "forgotten_violations",
    METADATA,
    _id(),
    *(Column(name, VIOLATIONS.c[name].type) for name in _KEPT),
    Index(None, "cluster", "topic", "partition", "offset"),
    Index(None, "cluster", "topic", "partition", "last_offset"),
)
"""Id and records of violations that retention deleted: seen again they are not new. Old rows have only the id."""

VIOLATION_TOTALS: Final = _table(
    "violation_totals", ViolationCount, keys=("cluster", "kind", "severity"), without=("open",)
)
"""How many records were ever found in violations; retention does not lower it."""

INCIDENTS: Final = _table(
    "incidents",
    Incident,
    _id(),
    Column("place", Text, nullable=False),
    Column("lead_id", String(32), nullable=False),
    Column("lead_ns", BigInteger, nullable=False),
    Column("head_id", String(32), nullable=False, server_default=""),
    Column("head_ns", BigInteger, nullable=False, server_default="0"),
    Column("openings", BigInteger, nullable=False, server_default="1"),
    Index(None, "place", "last_ns"),
    Index(None, "first_ns", "id"),
)
"""Violations of one place and time; ``id`` is the id of the first one recorded.

``head_id`` "": a version before heads were known inserted it.
"""

NOTIFICATIONS: Final = _table(
    "notifications",
    Notification,
    _id(),
    Column("alerts", JSON(none_as_null=True)),
    Column("latest", Boolean, nullable=False),
    Index(None, "receiver", "incident_id", "number", unique=True),
    Index(None, "receiver", "state", "due_ns"),
    Index(None, "incident_id"),
)
"""The outbox. Of each receiver and incident the ``latest`` one says what the receiver knows, or is about to be told."""

RECEIVERS: Final = _table("receivers", Receiver, keys=("name",), without=("waiting", "oldest_ns"))

TOPOLOGY: Final = _table(
    "topology_changes",
    TopologySpan,
    _id(),
    Column("replicas", Text, nullable=False),
    Column("isr", Text, nullable=False),
    Index(None, "at_ns", "id"),
    Index(None, "cluster", "topic", "until_ns"),
)
"""The states of the topology; see repositories.topology."""

VIEWS: Final = _table("views", View, keys=("cluster", "runner"))

RECONCILIATIONS: Final = _table(
    "reconciliations",
    Reconciliation,
    _id(),
    Column("interrupted", Integer, nullable=False, server_default="0"),
    Index(None, "requested_ns", "id"),
    Index(None, "state", "cluster", "ended_ns"),
)

REPORTS: Final = Table(
    "reconciliation_reports",
    METADATA,
    Column("reconciliation_id", String(32), primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("page", LargeBinary, nullable=False),
)
"""The reports of reconciliations: HTML, gzipped. See repositories.reconciliations."""

LEASES: Final = _table("leases", Lease, Column("released", Boolean, nullable=False), keys=("name",))
"""The holders of exclusive tasks; ``counter`` rises with every renewal and every new holder, and never falls."""

TOKENS: Final = _table(
    "tokens", Token, _id(16), Column("digest", String(64), nullable=False), Column("clusters", JSON(none_as_null=True))
)
"""The tokens of the API; ``digest`` is the SHA-256 of the random secret, NULL in ``clusters`` means all."""

SESSIONS: Final = _table(
    "sessions", Session, _id(64), Column("clusters", JSON(none_as_null=True)), Index(None, "expires_ns")
)
"""Browsers that have signed in at the identity provider."""

ACTIONS: Final = _table("actions", Action, _id(), Index(None, "at_ns", "id"))
"""What people did; rows are only added."""

MAINTENANCE: Final = _table("maintenance", Maintenance, _id(), Index(None, "begin_ns", "id"))

DRILLS: Final = _table("drills", DrillRun, _id(), Index(None, "cluster", "began_ns"))
