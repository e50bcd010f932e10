"""What a run leaves: verdicts/, partitions/, anomalies/, table/ (RECONCILIATION rules 16 and 19).

Tasks write under ``_work`` with names of their own; the driver moves the files that finished tasks name. A task that
was killed, or ran twice, therefore leaves nothing. summary.json comes last: where it exists, everything else is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from spark_reconcile.match.anomalies import (
    ANOMALIES,
    CORRUPT,
    FRACTURED,
    INCONSISTENT_OFFSETS,
    WRITE_CYCLE,
    NightlyAnomaly,
)
from spark_reconcile.match.cross_range import Concluded
from spark_reconcile.match.fractures import Transaction, Write
from spark_reconcile.match.ordering import Step
from spark_reconcile.match.rules import VERDICTS, Judgement, Verdict
from spark_reconcile.match.verdict_counts import TABLE
from spark_reconcile.tables.bounds import Dumped, Place
from spark_reconcile.tables.columns import (
    I64,
    NEVER,
    NO_OFFSET,
    NO_TRANSACTION,
    U8,
    Bool,
    Identities,
    Placed,
    Probes,
    lookup,
)
from spark_reconcile.tables.writing import read_part, write_part
from storage.probe_log.schemas import TIME, schema_of

_WHO: Final = ("producer_id", "generation", "sequence")
_IDENTITY: Final = "producer_id i64?, generation i32?, sequence i64?"
_PLACE: Final = "cluster str?, topic str?, partition i32?"
_STEP: Final = ("producer_id", "generation", "transaction_id", "sequence", "offset")
VERDICT_SCHEMA: Final = schema_of(f"{_PLACE}, {_IDENTITY}, verdict str?, offset i64?")
PARTITION_SCHEMA: Final = schema_of(f"{_PLACE}, verdict str?, n i64?")
CASE_SCHEMA: Final = schema_of(
    f"kind str?, cluster str?, topic str?, topic_id str?, partition i32?, offset i64?, {_IDENTITY}, mode str?, "
    "transaction_id i64?, sent_at ts?, acked_at ts?, found_offset i64?, evidence str?"
)
TABLE_SCHEMA: Final = schema_of(f"{_PLACE}, mode str?, day day?, {', '.join(f'{name} i64?' for name in TABLE)}")


_Cases: TypeAlias = "tuple[NightlyAnomaly, Identities | None, I64, I64 | None]"
"""Cases of an anomaly: whose, their offsets, and where else they were found."""


class Written(NamedTuple):
    """Names of files under the work folder, None where there was nothing to write."""

    verdicts: str | None
    cases: str | None


class Writer:
    """Writes verdicts and cases, as tasks and driver find them."""

    def __init__(self, work: str, dumped: Dumped) -> None:
        self._work = work
        self._dumped = dumped

    def judged(self, place: Place, probes: Probes, judgement: Judgement, found: I64 | None = None) -> Written:
        """Write identities of the log; ``found``: where they were found, for those without an acked offset."""
        offset = probes.offset if found is None else np.where(probes.offset < 0, found, probes.offset)
        shown = (judgement.verdict != Verdict.SURVIVED) & (judgement.verdict != Verdict.UNJUDGED)
        verdicts = _verdicts(place, probes.take(shown), judgement.verdict[shown], offset[shown])
        cases = []
        for anomaly in ANOMALIES.values():
            if anomaly.subject == "identity" and anomaly.cases is not None:
                mask = anomaly.cases(judgement)
                cases.append((anomaly, probes.take(mask), offset[mask], None if found is None else found[mask]))
        return Written(write_part(self._work, verdicts), self._cases(place, cases))

    def concluded(self, place: Place, concluded: Concluded) -> list[Written]:
        """Write what was joined over the ranges of a partition."""
        others, codes = concluded.others, concluded.other_verdicts
        # A lost one is found nowhere: its place is where a poll showed it, which is not a verdict's offset.
        verdicts = _verdicts(place, others, codes, np.where(codes == Verdict.LOST, NO_OFFSET, others.offset))
        cases = [(anomaly, rows, rows.offset, None) for anomaly, rows in concluded.cases.items()]
        return [
            self.judged(place, concluded.probes, concluded.judgement, concluded.found),
            Written(write_part(self._work, verdicts), self._cases(place, cases)),
        ]

    def disputed(self, place: Place, conflicts: Placed, damaged: I64) -> str | None:
        """Write offsets with two identities and offsets with a damaged record; return the file's name."""
        return self._cases(
            place, [(INCONSISTENT_OFFSETS, conflicts, conflicts.offset, None), (CORRUPT, None, damaged, None)]
        )

    def fractured(self, broken: Mapping[Transaction, Sequence[Write]]) -> str | None:
        """Write one row for each transaction of which a part is missing: the first write that is."""
        rows = []
        for transaction, writes in sorted(broken.items()):
            write = min(writes, key=lambda one: (one.place, one.offset))
            rows.append(
                self._row(FRACTURED, write.place)
                | {"offset": write.offset, "sequence": write.sequence, "mode": write.mode}
                | {name: getattr(transaction, name) for name in ("producer_id", "generation", "transaction_id")}
            )
        return write_part(self._work, pa.Table.from_pylist(rows, CASE_SCHEMA))

    def cycles(self, cycles: Sequence[Sequence[Step]]) -> str | None:
        """Write one row for each cycle of transactions: the first write of it, and all steps as evidence."""
        rows = []
        for cycle in cycles:
            first, steps = cycle[0], [step.place._asdict() | _ids(step) for step in cycle]
            evidence = {"evidence": orjson.dumps({"cycle": steps}).decode()}
            rows.append(self._row(WRITE_CYCLE, first.place) | _ids(first) | evidence)
        return write_part(self._work, pa.Table.from_pylist(rows, CASE_SCHEMA))

    def without(self, name: str, retracted: Identities) -> str | None:
        """Write a file again without some identities; return its new name, None if nothing is left."""
        table = read_part(self._work, name)
        who = Identities(*(table.column(column).to_numpy() for column in _WHO))
        return write_part(self._work, table.filter(pa.array(lookup(who, retracted) < 0)))

    def _topic_id(self, place: Place) -> str | None:
        """Return the incarnation that was dumped, None if it is unknown or not the only one."""
        ids = self._dumped.topic_ids.get(place[:2], frozenset())
        return next(iter(ids)) if len(ids) == 1 else None

    def _row(self, anomaly: NightlyAnomaly, place: Place) -> dict[str, Any]:
        return {"kind": anomaly.kind, **place._asdict(), "topic_id": self._topic_id(place)}

    def _cases(self, place: Place, cases: Sequence[_Cases]) -> str | None:
        tables = [self._table(place, *some) for some in cases if len(some[2])]
        return write_part(self._work, pa.concat_tables(tables)) if tables else None

    def _table(
        self, place: Place, anomaly: NightlyAnomaly, who: Identities | None, offset: I64, found: I64 | None
    ) -> pa.Table:
        rows = len(offset)
        columns = _repeated(self._row(anomaly, place), rows)
        columns["offset"] = _nullable(offset, offset < 0)
        if found is not None:
            columns["found_offset"] = _nullable(found, found < 0)
        if who is not None:
            columns |= {"producer_id": who.producer, "generation": who.generation, "sequence": who.sequence}
        if isinstance(who, Probes):
            columns |= {
                "mode": pa.array(who.modes).take(pa.array(who.mode)),
                "transaction_id": _nullable(who.transaction, who.transaction == NO_TRANSACTION),
                "sent_at": pa.array(who.sent_at).cast(TIME),
                "acked_at": _nullable(who.acked_at, who.acked_at == NEVER).cast(TIME),
            }
        nulls = {field.name: pa.nulls(rows, field.type) for field in CASE_SCHEMA}
        return pa.table([(nulls | columns)[name] for name in CASE_SCHEMA.names], schema=CASE_SCHEMA)


