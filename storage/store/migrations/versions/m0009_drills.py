"""Drills of live clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "drills",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("began_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("knowable_ns", sa.BigInteger(), nullable=True),
        sa.Column("detected_ns", sa.BigInteger(), nullable=True),
        sa.Column("paged_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("harmed", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drills")),
    )
    op.create_index(op.f("ix_drills_cluster_began_ns"), "drills", ["cluster", "began_ns"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_table("drills")
