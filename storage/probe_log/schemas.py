"""The columns of CONTRACTS "Probe log and dump", exactly."""

from __future__ import annotations

import pyarrow as pa

import storage.arrow  # noqa: F401  # first

TIME = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Return a schema; a name that ends in ``_or_null`` may be null (and loses that ending)."""
    return pa.schema(
        [
            pa.field(name.removesuffix("_or_null"), kind, nullable=name.endswith("_or_null"))
            for name, kind in columns.items()
        ]
    )


PROBES = _schema(
    cluster=pa.string(),
    topic=pa.string(),
    topic_id_or_null=pa.string(),
    partition=pa.int32(),
    producer_id=pa.int64(),
    generation=pa.int32(),
    sequence=pa.int64(),
    mode=pa.string(),
    transaction_id_or_null=pa.int64(),
    sent_at=TIME,
    outcome=pa.string(),
    offset_or_null=pa.int64(),
    acked_at_or_null=TIME,
    leader_epoch_or_null=pa.int32(),
    error_or_null=pa.string(),
)

TRANSACTIONS = _schema(
    cluster=pa.string(),
    producer_id=pa.int64(),
    generation=pa.int32(),
    transaction_id=pa.int64(),
    began_at=TIME,
    commit_at_or_null=TIME,
    outcome=pa.string(),
    ended_at_or_null=TIME,
    error_or_null=pa.string(),
)

POLLS = _schema(
    cluster=pa.string(),
    topic=pa.string(),
    topic_id_or_null=pa.string(),
    partition=pa.int32(),
    consumer_id=pa.string(),
    isolation=pa.string(),
    offset=pa.int64(),
    producer_id=pa.int64(),
    generation=pa.int32(),
    sequence=pa.int64(),
    polled_at=TIME,
    leader_epoch_or_null=pa.int32(),
)

SORTED_BY: dict[str, tuple[str, ...]] = {
    "probes": ("topic", "partition", "offset", "producer_id", "generation", "sequence"),
    "transactions": ("producer_id", "generation", "transaction_id"),
    "polls": ("topic", "partition", "offset", "consumer_id", "polled_at"),
}
"""The order of rows in each table's files (nulls last)."""
