"""How often a reconciliation was interrupted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a scheduler of the version before may still insert rows without it."""
    op.add_column("reconciliations", sa.Column("interrupted", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("reconciliations", "interrupted")
