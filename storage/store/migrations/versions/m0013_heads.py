"""A place for another branch's migration, which replaces it."""

from __future__ import annotations

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing."""


def downgrade() -> None:
    """Do nothing."""