def _ids(step: Step) -> dict[str, int]:
    return {name: getattr(step, name) for name in _STEP}


def _nullable(values: I64, null: Bool) -> Any:
    return pa.array(values, pa.int64(), mask=null)


def _repeated(values: Mapping[str, Any], rows: int) -> dict[str, Any]:
    return {name: pa.repeat(pa.scalar(value, CASE_SCHEMA.field(name).type), rows) for name, value in values.items()}


def _verdicts(place: Place, who: Identities, codes: U8, offset: I64) -> pa.Table:
    columns = _repeated(place._asdict(), len(who)) | {
        "producer_id": who.producer,
        "generation": who.generation,
        "sequence": who.sequence,
        "verdict": pa.array(VERDICTS).take(pa.array(codes)),
        "offset": _nullable(offset, offset < 0),
    }
    return pa.table([columns[name] for name in VERDICT_SCHEMA.names], schema=VERDICT_SCHEMA)


def partitions_table(counts: Mapping[Place, Mapping[str, int]]) -> pa.Table:
    """Return partitions/: identities by verdict, survived ones too."""
    rows = [
        place._asdict() | {"verdict": verdict, "n": number}
        for place, verdicts in sorted(counts.items())
        for verdict, number in verdicts.items()
    ]
    return pa.Table.from_pylist(rows, PARTITION_SCHEMA)


def day_table(tables: Mapping[Place, Mapping[tuple[str, int], I64]]) -> pa.Table:
    """Return table/: the table of rule 5 by partition, mode and day."""
    rows = [
        place._asdict()
        | {"mode": mode, "day": date(1970, 1, 1) + timedelta(days=day)}
        | dict(zip(TABLE, row.tolist(), strict=True))
        for place, cells in sorted(tables.items())
        for (mode, day), row in sorted(cells.items())
        if row.any()
    ]
    return pa.Table.from_pylist(rows, TABLE_SCHEMA)
