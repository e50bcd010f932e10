"""The leader epoch in which a violation happened, which tells two at one offset apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; a writer of the version before may still insert rows without them."""
    for table in ("violations", "forgotten_violations"):
        op.add_column(table, sa.Column("leader_epoch", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for table in ("forgotten_violations", "violations"):
        op.drop_column(table, "leader_epoch")
