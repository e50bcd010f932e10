"""Writes the tables of a segment as files at a URL, and deletes the files of days beyond retention."""

import dataclasses
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import register_implementation

from canary.threads import system
from storage.ledger import read_segment
from storage.ledger.files import DISK, Disk
from storage.ledger.segment import segment_number, segments_beside
from storage.probe_log.carry import Carry, load_carry, save_carry
from storage.probe_log.converting import Converted, convert
from storage.probe_log.errors import ProbeLogError
from storage.probe_log.incarnations import SAMPLES, first_told
from storage.probe_log.schemas import SCHEMAS, SORTED_BY

CARRY_FILE = "probe-log.carry"
DAY_S = 86_400
ROW_GROUP_ROWS = 65_536
PARTITION_ROWS = 2048
"""From so many rows for each partition on, a row group holds one partition only: Spark reads just those it needs."""
VARIED = {"offset", "sequence", "sent_at", "acked_at", "polled_at"}
"""The columns in which nearly every row has a value of its own: a dictionary of them makes files twice as large."""
_log = structlog.get_logger(__name__)
register_implementation("webhdfs", "storage.probe_log.webhdfs.StrictWebHDFS", clobber=True)  # loaded for its first URL


@dataclass(frozen=True, slots=True)
class Shipped:
    """The result for one segment: rows by table; ``already``: an earlier call has shipped it."""

    segment: int
    probes: int = 0
    transactions: int = 0
    polls: int = 0
    already: bool = False


def ship_segment(segment: Path, *, url: str, cluster: str, runner: str, disk: Disk = DISK) -> Shipped:
    """Convert a sealed segment and ship it; after that the ledger may drop it.

    Segments are shipped in their order; the carry beside them (``probe-log.carry``) names the last one. Shipping one
    again after a crash writes the same files again, or nothing. ``segment`` is a path of Ledger.sealed(), ``url`` a
    directory or anything fsspec understands, ``disk`` the one with the segment.

    Raises:
        ProbeLogError: the place cannot be written; try again later.
        LedgerError: the segment cannot be read.
    """
    read = read_segment(segment, disk)
    carry_path = segment.parent / CARRY_FILE
    ledger_id = read.header.ledger_id.hex() if read.header is not None else ""
    carry = load_carry(carry_path, disk)
    if carry.ledger_id != ledger_id:
        carry = Carry(ledger_id)
    if read.number <= carry.segment:
        return Shipped(read.number, already=True)
    paths = segments_beside(segment, disk)
    for other in paths:
        if carry.segment < segment_number(other) < read.number:
            raise ProbeLogError(f"{other} has to be shipped before {segment}: what was open in it is not known yet")
    following = next((other for other in paths if other.name > segment.name), None)
    samples = read_segment(following, disk).batches(SAMPLES) if following is not None else ()
    later = first_told(samples, carry.topic_ids, carry.cluster_id)
    converted = convert(read.tables(), cluster=cluster, carry=carry, later=later)
    ship(converted, url=url, name=f"{safe_name(cluster)}--{safe_name(runner)}--{ledger_id[:12]}-{read.number:010d}")
    save_carry(carry_path, dataclasses.replace(converted.carry, ledger_id=ledger_id, segment=read.number), disk)
    if read.damage is not None:
        _log.error("probe_log_segment_damaged", what=read.damage)
    return Shipped(read.number, **{table: content.num_rows for table, content in converted.tables.items()})


def ship(converted: Converted, *, url: str, name: str) -> None:
    """Write one segment's tables, whole, under ``<table>/<day>/<name>.parquet``; without facts write nothing.

    Rows that are there already stay: a ledger that was put back ships a part of the segment once more, or another one
    under its number. Where nothing was shipped under the name this costs one look.

    Raises:
        ProbeLogError: the place cannot be written.
    """
    if converted.first_at_ns is None:
        return
    day = _day(converted.first_at_ns)
    filesystem, root = open_url(url)
    paths = {table: posixpath.join(root, table, day, f"{name}.parquet") for table in SORTED_BY}
    last = _shipped(filesystem, paths["probes"], SCHEMAS["probes"])  # without it no call has come to its end
    for table in ("polls", "transactions", "probes"):  # no probe appears before the transaction that excuses it
        rows, sorted_by = converted.tables[table], SORTED_BY[table]
        before = _shipped(filesystem, paths[table], rows.schema) if last is not None else None
        write_table(filesystem, paths[table], rows if before is None else _both(before, rows, sorted_by), sorted_by)


def _shipped(filesystem: Any, path: str, schema: pa.Schema) -> pa.Table | None:
    """Return the rows that a file holds already; none are known of a file that may not be read.

    Raises:
        ProbeLogError: it does not answer.
    """
    try:
        data = filesystem.cat_file(path)  # where there is none this is one request, and open() would be two
        return pq.ParquetFile(pa.BufferReader(data)).read().cast(schema)
    except (FileNotFoundError, PermissionError, pa.ArrowInvalid):
        return None
    except Exception as error:  # noqa: BLE001  # every fsspec back end raises its own kinds
        raise ProbeLogError(f"the probe log {path} cannot be written: {one_line(error)}") from None


def _both(before: pa.Table, rows: pa.Table, sorted_by: tuple[str, ...]) -> pa.Table:
    """Return the rows of both tables, each once."""
    if before.equals(rows):
        return rows
    distinct = pa.concat_tables([before, rows]).group_by(rows.schema.names, use_threads=False).aggregate([])
    return distinct.cast(rows.schema).sort_by([(key, "ascending") for key in sorted_by])


