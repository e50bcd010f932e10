"""Heads of incidents, and how bad that was of which a receiver was told."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from canary.anomalies.policy import rank

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what is worse than told is told once `migrating.upgrade` has let the worst head each incident.

    A runner of the version before may still insert incidents and notifications without them.
    """
    op.add_column("incidents", sa.Column("head_id", sa.String(length=32), nullable=False, server_default=""))
    op.add_column("incidents", sa.Column("head_ns", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("incidents", sa.Column("openings", sa.BigInteger(), nullable=False, server_default="1"))
    op.add_column("notifications", sa.Column("openings", sa.BigInteger(), nullable=True))
    op.add_column("notifications", sa.Column("rank", sa.BigInteger(), nullable=True))
    op.add_column("notifications", sa.Column("alerts", sa.JSON(), nullable=True))
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in ("lead_id", "lead_ns", "head_id", "head_ns")]
    incidents = sa.table("incidents", *columns)
    told = sa.table(
        "notifications",
        sa.column("id"),
        sa.column("rank"),
        sa.column("latest", sa.Boolean),
        sa.column("incident", sa.JSON),
    )
    connection = op.get_bind()
    connection.execute(sa.update(incidents).values(head_id=incidents.c.lead_id, head_ns=incidents.c.lead_ns))
    for row in connection.execute(sa.select(told).where(told.c.latest.is_(True))).all():
        known = rank(row.incident.get("kind", ""), row.incident.get("severity", "critical"))
        connection.execute(sa.update(told).where(told.c.id == row.id).values(rank=known))


def downgrade() -> None:
    """Drop them; titles stay as they are."""
    op.drop_column("notifications", "alerts")
    op.drop_column("notifications", "rank")
    op.drop_column("notifications", "openings")
    op.drop_column("incidents", "openings")
    op.drop_column("incidents", "head_ns")
    op.drop_column("incidents", "head_id")
