"""Which task reads what: ranges of offsets from footers alone, where the layout allows it.

Nothing is believed of names. Footers must say of every row group that it holds one partition, and between which
offsets; tasks check what they read against that (LayoutError). A few row groups may hold several partitions, as the
newest segments of a probe log do: those are looked into first (`mixed`), and read for each of them. Any other layout
goes through Spark's shuffle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from spark_reconcile.bounding import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_reconcile.columns import I64
    from spark_reconcile.tables import File, RowGroup

TARGET_ROWS: Final = 1 << 20
"""Rows of the largest table that a range aims at: some 300 MiB in a task at work."""
LARGEST_GROUP: Final = 1 << 22
"""Rows of a row group that a task may still read at once."""
WASTE: Final = 2.5
"""How many times over rows may be read because row groups reach over the ends of ranges."""
NO_MATTER: Final = 1 << 22
"""Rows that may be read over and over without anyone noticing."""
MIXED: Final = 0.25
"""Which part of all rows may lie in row groups of several partitions."""
TABLES: Final = ("probes", "records", "polls")


class LayoutError(Exception):
    """A row group is not what its footer says: the layout must not be trusted."""


@dataclass(frozen=True, slots=True)
class Share:
    """Row groups of one file. ``low`` and ``high``: the offsets they claim (None: no row has one).

    ``mixed``: they have rows of other partitions, too.
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
    """Offsets [low, high) of a partition, and the row groups that may have rows of it.

    ``owned``: row groups of probes whose rows without an offset are this range's to tell.
    """

    place: Place
    number: int
    low: int
    high: int
    probes: tuple[Share, ...]
    records: tuple[Share, ...]
    polls: tuple[Share, ...]


@dataclass(slots=True)
class _Partition:
    groups: dict[str, list[tuple[File, RowGroup]]] = field(default_factory=lambda: {name: [] for name in TABLES})


Groups: TypeAlias = "Mapping[tuple[str, int], RowGroup]"
"""What footers say, by path and number of a row group."""
Outlines: TypeAlias = "Mapping[tuple[str, int], Sequence[tuple[Place, RowGroup]]]"
"""By (path, number of a row group) the partitions in it, and what its footer would say of the rows of each."""


def mixed(files: dict[str, list[File]]) -> list[tuple[File, tuple[int, ...]]]:
    """Return the row groups of which no footer tells the one partition; none if they are too many to look into."""
    found, rows, total = [], 0, 0
    for table in TABLES:
        for file in files[table]:
            groups = [group for group in file.groups if group.rows and _place(file, group) is None]
            rows += sum(group.rows for group in groups)
            total += file.rows
            if groups:
                found.append((file.bare(), tuple(group.number for group in groups)))
    return found if rows <= max(NO_MATTER, MIXED * total) else []


def plan(files: dict[str, list[File]], outlines: Outlines | None = None) -> list[Range] | None:
    """Return the ranges to read, or None if the layout is not made for it.

    Args:
        files: by table.
        outlines: of the row groups that are `mixed`.
    """
    known = outlines or {}
    partitions: dict[Place, _Partition] = defaultdict(_Partition)
    for table in TABLES:
        for file in files[table]:
            bare = file.bare()  # what goes to tasks does not need all footers
            for group in file.groups:
                if not group.rows:
                    continue
                place = _place(file, group)
                if place is None and (file.path, group.number) in known:
                    for one, part in known[file.path, group.number]:
                        partitions[one].groups[table].append((bare, part))
                    continue
                if place is None or group.rows > LARGEST_GROUP or "offset" not in group.nulls:
                    return None
                if group.low.get("offset") is None and group.nulls["offset"] != group.rows:
                    return None
                partitions[place].groups[table].append((bare, group))
    ranges = [part for place, partition in sorted(partitions.items()) for part in _cut(place, partition)]
    rows = sum(group.rows for part in partitions.values() for groups in part.groups.values() for _, group in groups)
    read = sum(_rows(part) for part in ranges)
    return ranges if read <= max(NO_MATTER, WASTE * rows) else None


def _place(file: File, group: RowGroup) -> Place | None:
    values = [file.given.get(name, group.only(name)) for name in ("cluster", "topic", "partition")]
    if any(value is None for value in values):
        return None
    return Place(str(values[0]), str(values[1]), int(values[2]))


