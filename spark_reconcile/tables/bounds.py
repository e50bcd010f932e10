"""The table bounds/: the offsets that were dumped of each partition, by isolation level, and its retention."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from spark_reconcile.errors import BadInputError
from spark_reconcile.tables.columns import ISOLATIONS, Bounds

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
        """Return the topic ids of the rows that belong to the dump of a topic (rule 1); empty: all rows do.

        None among them stands for a row without an id. If the log has ``named`` an id that the dump has not, a row
        without one may be of either incarnation, and does not belong to the dump.
        """
        dumped: frozenset[str | None] = self.topic_ids.get(topic, frozenset())
        return dumped | {None} if dumped and named <= dumped else dumped


def dumped_of(tables: Iterable[tuple[str, pa.Table]]) -> Dumped:
    """Return the bounds and topic ids in tables (path, rows).

    Raises:
        BadInputError: two bounds for one partition and level, or none at read_committed, or an unknown level.
    """
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
    held = uncommitted or {}
    return Bounds(
        start=committed["earliest_offset"],
        end=committed["end_offset"],
        dumped_at=committed["dumped_at"],
        retention_ms=committed["retention_ms"],
        retention_bytes=committed["retention_bytes"],
        uncommitted_start=held.get("earliest_offset"),
        uncommitted_end=held.get("end_offset"),
        uncommitted_dumped_at=held.get("dumped_at"),
        size_bytes=committed["size_bytes"],
    )
