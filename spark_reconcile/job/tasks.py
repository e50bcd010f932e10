"""What runs in Spark's workers: read, settle, write; look again; and never let an error of the input become a retry."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa

from spark_reconcile import merging, ordering, reading
from spark_reconcile.bounding import Dumped, Place
from spark_reconcile.columns import NEVER, NO_OFFSET, Damaged, Found, Identities, Probes, by_producer
from spark_reconcile.errors import BadInputError
from spark_reconcile.extents import Extents
from spark_reconcile.fractures import Fractures
from spark_reconcile.kernel import Conflicts, Piece, Residue, Runs, Slice, settle
from spark_reconcile.ordering import Writes
from spark_reconcile.output import Writer, Written
from spark_reconcile.ranges import LayoutError
from spark_reconcile.splitting import split
from spark_reconcile.tables import TABLES, RowGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_reconcile.columns import I64, Bool
    from spark_reconcile.ordering import Order
    from spark_reconcile.ranges import Chunk, Range, Share
    from spark_reconcile.tables import File
    from spark_reconcile.tally import Tally
    from spark_reconcile.transactions import Transactions

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", Found, Damaged)
Edges: TypeAlias = tuple[int, Writes, Writes]
"""How many edges, from where, and to where."""
Key: TypeAlias = tuple[Place, int]
"""A partition and the number of one of its ranges."""
Named: TypeAlias = dict[tuple[str, str], set[str]]
"""Topic ids by (cluster, topic)."""
KEYS = ("cluster", "topic", "partition", "producer_id", "generation", "sequence")


@dataclass(frozen=True, slots=True)
class Known:
    """What every task must know; sent to each worker once.

    ``named``: the topic ids that the log names, by (cluster, topic).
    """

    dumped: Dumped
    named: Named
    transactions: Transactions
    sequences: dict[Place, dict[tuple[int, int], tuple[int, int]]]
    generations: dict[str, dict[int, tuple[int, ...]]]
    work: str

    def slice_of(self, place: Place) -> Slice:
        """Return what is true of a partition."""
        extents = Extents(self.sequences.get(place, {}), self.generations.get(place.cluster, {}))
        return Slice(self.dumped.bounds.get(place), extents)

    def ours(self, place: Place) -> frozenset[str | None]:
        """Return the topic ids of the rows that meet the dump of a partition (Dumped.ours)."""
        return self.dumped.ours(place[:2], self.named.get(place[:2], frozenset()))


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a range's first look sends to the driver; what did not survive is in files already."""

    key: Key
    tally: Tally
    residue: Residue
    runs: Runs
    fractures: Fractures
    conflicts: Conflicts
    damaged: I64
    written: Written
    order: Order


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a task could not go on: bad input (then ``error``), or a layout that is not what it claims."""

    error: BadInputError | None


def told(work: Callable[[T], R]) -> Callable[[T], R | Refused]:
    """Return ``work`` with errors of the input as values: Spark would try such a task four times over."""

    def guarded(task: T) -> R | Refused:
        try:
            return work(task)
        except BadInputError as error:
            return Refused(error)
        except LayoutError:
            return Refused(None)

    return guarded


def load_range(part: Range, known: Known) -> Piece:
    """Read a range's row groups.

    Raises:
        BadInputError: a file is damaged, or a value is none it may have.
        LayoutError: a row group holds what its footer denies.
    """
    ours = known.ours(part.place)
    probes = [Probes.none()]
    for share in part.probes:
        table = _read(share, part.place)
        rows = reading.probes(table, part.place.cluster, ours, known.transactions, share.file.path)
        placed = rows.offset >= 0
        _check(share, rows.offset[placed] if not placed.all() else rows.offset)
        keep = (rows.offset >= part.low) & (rows.offset < part.high)
        if share.unplaced:
            keep |= ~placed
        probes.append(rows if keep.all() else rows.take(keep))
    found, damaged = [Found.none()], [Damaged.none()]
    for share in part.records:
        table = _read(share, part.place)
        _check(share, reading.numbers(table, "offset"))
        rows_found, rows_damaged = reading.records(table, ours, share.file.path)
        found.append(_between(rows_found, part))
        damaged.append(_between(rows_damaged, part))
    polls = [Found.none()]
    for share in part.polls:
        table = _read(share, part.place)
        _check(share, reading.numbers(table, "offset"))
        polls.append(_between(reading.polls(table, ours, share.file.path), part))
    return Piece(Probes.concat(probes), Found.concat(found), Damaged.concat(damaged), Found.concat(polls))


def _read(share: Share, place: Place) -> pa.Table:
    table = reading.read(share.file, share.groups)
    if share.mixed:
        return table.filter(pa.array(_of_place(table, place, share.file.path)))
    for name, value in zip(("cluster", "topic"), place[:2], strict=True):
        number, values = reading.codes(table, name, None, share.file.path)
        if len(number) and (values[number[0]] != value or (len(values) > 1 and (number != number[0]).any())):
            raise LayoutError(share.file.path)
    partition = reading.numbers(table, "partition")
    if len(partition) and (partition != place.partition).any():
        raise LayoutError(share.file.path)
    return table


def _of_place(table: pa.Table, place: Place, path: str) -> Bool:
    mine: Bool = reading.numbers(table, "partition") == place.partition
    for name, value in zip(("cluster", "topic"), place[:2], strict=True):
        number, values = reading.codes(table, name, None, path)
        mine &= number == (values.index(value) if value in values else -2)
    return mine


def outline(part: tuple[File, tuple[int, ...]]) -> list[tuple[str, int, Place, RowGroup]]:
    """Return for row groups of several partitions (path, number, partition, what a footer would say of its rows)."""
    file, groups = part
    columns = [name for name in ("cluster", "topic", "partition", "offset") if name in TABLES[file.table]]
    result = []
    for group in groups:
        table = reading.read(file, [group], columns)
        seen: dict[Place, list[tuple[int, int, int]]] = defaultdict(list)
        for place, _, rows in split(table, None, file.path):
            offset = reading.numbers(rows, "offset", NO_OFFSET)
            placed = offset[offset >= 0]
            ends = (int(placed.min()), int(placed.max())) if len(placed) else (NEVER, NO_OFFSET)
            seen[place].append((*ends, len(offset) - len(placed)))
        for place, parts in seen.items():
            low, high = min(one[0] for one in parts), max(one[1] for one in parts)
            claims = ({"offset": low}, {"offset": high}) if high >= 0 else ({}, {})
            nulls = {"offset": sum(one[2] for one in parts)}
            result.append((file.path, group, place, RowGroup(group, len(table), nulls, *claims, mixed=True)))
    return result


def _check(share: Share, offset: I64) -> None:
    claimed = (share.low, share.high)
    if (int(offset.min()), int(offset.max())) != claimed if len(offset) else claimed != (None, None):
        raise LayoutError(share.file.path)


def _between(rows: F, part: Range) -> F:
    keep: Bool = (rows.offset >= part.low) & (rows.offset < part.high)
    return rows if keep.all() else rows.take(keep)


def load_blobs(key: Key, blobs: Iterable[tuple[str, bytes]], known: Known) -> Piece:
    """Return the rows that the shuffle brought together."""
    place = key[0]
    ours = known.ours(place)
    probes, found, damaged, polls = [Probes.none()], [Found.none()], [Damaged.none()], [Found.none()]
    for table, blob in blobs:
        with pa.ipc.open_stream(blob) as stream:
            rows = stream.read_all()
        path = (rows.schema.metadata or {}).get(b"path", b"").decode()
        if table == "probes":
            probes.append(reading.probes(rows, place.cluster, ours, known.transactions, path))
        elif table == "records":
            one, other = reading.records(rows, ours, path)
            found.append(one)
            damaged.append(other)
        else:
            polls.append(reading.polls(rows, ours, path))
    return Piece(Probes.concat(probes), Found.concat(found), Damaged.concat(damaged), Found.concat(polls))


def spread(chunk: Chunk, width: int) -> Iterator[tuple[Key, tuple[str, bytes]]]:
    """Read a chunk of any layout and yield its rows by partition and range of ``width`` offsets."""
    parts: dict[Key, list[pa.Table]] = defaultdict(list)
    for file, groups in chunk.parts:
        for batch in reading.batches(file, groups):
            for place, number, rows in split(batch, width, file.path):
                parts[place, number].append(rows.replace_schema_metadata({"path": file.path}))
    for key, tables in parts.items():
        whole = pa.concat_tables([_undictionary(table) for table in tables])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema) as stream:
            stream.write_table(whole.combine_chunks())
        yield key, (chunk.table, sink.getvalue().to_pybytes())


def _undictionary(table: pa.Table) -> pa.Table:
    """Return a slice with no more of its dictionaries than it uses."""
    columns = [
        column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def first_look(key: Key, piece: Piece, known: Known) -> FirstLook:
    """Settle a range and write down what did not plainly survive."""
    place, _ = key
    settled = settle(piece, known.slice_of(place))
    fractures = Fractures()
    fractures.add(place, settled.probes, settled.judgement)
    written = Writer(known.work, known.dumped).told(place, settled.probes, settled.judgement)
    return FirstLook(
        key=key,
        tally=settled.tally,
        residue=settled.residue,
        runs=settled.runs,
        fractures=fractures,
        conflicts=settled.conflicts,
        damaged=settled.damaged,
        written=written,
        order=ordering.of(_dated(place, settled.writes, known)),
    )


def edges(key: Key, piece: Piece, known: Known, within: tuple[I64, I64], most: int) -> tuple[Key, Edges]:
    """Return a range's edges within some stretches of time, or only their number if they are more than ``most``."""
    writes = settle(piece, known.slice_of(key[0])).writes
    tail, head = ordering.edges(_dated(key[0], writes, known), within)
    return key, (len(tail), tail, head) if len(tail) <= most else (len(tail), Writes.none(), Writes.none())


