"""Violations of ranges of records, and the places of those that retention deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_FORGOTTEN = {
    "cluster": sa.Text,
    "kind": sa.Text,
    "topic": sa.Text,
    "topic_id": sa.Text,
    "partition": sa.BigInteger,
    "offset": sa.BigInteger,
    "last_offset": sa.BigInteger,
    "producer_id": sa.BigInteger,
    "generation": sa.BigInteger,
    "identity_partition": sa.BigInteger,
    "sequence": sa.BigInteger,
    "records": sa.JSON,
}
_PLACES = {
    "violations": ("cluster", "kind", "topic", "partition"),
    "forgotten_violations": ("cluster", "topic", "partition"),
}


def upgrade() -> None:
    """Add the columns: every violation so far is about one record; what was deleted is known by its id alone."""
    op.add_column("violations", sa.Column("last_offset", sa.BigInteger(), nullable=True))
    op.add_column("violations", sa.Column("record_count", sa.BigInteger(), nullable=False, server_default="1"))
    op.add_column("violations", sa.Column("last_identity", sa.JSON(), nullable=True))
    op.add_column("violations", sa.Column("records", sa.JSON(), nullable=True))
    for name, kind in _FORGOTTEN.items():
        op.add_column("forgotten_violations", sa.Column(name, kind(), nullable=True))
    for table, place in _PLACES.items():
        for end in ("offset", "last_offset"):
            op.create_index(op.f(f"ix_{table}_{'_'.join(place)}_{end}"), table, [*place, end], unique=False)
    op.drop_index(op.f("ix_violations_cluster_kind"), "violations")


def downgrade() -> None:
    """Forget all but the first record of each range."""
    op.create_index(op.f("ix_violations_cluster_kind"), "violations", ["cluster", "kind"], unique=False)
    for table, place in _PLACES.items():
        for end in ("offset", "last_offset"):
            op.drop_index(op.f(f"ix_{table}_{'_'.join(place)}_{end}"), table)
    for name in _FORGOTTEN:
        op.drop_column("forgotten_violations", name)
    for name in ("records", "last_identity", "record_count", "last_offset"):
        op.drop_column("violations", name)
