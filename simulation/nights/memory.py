"""A night through the kernel in this process, in the oracle's words."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from simulation.nights.nights import arrow
from spark_reconcile.job.partitioning import split
from spark_reconcile.match.anomalies import DUPLICATE
from spark_reconcile.match.extents import Extents
from spark_reconcile.match.fractures import Fractures
from spark_reconcile.match.kernel import Partition, RangeRows, settle
from spark_reconcile.match.merging import Bracket, add_up, neighbours, revisits, second_look
from spark_reconcile.match.rules import VERDICTS, Verdict
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.tables import parquet
from spark_reconcile.tables.bounds import Dumped, Place, dumped_of
from spark_reconcile.tables.columns import Damaged, Found, Placed, Probes
from spark_reconcile.tables.rows import polls_of, probes_of, records_of, transactions_of
from spark_reconcile.tables.schema import File

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from simulation.nights.oracle import Night
    from spark_reconcile.match.kernel import Settled
    from spark_reconcile.match.merging import PartitionResult
    from spark_reconcile.tables.columns import Identities
    from spark_reconcile.tables.transactions import Transactions


PLACED = ("probes", "records", "polls")
"""The tables whose rows have a place."""
_Rows = tuple[Probes, Found, Damaged, Found]
"""Of one partition: probes, records, damaged records, polls."""


def shaped(night: Night, table: str) -> pa.Table:
    """Return a table of a night as the job reads it."""
    raw = arrow(getattr(night, table), table)
    file = File(table, table, {}, frozenset(raw.schema.names), ())
    return parquet.shaped(raw, file, parquet.USED[table])


def reconciled(night: Night, cuts: list[int], order: random.Random) -> dict[str, Any]:
    """Reconcile a night with each partition cut at these offsets, and probes without one anywhere."""
    for rows in (night.probes, night.records, night.polls):
        order.shuffle(rows)
    dumped = dumped_of([("bounds", shaped(night, "bounds"))])
    transactions = transactions_of([("transactions", shaped(night, "transactions"))])
    found = matched({table: [shaped(night, table)] for table in PLACED}, dumped, transactions, cuts, order)
    del found["lost"], found["copied"]  # the oracle has no such lists
    return found


def matched(
    shaped_tables: Mapping[str, Sequence[pa.Table]],
    dumped: Dumped,
    transactions: Transactions,
    cuts: Sequence[int],
    order: random.Random,
    issued: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """Match shaped rows of the tables in PLACED; ``issued``: the highest generation ever begun, by producer id.

    Beside the oracle's words ``lost`` has who is a lost write, and ``copied`` who has a copy, whatever the verdict.
    """
    columns = _placed(shaped_tables, dumped, transactions)
    generations = _generations(columns, dumped, issued or {})
    found = _Matched()
    for place, rows in sorted(columns.items()):
        begun_by = {
            who: tuple(sorted(some)) for (cluster, who), some in generations.items() if cluster == place.cluster
        }
        partition = Partition(dumped.bounds.get(place), Extents(_sequences(rows[0]), begun_by))
        found.take(place, partition, *reconcile(_ranges(rows, [-1, *cuts, 1 << 40], order), partition))
    return found.result()


def _placed(
    shaped_tables: Mapping[str, Sequence[pa.Table]], dumped: Dumped, transactions: Transactions
) -> dict[Place, _Rows]:
    """Return the rows of each partition."""
    parts: dict[Place, dict[str, Any]] = {}
    named: dict[tuple[str, str], set[str]] = {}
    for table, some in shaped_tables.items():
        for place, _, rows in (piece for one in some for piece in split(one, None, table)):
            parts.setdefault(place, {}).setdefault(table, []).append(rows)
            if table == "probes":
                named.setdefault(place[:2], set()).update({*rows.column("topic_id").unique().to_pylist()} - {None})
    return {
        place: _columns(place, tables, dumped.ours(place[:2], named.get(place[:2], set())), transactions)
        for place, tables in parts.items()
    }


def _generations(
    columns: Mapping[Place, _Rows], dumped: Dumped, issued: Mapping[int, int]
) -> dict[tuple[str, int], set[int]]:
    """Return the generations of each (cluster, producer): those of probes, and later ones that were begun."""
    generations: dict[tuple[str, int], set[int]] = {}
    for place, (probes, *_) in columns.items():
        for producer, generation in zip(probes.producer.tolist(), probes.generation.tolist(), strict=True):
            generations.setdefault((place.cluster, producer), set()).add(generation)
    for cluster in {place.cluster for place in (*columns, *dumped.bounds)}:
        for producer, last in issued.items():
            begun = generations.setdefault((cluster, producer), {last + 1})
            begun.update(range(max(begun) + 1, last + 1))
    return generations


def _sequences(probes: Probes) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the first and the last sequence of each (producer, generation)."""
    sequences: dict[tuple[int, int], tuple[int, int]] = {}
    for who in _identities(probes):
        first, last = sequences.get(who[:2], (who[2], who[2]))
        sequences[who[:2]] = min(first, who[2]), max(last, who[2])
    return sequences


def _ranges(rows: _Rows, edges: Sequence[int], order: random.Random) -> list[RangeRows]:
    """Cut the rows of a partition at offsets; probes without one fall into any range."""
    probes, records, damaged, polls = rows
    loose = np.array([order.randrange(len(edges) - 1) for _ in range(len(probes))])
    return [
        RangeRows(
            probes.take((probes.offset >= max(low, 0)) & (probes.offset < high) | ((probes.offset < 0) & (loose == n))),
            records.take((records.offset >= low) & (records.offset < high)),
            damaged.take((damaged.offset >= low) & (damaged.offset < high)),
            polls.take((polls.offset >= low) & (polls.offset < high)),
        )
        for n, (low, high) in enumerate(pairwise(edges))
    ]


