"""Merges small files of the probe log: a file a minute is quick to ship and slow to read.

Files of consecutive segments (one cluster, runner, ledger, table and day) become one sorted file, whose name has the
first and the last segment's number; then the small files are deleted. After a crash in between both exist: the next run
deletes small files whose numbers lie within a merged range, and until then equal rows count once (RECONCILIATION rule
15). A reader may find a file gone that it has listed; it lists again (ProbeLogReader does). Do not compact while Spark
reads.
"""

import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage.probe_log.errors import ProbeLogError
from storage.probe_log.schemas import SCHEMAS, SORTED_BY
from storage.probe_log.shipping import list_files, may_hold, one_line, open_url, write_table

MAX_ROWS = 4_000_000
_NAME = re.compile(r"(?P<who>.+--.+--[0-9a-f]*)-(?P<first>\d{10})(?:-(?P<last>\d{10}))?\.parquet")


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    day: str
    who: str
    first: int
    last: int

    @property
    def merged(self) -> bool:
        return self.last > self.first


def compact(url: str, clusters: Collection[str] | None = None, *, keep: int = 60, at_least: int = 30) -> int:
    """Merge small files of ``clusters`` (None: of all); return by how many their number fell.

    The newest ``keep`` files of each (table, cluster, runner, ledger) stay as they are; fewer files of one day than
    ``at_least`` are not worth merging, unless their day is over.

    Raises:
        ProbeLogError: the place cannot be read or written; nothing is lost, try again later.
    """
    filesystem, root = open_url(url)
    fewer = 0
    try:
        for table in SORTED_BY:
            by_who: dict[str, list[_File]] = {}
            for path in list_files(filesystem, posixpath.join(root, table)):
                ours = clusters is None or any(may_hold(path, cluster) for cluster in clusters)
                if ours and (file := _parse(path)) is not None:
                    by_who.setdefault(file.who, []).append(file)
            for files in by_who.values():
                fewer += _compact_one(filesystem, table, files, keep, at_least)
    except ProbeLogError:
        raise
    except Exception as error:  # noqa: BLE001  # every fsspec back end raises its own kinds
        raise ProbeLogError(f"the probe log {url} cannot be compacted: {one_line(error)}") from None
    return fewer


def _compact_one(filesystem: Any, table: str, files: list[_File], keep: int, at_least: int) -> int:
    fewer = 0
    merged = [file for file in files if file.merged]
    single = []
    for file in sorted((file for file in files if not file.merged), key=lambda file: file.first):
        if any(range_.first <= file.first <= range_.last for range_ in merged):
            filesystem.rm_file(file.path)  # a crash came before it was deleted
            fewer += 1
        else:
            single.append(file)
    newest_day = max((file.day for file in files), default="")
    by_day: dict[str, list[_File]] = {}
    for file in single[: max(len(single) - keep, 0)]:
        by_day.setdefault(file.day, []).append(file)
    for day, candidates in by_day.items():
        if len(candidates) >= at_least or day != newest_day:
            fewer += _merge(filesystem, table, candidates)
    return fewer


def _merge(filesystem: Any, table: str, files: list[_File]) -> int:
    """Merge files in their order, MAX_ROWS at a time; return by how many their number fell."""
    fewer = 0
    parts: list[_File] = []
    tables: list[pa.Table] = []
    for file in [*files, None]:
        if file is None or sum(part.num_rows for part in tables) >= MAX_ROWS:
            if len(parts) > 1:
                name = f"{parts[0].who}-{parts[0].first:010d}-{parts[-1].last:010d}.parquet"
                rows = pa.concat_tables(tables).sort_by([(key, "ascending") for key in SORTED_BY[table]])
                write_table(filesystem, posixpath.join(posixpath.dirname(parts[0].path), name), rows, SORTED_BY[table])
                for part in parts:
                    filesystem.rm_file(part.path)
                fewer += len(parts) - 1
            parts, tables = [], []
        if file is not None:
            with filesystem.open(file.path, "rb") as opened:
                tables.append(pq.ParquetFile(opened).read().cast(SCHEMAS[table]))
            parts.append(file)
    return fewer


def _parse(path: str) -> _File | None:
    match = _NAME.fullmatch(posixpath.basename(path))
    if match is None:
        return None  # written by another program
    first = int(match["first"])
    return _File(path, posixpath.basename(posixpath.dirname(path)), match["who"], first, int(match["last"] or first))
