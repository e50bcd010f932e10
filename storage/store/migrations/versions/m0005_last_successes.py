"""An index that finds each cluster's last good reconciliation without reading the others."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OLD, _NEW = "ix_reconciliations_state", "ix_reconciliations_state_cluster_ended_ns"


def upgrade() -> None:
    """Replace the index on the state alone."""
    op.drop_index(op.f(_OLD), "reconciliations")
    op.create_index(op.f(_NEW), "reconciliations", ["state", "cluster", "ended_ns"], unique=False)


def downgrade() -> None:
    """Put it back."""
    op.drop_index(op.f(_NEW), "reconciliations")
    op.create_index(op.f(_OLD), "reconciliations", ["state"], unique=False)
