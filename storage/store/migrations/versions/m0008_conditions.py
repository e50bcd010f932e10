"""When a condition ended, also one that a person had resolved before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of conditions that nobody had resolved it is known."""
    op.add_column("violations", sa.Column("ended_ns", sa.BigInteger(), nullable=True))
    op.execute("UPDATE violations SET ended_ns = closed_ns WHERE reason = 'ended'")


def downgrade() -> None:
    """Forget it again."""
    op.drop_column("violations", "ended_ns")
