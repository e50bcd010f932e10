"""Notifications of incidents, their receivers, and the reports of reconciliations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables. What an older version records is told by the processes of this one, too."""
    op.create_table(
        "notifications",
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("incident", sa.JSON(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("latest", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    for columns, unique in (
        (["receiver", "incident_id", "number"], True),
        (["receiver", "state", "due_ns"], False),
        (["incident_id"], False),
    ):
        op.create_index(op.f(f"ix_notifications_{'_'.join(columns)}"), "notifications", columns, unique=unique)
    op.create_table(
        "receivers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since_ns", sa.BigInteger(), nullable=False),
        sa.Column("looked_ns", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_receivers")),
    )
    op.create_table(
        "reconciliation_reports",
        sa.Column("reconciliation_id", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("page", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("reconciliation_id", name=op.f("pk_reconciliation_reports")),
    )


def downgrade() -> None:
    """Drop them: what was not sent yet is never sent."""
    op.drop_table("reconciliation_reports")
    op.drop_table("receivers")
    op.drop_table("notifications")
