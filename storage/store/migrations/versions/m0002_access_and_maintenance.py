"""Tokens, what operators did, planned windows; an index that counts open violations without reading their evidence."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_table(
        "actions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
    )
    op.create_index(op.f("ix_actions_at_ns_id"), "actions", ["at_ns", "id"], unique=False)
    op.create_table(
        "maintenance",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("begin_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maintenance")),
    )
    op.create_index(op.f("ix_maintenance_begin_ns_id"), "maintenance", ["begin_ns", "id"], unique=False)
    op.create_index(
        op.f("ix_violations_state_cluster_kind_severity"),
        "violations",
        ["state", "cluster", "kind", "severity"],
        unique=False,
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_index(op.f("ix_violations_state_cluster_kind_severity"), "violations")
    for table in ("maintenance", "actions", "tokens"):
        op.drop_table(table)
