"""The dump of the last good run, so that the next one reads only what is new from the brokers.

A run by the clock reads each partition from where the last good one ended, and reconciles that together with the
records kept from it: every rule sees everything retained, whatever segment of the ledger came late, and nothing is
judged by half.

A log that was cut and filled again beyond its old end looks like one that only grew. So what is kept of a partition
counts only while the log still has, at both ends of every range that was read, the same record: leader epoch and
checksums agree, and no record stands between the last one and the end. An end that retention has taken is not compared,
for cuts and refills change what is above it. Where a range disagrees or cannot be compared, where the topic was made
anew, its log begins or ends lower than before, or a level is new, the partition is read again from its start.

What vanished between the ends only a full read sees. There is one once a week, whenever somebody asks, and often enough
that the one after it comes within a third of the shortest retention since the last: before what it read can expire.

What is kept counts only if the store says that its run succeeded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
import pyarrow.parquet as pq
import structlog

from spark_reconcile.ends import End, Place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_reconcile.dump import Part

log = structlog.get_logger(__name__)

FULL_EVERY_NS: Final = 7 * 86_400 * 10**9 - 3_600 * 10**9
"""A week, with an hour's grace for the clock."""
_NEVER_NS: Final = 1 << 62
_NOTE: Final = "run.json"
Level: TypeAlias = tuple[str, int, str]
"""Topic, partition, isolation."""
Reread: TypeAlias = Callable[[str, Mapping[Place, Iterable[int]]], Mapping[tuple[Place, int], End | None]]
"""Reads the log at an isolation level, as `spark_reconcile.ends.read` does."""


@dataclass(frozen=True, slots=True)
class Range:
    """Records of a partition that one task read at one level, in one file.

    ``ends``: its first and last record; None: what the log held right after it was read was not what had been read.
    """

    file: str
    topic: str
    partition: int
    isolation: str
    ends: tuple[End, End] | None

    @property
    def place(self) -> Place:
        """Topic and partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Kept:
    """A dump that was kept: the bounds it had, what it holds, and when all was last read.

    ``within_ns``: how long after that the next full read may come (see `expiry_ns`).
    """

    folder: Path
    bounds: Mapping[Level, Mapping[str, Any]]
    ranges: Sequence[Range]
    full_ns: int
    within_ns: int

    @property
    def since(self) -> dict[Level, int]:
        """Where reading goes on."""
        return {level: row["end_offset"] for level, row in self.bounds.items()}

    def agreeing(self, bounds: Sequence[Mapping[str, Any]], reread: Reread, next_ns: int) -> Kept | None:
        """Return what of it a newer dump goes on from; None: nothing, and everything has to be read.

        Args:
            bounds: the newer dump's.
            reread: reads the log, after that dump was made.
            next_ns: when the next run is.
        """
        within_ns = min(self.within_ns, expiry_ns(bounds))
        if next_ns - self.full_ns > within_ns:
            return None
        now = {(row["topic"], row["partition"], row["isolation"]): row for row in bounds}
        others = {level[:2] for level in self.bounds.keys() - now.keys()}
        others |= {level[:2] for level, row in now.items() if not self._goes_on(level, row)}
        others |= {one.place for one in self.ranges if one.ends is None}
        others |= self._changed({level: row for level, row in now.items() if level[:2] not in others}, reread)
        for topic, partition in sorted(others):
            log.warning("kept_records_not_used", topic=topic, partition=partition)
        agreeing = {level: row for level, row in self.bounds.items() if level[:2] not in others}
        if not agreeing:
            return None
        ranges = [one for one in self.ranges if one.place not in others]
        return replace(self, bounds=agreeing, ranges=ranges, within_ns=within_ns)

    def _goes_on(self, level: Level, row: Mapping[str, Any]) -> bool:
        """Return whether a level's newer bounds are those of the same log, grown at its end, shortened at its start."""
        kept = self.bounds.get(level)
        return (
            kept is not None
            and bool(kept["topic_id"] == row["topic_id"])
            and bool(kept["earliest_offset"] <= row["earliest_offset"])
            and bool(kept["end_offset"] <= row["end_offset"])
        )

    def _changed(self, now: Mapping[Level, Mapping[str, Any]], reread: Reread) -> set[Place]:
        """Return the partitions whose log has not, at the ends of ranges or behind the last one, what was read."""
        ends: dict[Level, list[End]] = {level: [] for level in now}
        for one in self.ranges:
            level = (*one.place, one.isolation)
            if level in now:
                ends[level] += [end for end in one.ends or () if end.offset >= now[level]["earliest_offset"]]
        behind = {
            level: max(row["earliest_offset"], *(end.offset + 1 for end in ends[level]), 0)
            for level, row in now.items()
        }
        changed: set[Place] = set()
        for isolation in sorted({level[2] for level in now}):
            mine = [level for level in now if level[2] == isolation]
            found = reread(
                isolation, {level[:2]: {behind[level], *(end.offset for end in ends[level])} for level in mine}
            )
            for level in mine:
                place = level[:2]
                following = found.get((place, behind[level]), _UNANSWERED)
                filled = following is not None and following.offset < self.bounds[level]["end_offset"]
                if filled or any(found.get((place, end.offset)) != end for end in ends[level]):
                    changed.add(place)
        return changed

    def add_to(self, dump: Path) -> list[Range]:
        """Put the kept records beside those of a newer dump; return them under their names there."""
        added = []
        for number, one in enumerate(self.ranges):
            name = f"kept-{number:05d}.parquet"
            file, target = self.folder / "records" / one.file, dump / "records" / name
            try:
                os.link(file, target)
            except OSError:  # another file system, or one without links
                shutil.copyfile(file, target)
            added.append(replace(one, file=name))
        return added


