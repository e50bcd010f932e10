"""Pictures of a run, as SVG and rows that need nothing else: loss over time by partition, and the log around a case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import fsspec.core
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from spark_reconcile import reading
from spark_reconcile.bounding import Place, described
from spark_reconcile.columns import ISOLATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_reconcile.tables import File

MOST_PARTITIONS: Final = 40
"""Partitions in the picture of loss over time: those that lost most."""
PICTURED: Final = 6
"""Cases of which the log is shown."""
MOST_ROWS: Final = 1 << 20
"""Rows of a table that are read for one picture at most."""
REACH: Final = 4
"""Offsets shown on either side."""
_BINS: Final = 96
_HOUR_US: Final = 3_600_000_000
_BATCH: Final = 65_536
_ROW, _LEFT, _WIDTH = 18, 260, 960


@dataclass(frozen=True, slots=True)
class Loss:
    """When what was lost had been sent: counts by partition in equal parts of [begin, end), us since the epoch."""

    begin: int
    end: int
    counts: Mapping[Place, Any]

    @classmethod
    def of(cls, lost: str) -> Loss | None:
        """Return what a run's lost/ says; None: nothing was lost."""
        ends = [0, 0]
        for _, sent in _sent(lost):
            ends = [min(ends[0] or int(sent.min()), int(sent.min())), max(ends[1], int(sent.max()))]
        if not ends[1]:
            return None
        begin, end = ends[0] // _HOUR_US * _HOUR_US, (ends[1] // _HOUR_US + 1) * _HOUR_US
        counts: dict[Place, Any] = {}
        for place, sent in _sent(lost):
            row = counts.setdefault(place, np.zeros(_BINS, dtype=np.int64))
            row += np.histogram(sent, bins=_BINS, range=(begin, end))[0]
        most = sorted(counts, key=lambda place: (-int(counts[place].sum()), place))[:MOST_PARTITIONS]
        return cls(begin, end, {place: counts[place] for place in sorted(most)})

    def svg(self) -> Markup:
        """Return a strip for each partition, the darker the more was lost."""
        top = max(int(row.max()) for row in self.counts.values())
        width = (_WIDTH - _LEFT) / _BINS
        parts = []
        for number, (place, row) in enumerate(self.counts.items()):
            y = number * _ROW
            words = Markup("{}").format(f"{place.cluster} {place.topic}-{place.partition}: {int(row.sum()):,}")
            parts.append(f'<text x="0" y="{y + 13}">{words}</text>')
            parts.append(f'<rect x="{_LEFT}" y="{y + 2}" width="{_WIDTH - _LEFT}" height="{_ROW - 4}" class="strip"/>')
            for at in np.flatnonzero(row).tolist():
                since = _moment(self.begin + at * (self.end - self.begin) // _BINS)
                parts.append(
                    f'<rect x="{_LEFT + at * width:.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" '
                    f'class="lost" opacity="{0.3 + 0.7 * int(row[at]) / top:.2f}">'
                    f"<title>{int(row[at]):,} lost of those sent from {since} on</title></rect>"
                )
        y = len(self.counts) * _ROW + 14
        parts.append(f'<text x="{_LEFT}" y="{y}">{_moment(self.begin)}</text>')
        parts.append(f'<text x="{_WIDTH}" y="{y}" text-anchor="end">{_moment(self.end)}</text>')
        body = "".join(parts)
        label = "Lost writes by partition and the time they were sent"
        return Markup(  # noqa: S704  # names were escaped where they went in
            f'<svg viewBox="0 0 {_WIDTH} {y + 6}" role="img" aria-label="{label}">{body}</svg>'
        )


def _sent(lost: str) -> Iterator[tuple[Place, Any]]:
    """Yield (partition, us since the epoch of each lost write)."""
    fs, root = fsspec.core.url_to_fs(lost)
    for path in sorted(fs.find(root)):
        with fs.open(path, "rb") as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(_BATCH, columns=["cluster", "topic", "partition", "sent_at"]):
                told = batch.filter(pc.is_valid(batch.column("sent_at")))
                times = pa.Table.from_batches([told])
                times = times.set_column(3, "sent_at", times["sent_at"].cast(pa.int64()))
                for row in (
                    times.group_by(["cluster", "topic", "partition"]).aggregate([("sent_at", "list")]).to_pylist()
                ):
                    yield Place(row["cluster"], row["topic"], row["partition"]), np.array(row["sent_at_list"])


@dataclass(frozen=True, slots=True)
class Around:
    """The log around a case: ``rows`` of (offset, then who was acked there, in the topic at each level, and polled)."""

    title: str
    offset: int
    rows: Sequence[tuple[int, str, str, str, str]]


_COLUMNS: Final = (("probes", None), ("records", ISOLATIONS[0]), ("records", ISOLATIONS[1]), ("polls", None))


def around(files: Mapping[str, Sequence[File]], case: Mapping[str, Any]) -> Around:
    """Return the log around a case with an offset, from the row groups whose footers do not deny it."""
    place = Place(case["cluster"], case["topic"], case["partition"])
    low, high = max(0, case["offset"] - REACH), case["offset"] + REACH
    cells: dict[int, list[list[str]]] = {offset: [[], [], [], []] for offset in range(low, high + 1)}
    for column, (table, level) in enumerate(_COLUMNS):
        for row in _near(files[table], place, low, high):
            if level is not None and row["isolation"] != level:
                continue
            words = _who(row)
            if words not in cells[row["offset"]][column]:
                cells[row["offset"]][column].append(words)
    rows = [(offset, *(", ".join(sorted(cell)) for cell in line)) for offset, line in cells.items()]
    return Around(f"{case['kind']} at offset {case['offset']}, {described(place)}", case["offset"], rows)  # type: ignore[arg-type]


def _near(files: Sequence[File], place: Place, low: int, high: int) -> Iterator[Mapping[str, Any]]:
    """Yield a table's rows around a place; none where footers do not tell, and too much would have to be read."""
    parts = [
        (file, group)
        for file in files
        for group in file.groups
        if (group.low.get("offset") is None or group.low["offset"] <= high)
        and (group.high.get("offset") is None or group.high["offset"] >= low)
        and group.nulls.get("offset") != group.rows
        and all(
            str(file.given.get(name, group.only(name))) in {"None", str(value)}
            for name, value in place._asdict().items()
        )
    ]
    if sum(group.rows for _, group in parts) > MOST_ROWS:
        return
    for file, group in parts:
        for table in reading.batches(file, [group.number]):
            yield from _filtered(table, place, low, high).to_pylist()


def _filtered(table: pa.Table, place: Place, low: int, high: int) -> pa.Table:
    mask = pc.and_(pc.greater_equal(table["offset"], low), pc.less_equal(table["offset"], high))
    for name, value in place._asdict().items():
        mask = pc.and_(mask, pc.equal(table[name], value))
    return table.filter(pc.fill_null(mask, False))


def _who(row: Mapping[str, Any]) -> str:
    if row.get("valid") is False:
        return "damaged"
    if row["producer_id"] is None:
        return "foreign"
    words = f"{row['producer_id']}/{row['generation']}/{row['sequence']}"
    outcome = row.get("outcome")
    return words if outcome in {None, "acked"} else f"{words} ({outcome})"


def _moment(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
