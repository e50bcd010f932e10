"""A night of any size in the canary's own layout, with faults whose verdicts are known."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.generators.reconciliation_nights import NOW, SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 12
FILE_ROWS = 1 << 20
GROUP_ROWS = 1 << 17
IN_A_TRANSACTION = 10
HOUR = 3_600_000_000


def generate(folder: Path, rows: int, *, levels: int, polls: bool) -> dict[str, Any]:
    """Write probe log and dump; return verdicts and anomalies to be found. A folder that is there is taken as it is."""
    marker = folder / "planted.json"
    if marker.exists():
        kept: dict[str, Any] = json.loads(marker.read_text())
        return kept
    shutil.rmtree(folder, ignore_errors=True)
    for table in ("log/probes", "log/transactions", "log/polls", "dump/records", "dump/bounds"):
        (folder / table).mkdir(parents=True)
    random = np.random.default_rng(7)
    each = rows // PARTITIONS
    total: dict[str, Any] = {"verdicts": {}, "anomalies": {}, "records": 0}
    for partition in range(PARTITIONS):
        _partition(folder, partition, each, random, total, levels=levels, polls=polls)
    if not polls:
        pq.write_table(SCHEMAS["polls"].empty_table(), folder / "log/polls/empty.parquet")
    marker.write_text(json.dumps(total))
    return total


def _partition(  # noqa: PLR0915  # one plan of faults, read from top to bottom
    folder: Path,
    partition: int,
    size: int,
    random: np.random.Generator,
    total: dict[str, Any],
    *,
    levels: int,
    polls: bool,
) -> None:
    """Offsets equal sequences; every 20th block of ten probes is one transaction. Faults touch plain probes mostly."""
    faults = 84 // 2
    producer = 1_000_003 + partition
    sequence = np.arange(size, dtype=np.int64)
    offset = sequence.copy()
    block = sequence // IN_A_TRANSACTION
    transactional = block % 20 == 7
    aborted = transactional & (block % 60 == 7)
    plain = np.flatnonzero(~transactional[100 : size - 100]) + 100
    picked = np.sort(random.choice(plain[::3], faults * 2, replace=False))
    random.shuffle(picked)
    lost, damaged, open_found, open_absent, twice, refused_found = np.array_split(picked[: faults // 7 * 12], 6)
    verdicts = dict.fromkeys(("survived",), 0)
    outcome = np.zeros(size, dtype=np.int8)
    outcome[open_found] = outcome[open_absent] = 2
    outcome[refused_found] = 1
    known = outcome == 0
    sent = NOW - 6 * HOUR + sequence * 5 * HOUR // size
    _write(
        folder / "log/probes",
        partition,
        "probes",
        {
            "cluster": "c",
            "topic": "t",
            "topic_id": "A",
            "partition": partition,
            "producer_id": producer,
            "generation": 1,
            "sequence": sequence,
            "mode": np.where(transactional, "transactional", "idempotent"),
            "transaction_id": (block, ~transactional),
            "sent_at": sent,
            "outcome": np.array(["acked", "failed", "indeterminate"])[outcome],
            "offset": (offset, ~known),
            "acked_at": (sent + 3000, ~known),
        },
        order=np.lexsort((offset, ~known)),
    )
    ids = np.unique(block[transactional])
    _write(
        folder / "log/transactions",
        partition,
        "transactions",
        {
            "cluster": "c",
            "producer_id": producer,
            "generation": 1,
            "transaction_id": ids,
            "began_at": np.full(len(ids), NOW - 6 * HOUR),
            "outcome": np.where(ids % 60 == 7, "aborted", "committed"),
        },
    )
    gone = np.zeros(size, dtype=bool)
    gone[lost] = gone[open_absent] = True
    valid = np.ones(size + len(twice) + 5, dtype=bool)
    valid[damaged] = False
    extra = np.concatenate([sequence[twice], [size + 1_000_000_000 + 1] * 0])
    holder = np.concatenate([sequence, extra])
    where = np.concatenate([offset, size + np.arange(len(extra))])
    for level in range(levels):
        keep = np.concatenate([~gone & (~aborted if level == 0 else True), np.ones(len(extra), dtype=bool)])
        bad = ~valid[: len(keep)][keep]
        count = int(keep.sum())
        _write(
            folder / "dump/records",
            partition,
            "records",
            {
                "cluster": "c",
                "topic": "t",
                "topic_id": "A",
                "partition": partition,
                "isolation": ("read_committed", "read_uncommitted")[level],
                "offset": where[keep],
                "timestamp": np.full(count, NOW),
                "producer_id": (np.full(count, producer), bad),
                "generation": (np.full(count, 1, dtype=np.int32), bad),
                "sequence": (holder[keep], bad),
                "transaction_id": (np.full(count, 0), np.ones(count, dtype=bool)),
                "valid": ~bad,
            },
            suffix=f"-{level}",
        )
        total["records"] += count
    if polls:
        seen = np.flatnonzero(~gone & ~aborted)
        _write(
            folder / "log/polls",
            partition,
            "polls",
            {
                "cluster": "c",
                "topic": "t",
                "topic_id": "A",
                "partition": partition,
                "consumer_id": "read_committed",
                "isolation": "read_committed",
                "offset": offset[seen],
                "producer_id": np.full(len(seen), producer),
                "generation": np.full(len(seen), 1, dtype=np.int32),
                "sequence": sequence[seen],
                "polled_at": sent[seen] + 9000,
            },
        )
    for isolation in ("read_committed", "read_uncommitted"):
        row: dict[str, Any] = {"cluster": "c", "topic": "t", "topic_id": "A", "partition": partition}
        row["isolation"] = isolation
        row |= {"earliest_offset": 0, "end_offset": size + len(extra), "dumped_at": NOW}
        row |= {"retention_ms": 7 * 24 * 3_600_000, "retention_bytes": -1}
        table = pa.Table.from_pylist([row], SCHEMAS["bounds"])
        pq.write_table(table, folder / f"dump/bounds/{partition}-{isolation}.parquet")
    verdicts["lost"] = len(lost)
    verdicts["corrupt"] = len(damaged)
    verdicts["unacked-found"] = len(open_found)
    verdicts["duplicate"] = len(twice)
    verdicts["aborted-read"] = len(refused_found)
    verdicts["unacked-absent"] = len(open_absent) + int(aborted.sum())
    verdicts["survived"] = size - sum(verdicts.values())
    for name, number in verdicts.items():
        total["verdicts"][name] = total["verdicts"].get(name, 0) + number
    found = {"lost-write": len(lost), "corrupt": len(damaged), "duplicate": len(twice), "G1a": len(refused_found)}
    for name, number in found.items():
        total["anomalies"][name] = total["anomalies"].get(name, 0) + number


def _write(
    folder: Path,
    partition: int,
    table: str,
    columns: dict[str, Any],
    *,
    order: np.ndarray[Any, Any] | None = None,
    suffix: str = "",
) -> None:
    schema = SCHEMAS[table]
    rows = max(len(value[0] if isinstance(value, tuple) else value) for value in columns.values() if not _scalar(value))
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        part = np.arange(start, min(start + FILE_ROWS, rows))
        if order is not None:
            part = order[part]
        arrays = []
        for name in schema.names:
            kind, value = schema.field(name).type, columns.get(name)
            if value is None:
                arrays.append(pa.nulls(len(part), kind))
            elif _scalar(value):
                arrays.append(pa.repeat(pa.scalar(value, kind), len(part)))
            elif isinstance(value, tuple):
                arrays.append(pa.array(value[0][part], mask=value[1][part]).cast(kind))
            else:
                arrays.append(pa.array(value[part]).cast(kind))
        pq.write_table(
            pa.table(arrays, schema),
            folder / f"{partition:03d}{suffix}-{number:04d}.parquet",
            row_group_size=GROUP_ROWS,
            compression="zstd",
        )


def _scalar(value: object) -> bool:
    return isinstance(value, str | int)