_UNANSWERED: Final = End(-1, None, "", "")


def expiry_ns(bounds: Iterable[Mapping[str, Any]]) -> int:
    """Return within which time everything has to be read again: a third of the shortest retention.

    Nothing if that is not known, or is by size: anything may expire before the next run.
    """
    times = [_NEVER_NS]
    for row in bounds:
        age_ms, size = row.get("retention_ms"), row.get("retention_bytes")
        if age_ms is None or size is None or size >= 0:
            return 0
        times += [age_ms * 10**6 // 3] if age_ms >= 0 else []
    return min(times)


def recognised(parts: Sequence[Part], reread: Reread) -> list[Range]:
    """Return what a dump has just read, with its ends as the log has them now, where they are what was read."""
    found: dict[tuple[str, Place, int], End | None] = {}
    for isolation in sorted({part.isolation for part in parts}):
        asked: dict[Place, set[int]] = {}
        for part in parts:
            if part.isolation == isolation:
                asked.setdefault((part.topic, part.partition), set()).update((part.first[0], part.last[0]))
        found |= {(isolation, *where): end for where, end in reread(isolation, asked).items()}
    ranges = []
    for part in parts:
        place = part.topic, part.partition
        first, last = (found.get((part.isolation, place, offset)) for offset, _ in (part.first, part.last))
        ends = None
        if first is not None and last is not None:
            seen = (first.offset, first.content), (last.offset, last.content)
            ends = (first, last) if seen == (part.first, part.last) else None
        ranges.append(Range(part.file, *place, part.isolation, ends))
    return ranges


def kept(
    folder: Path, succeeded: Sequence[str], now_ns: int, next_ns: int, full_every_ns: int = FULL_EVERY_NS
) -> Kept | None:
    """Return what can be gone on from; None: everything has to be read.

    Args:
        folder: where `keep` put it.
        succeeded: ids of the cluster's latest good runs.
        now_ns: the time.
        next_ns: when the next run is.
        full_every_ns: everything is read again so long after it last was, if not sooner.
    """
    try:
        note = orjson.loads((folder / _NOTE).read_bytes())
        rows = pq.read_table(folder / "bounds").to_pylist()
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if folder.exists():
            log.warning("kept_dump_unreadable", folder=str(folder), reason=str(error))
        return None
    if note.get("reconciliation") not in succeeded or "ranges" not in note:  # the latter: by an older version
        return None
    if not 0 <= now_ns - note["full_ns"] < full_every_ns or next_ns - note["full_ns"] > note["within_ns"]:
        return None
    bounds = {(row["topic"], row["partition"], row["isolation"]): row for row in rows}
    ranges = [
        Range(file, topic, partition, isolation, (End(*ends[0]), End(*ends[1])) if ends else None)
        for file, topic, partition, isolation, ends in note["ranges"]
    ]
    return Kept(folder, bounds, ranges, note["full_ns"], note["within_ns"])


def keep(dump: Path, folder: Path, reconciliation: str, ranges: Sequence[Range], full_ns: int, within_ns: int) -> None:
    """Put a dump in the place of the one kept; a crash in between leaves none, and the next run reads everything."""
    note = {
        "reconciliation": reconciliation,
        "full_ns": full_ns,
        "within_ns": within_ns,
        "ranges": [
            [one.file, one.topic, one.partition, one.isolation, [list(end) for end in one.ends or ()]] for one in ranges
        ],
    }
    (dump / _NOTE).write_bytes(orjson.dumps(note))
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    dump.rename(folder)


def size(folder: Path) -> int:
    """Return how many bytes lie in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