def _cut(place: Place, partition: _Partition) -> Iterable[Range]:
    """Cut where row groups of the largest table begin, so that few of them reach over an end."""
    largest = max(TABLES, key=lambda name: sum(group.rows for _, group in partition.groups[name]))
    starts = sorted(
        (group.low["offset"], group.rows)
        for _, group in partition.groups[largest]
        if group.low.get("offset") is not None
    )
    edges, gathered = [0], 0
    for low, rows in starts:
        if gathered and gathered + rows > TARGET_ROWS and low > edges[-1]:
            edges.append(low)
            gathered = 0
        gathered += rows
    tops = [*edges[1:], 1 << 63]
    for number, (low, high) in enumerate(zip(edges, tops, strict=True)):
        yield Range(
            place,
            number,
            low,
            high,
            *(_shares(partition.groups[table], low, high, first=number == 0) for table in TABLES),
        )


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
    return tuple(_merged(shares))


def _merged(shares: list[Share]) -> Iterable[Share]:
    """Join neighbouring row groups of a file, so that they are read at once."""
    last: Share | None = None
    for share in shares:
        if (
            last is not None
            and last.file is share.file
            and last.low is not None
            and share.low is not None
            and (last.unplaced, last.mixed) == (share.unplaced, share.mixed)
        ):
            last = Share(
                last.file,
                (*last.groups, *share.groups),
                min(last.low, share.low),
                max(last.high or 0, share.high or 0),
                last.rows + share.rows,
                last.unplaced,
                last.mixed,
            )
            continue
        if last is not None:
            yield last
        last = share
    if last is not None:
        yield last


def _rows(part: Range) -> int:
    return sum(share.rows for shares in (part.probes, part.records, part.polls) for share in shares)


def narrowed(part: Range, sequences: tuple[I64, I64], groups: Groups) -> Range:
    """Return the part of a range that has all there is of some probes with an offset in it: fewer row groups.

    Args:
        part: the range.
        sequences: first and last of each run of sequences that is looked for.
        groups: what footers say.
    """
    probes = [
        chosen
        for share in part.probes
        if (chosen := _chosen(share, groups, lambda group: _may_have(group, sequences))) is not None
    ]
    placed = [(share.low, share.high) for share in probes if share.low is not None and share.high is not None]
    if not placed:
        return replace(part, probes=tuple(probes), records=(), polls=())
    low, high = max(part.low, min(one[0] for one in placed)), max(one[1] for one in placed)

    def near(group: RowGroup) -> bool:
        return bool(group.low["offset"] <= high and group.high["offset"] >= low)

    others = [
        tuple(chosen for share in shares if (chosen := _chosen(share, groups, near)) is not None)
        for shares in (part.records, part.polls)
    ]
    return replace(
        part, low=low, high=min(part.high, high + 1), probes=tuple(probes), records=others[0], polls=others[1]
    )


def _may_have(group: RowGroup, sequences: tuple[I64, I64]) -> bool:
    low, high = group.low.get("sequence"), group.high.get("sequence")
    if low is None or high is None:
        return True
    return bool(((sequences[0] <= high) & (sequences[1] >= low)).any())


def _chosen(share: Share, groups: Groups, wanted: Callable[[RowGroup], bool]) -> Share | None:
    """Return the wanted row groups of a share, or all of it if its footers do not tell enough."""
    told = [groups.get((share.file.path, number)) for number in share.groups]
    if share.mixed or share.low is None or any(one is None or one.low.get("offset") is None for one in told):
        return share
    kept = [one for one in told if one is not None and wanted(one)]
    if not kept:
        return None
    return replace(
        share,
        groups=tuple(one.number for one in kept),
        low=min(one.low["offset"] for one in kept),
        high=max(one.high["offset"] for one in kept),
        rows=sum(one.rows for one in kept),
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some row groups of a table, as much as a task reads at a time where the layout is any."""

    table: str
    parts: tuple[tuple[File, tuple[int, ...]], ...]


def chunks(files: dict[str, list[File]], tables: Sequence[str] = TABLES, rows: int = TARGET_ROWS) -> list[Chunk]:
    """Return all row groups of some tables in chunks of about so many rows."""
    result = []
    for table in tables:
        parts: list[tuple[File, tuple[int, ...]]] = []
        gathered = 0
        for file in files[table]:
            numbers: list[int] = []
            for group in file.groups:
                numbers.append(group.number)
                gathered += group.rows
                if gathered >= rows:
                    result.append(Chunk(table, (*parts, (file.bare(), tuple(numbers)))))
                    parts, numbers, gathered = [], [], 0
            if numbers:
                parts.append((file.bare(), tuple(numbers)))
        if parts:
            result.append(Chunk(table, tuple(parts)))
    return result
