"""The columns of CONTRACTS "Probe log and dump", exactly."""

import pyarrow as pa

import storage.arrow  # noqa: F401  # first

TIME = pa.timestamp("us", tz="UTC")
TYPES = {
    "str": pa.string(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "ts": TIME,
    "bool": pa.bool_(),
    "day": pa.date32(),
}


def schema_of(text: str) -> pa.Schema:
    """Return the columns in a text like ``topic str, offset i64?``; ``?`` marks one that may be null."""
    columns = (part.split() for part in text.split(","))
    return pa.schema([pa.field(name, TYPES[kind.rstrip("?")], nullable=kind.endswith("?")) for name, kind in columns])


_PLACE = "cluster str, topic str, topic_id str?, partition i32"
_IDENTITY = "producer_id i64, generation i32, sequence i64"
PROBES = schema_of(
    f"{_PLACE}, {_IDENTITY}, mode str, transaction_id i64?, sent_at ts, outcome str, offset i64?, acked_at ts?, "
    "leader_epoch i32?, error str?"
)
TRANSACTIONS = schema_of(
    "cluster str, producer_id i64, generation i32, transaction_id i64, began_at ts, commit_at ts?, outcome str, "
    "ended_at ts?, error str?"
)
POLLS = schema_of(f"{_PLACE}, consumer_id str, isolation str, offset i64, {_IDENTITY}, polled_at ts, leader_epoch i32?")

SCHEMAS = {"probes": PROBES, "transactions": TRANSACTIONS, "polls": POLLS}
SORTED_BY: dict[str, tuple[str, ...]] = {
    "probes": ("topic", "partition", "offset", "producer_id", "generation", "sequence"),
    "transactions": ("producer_id", "generation", "transaction_id"),
    "polls": ("topic", "partition", "offset", "consumer_id", "polled_at"),
}
"""The order of rows in each table's files (nulls last)."""
