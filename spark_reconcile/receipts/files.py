"""Reads files of receipts: docs/receipts.md, "The format"."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from canary.facts.incarnation import one_form
from canary.watching.selection import Selection
from spark_reconcile.errors import BadInputError
from storage.probe_log.shipping import list_files, one_line, open_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION: Final = 1
METADATA: Final = b"canary.receipts"
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "acked_at", "digest", "outcome")
_NULLABLE: Final = {"timestamp", "digest"}
_SCHEMA: Final = (
    "topic string, partition int, offset long, timestamp timestamp, acked_at timestamp, digest long, outcome string, "
    "made string"
)
_TIME: Final = pa.timestamp("us", tz="UTC")
_ROWS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("acked_at", _TIME),
        ("digest", pa.int64()),
        ("outcome", pa.string()),
        ("made", pa.string()),
    ]
)
"""`_SCHEMA`, as Arrow has it."""
_MOST_MS: Final = (1 << 63) // 1000
_AT_ONCE: Final = 16
"""Footers that are read at once: at a URL each is a request that waits."""
_FILES: Final = pa.schema([("path", pa.string()), ("ids", pa.string())])


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the files say that they do not cover, summed over producers."""

    files: int = 0
    unreadable: tuple[str, ...] = ()
    """Files and folders, each with the reason."""
    missing: int = 0
    """Files whose numbers are left out between those that are there."""
    open: int = 0
    """Producers whose last file is not there: they live, or were killed."""
    dropped: int = 0
    failed: int = 0
    aborted: int = 0
    elsewhere: int = 0
    """Files of other clusters, which are left out."""


@dataclass(slots=True)
class Files:
    """The files to read, each with the ids of its topics."""

    paths: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)


def look(url: str, cluster_id: Callable[[], str] = str) -> Files:
    """Return the files of receipts at a URL, by their footers; of those that name a cluster only this one's.

    ``cluster_id`` tells which this is, "" if that is not known; it is asked if a file names one.

    A file of which there are copies counts once, and one that vanishes meanwhile, as old ones do, not at all.

    Raises:
        BadInputError: there is none.
        ProbeLogError: the place cannot be used.
    """
    filesystem, root = open_url(url)
    found = Files()
    unreadable = _closed_folders(filesystem, root)
    elsewhere = 0
    last: dict[str, dict[str, Any]] = {}
    numbers: dict[str, set[int]] = {}
    known: set[tuple[Any, ...]] = set()
    paths = list(list_files(filesystem, root))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        footers = list(pool.map(partial(_footer, filesystem), paths))
    this = cluster_id() if any(isinstance(told, dict) and told.get("cluster_id") for told in footers) else ""
    for path, told in zip(paths, footers, strict=True):
        if told is None:
            continue
        if isinstance(told, str):
            unreadable.append(f"{path}: {told}")
            continue
        if this and told.get("cluster_id") not in {None, "", this}:
            elsewhere += 1
            continue
        incarnation, sequence = told["incarnation"], told["sequence"]
        if (copied := (incarnation, sequence, told.get("written_at"))) in known:
            continue
        known.add(copied)
        found.paths.append((path, told["topic_ids"]))
        numbers.setdefault(incarnation, set()).add(sequence)
        if incarnation not in last or sequence > last[incarnation]["sequence"]:
            last[incarnation] = told
    if not found.paths and not unreadable:
        of = f" of this cluster, and {elsewhere} files of others" if elsewhere else ""
        raise BadInputError(url, f"there are no receipts{of}", "see docs/receipts.md for where producers write them")
    found.coverage = Coverage(
        files=len(found.paths),
        unreadable=tuple(unreadable),
        missing=sum(max(one) - min(one) + 1 - len(one) for one in numbers.values()),
        open=sum(not one.get("closed") for one in last.values()),
        elsewhere=elsewhere,
        **{name: sum(int(one.get(name) or 0) for one in last.values()) for name in ("dropped", "failed", "aborted")},
    )
    return found


def _closed_folders(filesystem: Any, root: str) -> list[str]:
    """Return the folders that may not be listed, each with the reason: fsspec takes them for empty."""
    closed: list[str] = []

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            closed.append(f"{error.filename}: {one_line(error)}")

    if isinstance(filesystem, LocalFileSystem):
        for _ in os.walk(root, onerror=note):
            pass
    return closed


