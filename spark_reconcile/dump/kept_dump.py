"""Keeps the dump of the last good run, so that the next run reads only new records from the brokers.

A scheduled run reads each partition from the end of the last good run, and reconciles that together with the records
kept from it. So every rule sees all retained records, even if a segment of the ledger came late.

A log that was truncated and filled again beyond its old end looks like one that only grew::

    kept   [ 0 .. 99 ]           first and last record: A at 0, B at 99
    log    [ 0 .. 59 | 60 .. 149 ]  truncated to 60, then filled: at 99 is another record

So the kept records of a partition are used only while the log still has the same records (leader epoch and checksums)
at both ends of every range that was read, and no record between the last one and the kept end. An end that retention
has deleted is not compared: a truncation changes what lies above it. The partition is read again from its start if a
range differs or cannot be compared, the topic was made again, its log begins or ends lower than before, or an isolation
level is new.

This cannot see records that vanished between the ends. A full read does: once a week, whenever a run is requested by a
person, and so often that the next full read comes within a third of the shortest retention, before the records of the
last one can expire.

A kept dump counts only if its run succeeded, as the store knows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
import pyarrow.parquet as pq
import structlog

from spark_reconcile.dump.fingerprints import End, Place

if TYPE_CHECKING:
    from spark_reconcile.dump.dumping import Part

log = structlog.get_logger(__name__)

FULL_EVERY_NS: Final = 7 * 86_400 * 10**9 - 3_600 * 10**9
"""A week, less an hour because runs do not begin to the second."""
_NEVER_NS: Final = 1 << 62
_NOTE: Final = "run.json"
Level: TypeAlias = tuple[str, int, str]
"""Topic, partition, isolation."""
Reread: TypeAlias = Callable[[str, Mapping[Place, Iterable[int]]], Mapping[tuple[Place, int], End | None]]
"""Reads the log at an isolation level, as `spark_reconcile.dump.fingerprints.read` does."""


@dataclass(frozen=True, slots=True)
class Range:
    """Records of a partition that one task read at one level, in one file.

    ``ends``: its first and last record; None: right after the dump the log did not have the records that were dumped.
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
    """A kept dump: its bounds and ranges, and the time of the last full read.

    ``within_ns``: the next full read must come so long after the last one (see `expiry_ns`).
    """

    folder: Path
    bounds: Mapping[Level, Mapping[str, Any]]
    ranges: Sequence[Range]
    full_ns: int
    within_ns: int

    @property
    def since(self) -> dict[Level, int]:
        """The first offset to read, by partition and isolation level."""
        return {level: row["end_offset"] for level, row in self.bounds.items()}

    def agreeing(self, bounds: Sequence[Mapping[str, Any]], reread: Reread, next_ns: int) -> Kept | None:
        """Return the part of it that a newer dump (``bounds``) continues; None if everything has to be read.

        ``reread`` reads the log after that dump was made; ``next_ns`` is the time of the next run.
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
        """Return whether the newer bounds can be those of the same log, grown at its end and shortened at its start."""
        kept = self.bounds.get(level)
        return (
            kept is not None
            and bool(kept["topic_id"] == row["topic_id"])
            and bool(kept["earliest_offset"] <= row["earliest_offset"])
            and bool(kept["end_offset"] <= row["end_offset"])
        )

    def _changed(self, now: Mapping[Level, Mapping[str, Any]], reread: Reread) -> set[Place]:
        """Return the partitions whose log has other records at the ends of ranges, or new ones before the kept end."""
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
        """Put the kept files beside those of a newer dump; return the ranges with the new file names."""
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
    """Return the time (ns) within which everything has to be read again: a third of the shortest retention.

    0 if a retention is unknown or by size: any record may expire before the next run.
    """
    times = [_NEVER_NS]
    for row in bounds:
        age_ms, size = row.get("retention_ms"), row.get("retention_bytes")
        if age_ms is None or size is None or size >= 0:
            return 0
        times += [age_ms * 10**6 // 3] if age_ms >= 0 else []
    return min(times)


def recognised(parts: Sequence[Part], reread: Reread) -> list[Range]:
    """Return the ranges of a new dump, with their ends as the log has them now, if these are the dumped records."""
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
    """Return the kept dump that the run of ``now_ns`` can continue; None if everything has to be read.

    ``succeeded`` are the ids of the cluster's latest good runs, ``next_ns`` is the time of the next run.
    """
    try:
        note = orjson.loads((folder / _NOTE).read_bytes())
        rows = pq.read_table(folder / "bounds").to_pylist()
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if folder.exists():
            log.warning("kept_dump_unreadable", folder=str(folder), reason=str(error))
        return None
    if note.get("reconciliation") not in succeeded or "ranges" not in note:  # older versions kept no ranges
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
    """Replace the kept dump; a crash in between leaves none, and the next run reads everything."""
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
