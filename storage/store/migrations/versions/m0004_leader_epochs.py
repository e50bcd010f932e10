"""Leader epochs in the topology's timeline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what was written before has no epoch."""
    op.add_column("topology_changes", sa.Column("leader_epoch", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("topology_changes", "leader_epoch")
