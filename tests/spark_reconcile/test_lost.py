"""What is lost is told so that it can be written again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from canary.probe.batch import decode_batch
from canary.probe.record import decode
from canary.probe.record import key as key_of
from spark_reconcile.report import lost_writes
from spark_reconcile.report.output import CASE_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

TAG = b"abcd"
AT = datetime(2026, 11, 3, 4, 5, 6, 789012, UTC)


def case(kind: str, sequence: int | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "cluster": "c", "topic": "t", "topic_id": "A", "partition": 2, "offset": 9}
    row |= {"producer_id": 7, "generation": 3, "sequence": sequence, "mode": "transactional", "transaction_id": 5}
    return row | {"sent_at": AT, "acked_at": AT, "found_offset": None} | more


def test_of_all_cases_those_of_lost_writes_are_kept_and_can_be_rebuilt(tmp_path: Path) -> None:
    rows = [case("lost-write", 1), case("duplicate", 2), case("early-expiry", 3), case("corrupt", None)]
    for number, part in enumerate((rows[:1], rows[1:])):
        pq.write_table(pa.Table.from_pylist(part, CASE_SCHEMA), tmp_path / f"{number}.parquet")
    name = lost_writes.write(str(tmp_path), ["0.parquet", "1.parquet"])
    assert name is not None
    found = pq.read_table(tmp_path / name).to_pylist()
    assert [row["sequence"] for row in found] == [1, 3]
    for row in found:
        key, value = lost_writes.rebuilt(row, TAG)
        assert key == row["key"]
        probe: Any = decode(value, TAG)
        assert probe.identity == (7, 3, 2, row["sequence"])
        assert key == key_of(probe.identity)
        assert (probe.mode, probe.transaction_id) == ("transactional", 5)
        assert probe.sent_at_ns == int(AT.timestamp()) * 10**9 + 789_012_000
        assert decode_batch([value], TAG).status.tolist() == [0]


def test_where_nothing_is_lost_there_is_nothing_to_merge_back(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([case("duplicate", 2)], CASE_SCHEMA), tmp_path / "0.parquet")
    assert lost_writes.write(str(tmp_path), ["0.parquet"]) is None
