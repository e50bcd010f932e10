"""What a run leaves: verdicts/, partitions/, anomalies/, lost/, table/, summary.json (RECONCILIATION rules 16, 19).

Tasks write under ``_work`` with names of their own; the driver moves what finished tasks name, so that a task that
was killed, or ran twice, leaves nothing. summary.json comes last: where it stands, everything else is whole.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import fsspec.core
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reconcile.columns import NEVER, NO_TRANSACTION, Identities, lookup
from spark_reconcile.judging import (
    ABORTED_READ,
    EARLY,
    LOST,
    SURVIVED,
    UNEXPECTED,
    UNJUDGED,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_reconcile.bounding import Dumped, Place
    from spark_reconcile.columns import I64, U8, Bool, Probes
    from spark_reconcile.fractures import Transaction, Write
    from spark_reconcile.judging import Judgement
    from spark_reconcile.kernel import Conflicts
    from spark_reconcile.ordering import Step
    from spark_reconcile.residue import Concluded

GROUP_ROWS: Final = 1 << 17
_TIME: Final = pa.timestamp("us", "UTC")
_WHO: Final = [("producer_id", pa.int64()), ("generation", pa.int32()), ("sequence", pa.int64())]
_PLACE: Final = [("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_STEP: Final = ("producer_id", "generation", "transaction_id", "sequence", "offset")
VERDICT_SCHEMA: Final = pa.schema([*_PLACE, *_WHO, ("verdict", pa.string()), ("offset", pa.int64())])
PARTITION_SCHEMA: Final = pa.schema([*_PLACE, ("verdict", pa.string()), ("n", pa.int64())])
CASE_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        *_PLACE[:2],
        ("topic_id", pa.string()),
        _PLACE[2],
        ("offset", pa.int64()),
        *_WHO,
        ("mode", pa.string()),
        ("transaction_id", pa.int64()),
        ("sent_at", _TIME),
        ("acked_at", _TIME),
        ("found_offset", pa.int64()),
        ("evidence", pa.string()),
    ]
)
TABLE_SCHEMA: Final = pa.schema(
    [
        *_PLACE,
        ("mode", pa.string()),
        ("day", pa.date32()),
        *((name, pa.int64()) for name in ("attempted", "acked", "survivors", "acked_lost", "unacked_found")),
    ]
)


@dataclass(frozen=True, slots=True)
class Written:
    """Names of files under the work folder, None where there was nothing to write."""

    verdicts: str | None
    cases: str | None


class PartWriter:
    """Writes files of the work folder under names of their own."""

    def __init__(self, work: str) -> None:
        self._work = work

    def write(self, table: pa.Table) -> str | None:
        """Write a table and return the file's name; None: it has no rows, and there is no file."""
        if not len(table):
            return None
        stream = self.stream(table.schema)
        stream.write(table)
        return stream.close()[0]

    def stream(self, schema: pa.Schema, *, rising: Sequence[str] = ()) -> PartStream:
        """Begin a file that is written bit by bit; columns that mostly rise by a little take less room and time."""
        return PartStream(self._work, schema, rising)

    def read(self, name: str) -> pa.Table:
        """Return what stands in a file of the work folder."""
        fs, root = fsspec.core.url_to_fs(self._work)
        return pq.read_table(f"{root}/{name}", filesystem=fs)