class _Matched:
    """What was found, partition by partition."""

    def __init__(self) -> None:
        self._counts = VerdictCounts()
        self._fractures = Fractures()
        self._anomalies = {"corrupt": 0, "inconsistent-offsets": 0}
        self._verdicts: dict[tuple[Any, ...], tuple[str, int | None]] = {}
        self._lost: set[tuple[Any, ...]] = set()
        self._copied: set[tuple[Any, ...]] = set()
        self._unjudged: list[tuple[Any, ...]] = []

    def take(self, place: Place, partition: Partition, whole: PartitionResult, settled: list[Settled]) -> None:
        """Take in what was found in a partition."""
        self._counts += whole.verdict_counts
        for part, retracted in zip(settled, whole.retracted, strict=True):
            gone = set(_identities(retracted))
            keep = np.array([who not in gone for who in _identities(part.probes)], dtype=bool)
            kept, judged = part.probes.take(keep), part.judgement.take(keep)
            self._fractures.add(place, kept, judged)
            _tell(self._verdicts, place, kept, kept.offset, judged.verdict)
            self._lost |= _named(place, kept.take(judged.lost_write))
            self._anomalies["corrupt"] += len(part.damaged)
            self._anomalies["inconsistent-offsets"] += len(part.conflicts)
        done = whole.concluded
        self._fractures.add(place, done.probes, done.judgement)
        offset = np.where(done.probes.offset < 0, done.found, done.probes.offset)
        _tell(self._verdicts, place, done.probes, offset, done.judgement.verdict)
        offset = np.where(done.other_verdicts == Verdict.LOST, -1, done.others.offset)
        _tell(self._verdicts, place, done.others, offset, done.other_verdicts)
        self._lost |= _named(place, done.probes.take(done.judgement.lost_write))
        self._lost |= _named(place, done.others.take(done.other_verdicts == Verdict.LOST))
        self._copied |= _named(place, done.cases.get(DUPLICATE, Placed.zeros()))
        if partition.bounds is None and whole.verdict_counts.notes.get("promised"):
            self._unjudged.append(tuple(place))

    def result(self) -> dict[str, Any]:
        """Return all of it in the oracle's words."""
        counts = self._counts
        fractured = {"fractured-transaction": len(self._fractures.fractured())}
        anomalies = self._anomalies | counts.anomalies | fractured
        return {
            "table": counts.total(),
            "anomalies": {name: number for name, number in sorted(anomalies.items()) if number},
            "counts": dict(sorted(counts.by_verdict().items())),
            "verdicts": self._verdicts,
            "lost": self._lost,
            "copied": self._copied,
            "unverified": counts.notes.get("unverified", 0),
            "voided": counts.notes.get("voided", 0),
            "unjudged": sorted(self._unjudged),
        }


def reconcile(ranges: Sequence[RangeRows], partition: Partition) -> tuple[PartitionResult, list[Settled]]:
    """Reconcile a partition that is in memory, cut into ranges in any way: the driver's and all tasks' work."""
    first = [settle(rows, partition) for rows in ranges]
    reported = [part.unsettled.identities() for part in first]
    runs = revisits([(identities, part.runs) for identities, part in zip(reported, first, strict=True)])
    again = [second_look(rows, partition, ask, known) for rows, ask, known in zip(ranges, runs, reported, strict=True)]

    def bracket(identities: Identities) -> Bracket:
        result = Bracket.unknown(len(identities))
        for rows in ranges:
            result = result.narrowed(neighbours(rows.probes, identities))
        return result

    counts, unsettled = [part.verdict_counts for part in first], [part.unsettled for part in first]
    return add_up(counts, unsettled, again, partition, bracket), first


def _columns(place: Place, tables: dict[str, list[pa.Table]], ids: frozenset[str | None], transactions: Any) -> _Rows:
    probes = [probes_of(rows, place.cluster, ids, transactions, "probes") for rows in tables.get("probes", [])]
    records = [records_of(rows, ids, "records") for rows in tables.get("records", [])]
    polls = [polls_of(rows, ids, "polls") for rows in tables.get("polls", [])]
    return (
        Probes.concat(probes),
        Found.concat([Found.zeros(), *(found for found, _ in records)]),
        Damaged.concat([Damaged.zeros(), *(damaged for _, damaged in records)]),
        Found.concat([Found.zeros(), *polls]),
    )


def _identities(rows: Any) -> list[tuple[int, int, int]]:
    """Return (producer, generation, sequence) of each row."""
    return list(zip(*(column.tolist() for column in (rows.producer, rows.generation, rows.sequence)), strict=True))


def _named(place: Place, rows: Any) -> set[tuple[Any, ...]]:
    return {(*place, *one) for one in _identities(rows)}


def _tell(verdicts: dict[Any, Any], place: Place, rows: Any, offsets: Any, codes: Any) -> None:
    for producer, generation, sequence, offset, code in zip(
        *(column.tolist() for column in (rows.producer, rows.generation, rows.sequence, offsets, codes)), strict=True
    ):
        if code not in (Verdict.SURVIVED, Verdict.UNJUDGED):
            key = (*place, producer, generation, sequence)
            if key in verdicts:
                raise RuntimeError(f"two verdicts for {key}")
            verdicts[key] = VERDICTS[code], None if offset < 0 else offset
