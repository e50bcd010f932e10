"""Tokens for some clusters only, and browsers that have signed in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the table; the tokens so far are for all clusters."""
    op.add_column("tokens", sa.Column("clusters", sa.JSON(), nullable=True))
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("clusters", sa.JSON(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_ns"), "sessions", ["expires_ns"], unique=False)


def downgrade() -> None:
    """Drop both, and the tokens for some clusters only: without the column they would be for all."""
    op.drop_table("sessions")
    op.execute("DELETE FROM tokens WHERE clusters IS NOT NULL")
    op.drop_column("tokens", "clusters")