class PartStream:
    """A file of the work folder that is being written."""

    def __init__(self, work: str, schema: pa.Schema, rising: Sequence[str]) -> None:
        fs, root = fsspec.core.url_to_fs(work)
        self._name = f"{uuid.uuid4().hex}.parquet"
        self._file = fs.open(f"{root}/{self._name}", "wb")
        how: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        if rising:
            how["use_dictionary"] = [name for name in schema.names if name not in rising]
            how["column_encoding"] = dict.fromkeys(rising, "DELTA_BINARY_PACKED")
            how["store_schema"] = False  # what Parquet itself says is the contract; Arrow's dictionaries are not
        self._writer = pq.ParquetWriter(self._file, schema, **how)
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Write rows as row groups of at most GROUP_ROWS."""
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._rows += len(table)

    def close(self) -> tuple[str, int]:
        """End the file; return its name and rows."""
        self._writer.close()
        self._file.close()
        return self._name, self._rows


class Writer(PartWriter):
    """Writes what became of identities, as tasks and driver learn it."""

    def __init__(self, work: str, dumped: Dumped) -> None:
        super().__init__(work)
        self._dumped = dumped

    def told(self, place: Place, probes: Probes, judgement: Judgement, found: I64 | None = None) -> Written:
        """Write identities of the log; ``found``: where they were found, for those without an acked offset."""
        offset = probes.offset if found is None else np.where(probes.offset < 0, found, probes.offset)
        tell = (judgement.verdict != SURVIVED) & (judgement.verdict != UNJUDGED)
        verdicts = _verdicts(place, probes.take(tell), judgement.verdict[tell], offset[tell])
        cases = [
            self._case(kind, place, probes.take(mask), offset[mask], None if found is None else found[mask])
            for kind, mask in (
                ("lost-write", judgement.lost_write),
                ("G1a", judgement.verdict == ABORTED_READ),
                ("early-expiry", judgement.verdict == EARLY),
            )
            if mask.any()
        ]
        return Written(self.write(verdicts), self.write(pa.concat_tables(cases)) if cases else None)

    def concluded(self, place: Place, concluded: Concluded) -> list[Written]:
        """Write a partition's residue."""
        files = [self.told(place, concluded.probes, concluded.judgement, concluded.found)]
        others, codes = concluded.others, concluded.other_verdicts
        gone = codes == LOST  # nobody found it: its place is where a poll saw it, which is not a verdict's offset
        verdicts = _verdicts(place, others, codes, np.where(gone, -1, others.offset))
        cases = [
            self._case(kind, place, rows, rows.offset)
            for kind, rows in (
                ("lost-write", others.take(gone)),
                ("phantom", others.take(codes == UNEXPECTED)),
                ("duplicate", concluded.copies),
            )
            if len(rows)
        ]
        files.append(Written(self.write(verdicts), self.write(pa.concat_tables(cases)) if cases else None))
        return files

    def disputed(self, place: Place, conflicts: Conflicts, damaged: I64) -> Written:
        """Write offsets with two identities and offsets with a damaged record."""
        cases = []
        if len(conflicts):
            cases.append(self._case("inconsistent-offsets", place, conflicts, conflicts.offset))
        if len(damaged):
            cases.append(self._case("corrupt", place, None, damaged))
        return Written(None, self.write(pa.concat_tables(cases)) if cases else None)

    def fractured(self, broken: Mapping[Transaction, Sequence[Write]]) -> str | None:
        """Write one row for each transaction of which a part is missing: the first write that is."""
        rows = []
        for transaction, writes in sorted(broken.items()):
            write = min(writes, key=lambda one: (one.place, one.offset))
            ids = self._dumped.topic_ids.get(write.place[:2], frozenset())
            rows.append(
                {
                    "kind": "fractured-transaction",
                    **write.place._asdict(),
                    "topic_id": next(iter(ids)) if len(ids) == 1 else None,
                    "offset": write.offset,
                    "producer_id": transaction.producer_id,
                    "generation": transaction.generation,
                    "sequence": write.sequence,
                    "mode": write.mode,
                    "transaction_id": transaction.transaction_id,
                }
            )
        return self.write(pa.Table.from_pylist(rows, CASE_SCHEMA)) if rows else None

    def circular(self, circles: Sequence[Sequence[Step]]) -> str | None:
        """Write one row for each circle of transactions: the first write of it, and all steps as evidence."""
        rows = []
        for circle in circles:
            first = circle[0]
            ids = self._dumped.topic_ids.get(first.place[:2], frozenset())
            steps = [step.place._asdict() | dict(zip(_STEP, step[1:], strict=True)) for step in circle]
            rows.append(
                {
                    "kind": "G0",
                    **first.place._asdict(),
                    "topic_id": next(iter(ids)) if len(ids) == 1 else None,
                    **dict(zip(_STEP, first[1:], strict=True)),
                    "evidence": orjson.dumps({"cycle": steps}).decode(),
                }
            )
        return self.write(pa.Table.from_pylist(rows, CASE_SCHEMA)) if rows else None

    def without(self, name: str, retracted: Identities) -> str | None:
        """Write a file anew without some identities; return its new name, None if nothing is left."""
        table = self.read(name)
        who = Identities(*(table.column(column).to_numpy() for column, _ in _WHO))
        return self.write(table.filter(pa.array(lookup(who, retracted) < 0)))

    def _case(self, kind: str, place: Place, who: Identities | None, offset: I64, found: I64 | None = None) -> pa.Table:
        rows = len(offset)
        ids = self._dumped.topic_ids.get(place[:2], frozenset())
        topic_id = next(iter(ids)) if len(ids) == 1 else None
        known: dict[str, Any] = {}
        if who is not None:
            known = {"producer_id": who.producer, "generation": who.generation, "sequence": who.sequence}
        if hasattr(who, "modes"):
            probes: Probes = who  # type: ignore[assignment]  # it has modes, so it is
            known |= {
                "mode": pa.array(probes.modes).take(pa.array(probes.mode)) if rows else None,
                "transaction_id": _nullable(probes.transaction, probes.transaction == NO_TRANSACTION),
                "sent_at": pa.array(probes.sent_at).cast(_TIME),
                "acked_at": _nullable(probes.acked_at, probes.acked_at == NEVER).cast(_TIME),
            }
        columns = {
            "kind": pa.repeat(kind, rows),
            **_place(place, rows),
            "topic_id": pa.nulls(rows, pa.string()) if topic_id is None else pa.repeat(topic_id, rows),
            "offset": _nullable(offset, offset < 0),
            "found_offset": pa.nulls(rows, pa.int64()) if found is None else _nullable(found, found < 0),
            **known,
        }
        return pa.table(
            [columns.get(name, pa.nulls(rows, CASE_SCHEMA.field(name).type)) for name in CASE_SCHEMA.names],
            schema=CASE_SCHEMA,
        )


