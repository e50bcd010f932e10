"""The tables. Portable between SQLite and PostgreSQL; every time is a BIGINT of ns since the epoch (UTC)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Index, Integer, LargeBinary, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """All tables; with names for their indexes, so that migrations can speak of them."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {int: BigInteger, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012  # SQLAlchemy's form


class InstallationRow(Base):
    """One row: the name that this installation gave itself (it goes into every probe's tag)."""

    __tablename__ = "installation"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(32))


class ClusterRow(Base):
    """The cluster.id that was first found behind a configured cluster's address."""

    __tablename__ = "clusters"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    cluster_id: Mapped[str] = mapped_column(Text)


class ProducerRow(Base):
    """A producer id, minted once for (cluster, runner, topic, mode), and its last generation."""

    __tablename__ = "producers"
    cluster: Mapped[str] = mapped_column(Text, primary_key=True)
    runner: Mapped[str] = mapped_column(Text, primary_key=True)
    topic: Mapped[str] = mapped_column(Text, primary_key=True)
    mode: Mapped[str] = mapped_column(Text, primary_key=True)
    producer_id: Mapped[int] = mapped_column(unique=True)
    generation: Mapped[int] = mapped_column(default=0)


class ViolationRow(Base):
    """One violation for ever; ``id`` is Violation.key(cluster)."""

    __tablename__ = "violations"
    __table_args__ = (
        Index(None, "first_seen_ns", "id"),
        Index(None, "cluster", "kind"),
        Index(None, "incident_id"),
        Index(None, "state", "cluster", "kind", "severity"),
    )
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    severity: Mapped[str] = mapped_column(Text)
    cluster: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(Text)
    topic_id: Mapped[str] = mapped_column(Text)
    partition: Mapped[int | None]
    offset: Mapped[int | None]
    producer_id: Mapped[int | None]
    generation: Mapped[int | None]
    identity_partition: Mapped[int | None]
    sequence: Mapped[int | None]
    mode: Mapped[str | None] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    reason: Mapped[str | None] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    first_seen_ns: Mapped[int]
    last_seen_ns: Mapped[int]
    closed_ns: Mapped[int | None]
    sightings: Mapped[list[Any]]
    incident_id: Mapped[str] = mapped_column(String(32))
    summary: Mapped[str] = mapped_column(Text)
    evidence: Mapped[dict[str, Any]]


class ForgottenRow(Base):
    """The id of a violation that retention deleted: seen again it is not new."""

    __tablename__ = "forgotten_violations"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)


class ViolationTotalRow(Base):
    """How many distinct violations were ever found; only rises, whatever retention deletes."""

    __tablename__ = "violation_totals"
    cluster: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    severity: Mapped[str] = mapped_column(Text, primary_key=True)
    total: Mapped[int]


class IncidentRow(Base):
    """What belongs together; ``id`` is the id of the violation that began it."""

    __tablename__ = "incidents"
    __table_args__ = (Index(None, "place", "last_ns"), Index(None, "first_ns", "id"))
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    place: Mapped[str] = mapped_column(Text)
    cluster: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(Text)
    topic_id: Mapped[str] = mapped_column(Text)
    partition: Mapped[int | None]
    lead_id: Mapped[str] = mapped_column(String(32))
    lead_ns: Mapped[int]
    kind: Mapped[str] = mapped_column(Text)
    severity: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    reason: Mapped[str | None] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    first_ns: Mapped[int]
    last_ns: Mapped[int]


class TopologyRow(Base):
    """What was so in a topology from ``at_ns`` to ``until_ns`` (NULL: it is so); see storage.store.topology."""

    __tablename__ = "topology_changes"
    __table_args__ = (Index(None, "at_ns", "id"), Index(None, "cluster", "topic", "until_ns"))
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    cluster: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(Text)
    number: Mapped[int]
    leader: Mapped[int | None]
    replicas: Mapped[str] = mapped_column(Text)
    isr: Mapped[str] = mapped_column(Text)
    detail: Mapped[str] = mapped_column(Text)
    at_ns: Mapped[int]
    until_ns: Mapped[int | None]
    leader_epoch: Mapped[int | None]


class ViewRow(Base):
    """The last view that a runner flushed of a cluster."""

    __tablename__ = "views"
    cluster: Mapped[str] = mapped_column(Text, primary_key=True)
    runner: Mapped[str] = mapped_column(Text, primary_key=True)
    at_ns: Mapped[int]
    view: Mapped[bytes] = mapped_column(LargeBinary)


class ReconciliationRow(Base):
    """One run of the nightly (or asked for) reconciliation."""

    __tablename__ = "reconciliations"
    __table_args__ = (Index(None, "requested_ns", "id"), Index(None, "state"))
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    cluster: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    requested_by: Mapped[str] = mapped_column(Text)
    holder: Mapped[str | None] = mapped_column(Text)
    requested_ns: Mapped[int]
    started_ns: Mapped[int | None]
    ended_ns: Mapped[int | None]
    progress: Mapped[str | None] = mapped_column(Text)
    bounds: Mapped[dict[str, Any]]
    summary: Mapped[dict[str, Any]]
    verdicts: Mapped[dict[str, Any]]
    report: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)


class LeaseRow(Base):
    """Who may do a thing alone; ``counter`` rises with every heartbeat and every change of hands, and never falls."""

    __tablename__ = "leases"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    holder: Mapped[str] = mapped_column(Text)
    counter: Mapped[int]
    released: Mapped[bool] = mapped_column(Boolean)


class TokenRow(Base):
    """A token of the API: what it allows, and the SHA-256 of its random secret."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    scope: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))
    created_ns: Mapped[int]
    expires_ns: Mapped[int | None]
    revoked_ns: Mapped[int | None]


class ActionRow(Base):
    """What somebody did through the API or the command line; only added to."""

    __tablename__ = "actions"
    __table_args__ = (Index(None, "at_ns", "id"),)
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    at_ns: Mapped[int]
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    target: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]]


class MaintenanceRow(Base):
    """A planned window; ``cluster`` null: of all of them."""

    __tablename__ = "maintenance"
    __table_args__ = (Index(None, "begin_ns", "id"),)
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    cluster: Mapped[str | None] = mapped_column(Text)
    begin_ns: Mapped[int]
    end_ns: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)
    requested_by: Mapped[str] = mapped_column(Text)
