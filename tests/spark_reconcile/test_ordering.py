"""Circles of transactions, against the checker of recorded histories, whatever the cut into ranges."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from canary.anomalies.offline import Options, check
from canary.history.reading import load
from simulation.nights import oracle
from simulation.nights.nights import MINUTE, NOW, bound, probe, record, transaction
from spark_reconcile.job import driver, ranges, sources
from spark_reconcile.job.inputs import look
from spark_reconcile.match import ordering
from spark_reconcile.tables.parquet import result_batches
from tests.spark_reconcile.test_history_engine import Inline
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

PARTITIONS = 3


def interleaved(seed: int) -> tuple[oracle.Night, bytes]:
    """Return a night of transactions that write in turns, some aborted or never found, and it as a history."""
    seeded = random.Random(seed)  # noqa: S311  # nothing secret
    night = oracle.Night()
    count = seeded.randint(2, 30)
    mixing = seeded.choice([1, 2, 3, 6])  # so many write at a time
    fates = [seeded.choice(["committed"] * 4 + ["indeterminate", "aborted"]) for _ in range(count)]
    waiting = [[number] * seeded.randint(1, 4) for number in range(count)]
    sequences = [0] * PARTITIONS
    sends: dict[int, list[Any]] = {}
    while any(waiting):
        turn = seeded.choice([one for one in waiting if one][:mixing])
        number, partition = turn.pop(), seeded.randrange(PARTITIONS)
        offset, sequence = 2 * sequences[partition], sequences[partition]
        sequences[partition] += 1
        who: dict[str, Any] = {"partition": partition, "producer_id": 7 + number % 2, "transaction_id": number}
        night.probes.append(probe(sequence, offset, **who))
        if fates[number] == "aborted":
            continue
        night.records += [record(offset, sequence, level, **who) for level in (oracle.RC, oracle.RU)]
        sends.setdefault(number, []).append(["send", partition, [offset, f"{number}/{sequence}"]])
    for number, fate in enumerate(fates):
        began = NOW - 60 * MINUTE + 1000 * seeded.choice([number, number, number // 3, 0])
        night.transactions.append(transaction(number, fate, producer_id=7 + number % 2, began_at=began))
    night.bounds = [
        bound(level, 0, 2 * sequences[partition], partition=partition)
        for partition in range(PARTITIONS)
        for level in (oracle.RC, oracle.RU)
    ]
    lines, index = [], 0
    for number, ops in sends.items():
        asked = [["send", key, value] for _, key, (_, value) in ops]
        for kind, value in (("invoke", asked), ("ok", ops)):
            op = {"index": index, "time": index, "process": number, "type": kind, "f": "txn", "value": value}
            lines.append(orjson.dumps(op))
            index += 1
    return night, b"\n".join(lines) + b"\n"


def small_groups(table: pa.Table, folder: Path, name: str) -> None:
    """Write a file for each partition, in order, in row groups of four."""
    if "offset" not in table.schema.names or not len(table):
        pq.write_table(table, folder / "all.parquet")
        return
    level = [("isolation", "ascending")] if name == "records" else []
    table = table.sort_by([("partition", "ascending"), *level, ("offset", "ascending")])
    for number, part in enumerate(sorted(set(table.column("partition").to_pylist()))):
        mine = table.filter(pa.compute.equal(table.column("partition"), part))
        pq.write_table(mine, folder / f"{number}.parquet", row_group_size=4)


def test_circles_are_those_of_the_recorded_history(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some nights have circles, and some have none."""
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)
    found = [
        circles_of(night, history, written(night, small_groups, name=f"{number}"))
        for number, (night, history) in enumerate(map(interleaved, cases("nights of transactions", 20)))
    ]
    assert any(found)
    assert not all(found) or len(found) < 10, "a tenth or so has none"


def circles_of(night: oracle.Night, history: bytes, root: Path) -> int:
    """Reconcile a night, compare its circles with those of the history, and return how many there are."""
    spark: Any = Inline()
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    expected = check(load(io.BytesIO(history), "history"), Options(ww_deps=True))
    batches = result_batches(str(root / "out"), "anomalies", 4096)
    told = [case for batch in batches for case in batch.to_pylist() if case["kind"] == "G0"]
    assert report.summary["anomalies"].get("G0", 0) == len(told)
    circles = [json.loads(case["evidence"])["cycle"] for case in told]
    cases = expected.anomalies.get("G0", ())
    assert sorted(map(len, circles)) == sorted(len(case["ops"]) for case in cases)
    for circle in circles:
        numbers = [step["transaction_id"] for step in circle]
        assert len(set(numbers)) == len(numbers)
        for before, after in zip([*circle[-1:], *circle[:-1]], circle, strict=True):
            assert stands_right_before(night, before["transaction_id"], after)
    if set(report.summary["anomalies"]) <= {"G0"}:
        assert report.exit_status == 0, "the protocol allows it"
    return len(circles)


def stands_right_before(night: oracle.Night, transaction_id: int, step: dict[str, Any]) -> bool:
    rows = [row for row in night.records if row["partition"] == step["partition"] and row["isolation"] == oracle.RC]
    rows.sort(key=lambda row: row["offset"])
    at = [row["offset"] for row in rows].index(step["offset"])
    told = rows[at - 1]["transaction_id"], rows[at]["transaction_id"]
    return told == (transaction_id, step["transaction_id"])


def test_too_many_dependencies_are_told_and_nothing_is_judged(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "MOST_EDGES", 1)
    seed = next(seed for seed in range(60) if len(interleaved(seed)[0].probes) > 30)
    root = written(interleaved(seed)[0], small_groups)
    spark: Any = Inline()
    summary = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out")).summary
    assert "G0" not in summary["anomalies"]
    assert any("no cycles (G0) were looked for" in note and "more than 1" in note for note in summary["notes"])


def test_one_after_the_other_is_no_reason_to_look_twice(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    night = oracle.Night()
    night.bounds = [bound(level, 0, 40) for level in (oracle.RC, oracle.RU)]
    for sequence in range(40):
        night.probes.append(probe(sequence, sequence, transaction_id=sequence // 4))
        night.records += [record(sequence, sequence, level) for level in (oracle.RC, oracle.RU)]
    night.transactions = [transaction(number, "committed", began_at=NOW) for number in range(10)]
    monkeypatch.setattr(sources.Direct, "edges", None)
    spark: Any = Inline()
    root = written(night, small_groups)
    assert driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out")).exit_status == 0
