"""Cuts partitions into ranges of offsets, from footers alone, so that a task reads the row groups of one range.

File names are not believed. The statistics of every row group must show that it has one partition, and which offsets;
tasks check the rows against that (LayoutError). A few row groups may have several partitions, as the newest segments of
a probe log do: their rows are inspected first (`mixed`), and each partition reads them. The rows of any
other layout are written once more, by partition and range (sources.Spread).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.columns import I64
from spark_reconcile.tables.schema import File, RowGroup

TARGET_ROWS: Final = 1 << 20
"""Rows of the largest table in a range: some 300 MiB in a task."""
LARGEST_GROUP: Final = 1 << 22
"""A row group may have at most so many rows, because a task reads it at once."""
WASTE: Final = 2.5
"""Rows may be read so many times on average, because row groups overlap the ends of ranges."""
NO_MATTER: Final = 1 << 22
"""So many rows may be read however often."""
MIXED: Final = 0.25
"""The part of all rows that may lie in row groups of several partitions."""
TABLES: Final = ("probes", "records", "polls")


class LayoutError(Exception):
    """The rows of a row group contradict its footer."""


@dataclass(frozen=True, slots=True)
class Share:
    """Row groups of one file. ``low`` and ``high``: the lowest and highest offset by footers (None: no row has one).

    ``unplaced``: their rows without an offset belong to the range, too. ``mixed``: they have rows of other partitions.
    """

    file: File
    groups: tuple[int, ...]
    low: int | None
    high: int | None
    rows: int
    unplaced: bool = False
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [low, high) of a partition, and the row groups that may have rows of it, by table."""

    place: Place
    number: int
    low: int
    high: int
    shares: Mapping[str, tuple[Share, ...]]


Part: TypeAlias = tuple[File, tuple[int, ...]]
"""A file, and the numbers of some of its row groups."""
Groups: TypeAlias = "Mapping[tuple[str, int], RowGroup]"
"""The statistics of footers, by path and number of a row group."""
Outlines: TypeAlias = "Mapping[tuple[str, int], Sequence[tuple[Place, RowGroup]]]"
"""By (path, number of a row group): its partitions, and the statistics of the rows of each."""
_Held: TypeAlias = dict[str, list[tuple[File, RowGroup]]]
"""The row groups of a partition, by table."""


def mixed(files: dict[str, list[File]]) -> list[Part]:
    """Return the row groups that have several partitions, by footers; none if they are too many to inspect."""
    every = [(file, group) for _, file, group in _groups(files)]
    found = [(file, group) for file, group in every if place_of(file, group) is None]
    rows, total = (sum(group.rows for _, group in some) for some in (found, every))
    return parts(found) if rows <= max(NO_MATTER, MIXED * total) else []


def plan(files: dict[str, list[File]], outlines: Outlines | None = None) -> list[Range] | None:
    """Return the ranges to read, or None if the layout of the files (by table) does not allow it.

    ``outlines`` are those of the row groups that are `mixed`.
    """
    known = outlines or {}
    partitions: dict[Place, _Held] = defaultdict(lambda: {name: [] for name in TABLES})
    for table, file, group in _groups(files):
        place = place_of(file, group)
        if place is None and (file.path, group.number) in known:
            for one, part in known[file.path, group.number]:
                partitions[one][table].append((file, part))
            continue
        if place is None or group.rows > LARGEST_GROUP or "offset" not in group.nulls:
            return None
        if group.low.get("offset") is None and group.nulls["offset"] != group.rows:
            return None
        partitions[place][table].append((file, group))
    ranges = [part for place, held in sorted(partitions.items()) for part in _cut(place, held)]
    rows = sum(group.rows for held in partitions.values() for groups in held.values() for _, group in groups)
    read = sum(share.rows for part in ranges for shares in part.shares.values() for share in shares)
    return ranges if read <= max(NO_MATTER, WASTE * rows) else None


def _groups(files: Mapping[str, Sequence[File]]) -> Iterator[tuple[str, File, RowGroup]]:
    """Yield (table, file, row group) for the row groups that have rows; tasks do not need a file's other footers."""
    for table in TABLES:
        for file in files[table]:
            bare = file.bare()
            yield from ((table, bare, group) for group in file.groups if group.rows)


def parts(groups: Iterable[tuple[File, RowGroup]]) -> list[Part]:
    """Return the numbers of row groups by file; those of one file follow one another."""
    by_file = groupby(groups, key=itemgetter(0))
    return [(file.bare(), tuple(group.number for _, group in some)) for file, some in by_file]


def place_of(file: File, group: RowGroup) -> Place | None:
    """Return the partition of all rows of a row group; None if it has several, or its footer does not say."""
    cluster, topic, partition = (file.only(group, name) for name in Place._fields)
    if cluster is None or topic is None or partition is None:
        return None
    return Place(str(cluster), str(topic), int(partition))


