"""Pictures of a run, as SVG and rows of text: loss over time by partition, and the log around a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reconcile.tables.bounds import Place, described
from spark_reconcile.tables.columns import ISOLATIONS
from spark_reconcile.tables.parquet import batches, result_batches
from spark_reconcile.tables.schema import File

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
    """Lost writes by the time of sending: counts by partition in equal parts of [begin, end), us since the epoch."""

    begin: int
    end: int
    counts: Mapping[Place, Any]
    partitions: int
    """How many have lost something; the picture has those that lost most."""

    @classmethod
    def of(cls, out: str) -> Loss | None:
        """Return the picture of a run's lost/; None: nothing was lost."""
        ends = [0, 0]
        for _, sent in _sent(out):
            ends = [min(ends[0] or int(sent.min()), int(sent.min())), max(ends[1], int(sent.max()))]
        if not ends[1]:
            return None
        begin, end = ends[0] // _HOUR_US * _HOUR_US, (ends[1] // _HOUR_US + 1) * _HOUR_US
        counts: dict[Place, Any] = {}
        for place, sent in _sent(out):
            row = counts.setdefault(place, np.zeros(_BINS, dtype=np.int64))
            row += np.histogram(sent, bins=_BINS, range=(begin, end))[0]
        most = sorted(counts, key=lambda place: (-int(counts[place].sum()), place))[:MOST_PARTITIONS]
        return cls(begin, end, {place: counts[place] for place in sorted(most)}, len(counts))

    def svg(self) -> str:
        """Return a strip for each partition, darker where more was lost."""
        page = resources.files("spark_reconcile.report").joinpath("loss.svg.jinja").read_text(encoding="utf-8")
        template = jinja2.Environment(autoescape=True).from_string(page)
        return template.render(
            counts={place: row.tolist() for place, row in self.counts.items()},
            top=max(int(row.max()) for row in self.counts.values()),
            moments=[_moment(self.begin + at * (self.end - self.begin) // _BINS) for at in range(_BINS + 1)],
            row=_ROW,
            left=_LEFT,
            width=_WIDTH,
            bin=(_WIDTH - _LEFT) / _BINS,
        )


def _sent(out: str) -> Iterator[tuple[Place, Any]]:
    """Yield (partition, us since the epoch of each lost write with a known time)."""
    for batch in result_batches(out, "lost", _BATCH, [*Place._fields, "sent_at"]):
        times = pa.Table.from_batches([batch.filter(pc.is_valid(batch.column("sent_at")))])
        times = times.set_column(3, "sent_at", times["sent_at"].cast(pa.int64()))
        for row in times.group_by(list(Place._fields)).aggregate([("sent_at", "list")]).to_pylist():
            yield Place(row["cluster"], row["topic"], row["partition"]), np.array(row["sent_at_list"])


@dataclass(frozen=True, slots=True)
class Around:
    """The log around a case: ``rows`` of (offset, identities acked there, in the topic at each level, and polled)."""

    title: str
    offset: int
    rows: Sequence[tuple[int, str, str, str, str]]


_COLUMNS: Final = (("probes", None), ("records", ISOLATIONS[0]), ("records", ISOLATIONS[1]), ("polls", None))


def around(files: Mapping[str, Sequence[File]], case: Mapping[str, Any]) -> Around:
    """Return the log around a case with an offset, from the row groups that may hold it."""
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
    """Yield a table's rows around an offset; none if footers leave too many row groups to read."""
    parts = [
        (file, group)
        for file in files
        for group in file.groups
        if (group.low.get("offset") is None or group.low["offset"] <= high)
        and (group.high.get("offset") is None or group.high["offset"] >= low)
        and group.nulls.get("offset") != group.rows
        and all(str(file.only(group, name)) in {"None", str(value)} for name, value in place._asdict().items())
    ]
    if sum(group.rows for _, group in parts) > MOST_ROWS:
        return
    for file, group in parts:
        for table in batches(file, [group.number]):
            mask = pc.and_(pc.greater_equal(table["offset"], low), pc.less_equal(table["offset"], high))
            for name, value in place._asdict().items():
                mask = pc.and_(mask, pc.equal(table[name], value))
            yield from table.filter(pc.fill_null(mask, False)).to_pylist()


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
