"""Nights for the reconciliation: small, nasty, and drawn by hypothesis; and their way to Arrow and Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from simulation.nights.oracle import RC, RU, Night, Row

TS = pa.timestamp("us", "UTC")
SCHEMAS = {
    "probes": pa.schema(
        [
            ("cluster", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("producer_id", pa.int64()),
            ("generation", pa.int32()),
            ("sequence", pa.int64()),
            ("mode", pa.string()),
            ("transaction_id", pa.int64()),
            ("sent_at", TS),
            ("outcome", pa.string()),
            ("offset", pa.int64()),
            ("acked_at", TS),
            ("leader_epoch", pa.int32()),
            ("error", pa.string()),
        ]
    ),
    "transactions": pa.schema(
        [
            ("cluster", pa.string()),
            ("producer_id", pa.int64()),
            ("generation", pa.int32()),
            ("transaction_id", pa.int64()),
            ("began_at", TS),
            ("commit_at", TS),
            ("outcome", pa.string()),
            ("ended_at", TS),
            ("error", pa.string()),
        ]
    ),
    "polls": pa.schema(
        [
            ("cluster", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("consumer_id", pa.string()),
            ("isolation", pa.string()),
            ("offset", pa.int64()),
            ("producer_id", pa.int64()),
            ("generation", pa.int32()),
            ("sequence", pa.int64()),
            ("polled_at", TS),
            ("leader_epoch", pa.int32()),
        ]
    ),
    "records": pa.schema(
        [
            ("cluster", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("isolation", pa.string()),
            ("offset", pa.int64()),
            ("timestamp", TS),
            ("producer_id", pa.int64()),
            ("generation", pa.int32()),
            ("sequence", pa.int64()),
            ("transaction_id", pa.int64()),
            ("valid", pa.bool_()),
        ]
    ),
    "bounds": pa.schema(
        [
            ("cluster", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("isolation", pa.string()),
            ("earliest_offset", pa.int64()),
            ("end_offset", pa.int64()),
            ("dumped_at", TS),
            ("retention_ms", pa.int64()),
            ("retention_bytes", pa.int64()),
            ("size_bytes", pa.int64()),
        ]
    ),
}
NOW = 1_790_000_000_000_000
MINUTE = 60_000_000


def arrow(rows: list[Row], table: str) -> pa.Table:
    """Return rows as the table of that name; what a row leaves out is null."""
    schema = SCHEMAS[table]
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], schema.field(name).type) for name in schema.names}, schema
    )


def bound(isolation: str, start: int, end: int, **more: Any) -> Row:
    """Return a row of bounds/."""
    row: Row = {"cluster": "c", "topic": "t", "topic_id": None, "partition": 0, "dumped_at": NOW}
    row |= {"isolation": isolation, "earliest_offset": start, "end_offset": end}
    return row | {"retention_ms": -1, "retention_bytes": -1} | more


def probe(sequence: int, offset: int | None, outcome: str = "acked", **more: Any) -> Row:
    """Return a row of probes/."""
    row: Row = {"cluster": "c", "topic": "t", "topic_id": None, "partition": 0, "producer_id": 7, "generation": 1}
    row |= {"sequence": sequence, "mode": "idempotent", "transaction_id": None, "sent_at": NOW - 60 * MINUTE}
    row |= {"outcome": outcome, "offset": offset, "acked_at": NOW - 60 * MINUTE if outcome == "acked" else None}
    return row | more


def record(offset: int, sequence: int | None, isolation: str = RC, **more: Any) -> Row:
    """Return a row of records/."""
    row: Row = {"cluster": "c", "topic": "t", "topic_id": None, "partition": 0, "isolation": isolation, "valid": True}
    ours = sequence is not None
    row |= {"offset": offset, "timestamp": NOW, "producer_id": 7 if ours else None, "generation": 1 if ours else None}
    return row | {"sequence": sequence, "transaction_id": None} | more


def poll(offset: int, sequence: int, isolation: str = RC, **more: Any) -> Row:
    """Return a row of polls/."""
    row: Row = {"cluster": "c", "topic": "t", "topic_id": None, "partition": 0, "isolation": isolation}
    row |= {"consumer_id": "x", "offset": offset, "producer_id": 7, "generation": 1, "sequence": sequence}
    return row | {"polled_at": NOW} | more


def transaction(number: int, outcome: str, **more: Any) -> Row:
    """Return a row of transactions/."""
    row: Row = {"cluster": "c", "producer_id": 7, "generation": 1, "transaction_id": number, "outcome": outcome}
    return row | {"began_at": NOW} | more


OFFSETS = st.integers(0, 14)
SEQUENCES = st.integers(0, 11)
PLACES = st.sampled_from([("c", "t", 0)] * 8 + [("c", "t", 1)] * 2 + [("d", "t", 0), ("c", "u", 0)])


@st.composite
def _somebody(draw: st.DrawFn) -> Row:
    cluster, topic, partition = draw(PLACES)
    return {
        "cluster": cluster,
        "topic": topic,
        "partition": partition,
        "producer_id": draw(st.sampled_from([7, 7, 7, 7, 8])),
        "generation": draw(st.sampled_from([1, 1, 1, 1, 2, 0])),
    }


FATES = (
    *("not in the log", "no offset", "not in committed", "not in uncommitted", "not polled", "damaged"),
    *("moved", "taken", "copied", "copied early"),
)


def _happen(night: Night, row: Row, fate: str, more: Row) -> None:
    """Put a probe into the log, and into the topic what its fate makes of it."""
    offset, sequence = row["offset"], row["sequence"]
    if fate != "not in the log":
        night.probes.append(row | ({"offset": None} if fate == "no offset" else {}))
    for level in (RC, RU):
        if fate == ("not in committed" if level == RC else "not in uncommitted"):
            continue
        damage = {"valid": False} if fate == "damaged" else {}
        held = sequence + 1 if fate == "taken" else sequence
        night.records.append(record(offset + 1 if fate == "moved" else offset, held, level, **more, **damage))
        if fate.startswith("copied"):
            night.records.append(record(offset - 2 if fate.endswith("early") else 13, sequence, level, **more))
    if fate != "not polled":
        night.polls.append(poll(offset, sequence))


@st.composite
def nights(draw: st.DrawFn) -> Night:  # noqa: C901  # one night, from top to bottom
    """Draw a night: mostly orderly, with every kind of fault, so that every rule fires in some of them."""
    night = Night()
    ids = st.sampled_from([None, None, None, "A", "A", "B"])
    incarnations = draw(st.sampled_from([None, "A"]))
    for cluster, topic, partition in (("c", "t", 0), ("c", "t", 1), ("d", "t", 0), ("c", "u", 0)):
        if draw(st.integers(0, 9)) == 0:
            continue
        start, end = sorted((draw(st.integers(0, 6)), draw(st.integers(3, 14))))
        common = {
            "cluster": cluster,
            "topic": topic,
            "partition": partition,
            "topic_id": incarnations,
            "retention_ms": draw(st.sampled_from([-1, -1, None, 3_600_000, 7_200_000])),
            "retention_bytes": draw(st.sampled_from([-1, -1, -1, None, 10])),
            "size_bytes": draw(st.sampled_from([None, 0, 4, 5, 100])),
        }
        night.bounds.append(bound(RC, start, end, **common))
        if draw(st.integers(0, 5)):
            more: Row = {"dumped_at": NOW + draw(st.sampled_from([0, -MINUTE, MINUTE]))}
            low = max(0, draw(st.sampled_from([start, start, start - 1, start - 2, start + 1, end + 2])))
            night.bounds.append(bound(RU, low, max(end + draw(st.integers(0, 4)), low), **common | more))
    for number, outcome in enumerate(draw(st.lists(st.sampled_from(["committed", "aborted", "indeterminate"])))):
        who = {"producer_id": draw(st.sampled_from([7, 7, 8])), "cluster": draw(st.sampled_from(["c", "c", "d"]))}
        night.transactions.append(transaction(number % 4, outcome, **who))
    transactions = st.sampled_from([None, None, None, 0, 1, 2, 3])
    ages = [60, 60, 60, 120, 120, 5.5, 5, 4.5, 1]  # around the hours of retention and the five minutes of rule 4
    times = st.sampled_from([NOW - int(age * MINUTE) for age in ages])
    outcomes = st.sampled_from(["acked"] * 4 + ["failed", "indeterminate"])
    shift = draw(st.integers(2, 4))
    fixed: dict[tuple[object, ...], Row] = {}

    def whose(row: Row) -> Row:
        """Give a row what never differs between two rows of one identity."""
        key = (row["cluster"], row["topic"], row["partition"], row["producer_id"], row["generation"], row["sequence"])
        return row | fixed.setdefault(key, {name: row[name] for name in ("transaction_id", "sent_at", "mode")})

    for sequence in range(draw(st.integers(0, 10))):  # an orderly run, in which most things are as they should be
        fate: Row = {"transaction_id": draw(transactions), "sent_at": draw(times), "acked_at": draw(times)}
        row = whose(probe(sequence, sequence + shift, **fate))
        _happen(night, row, draw(st.sampled_from([*FATES, *["as it should"] * 4])), {"topic_id": incarnations})
    for _ in range(draw(st.integers(0, 6))):  # and whatever else
        outcome = draw(outcomes)
        offset = draw(st.one_of(st.none(), OFFSETS)) if outcome != "failed" else None
        more = draw(_somebody()) | {"topic_id": draw(ids), "transaction_id": draw(transactions)}
        more |= {"sent_at": draw(times), "mode": draw(st.sampled_from(["idempotent", "plain"]))}
        acked_at = draw(st.one_of(st.none(), times)) if outcome == "acked" else None
        night.probes.append(whose(probe(draw(SEQUENCES), offset, outcome, **more | {"acked_at": acked_at})))
    for _ in range(draw(st.integers(0, 6))):
        held = draw(st.one_of(st.none(), SEQUENCES, SEQUENCES))
        more = draw(_somebody()) | {"topic_id": incarnations, "valid": draw(st.sampled_from([True] * 5 + [False]))}
        if held is None:
            more |= {"producer_id": None, "generation": None}
        night.records.append(record(draw(OFFSETS), held, draw(st.sampled_from([RC, RU])), **more))
    for _ in range(draw(st.integers(0, 4))):
        more = draw(_somebody()) | {"topic_id": draw(ids)}
        night.polls.append(poll(draw(OFFSETS), draw(SEQUENCES), draw(st.sampled_from([RC, RC, RU])), **more))
    return night
