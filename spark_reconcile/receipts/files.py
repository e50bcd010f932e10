"""Reads files of receipts: docs/receipts.md, "The format"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from canary.facts.incarnation import one_form
from canary.watching.selection import Selection
from spark_reconcile.errors import BadInputError
from storage.probe_log.shipping import list_files, one_line, open_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION: Final = 1
METADATA: Final = b"canary.receipts"
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "acked_at", "digest", "outcome")
_SCHEMA: Final = (
    "topic string, partition int, offset long, timestamp timestamp, acked_at timestamp, digest long, outcome string, "
    "made string"
)
_FILES: Final = pa.schema([("path", pa.string()), ("ids", pa.string())])


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the files say that they do not cover, summed over producers."""

    files: int = 0
    unreadable: tuple[str, ...] = ()
    missing: int = 0
    """Files whose numbers are left out between those that are there."""
    open: int = 0
    """Producers whose last file is not there: they live, or were killed."""
    dropped: int = 0
    failed: int = 0
    aborted: int = 0


@dataclass(slots=True)
class Files:
    """The files to read, each with the ids of its topics."""

    paths: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)


def look(url: str) -> Files:
    """Return the files of receipts at a URL, by their footers.

    Raises:
        BadInputError: there is none.
        ProbeLogError: the place cannot be used.
    """
    filesystem, root = open_url(url)
    found = Files()
    unreadable: list[str] = []
    last: dict[str, dict[str, Any]] = {}
    numbers: dict[str, set[int]] = {}
    for path in list_files(filesystem, root):
        try:
            with filesystem.open(path, "rb") as file:
                told = json.loads((pq.read_metadata(file).metadata or {})[METADATA])
            if told["version"] > VERSION:
                raise ValueError(f"version {told['version']} is not known")  # noqa: TRY301  # one way out
            ids = {topic: one_form(one or "") for topic, one in (told.get("topic_ids") or {}).items()}
            incarnation, sequence = str(told["incarnation"]), int(told["sequence"])
        except Exception as error:  # noqa: BLE001  # anything may lie there; it is told, and what it has is not known
            unreadable.append(f"{path}: {one_line(error)}")
            continue
        found.paths.append((path, ids))
        numbers.setdefault(incarnation, set()).add(sequence)
        if incarnation not in last or sequence > last[incarnation]["sequence"]:
            last[incarnation] = told
    if not found.paths and not unreadable:
        raise BadInputError(url, "there are no receipts", "see docs/receipts.md for where producers write them")
    found.coverage = Coverage(
        files=len(found.paths),
        unreadable=tuple(unreadable),
        missing=sum(max(one) - min(one) + 1 - len(one) for one in numbers.values()),
        open=sum(not one.get("closed") for one in last.values()),
        **{name: sum(int(one.get(name) or 0) for one in last.values()) for name in ("dropped", "failed", "aborted")},
    )
    return found


class _Reader:
    """Reads files of receipts in a task; each row gets the id that its topic had."""

    def __init__(self, url: str, patterns: Sequence[str]) -> None:
        self._url = url
        self._chosen = Selection(patterns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_url(self._url)
        for batch in batches:
            for row in batch.to_pylist():
                ids = orjson.loads(row["ids"])
                with filesystem.open(row["path"], "rb") as file:
                    table = pq.ParquetFile(file).read(columns=list(_COLUMNS))
                names = table.column("topic").to_pylist()
                wanted = {one for one in set(names) if not self._chosen or self._chosen.topic(one)}
                table = table.append_column("made", pa.array([ids.get(name, "") for name in names], pa.string()))
                table = table.filter(pa.array([name in wanted for name in names], pa.bool_()))
                kinds = dict.fromkeys(("topic", "outcome"), pa.string())
                kinds |= dict.fromkeys(("timestamp", "acked_at"), pa.timestamp("us", tz="UTC"))
                fields = [pa.field(one.name, kinds.get(one.name, one.type)) for one in table.schema]
                yield from table.select([one.name for one in fields]).cast(pa.schema(fields)).to_batches(65_536)


def receipts_of(spark: SparkSession, url: str, files: Files, topics: Sequence[str]) -> Any:
    """Return the receipts of the topics that match one of some patterns, all if there are none.

    ``made`` is the id that the topic had, "" if the file does not say it.
    """
    rows = [{"path": path, "ids": orjson.dumps(ids).decode()} for path, ids in files.paths]
    cores = spark.sparkContext.defaultParallelism
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, _FILES)).repartition(max(1, min(len(rows), 4 * cores)))
    return frame.mapInArrow(_Reader(url, topics), _SCHEMA)