def _cut(place: Place, held: _Held) -> Iterable[Range]:
    """Cut where row groups of the largest table begin, so that few of them overlap an end."""
    largest = max(TABLES, key=lambda name: sum(group.rows for _, group in held[name]))
    starts = sorted(
        (group.low["offset"], group.rows) for _, group in held[largest] if group.low.get("offset") is not None
    )
    edges, gathered = [0], 0
    for low, rows in starts:
        if gathered and gathered + rows > TARGET_ROWS and low > edges[-1]:
            edges.append(low)
            gathered = 0
        gathered += rows
    tops = [*edges[1:], 1 << 63]
    for number, (low, high) in enumerate(zip(edges, tops, strict=True)):
        shares = {table: _shares(groups, low, high, first=number == 0) for table, groups in held.items()}
        yield Range(place, number, low, high, shares)


def _shares(groups: Sequence[tuple[File, RowGroup]], low: int, high: int, *, first: bool) -> tuple[Share, ...]:
    shares = []
    for file, group in groups:
        start, stop = group.low.get("offset"), group.high.get("offset")
        if start is None or stop is None:
            if first:
                shares.append(Share(file, (group.number,), None, None, group.rows, unplaced=True, mixed=group.mixed))
        elif start < high and stop >= low:
            owned = low <= start < high or (first and start < low)
            unplaced = owned and group.nulls["offset"] > 0
            shares.append(Share(file, (group.number,), start, stop, group.rows, unplaced, group.mixed))
    return _merged(shares)


def _merged(shares: list[Share]) -> tuple[Share, ...]:
    """Join neighbouring row groups of a file, so that they are read at once."""
    merged: list[Share] = []
    for share in shares:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.file is share.file
            and last.low is not None
            and share.low is not None
            and (last.unplaced, last.mixed) == (share.unplaced, share.mixed)
        ):
            low, high = min(last.low, share.low), max(last.high or 0, share.high or 0)
            groups, rows = (*last.groups, *share.groups), last.rows + share.rows
            merged[-1] = replace(last, groups=groups, low=low, high=high, rows=rows)
        else:
            merged.append(share)
    return tuple(merged)


def narrowed(part: Range, sequences: tuple[I64, I64], groups: Groups) -> Range:
    """Return the range with only those row groups that may have rows about some runs of probes.

    ``sequences``: the first and the last sequence of each run.
    """

    def about(group: RowGroup) -> bool:
        low, high = group.low.get("sequence"), group.high.get("sequence")
        return low is None or high is None or bool(((sequences[0] <= high) & (sequences[1] >= low)).any())

    probes = _chosen(part.shares["probes"], groups, about)
    placed = [(share.low, share.high) for share in probes if share.low is not None and share.high is not None]
    if not placed:
        return replace(part, shares={"probes": probes, "records": (), "polls": ()})
    low, high = max(part.low, min(one[0] for one in placed)), max(one[1] for one in placed)

    def near(group: RowGroup) -> bool:
        return bool(group.low["offset"] <= high and group.high["offset"] >= low)

    others = {table: _chosen(part.shares[table], groups, near) for table in ("records", "polls")}
    return replace(part, low=low, high=min(part.high, high + 1), shares={"probes": probes} | others)


def _chosen(shares: Sequence[Share], groups: Groups, wanted: Callable[[RowGroup], bool]) -> tuple[Share, ...]:
    """Return the wanted row groups of shares; all of a share if its footers lack statistics."""
    result = []
    for share in shares:
        known = [groups.get((share.file.path, number)) for number in share.groups]
        if share.mixed or share.low is None or any(one is None or one.low.get("offset") is None for one in known):
            result.append(share)
        elif kept := [one for one in known if one is not None and wanted(one)]:
            low, high = min(one.low["offset"] for one in kept), max(one.high["offset"] for one in kept)
            numbers, rows = tuple(one.number for one in kept), sum(one.rows for one in kept)
            result.append(replace(share, groups=numbers, low=low, high=high, rows=rows))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some row groups of a table, as many as a task reads to spread them."""

    table: str
    parts: Sequence[Part]


def chunks(files: Mapping[str, Sequence[File]]) -> list[Chunk]:
    """Return all row groups in chunks of about TARGET_ROWS."""
    result = []
    for table, groups in groupby(_groups(files), key=itemgetter(0)):
        some: list[tuple[File, RowGroup]] = []
        gathered = 0
        for _, file, group in groups:
            some.append((file, group))
            gathered += group.rows
            if gathered >= TARGET_ROWS:
                result.append(Chunk(table, parts(some)))
                some, gathered = [], 0
        if some:
            result.append(Chunk(table, parts(some)))
    return result
