"""What runs in Spark's workers: read a range, settle it, write verdicts, look again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from spark_reconcile.errors import BadInputError
from spark_reconcile.job.partitioning import split
from spark_reconcile.job.ranges import Chunk, LayoutError, Part, Range, Share
from spark_reconcile.match import ordering
from spark_reconcile.match.extents import Extents
from spark_reconcile.match.fractures import Fractures
from spark_reconcile.match.kernel import Partition, RangeRows, Runs, Unsettled, settle
from spark_reconcile.match.ordering import Order, Writes
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.report.output import Writer, Written
from spark_reconcile.tables import parquet
from spark_reconcile.tables.bounds import Dumped, Place
from spark_reconcile.tables.columns import (
    I64,
    NEVER,
    NO_OFFSET,
    Bool,
    Damaged,
    Found,
    Identities,
    Placed,
    Probes,
    by_producer,
)
from spark_reconcile.tables.rows import polls_of, probes_of, records_of
from spark_reconcile.tables.schema import TABLES, RowGroup
from spark_reconcile.tables.transactions import Transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")
R = TypeVar("R")
Edges: TypeAlias = tuple[int, Writes, Writes]
"""The number of edges, their tails and their heads."""
Key: TypeAlias = tuple[Place, int]
"""A partition and the number of one of its ranges."""
Named: TypeAlias = dict[tuple[str, str], set[str]]
"""Topic ids by (cluster, topic)."""
Piece: TypeAlias = tuple[str, pa.Table, str]
"""A table's name, some of its rows, and the file they are from."""
KEYS = ("cluster", "topic", "partition", "producer_id", "generation", "sequence")


@dataclass(frozen=True, slots=True)
class Known:
    """What every task must know; sent to each worker once.

    ``named``: the topic ids in the probe log, by (cluster, topic).
    """

    dumped: Dumped
    named: Named
    transactions: Transactions
    sequences: dict[Place, dict[tuple[int, int], tuple[int, int]]]
    generations: dict[str, dict[int, tuple[int, ...]]]
    work: str

    def partition(self, place: Place) -> Partition:
        """Return the bounds and the extents of a partition."""
        extents = Extents(self.sequences.get(place, {}), self.generations.get(place.cluster, {}))
        return Partition(self.dumped.bounds.get(place), extents)

    def ours(self, place: Place) -> frozenset[str | None]:
        """Return the topic ids of the rows that meet the dump of a partition (Dumped.ours)."""
        return self.dumped.ours(place[:2], self.named.get(place[:2], frozenset()))


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a range's first look sends to the driver; probes that did not survive are in files already."""

    key: Key
    verdict_counts: VerdictCounts
    unsettled: Unsettled
    runs: Runs
    fractures: Fractures
    conflicts: Placed
    damaged: I64
    written: Written
    order: Order


def guarded(work: Callable[[T], R]) -> Callable[[T], R | Exception]:
    """Return ``work`` with errors of the input as values: Spark would run such a task four times."""

    def refusing(task: T) -> R | Exception:
        try:
            return work(task)
        except (BadInputError, LayoutError) as error:
            return error

    return refusing


def accepted(result: Any) -> Any:
    """Return the result of a `guarded` task, or raise the error that it is."""
    if isinstance(result, Exception):
        raise result
    return result


def in_parallel(spark: SparkSession, parts: Sequence[T], work: Callable[[T], R]) -> Iterator[R]:
    """Yield what ``work`` returns for each of ``parts``, done by Spark's workers."""
    if parts:
        results = spark.sparkContext.parallelize(parts, min(len(parts), 256)).map(guarded(work))
        yield from map(accepted, results.toLocalIterator())


def gathered(pieces: Iterable[Piece], place: Place, known: Known) -> RangeRows:
    """Return the rows of a range.

    Raises:
        BadInputError: a file is damaged, or a value is not allowed.
    """
    ours = known.ours(place)
    probes: list[Probes] = []
    records: list[tuple[Found, Damaged]] = []
    polls: list[Found] = []
    for name, table, path in pieces:
        if name == "probes":
            probes.append(probes_of(table, place.cluster, ours, known.transactions, path))
        elif name == "records":
            records.append(records_of(table, ours, path))
        else:
            polls.append(polls_of(table, ours, path))
    found, damaged = Found.concat([one for one, _ in records]), Damaged.concat([one for _, one in records])
    return RangeRows(Probes.concat(probes), found, damaged, Found.concat(polls))


def shuffled(blobs: Iterable[tuple[str, bytes]]) -> Iterator[Piece]:
    """Yield the rows of a range that the shuffle brought together (see `spread`)."""
    for name, blob in blobs:
        rows = pa.ipc.open_stream(blob).read_all()
        yield name, rows, (rows.schema.metadata or {}).get(b"path", b"").decode()


def read(part: Range) -> Iterator[Piece]:
    """Read a range's row groups; LayoutError: one has rows that its footer excludes."""
    for name, shares in part.shares.items():
        for share in shares:
            table = _read(share, part.place)
            offset = parquet.numbers(table, "offset", NO_OFFSET)
            placed = (offset >= 0) if name == "probes" else np.ones(len(offset), dtype=np.bool_)
            ends = (int(offset[placed].min()), int(offset[placed].max())) if placed.any() else (None, None)
            if ends != (share.low, share.high):
                raise LayoutError(share.file.path)
            keep = placed & (offset >= part.low) & (offset < part.high)
            if share.unplaced:
                keep |= ~placed
            yield name, table if keep.all() else table.filter(pa.array(keep)), share.file.path


