"""A producer id of its own for each start of a runner, and the generations of all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, with what the producers before wrote under."""
    op.create_table(
        "generations",
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("producer_id", name=op.f("pk_generations")),
    )
    op.execute(
        "INSERT INTO generations (producer_id, cluster, generation)"
        " SELECT producer_id, cluster, generation FROM producers"
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("generations")
