"""The leader epoch in which a violation happened, which tells two at one offset apart, and between which moments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_HAPPENED = ("happened_after_ns", "happened_before_ns")


def upgrade() -> None:
    """Add the columns; a writer of the version before may still insert rows without them."""
    for table in ("violations", "forgotten_violations"):
        op.add_column(table, sa.Column("leader_epoch", sa.BigInteger(), nullable=True))
    for name in _HAPPENED:
        op.add_column("violations", sa.Column(name, sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in _HAPPENED:
        op.drop_column("violations", name)
    for table in ("forgotten_violations", "violations"):
        op.drop_column(table, "leader_epoch")