def _nullable(values: I64, null: Bool) -> Any:
    return pa.array(values, pa.int64(), mask=null)


def _place(place: Place, rows: int) -> dict[str, Any]:
    return {
        "cluster": pa.repeat(place.cluster, rows),
        "topic": pa.repeat(place.topic, rows),
        "partition": pa.repeat(pa.scalar(place.partition, pa.int32()), rows),
    }


def _verdicts(place: Place, who: Identities, codes: U8, offset: I64) -> pa.Table:
    columns = _place(place, len(who)) | {
        "producer_id": who.producer,
        "generation": who.generation,
        "sequence": who.sequence,
        "verdict": pa.array(VERDICTS).take(pa.array(codes)),
        "offset": _nullable(offset, offset < 0),
    }
    return pa.table([columns[name] for name in VERDICT_SCHEMA.names], schema=VERDICT_SCHEMA)


class Folder:
    """The folder of a run's results, on a disk or at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, self._root = fsspec.core.url_to_fs(self.url)
        self._local = "file" in (self._fs.protocol if isinstance(self._fs.protocol, tuple) else (self._fs.protocol,))

    @property
    def work(self) -> str:
        """The folder that tasks write to."""
        return f"{self.url}/_work"

    def begin(self) -> None:
        """Make room for the files of a run."""
        self._fs.makedirs(self._root, exist_ok=True)
        self.forget()
        self.clean()
        self._fs.makedirs(f"{self._root}/_work", exist_ok=True)

    def forget(self) -> None:
        """Take an earlier run's summary away: it does not tell what this one finds."""
        for name in ("summary.json", "report.html"):
            if self._fs.exists(f"{self._root}/{name}"):
                self._fs.rm(f"{self._root}/{name}")

    def clean(self) -> None:
        """Take away what tasks wrote and nobody named."""
        if self._fs.exists(f"{self._root}/_work"):
            self._fs.rm(f"{self._root}/_work", recursive=True)

    def publish(self, table: str, names: Sequence[str], schema: pa.Schema) -> list[str]:
        """Put files of the work folder in the place of whatever the table's folder held; return their new names.

        Without any, the table has an empty file.
        """
        folder = f"{self._root}/{table}"
        if self._fs.exists(folder):
            self._fs.rm(folder, recursive=True)
        self._fs.makedirs(folder, exist_ok=True)
        published = [f"part-{number:05d}.parquet" for number in range(len(names))]
        for name, new in zip(names, published, strict=True):
            self._fs.mv(f"{self._root}/_work/{name}", f"{folder}/{new}")
        if not names:
            with self._fs.open(f"{folder}/part-00000.parquet", "wb") as file:
                pq.write_table(schema.empty_table(), file)
        return published

    def text(self, name: str, content: bytes) -> None:
        """Write a file so that it is there whole or not at all."""
        with self._fs.open(f"{self._root}/.{name}", "wb") as file:
            file.write(content)
        self._fs.mv(f"{self._root}/.{name}", f"{self._root}/{name}")

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json."""
        self.text("summary.json", orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")


def partitions_table(counts: Mapping[Place, Mapping[str, int]]) -> pa.Table:
    """Return partitions/: identities by verdict, survived ones too."""
    rows = [(*place, verdict, n) for place, verdicts in sorted(counts.items()) for verdict, n in verdicts.items()]
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in PARTITION_SCHEMA]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, PARTITION_SCHEMA, strict=True)], PARTITION_SCHEMA)


def day_table(tables: Mapping[Place, Mapping[tuple[str, int], I64]]) -> pa.Table:
    """Return table/: the table of rule 5 by partition, mode and day."""
    rows = [
        (*place, mode, day, *row.tolist())
        for place, cells in sorted(tables.items())
        for (mode, day), row in sorted(cells.items())
        if row.any()
    ]
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in TABLE_SCHEMA]
    arrays = [
        pc.cast(pa.array(column, pa.int32()), pa.date32()) if field.name == "day" else pa.array(column, field.type)
        for column, field in zip(columns, TABLE_SCHEMA, strict=True)
    ]
    return pa.table(arrays, TABLE_SCHEMA)
