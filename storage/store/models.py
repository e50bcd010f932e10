"""The tables. Portable between SQLite and PostgreSQL; every time is a BIGINT of ns since the epoch (UTC)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base:
    """All tables; with names for their indexes, so that migrations can speak of them.

    A table is a class whose attributes are its columns, and stands for the table in statements. SQLAlchemy's own form
    of that brings its ORM, which nobody here uses: 6 MiB and 0.1 CPU-s in every process.
    """

    metadata: Final = MetaData(naming_convention=NAMES)
    __table__: Table

    def __init_subclass__(cls, *, table: str, indexes: Sequence[Index] = ()) -> None:
        """Make the table of a class that says its name and what is indexed."""
        columns = {name: value for name, value in vars(cls).items() if isinstance(value, Column)}
        for name, column in columns.items():
            column.name = column.key = name
        cls.__table__ = Table(table, Base.metadata, *columns.values(), *indexes)

    @classmethod
    def __clause_element__(cls) -> Table:
        """Return what SQLAlchemy is to take the class for."""
        return cls.__table__


class InstallationRow(Base, table="installation"):
    """One row: the name that this installation gave itself (it goes into every probe's tag)."""

    id: ColumnElement[int] = Column(Integer, primary_key=True)
    name: ColumnElement[str] = Column(String(32), nullable=False)


class ClusterRow(Base, table="clusters"):
    """The cluster.id that was first found behind a configured cluster's address."""

    name: ColumnElement[str] = Column(Text, primary_key=True)
    cluster_id: ColumnElement[str] = Column(Text, nullable=False)


class ProducerRow(Base, table="producers"):
    """The first producer id of (cluster, runner, topic, mode), for its transactional ids and groups to be named after.

    ``generation`` is what versions before 0.3 knew; GenerationRow has it now.
    """

    cluster: ColumnElement[str] = Column(Text, primary_key=True)
    runner: ColumnElement[str] = Column(Text, primary_key=True)
    topic: ColumnElement[str] = Column(Text, primary_key=True)
    mode: ColumnElement[str] = Column(Text, primary_key=True)
    producer_id: ColumnElement[int] = Column(BigInteger, unique=True, nullable=False)
    generation: ColumnElement[int] = Column(BigInteger, default=0, nullable=False)


class GenerationRow(Base, table="generations"):
    """The last generation of every producer id that was ever written under: one for each start of a runner's mode."""

    producer_id: ColumnElement[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    cluster: ColumnElement[str] = Column(Text, nullable=False)
    generation: ColumnElement[int] = Column(BigInteger, nullable=False)


class ViolationRow(
    Base,
    table="violations",
    indexes=[
        Index(None, "first_seen_ns", "id"),
        Index(None, "cluster", "kind", "topic", "partition", "offset"),
        Index(None, "cluster", "kind", "topic", "partition", "last_offset"),
        Index(None, "incident_id"),
        Index(None, "state", "cluster", "kind", "severity"),
    ],
):
    """One violation for ever; ``id`` is Violation.key(cluster). Its place is its first record's.

    ``last_offset``, ``last_identity`` and ``records`` (the runs: offset, count, first identity) are set of ranges only.
    ``closed_ns``: when it was resolved, by a person or because it ended. ``ended_ns``: when the condition that it is
    ended, whoever resolved it before or since; None while it holds, and of what is no condition.
    """

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    kind: ColumnElement[str] = Column(Text, nullable=False)
    severity: ColumnElement[str] = Column(Text, nullable=False)
    cluster: ColumnElement[str] = Column(Text, nullable=False)
    topic: ColumnElement[str] = Column(Text, nullable=False)
    topic_id: ColumnElement[str] = Column(Text, nullable=False)
    partition: ColumnElement[int] = Column(BigInteger)
    offset: ColumnElement[int] = Column(BigInteger)
    producer_id: ColumnElement[int] = Column(BigInteger)
    generation: ColumnElement[int] = Column(BigInteger)
    identity_partition: ColumnElement[int] = Column(BigInteger)
    sequence: ColumnElement[int] = Column(BigInteger)
    last_offset: ColumnElement[int] = Column(BigInteger)
    record_count: ColumnElement[int] = Column(BigInteger, nullable=False, server_default="1")
    last_identity: ColumnElement[list[int]] = Column(JSON(none_as_null=True))
    records: ColumnElement[list[Any]] = Column(JSON(none_as_null=True))
    mode: ColumnElement[str] = Column(Text)
    state: ColumnElement[str] = Column(Text, nullable=False)
    reason: ColumnElement[str] = Column(Text)
    note: ColumnElement[str] = Column(Text)
    first_seen_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    last_seen_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    closed_ns: ColumnElement[int] = Column(BigInteger)
    ended_ns: ColumnElement[int] = Column(BigInteger)
    sightings: ColumnElement[list[Any]] = Column(JSON, nullable=False)
    incident_id: ColumnElement[str] = Column(String(32), nullable=False)
    summary: ColumnElement[str] = Column(Text, nullable=False)
    evidence: ColumnElement[dict[str, Any]] = Column(JSON, nullable=False)


class ForgottenRow(
    Base,
    table="forgotten_violations",
    indexes=[
        Index(None, "cluster", "topic", "partition", "offset"),
        Index(None, "cluster", "topic", "partition", "last_offset"),
    ],
):
    """Id and records of a violation that retention deleted: seen again it is not new. Of old ones the id alone."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    cluster: ColumnElement[str] = Column(Text)
    kind: ColumnElement[str] = Column(Text)
    topic: ColumnElement[str] = Column(Text)
    topic_id: ColumnElement[str] = Column(Text)
    partition: ColumnElement[int] = Column(BigInteger)
    offset: ColumnElement[int] = Column(BigInteger)
    last_offset: ColumnElement[int] = Column(BigInteger)
    producer_id: ColumnElement[int] = Column(BigInteger)
    generation: ColumnElement[int] = Column(BigInteger)
    identity_partition: ColumnElement[int] = Column(BigInteger)
    sequence: ColumnElement[int] = Column(BigInteger)
    records: ColumnElement[list[Any]] = Column(JSON(none_as_null=True))


class ViolationTotalRow(Base, table="violation_totals"):
    """How many distinct violations were ever found; only rises, whatever retention deletes."""

    cluster: ColumnElement[str] = Column(Text, primary_key=True)
    kind: ColumnElement[str] = Column(Text, primary_key=True)
    severity: ColumnElement[str] = Column(Text, primary_key=True)
    total: ColumnElement[int] = Column(BigInteger, nullable=False)


class IncidentRow(Base, table="incidents", indexes=[Index(None, "place", "last_ns"), Index(None, "first_ns", "id")]):
    """What belongs together; ``id`` is the id of the violation that began it."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    place: ColumnElement[str] = Column(Text, nullable=False)
    cluster: ColumnElement[str] = Column(Text, nullable=False)
    topic: ColumnElement[str] = Column(Text, nullable=False)
    topic_id: ColumnElement[str] = Column(Text, nullable=False)
    partition: ColumnElement[int] = Column(BigInteger)
    lead_id: ColumnElement[str] = Column(String(32), nullable=False)
    lead_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    kind: ColumnElement[str] = Column(Text, nullable=False)
    severity: ColumnElement[str] = Column(Text, nullable=False)
    summary: ColumnElement[str] = Column(Text, nullable=False)
    state: ColumnElement[str] = Column(Text, nullable=False)
    reason: ColumnElement[str] = Column(Text)
    note: ColumnElement[str] = Column(Text)
    first_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    last_ns: ColumnElement[int] = Column(BigInteger, nullable=False)


class TopologyRow(
    Base, table="topology_changes", indexes=[Index(None, "at_ns", "id"), Index(None, "cluster", "topic", "until_ns")]
):
    """What was so in a topology from ``at_ns`` to ``until_ns`` (NULL: it is so); see storage.store.topology."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    cluster: ColumnElement[str] = Column(Text, nullable=False)
    subject: ColumnElement[str] = Column(Text, nullable=False)
    topic: ColumnElement[str] = Column(Text, nullable=False)
    number: ColumnElement[int] = Column(BigInteger, nullable=False)
    leader: ColumnElement[int] = Column(BigInteger)
    replicas: ColumnElement[str] = Column(Text, nullable=False)
    isr: ColumnElement[str] = Column(Text, nullable=False)
    detail: ColumnElement[str] = Column(Text, nullable=False)
    at_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    until_ns: ColumnElement[int] = Column(BigInteger)
    leader_epoch: ColumnElement[int] = Column(BigInteger)


class ViewRow(Base, table="views"):
    """The last view that a runner flushed of a cluster."""

    cluster: ColumnElement[str] = Column(Text, primary_key=True)
    runner: ColumnElement[str] = Column(Text, primary_key=True)
    at_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    view: ColumnElement[bytes] = Column(LargeBinary, nullable=False)


class ReconciliationRow(
    Base,
    table="reconciliations",
    indexes=[Index(None, "requested_ns", "id"), Index(None, "state", "cluster", "ended_ns")],
):
    """One run of the nightly (or asked for) reconciliation."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    cluster: ColumnElement[str] = Column(Text, nullable=False)
    state: ColumnElement[str] = Column(Text, nullable=False)
    requested_by: ColumnElement[str] = Column(Text, nullable=False)
    holder: ColumnElement[str] = Column(Text)
    requested_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    started_ns: ColumnElement[int] = Column(BigInteger)
    ended_ns: ColumnElement[int] = Column(BigInteger)
    progress: ColumnElement[str] = Column(Text)
    bounds: ColumnElement[dict[str, Any]] = Column(JSON, nullable=False)
    summary: ColumnElement[dict[str, Any]] = Column(JSON, nullable=False)
    verdicts: ColumnElement[dict[str, Any]] = Column(JSON, nullable=False)
    report: ColumnElement[str] = Column(Text)
    error: ColumnElement[str] = Column(Text)


class LeaseRow(Base, table="leases"):
    """Who may do a thing alone; ``counter`` rises with every heartbeat and every change of hands, and never falls."""

    name: ColumnElement[str] = Column(Text, primary_key=True)
    holder: ColumnElement[str] = Column(Text, nullable=False)
    counter: ColumnElement[int] = Column(BigInteger, nullable=False)
    released: ColumnElement[bool] = Column(Boolean, nullable=False)


class TokenRow(Base, table="tokens"):
    """A token of the API: what it allows, and the SHA-256 of its random secret."""

    id: ColumnElement[str] = Column(String(16), primary_key=True)
    name: ColumnElement[str] = Column(Text, nullable=False)
    scope: ColumnElement[str] = Column(Text, nullable=False)
    digest: ColumnElement[str] = Column(String(64), nullable=False)
    created_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    expires_ns: ColumnElement[int] = Column(BigInteger)
    revoked_ns: ColumnElement[int] = Column(BigInteger)


class ActionRow(Base, table="actions", indexes=[Index(None, "at_ns", "id")]):
    """What somebody did through the API or the command line; only added to."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    at_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    actor: ColumnElement[str] = Column(Text, nullable=False)
    action: ColumnElement[str] = Column(Text, nullable=False)
    target: ColumnElement[str] = Column(Text, nullable=False)
    detail: ColumnElement[dict[str, Any]] = Column(JSON, nullable=False)


class MaintenanceRow(Base, table="maintenance", indexes=[Index(None, "begin_ns", "id")]):
    """A planned window; ``cluster`` null: of all of them."""

    id: ColumnElement[str] = Column(String(32), primary_key=True)
    cluster: ColumnElement[str] = Column(Text)
    begin_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    end_ns: ColumnElement[int] = Column(BigInteger, nullable=False)
    reason: ColumnElement[str] = Column(Text, nullable=False)
    requested_by: ColumnElement[str] = Column(Text, nullable=False)
