"""The dump of the last good run, so that the next one reads only what is new from the brokers.

A run by the clock reads each partition from where the last good one ended, and reconciles that together with the
records kept from it: every rule sees everything retained, whatever segment of the ledger came late, and nothing is
judged by half. Once a week, whenever somebody asks, and where what was kept no longer fits (a topic made anew, an end
that went back, a partition or level that is new), everything is read again: only a re-read sees what has vanished.

What is kept counts only if the store says that its run succeeded.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow.parquet as pq
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

log = structlog.get_logger(__name__)

FULL_EVERY_NS: Final = 7 * 86_400 * 10**9 - 3_600 * 10**9
"""A week, with an hour's grace for the clock."""
_NOTE: Final = "run.json"
Level = tuple[str, int, str]
"""Topic, partition, isolation."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A dump that was kept: where each partition's ended, of which incarnations, and when all was last read."""

    folder: Path
    ends: Mapping[Level, int]
    topic_ids: Mapping[str, str | None]
    full_ns: int

    def fits(self, bounds: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether a newer dump, given its bounds/, goes on from this one."""
        for row in bounds:
            end = self.ends.get((row["topic"], row["partition"], row["isolation"]))
            if self.topic_ids.get(row["topic"], row["topic_id"]) != row["topic_id"]:
                return False
            if end is None or row["end_offset"] < end:
                return False
        return True

    def add_to(self, dump: Path) -> None:
        """Put the kept records beside those of a newer dump."""
        for number, file in enumerate(sorted((self.folder / "records").iterdir())):
            target = dump / "records" / f"kept-{number:05d}.parquet"
            try:
                os.link(file, target)
            except OSError:  # another file system, or one without links
                shutil.copyfile(file, target)


def kept(folder: Path, succeeded: Sequence[str], now_ns: int, full_every_ns: int = FULL_EVERY_NS) -> Kept | None:
    """Return what can be gone on from; None: everything has to be read.

    Args:
        folder: where `keep` put it.
        succeeded: ids of the cluster's latest good runs.
        now_ns: the time.
        full_every_ns: everything is read again so long after it last was.
    """
    try:
        note = orjson.loads((folder / _NOTE).read_bytes())
        rows = pq.read_table(folder / "bounds").to_pylist()
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if folder.exists():
            log.warning("kept_dump_unreadable", folder=str(folder), reason=str(error))
        return None
    if note.get("reconciliation") not in succeeded or now_ns - note.get("full_ns", 0) >= full_every_ns:
        return None
    ends = {(row["topic"], row["partition"], row["isolation"]): row["end_offset"] for row in rows}
    return Kept(folder, ends, {row["topic"]: row["topic_id"] for row in rows}, note["full_ns"])


def keep(dump: Path, folder: Path, reconciliation: str, full_ns: int) -> None:
    """Put a dump in the place of the one kept; a crash in between leaves none, and the next run reads everything."""
    (dump / _NOTE).write_bytes(orjson.dumps({"reconciliation": reconciliation, "full_ns": full_ns}))
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    dump.rename(folder)


def size(folder: Path) -> int:
    """Return how many bytes lie in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
