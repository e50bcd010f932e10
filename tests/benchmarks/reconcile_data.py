"""A night of any size in the canary's own layout or in none, with faults of all kinds whose verdicts are known.

Columns are made and written a file at a time, so that memory does not grow with the night.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simulation.nights.nights import NOW, SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS: Final = 12
FILE_ROWS: Final = 1 << 20
GROUP_ROWS: Final = 1 << 17
IN_A_TRANSACTION: Final = 10
HOUR: Final = 3_600_000_000
EXPIRED: Final = 4
"""Records at the start of each partition that are gone too early."""
EACH: Final = 7
"""Faults of each kind in each partition: with the pairs of "swapped" and the expired, some 1,000 in all."""
KINDS: Final = (
    *("lost", "torn", "corrupt", "open_found", "open_absent", "twice", "refused_found", "aborted_found"),
    *("swapped", "other", "phantom"),
)
OUTCOMES: Final = pa.array(["acked", "failed", "indeterminate"])
MODES: Final = pa.array(["idempotent", "transactional"])
Column = np.ndarray[Any, Any]


@dataclass
class Plan:
    """A partition of ``size`` offsets, equal to sequences; every 20th block of ten is one transaction.

    ``faults``: sequences by kind. Every third transaction is aborted.
    """

    partition: int
    size: int
    faults: dict[str, Column] = field(default_factory=dict)

    @property
    def producer(self) -> int:
        """The one producer's id."""
        return 1_000_003 + self.partition

    def draw(self, random: np.random.Generator) -> None:
        """Choose where the faults are: in plain probes, but for those of transactions."""
        taken: set[int] = set()
        for kind in KINDS:
            chosen: list[int] = []
            while len(chosen) < EACH:
                at = int(random.integers(EXPIRED + 100, self.size - 100))
                block = at // IN_A_TRANSACTION
                of_transaction = 1 if block % 20 == 7 else 0
                state = 2 if of_transaction and block % 60 == 7 else of_transaction
                apart = not taken & set(range(at - 2, at + 3)) and block not in {
                    one // IN_A_TRANSACTION for one in chosen
                }
                if apart and state == {"torn": 1, "aborted_found": 2}.get(kind, 0) and at % 10 < 9:
                    chosen.append(at)
                    taken.add(at)
            self.faults[kind] = np.array(sorted(chosen), dtype=np.int64)

    def is_(self, kind: str, sequence: Column) -> Column:
        """Return which sequences have a fault."""
        return np.isin(sequence, self.faults[kind])


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
    verdicts: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    records = 0
    for partition in range(PARTITIONS):
        plan = Plan(partition, rows // PARTITIONS)
        plan.draw(random)
        _probes(folder, plan)
        _transactions(folder, plan)
        for level in range(levels):
            records += _records(folder, plan, level)
        if polls:
            _polls(folder, plan)
        _bounds(folder, plan)
        some_verdicts, some_anomalies = _expected(plan)
        verdicts.update(some_verdicts)
        anomalies.update(some_anomalies)
    if not polls:
        pq.write_table(SCHEMAS["polls"].empty_table(), folder / "log/polls/empty.parquet")
    total = {
        "verdicts": dict(sorted(verdicts.items())),
        "anomalies": dict(sorted(anomalies.items())),
        "faults": PARTITIONS * (EACH * (len(KINDS) + 1) + EXPIRED),
        "records": records,
    }
    marker.write_text(json.dumps(total))
    return total


def scatter(folder: Path, into: Path) -> None:
    """Write the same night with all rows of probes, polls and records in random order, over files of FILE_ROWS."""
    if (into / "planted.json").exists():
        return
    shutil.rmtree(into, ignore_errors=True)
    random = np.random.default_rng(11)
    for table in ("log/transactions", "dump/bounds"):
        shutil.copytree(folder / table, into / table)
    for table in ("log/probes", "log/polls", "dump/records"):
        (into / table).mkdir(parents=True)
        files = sorted((folder / table).iterdir())
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        parts = [into / table / f"{number:04d}.parquet" for number in range(-(-rows // FILE_ROWS) or 1)]
        schema = pq.read_schema(files[0])
        with ExitStack() as stack:  # every file takes a part of every one there was
            dealt = [stack.enter_context(pq.ParquetWriter(part, schema, compression="lz4")) for part in parts]
            for file in files:
                shuffled = _shuffled(pq.read_table(file, schema=schema), random)
                edges = np.linspace(0, len(shuffled), len(parts) + 1).astype(int)
                for writer, (start, stop) in zip(dealt, pairwise(edges.tolist()), strict=True):
                    writer.write_table(shuffled.slice(start, stop - start))
        for part in parts:
            shuffled = _shuffled(pq.read_table(part, schema=schema), random)
            pq.write_table(shuffled, part, row_group_size=GROUP_ROWS, compression="zstd")
    shutil.copy(folder / "planted.json", into)


def _shuffled(table: pa.Table, random: np.random.Generator) -> pa.Table:
    return table.take(pa.array(random.permutation(len(table))))


def _expected(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    block = np.arange(0, (plan.size - 1) // IN_A_TRANSACTION + 1)
    block = block[block % 60 == 7]
    aborted = int(np.minimum((block + 1) * IN_A_TRANSACTION, plan.size).sum() - (block * IN_A_TRANSACTION).sum())
    verdicts = {
        "early-expiry": EXPIRED,
        "lost": 2 * EACH,
        "corrupt": EACH,
        "unacked-found": EACH,
        "duplicate": EACH,
        "aborted-read": 2 * EACH,
        "moved": 2 * EACH,
        "other-incarnation": EACH,
        "unexpected": EACH,
        "unacked-absent": EACH + aborted - EACH,
    }
    # a phantom stands beside the log; another incarnation's probe has a namesake in the dump, which is in between
    verdicts["survived"] = plan.size + EACH - sum(verdicts.values())
    anomalies = {
        "lost-write": 2 * EACH,
        "fractured-transaction": EACH,
        "corrupt": EACH,
        "duplicate": EACH,
        "G1a": 2 * EACH,
        "inconsistent-offsets": 2 * EACH,
        "early-expiry": EXPIRED,
        "phantom": EACH,
    }
    return verdicts, anomalies


def _probes(folder: Path, plan: Plan) -> None:
    late: list[Column] = []
    for number, sequence in _stretches(plan.size):
        unknown = plan.is_("open_found", sequence) | plan.is_("open_absent", sequence)
        unknown |= plan.is_("refused_found", sequence)
        late.append(sequence[unknown])
        _write_probes(folder, plan, sequence[~unknown], f"{number:04d}")
    _write_probes(folder, plan, np.concatenate(late), "late")


def _write_probes(folder: Path, plan: Plan, sequence: Column, name: str) -> None:
    block = sequence // IN_A_TRANSACTION
    transactional = block % 20 == 7
    outcome = np.zeros(len(sequence), dtype=np.int8)
    outcome[plan.is_("open_found", sequence) | plan.is_("open_absent", sequence)] = 2
    outcome[plan.is_("refused_found", sequence)] = 1
    sent = NOW - 6 * HOUR + sequence * 5 * HOUR // plan.size
    columns = _place(plan) | {
        "topic_id": pa.array(["A", "B"]).take(pa.array(plan.is_("other", sequence).astype(np.int8))),
        "producer_id": plan.producer,
        "generation": 1,
        "sequence": sequence,
        "mode": MODES.take(pa.array(transactional.astype(np.int8))),
        "transaction_id": (block, ~transactional),
        "sent_at": sent,
        "outcome": OUTCOMES.take(pa.array(outcome)),
        "offset": (sequence, outcome != 0),
        "acked_at": (sent + 3000, outcome != 0),
    }
    _write(folder / f"log/probes/{plan.partition:03d}-{name}.parquet", "probes", columns, len(sequence))


def _transactions(folder: Path, plan: Plan) -> None:
    ids = np.arange(7, (plan.size - 1) // IN_A_TRANSACTION + 1, 20)
    columns = {
        "cluster": "c",
        "producer_id": plan.producer,
        "generation": 1,
        "transaction_id": ids,
        "began_at": np.full(len(ids), NOW - 6 * HOUR),
        "outcome": pa.array(["committed", "aborted"]).take(pa.array((ids % 60 == 7).astype(np.int8))),
    }
    _write(folder / f"log/transactions/{plan.partition:03d}.parquet", "transactions", columns, len(ids))


def _records(folder: Path, plan: Plan, level: int) -> int:
    """Write the dump of a level: copies and phantoms stand at the end."""
    count = 0
    end = plan.size
    added = np.concatenate([plan.faults["twice"], plan.faults["phantom"] + 10 * plan.size])
    for number, sequence in _stretches(plan.size):
        keep = sequence >= EXPIRED
        for kind in ("lost", "torn", "open_absent"):
            keep &= ~plan.is_(kind, sequence)
        if level == 0:
            aborted = sequence // IN_A_TRANSACTION % 60 == 7
            keep &= ~aborted | plan.is_("aborted_found", sequence)
        offset = sequence[keep]
        holder = offset + plan.is_("swapped", offset) - plan.is_("swapped", offset - 1)
        bad = plan.is_("corrupt", offset)
        producer = np.full(len(offset), plan.producer)
        if sequence[-1] == plan.size - 1:
            offset = np.concatenate([offset, end + np.arange(len(added))])
            holder = np.concatenate([holder, added])
            bad = np.concatenate([bad, np.zeros(len(added), dtype=np.bool_)])
            producer = np.concatenate([producer, np.full(len(added), plan.producer)])
            producer[-EACH:] = 5
        columns = _place(plan) | {
            "topic_id": "A",
            "isolation": ("read_committed", "read_uncommitted")[level],
            "offset": offset,
            "timestamp": np.full(len(offset), NOW),
            "producer_id": (producer, bad),
            "generation": (np.ones(len(offset), dtype=np.int32), bad),
            "sequence": (holder, bad),
            "valid": ~bad,
        }
        name = f"dump/records/{plan.partition:03d}-{level}-{number:04d}.parquet"
        _write(folder / name, "records", columns, len(offset))
        count += len(offset)
    return count


def _polls(folder: Path, plan: Plan) -> None:
    """Write a read_committed poll of whatever the dump has there, but for what must not have been seen."""
    for number, sequence in _stretches(plan.size):
        keep = (sequence >= EXPIRED) & (sequence // IN_A_TRANSACTION % 60 != 7)
        for kind in ("lost", "torn", "open_absent", "corrupt", "refused_found", "swapped"):
            keep &= ~plan.is_(kind, sequence)
        keep &= ~plan.is_("swapped", sequence - 1) & ~plan.is_("other", sequence)
        seen = sequence[keep]
        columns = _place(plan) | {
            "topic_id": "A",
            "consumer_id": "read_committed",
            "isolation": "read_committed",
            "offset": seen,
            "producer_id": plan.producer,
            "generation": 1,
            "sequence": seen,
            "polled_at": NOW - 6 * HOUR + seen * 5 * HOUR // plan.size + 9000,
        }
        _write(folder / f"log/polls/{plan.partition:03d}-{number:04d}.parquet", "polls", columns, len(seen))


def _bounds(folder: Path, plan: Plan) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        row = _place(plan) | {"topic_id": "A", "isolation": isolation}
        row |= {"earliest_offset": EXPIRED, "end_offset": plan.size + 2 * EACH, "dumped_at": NOW}
        row |= {"retention_ms": 7 * 24 * 3_600_000, "retention_bytes": -1}
        table = pa.Table.from_pylist([row], SCHEMAS["bounds"])
        pq.write_table(table, folder / f"dump/bounds/{plan.partition}-{isolation}.parquet")


def _place(plan: Plan) -> dict[str, Any]:
    return {"cluster": "c", "topic": "t", "partition": plan.partition}


def _stretches(size: int) -> Any:
    for number, start in enumerate(range(0, size, FILE_ROWS)):
        yield number, np.arange(start, min(start + FILE_ROWS, size), dtype=np.int64)


def _write(path: Path, table: str, columns: dict[str, Any], rows: int) -> None:
    schema = SCHEMAS[table]
    arrays = []
    for name in schema.names:
        kind, value = schema.field(name).type, columns.get(name)
        if value is None:
            arrays.append(pa.nulls(rows, kind))
        elif isinstance(value, str | int):
            arrays.append(pa.repeat(pa.scalar(value, kind), rows))
        elif isinstance(value, tuple):
            arrays.append(pa.array(value[0], mask=value[1]).cast(kind))
        else:
            arrays.append((value if isinstance(value, pa.Array) else pa.array(value)).cast(kind))
    pq.write_table(pa.table(arrays, schema), path, row_group_size=GROUP_ROWS, compression="zstd")