def write_table(filesystem: Any, path: str, rows: pa.Table, sorted_by: tuple[str, ...]) -> None:
    """Write sorted rows as one Parquet file that appears whole, durably where the file system is a directory.

    Raises:
        ProbeLogError: it cannot be written.
    """
    data = _parquet(rows, sorted_by)
    try:
        if isinstance(filesystem, LocalFileSystem):
            _write_durably(Path(path), data)
        else:
            filesystem.makedirs(posixpath.dirname(path), exist_ok=True)
            filesystem.pipe_file(path, data)
    except Exception as error:  # noqa: BLE001  # every fsspec back end raises its own kinds
        raise ProbeLogError(f"the probe log {path} cannot be written: {one_line(error)}") from None


def drop_old(url: str, now_ns: int, retention_s: float) -> int:
    """Delete the files of days that ended ``retention_s`` before ``now_ns``; return how many.

    Of the days before today that have files the last ones stay, one more than ``retention_s`` has: to a clock that is
    ahead every day is old, and the night knows of no promise without its row. A day with files takes a day to come.

    Raises:
        ProbeLogError: the place cannot be listed or written.
    """
    today, last_day = _day(now_ns), _day(now_ns - int(retention_s * 1e9))
    filesystem, root = open_url(url)
    dropped = 0
    try:
        for table in SORTED_BY:
            paths = [
                (path, day) for path in list_files(filesystem, posixpath.join(root, table)) if (day := _day_of(path))
            ]
            before = sorted({day for _, day in paths if day < today})
            kept = min([last_day, *before[-1 - int(retention_s // DAY_S) :]])
            for path, day in paths:
                if day < kept:
                    filesystem.rm_file(path)
                    dropped += 1
    except Exception as error:  # noqa: BLE001  # every fsspec back end raises its own kinds
        raise ProbeLogError(f"old files of the probe log {url} cannot be deleted: {one_line(error)}") from None
    return dropped


def open_url(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of ``url`` and the path in it.

    Raises:
        ProbeLogError: the URL's protocol is not known, or its package not installed.
    """
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise ProbeLogError(f"probe_log.url cannot be used: {one_line(error)}", 2) from None
    return filesystem, path


def list_files(filesystem: Any, folder: str) -> Iterator[str]:
    """Yield the Parquet files anywhere under ``folder``, in the order of their names; none if there is no folder."""
    filesystem.invalidate_cache()  # others write there
    for path in sorted(filesystem.find(folder)):
        name = posixpath.basename(path)
        if name.endswith(".parquet") and not name.startswith((".", "_")):
            yield path


def _parquet(table: pa.Table, sorted_by: tuple[str, ...]) -> bytes:
    sink = pa.BufferOutputStream()
    order = pq.SortingColumn.from_ordering(table.schema, [(key, "ascending") for key in sorted_by])
    few = [name for name in table.schema.names if name not in VARIED]
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", use_dictionary=few, write_statistics=True, sorting_columns=order
    ) as writer:
        for start, stop in pairwise(_edges(table)):
            writer.write_table(table.slice(start, stop - start), row_group_size=ROW_GROUP_ROWS)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _edges(table: pa.Table) -> list[int]:
    """Return where row groups begin, and the end: at every partition, unless partitions have few rows each."""
    if "partition" not in table.schema.names or not len(table):
        return [0, len(table)]
    topic = table.column("topic").combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    partition = table.column("partition").to_numpy()
    steps = np.flatnonzero((np.diff(topic) != 0) | (np.diff(partition) != 0)) + 1
    few = len(table) < PARTITION_ROWS * (len(steps) + 1)
    return [0, len(table)] if few else [0, *steps.tolist(), len(table)]


def _write_durably(path: Path, data: bytes) -> None:
    DISK.make_directory(path.parent)
    DISK.close(DISK.replace(path, data))


def _day(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).date().isoformat()


def _day_of(path: str) -> str | None:
    """Return the day whose folder a file lies in; None: another program's."""
    day = posixpath.basename(posixpath.dirname(path))
    try:
        datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day


def safe_name(name: str) -> str:
    """Return ``name`` as a part of a file's name, without a separator or "--" in it."""
    return quote(name, safe="").replace("--", "%2D%2D")


def try_out(url: str) -> None:
    """Write a small file at the URL, read it and delete it, with every folder that was made for it.

    Raises:
        ProbeLogError: one of these steps failed.
    """
    filesystem, root = open_url(url)
    path, text = posixpath.join(root, f".canary-check-{system.token_hex(8)}"), system.random_bytes(16)
    local = isinstance(filesystem, LocalFileSystem)
    made = [folder for folder in (Path(root), *Path(root).parents) if not folder.exists()] if local else []
    try:
        if local:
            filesystem.makedirs(root, exist_ok=True)
        filesystem.pipe_file(path, text)
        filesystem.invalidate_cache()
        read = filesystem.cat_file(path)
        filesystem.rm_file(path)
        for folder in made:
            folder.rmdir()
    except Exception as error:  # noqa: BLE001  # every fsspec back end raises its own kinds
        raise ProbeLogError(f"no file can be written, read and deleted at {url}: {one_line(error)}") from None
    if read != text:
        raise ProbeLogError(f"a file that was written at {url} is read back with other content")


def may_hold(path: str, cluster: str) -> bool:
    """Return whether a file may hold rows of ``cluster``, by its name if the canary gave it."""
    name = posixpath.basename(path)
    return name.count("--") != 2 or name.startswith(f"{safe_name(cluster)}--")  # cluster--runner--segment


def one_line(error: BaseException) -> str:
    """Return an exception's text on one line."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(words).split())[:300]
