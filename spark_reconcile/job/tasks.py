"""What runs in Spark's workers: read a range, settle it, write verdicts, look again."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import fsspec.core
import numpy as np
import pyarrow as pa

from spark_reconcile.errors import BadInputError
from spark_reconcile.job.partitioning import split
from spark_reconcile.job.ranges import TARGET_ROWS, Chunk, LayoutError, Part, Range, Share
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
from spark_reconcile.tables.rows import check_words, polls_of, probes_of, records_of
from spark_reconcile.tables.schema import TABLES, RowGroup
from spark_reconcile.tables.transactions import Transactions

if TYPE_CHECKING:
    from pyspark import SparkContext


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


class Stored(NamedTuple):
    """Rows of a range in a file of the work folder: an Arrow stream, without the columns of the partition."""

    table: str
    file: str
    start: int
    size: int


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


def in_parallel(
    context: SparkContext, what: str, parts: Sequence[T], work: Callable[[T], R], most: int = 256
) -> list[R]:
    """Return what ``work`` returns for each of ``parts``, done by Spark's workers in at most ``most`` tasks.

    ``what`` describes the job in Spark's UI and event log.
    """
    if not parts:
        return []
    context.setJobGroup("reconcile", f"reconcile: {what}")
    results = context.parallelize(parts, min(len(parts), most)).map(guarded(work))
    return [accepted(result) for result in results.collect()]


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


def spread(chunk: Chunk, width: int, work: str) -> list[tuple[Key, Stored]]:
    """Write the rows of a chunk of any layout to a file, by partition and range of ``width`` offsets."""
    fs, root = fsspec.core.url_to_fs(work)
    name = f"{uuid.uuid4().hex}.arrow"
    result = []
    with fs.open(f"{root}/{name}", "wb") as file:
        for rows in _gathered(chunk):
            for place, number, part in split(rows, width, name):
                blob = _stream(part.drop_columns(list(Place._fields)))
                result.append(((place, number), Stored(chunk.table, name, file.tell(), len(blob))))
                file.write(blob)
    return result


def _gathered(chunk: Chunk) -> Iterator[pa.Table]:
    """Yield the rows of a chunk, about TARGET_ROWS at once."""
    held: list[pa.Table] = []
    for file, groups in chunk.parts:
        for batch in parquet.batches(file, groups):
            check_words(batch, chunk.table, file.path)
            held.append(batch)
            if sum(map(len, held)) >= TARGET_ROWS:
                yield pa.concat_tables(held).unify_dictionaries().combine_chunks()
                held = []
    if held:
        yield pa.concat_tables(held).unify_dictionaries().combine_chunks()


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return sink.getvalue()


def stored(parts: Sequence[Stored], work: str) -> Iterator[Piece]:
    """Read the rows of a range that `spread` wrote."""
    fs, root = fsspec.core.url_to_fs(work)
    for name, parts_of in groupby(parts, key=attrgetter("file")):
        with fs.open(f"{root}/{name}", "rb") as file:
            for part in parts_of:
                file.seek(part.start)
                yield part.table, pa.ipc.open_stream(file.read(part.size)).read_all(), name


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
