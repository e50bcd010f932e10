"""bounds/: what of each partition was dumped, at which level, and under which retention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_reconcile.columns import ISOLATIONS, Bounds
from spark_reconcile.errors import BadInputError
from spark_reconcile.reading import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

    from spark_reconcile.tables import File

_EITHER: Final = " or ".join(ISOLATIONS)


class Place(NamedTuple):
    """A partition of a topic of a cluster."""

    cluster: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Dumped:
    """``bounds`` by partition; ``topic_ids``: the incarnations dumped, by (cluster, topic), empty where unknown."""

    bounds: dict[Place, Bounds] = field(default_factory=dict)
    topic_ids: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def ours(self, topic: tuple[str, str], named: AbstractSet[str]) -> frozenset[str | None]:
        """Return the topic ids of the rows that meet the dump of a topic (rule 1); empty: all rows do.

        None among them: so does a row without an id. Not where the log has ``named`` another id than the dump's: such
        a row dates from before the cluster told ids, and may be of either incarnation.
        """
        dumped: frozenset[str | None] = self.topic_ids.get(topic, frozenset())
        return dumped | {None} if dumped and named <= dumped else dumped


def read_bounds(files: Sequence[File]) -> Dumped:
    """Return what was dumped.

    Raises:
        BadInputError: two bounds for one partition and level, or none at read_committed, or an unknown level.
    """
    return dumped_of([(file.path, read(file)) for file in files])


def dumped_of(tables: Sequence[tuple[str, pa.Table]]) -> Dumped:
    """Return what these tables (path, rows) say was dumped; raises as read_bounds does."""
    rows: dict[Place, dict[str, tuple[dict[str, Any], str]]] = {}
    ids: dict[tuple[str, str], set[str]] = {}
    for path, table in tables:
        times = table.schema.get_field_index("dumped_at")
        for row in table.set_column(times, "dumped_at", table.column("dumped_at").cast("int64")).to_pylist():
            place = Place(row["cluster"], row["topic"], row["partition"])
            if row["isolation"] not in ISOLATIONS:
                raise BadInputError(path, f"column isolation has {row['isolation']!r}", f"expected {_EITHER}")
            levels = rows.setdefault(place, {})
            if row["isolation"] in levels:
                raise BadInputError(
                    path,
                    f"two bounds for {described(place)}, {row['isolation']}",
                    f"the other is in {levels[row['isolation']][1]}",
                )
            levels[row["isolation"]] = row, path
            if row["topic_id"] is not None:
                ids.setdefault(place[:2], set()).add(row["topic_id"])
    bounds = {place: _bounds(place, levels) for place, levels in rows.items()}
    return Dumped(bounds, {topic: frozenset(values) for topic, values in ids.items()})


def described(place: Place) -> str:
    """Return a partition in words."""
    return f"cluster {place.cluster}, topic {place.topic}, partition {place.partition}"


def _bounds(place: Place, levels: dict[str, tuple[dict[str, Any], str]]) -> Bounds:
    committed, uncommitted = (levels.get(level, (None, ""))[0] for level in ISOLATIONS)
    if committed is None:
        raise BadInputError(
            levels[ISOLATIONS[1]][1],
            f"no read_committed bounds for {described(place)}",
            "dump that level too",
        )
    result = Bounds(
        start=committed["earliest_offset"],
        end=committed["end_offset"],
        dumped_at=committed["dumped_at"],
        retention_ms=committed["retention_ms"],
        retention_bytes=committed["retention_bytes"],
    )
    if uncommitted is None:
        return result
    return Bounds(
        start=result.start,
        end=result.end,
        dumped_at=result.dumped_at,
        retention_ms=result.retention_ms,
        retention_bytes=result.retention_bytes,
        uncommitted_start=uncommitted["earliest_offset"],
        uncommitted_end=uncommitted["end_offset"],
        uncommitted_dumped_at=uncommitted["dumped_at"],
    )