def _footer(filesystem: Any, path: str) -> dict[str, Any] | str | None:
    """Return what a file says of itself; why it cannot be read; None if it is gone."""
    try:
        with filesystem.open(path, "rb") as file:
            told: dict[str, Any] = json.loads((pq.read_metadata(file).metadata or {})[METADATA])
        if told["version"] > VERSION:
            raise ValueError(f"version {told['version']} is not known")  # noqa: TRY301  # one way out
        ids = {topic: one_form(one or "") for topic, one in (told.get("topic_ids") or {}).items()}
        return told | {"topic_ids": ids, "incarnation": str(told["incarnation"]), "sequence": int(told["sequence"])}
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  # anything may lie there; it is told, and what it has is not known
        return f"it is no file of receipts: no {error}" if isinstance(error, KeyError) else one_line(error)


class _Reader:
    """Reads files of receipts in a task; each row gets the id that its topic had.

    A file that cannot be read is a row without a partition: topic and outcome are its path and the reason.
    """

    def __init__(self, url: str, patterns: Sequence[str]) -> None:
        self._url = url
        self._chosen = Selection(patterns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_url(self._url)
        for batch in batches:
            for row in batch.to_pylist():
                try:
                    with filesystem.open(row["path"], "rb") as file:
                        for rows in pq.ParquetFile(file).iter_batches(65_536, columns=list(_COLUMNS)):
                            yield self._rows(rows, orjson.loads(row["ids"]))
                except Exception as error:  # noqa: BLE001  # one bad file must not hide what is in the others
                    broken = [{"topic": row["path"], "outcome": one_line(error)}]
                    yield pa.RecordBatch.from_pylist(broken, _ROWS)

    def _rows(self, batch: pa.RecordBatch, ids: dict[str, str]) -> pa.RecordBatch:
        """Return the rows of chosen topics, in the shape of `_ROWS`.

        Raises:
            ValueError: they are not as the format has them.
        """
        if absent := [name for name in _COLUMNS if name not in batch.schema.names]:
            raise ValueError(f"it has no column {', '.join(absent)}")
        if some := [name for name in _COLUMNS if name not in _NULLABLE and batch.column(name).null_count]:
            raise ValueError(f"{', '.join(some)} is null in some rows")
        topics = batch.column("topic").cast(pa.string()).dictionary_encode()
        names = topics.dictionary.to_pylist()
        made = pa.array([ids.get(name, "") for name in names], pa.string()).take(topics.indices)
        chosen = pa.array([not self._chosen or self._chosen.topic(name) for name in names], pa.bool_())
        columns = {name: batch.column(name) for name in _COLUMNS} | {"made": made}
        columns["timestamp"] = _within_range(columns["timestamp"])
        rows = pa.RecordBatch.from_arrays([columns[one.name].cast(one.type) for one in _ROWS], schema=_ROWS)
        return rows.filter(chosen.take(topics.indices))


def _within_range(times: pa.Array) -> pa.Array:
    """Return times without those that microseconds cannot hold: applications set what they like."""
    if not pa.types.is_timestamp(times.type) or times.type.unit != "ms":
        return times
    numbers = times.cast(pa.int64())
    fits = pc.and_(pc.less(numbers, _MOST_MS), pc.greater(numbers, -_MOST_MS))
    return pc.if_else(fits, times, pa.scalar(None, times.type))


def receipts_of(spark: SparkSession, url: str, files: Files, topics: Sequence[str]) -> Any:
    """Return the receipts of the topics that match one of some patterns, all if there are none.

    ``made`` is the id that the topic had, "" if the file does not say it. A row without a partition is a file that
    cannot be read (`_Reader`).
    """
    rows = [{"path": path, "ids": orjson.dumps(ids).decode()} for path, ids in files.paths]
    cores = spark.sparkContext.defaultParallelism
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, _FILES)).repartition(max(1, min(len(rows), 4 * cores)))
    return frame.mapInArrow(_Reader(url, topics), _SCHEMA)