def _read(share: Share, place: Place) -> pa.Table:
    table = parquet.read(share.file, share.groups)
    mine: Bool = parquet.numbers(table, "partition") == place.partition
    for name, value in zip(("cluster", "topic"), place[:2], strict=True):
        number, values = parquet.codes(table, name, None, share.file.path)
        mine &= number == (values.index(value) if value in values else -2)
    if share.mixed:
        return table.filter(pa.array(mine))
    if not mine.all():
        raise LayoutError(share.file.path)
    return table


def outline(part: Part) -> list[tuple[str, int, Place, RowGroup]]:
    """Return for row groups of several partitions (path, number, partition, what a footer would say of its rows)."""
    file, groups = part
    columns = [name for name in ("cluster", "topic", "partition", "offset") if name in TABLES[file.table]]
    result = []
    for group in groups:
        table = parquet.read(file, [group], columns)
        offsets: dict[Place, list[I64]] = defaultdict(list)
        for place, _, rows in split(table, None, file.path):
            offsets[place].append(parquet.numbers(rows, "offset", NO_OFFSET))
        for place, parts in offsets.items():
            offset = np.concatenate(parts)
            placed = offset[offset >= 0]
            claims = ({"offset": int(placed.min())}, {"offset": int(placed.max())}) if len(placed) else ({}, {})
            nulls = {"offset": len(offset) - len(placed)}
            result.append((file.path, group, place, RowGroup(group, len(table), nulls, *claims, mixed=True)))
    return result


def spread(chunk: Chunk, width: int) -> list[tuple[Key, tuple[str, bytes]]]:
    """Read a chunk of any layout and return its rows by partition and range of ``width`` offsets."""
    parts: dict[Key, list[pa.Table]] = defaultdict(list)
    for file, groups in chunk.parts:
        for batch in parquet.batches(file, groups):
            for place, number, rows in split(batch, width, file.path):
                parts[place, number].append(rows.replace_schema_metadata({"path": file.path}))
    result = []
    for key, tables in parts.items():
        whole = pa.concat_tables([_undictionary(table) for table in tables])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema) as stream:
            stream.write_table(whole.combine_chunks())
        result.append((key, (chunk.table, sink.getvalue().to_pybytes())))
    return result


def _undictionary(table: pa.Table) -> pa.Table:
    """Return a slice with no more of its dictionaries than it uses."""
    columns = [
        column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def first_look(key: Key, piece: RangeRows, known: Known) -> FirstLook:
    """Settle a range and write the verdicts of the probes that did not survive."""
    place, _ = key
    settled = settle(piece, known.partition(place))
    fractures = Fractures()
    fractures.add(place, settled.probes, settled.judgement)
    written = Writer(known.work, known.dumped).judged(place, settled.probes, settled.judgement)
    return FirstLook(
        key=key,
        verdict_counts=settled.verdict_counts,
        unsettled=settled.unsettled,
        runs=settled.runs,
        fractures=fractures,
        conflicts=settled.conflicts,
        damaged=settled.damaged,
        written=written,
        order=ordering.order_of(_dated(place, settled.writes, known)),
    )


def edges(key: Key, piece: RangeRows, known: Known, within: tuple[I64, I64], most: int) -> tuple[Key, Edges]:
    """Return a range's edges within some stretches of time, or only their number if they are more than ``most``."""
    writes = settle(piece, known.partition(key[0])).writes
    tail, head = ordering.edges(_dated(key[0], writes, known), within)
    return key, (len(tail), tail, head) if len(tail) <= most else (len(tail), Writes.zeros(), Writes.zeros())


def _dated(place: Place, writes: Writes, known: Known) -> Writes:
    """Return writes with the times at which their transactions began, without those of unknown time (NEVER)."""
    began = known.transactions.began(place.cluster, writes.producer, writes.generation, writes.transaction)
    return replace(writes, began=began).take(began != NEVER)


def extents(part: Part) -> tuple[dict[Place, dict[tuple[int, int], tuple[int, int]]], Named]:
    """Return the first and last sequence of each generation in each partition of some row groups, and topic ids."""
    file, groups = part
    result: dict[Place, dict[tuple[int, int], tuple[int, int]]] = {}
    named: Named = defaultdict(set)
    for batch in parquet.batches(file, groups, (*KEYS, "topic_id")):
        for place, _, rows in split(batch, None, file.path):
            named[place[:2]].update(rows.column("topic_id").unique().drop_null().to_pylist())
            who = Identities(*(parquet.numbers(rows, name) for name in KEYS[3:]))
            here = result.setdefault(place, {})
            for producer, generation, mine in by_producer(who):
                sequence = who.sequence[mine]
                widen(here, (producer, generation), int(sequence.min()), int(sequence.max()))
    return result, named


def widen(extent: dict[tuple[int, int], tuple[int, int]], who: tuple[int, int], first: int, last: int) -> None:
    """Extend an extent to [first, last]."""
    low, high = extent.get(who, (first, last))
    extent[who] = min(low, first), max(high, last)
