"""The topology's timeline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make it."""
    op.create_table(
        "topology_changes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("leader", sa.BigInteger(), nullable=True),
        sa.Column("replicas", sa.Text(), nullable=False),
        sa.Column("isr", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_topology_changes")),
    )
    op.create_index(op.f("ix_topology_changes_at_ns_id"), "topology_changes", ["at_ns", "id"], unique=False)
    op.create_index(
        op.f("ix_topology_changes_cluster_topic_until_ns"),
        "topology_changes",
        ["cluster", "topic", "until_ns"],
        unique=False,
    )


def downgrade() -> None:
    """Forget it."""
    op.drop_table("topology_changes")