def _dated(place: Place, writes: Writes, known: Known) -> Writes:
    who = (writes.producer, writes.generation, writes.transaction)
    return ordering.dated(writes, known.transactions.began(place.cluster, *who))


def second_look(key: Key, piece: Piece, known: Known, runs: Runs, said: Identities) -> tuple[Key, Residue]:
    """Tell what is known of identities that others asked for."""
    return key, merging.second_look(piece, known.slice_of(key[0]), runs, said)


def extents(part: tuple[File, tuple[int, ...]]) -> tuple[dict[Place, dict[tuple[int, int], tuple[int, int]]], Named]:
    """Return of some row groups: the first and last sequence of each producer's generation in each partition; ids."""
    file, groups = part
    result: dict[Place, dict[tuple[int, int], tuple[int, int]]] = {}
    named: Named = defaultdict(set)
    for batch in reading.batches(file, groups, (*KEYS, "topic_id")):
        for place, _, rows in split(batch, None, file.path):
            named[place[:2]].update(rows.column("topic_id").unique().drop_null().to_pylist())
            who = Identities(*(reading.numbers(rows, name) for name in KEYS[3:]))
            here = result.setdefault(place, {})
            for producer, generation, mine in by_producer(who):
                sequence = who.sequence[mine]
                widen(here, (producer, generation), int(sequence.min()), int(sequence.max()))
    return result, named


def widen(extent: dict[tuple[int, int], tuple[int, int]], who: tuple[int, int], first: int, last: int) -> None:
    """Let an extent reach from ``first`` to ``last`` at least."""
    low, high = extent.get(who, (first, last))
    extent[who] = min(low, first), max(high, last)
