"""Files of receipts: docs/receipts.md, "The format"."""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from canary_receipts.options import file_part

if TYPE_CHECKING:
    from canary_receipts.rows import Counts, Rows

VERSION: Final = 1
METADATA: Final = b"canary.receipts"
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("acked_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("digest", pa.int64()),
        pa.field("transactional", pa.bool_(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
    ]
)
_VARIED: Final = {"offset", "timestamp", "acked_at", "digest"}
"""Columns of which nearly each row has a value of its own: a dictionary of them makes files larger."""


class Files:
    """The files of one incarnation of a producer, in a directory or at a URL."""

    def __init__(self, directory: str, name: str, per_second: int | None) -> None:
        self._directory = directory
        self._name = name
        self._per_second = per_second
        self._incarnation = secrets.token_hex(8)
        self._began = datetime.now(UTC)
        self._sequence = 0

    def publish(self, rows: Rows, counts: Counts, topic_ids: dict[str, str | None], *, closed: bool) -> None:
        """Write a file that appears whole; after an error there is none, and the next one has its number.

        Raises:
            OSError: it cannot be written; at a URL fsspec's other kinds, too.
        """
        now = datetime.now(UTC)
        told = {
            "version": VERSION,
            "producer": self._name,
            "incarnation": self._incarnation,
            "sequence": self._sequence,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "client": f"canary_receipts (Python) {_version()}",
            "began_at": self._began.isoformat(),
            "written_at": now.isoformat(),
            "share": 1,
            "per_second": self._per_second,
            "closed": closed,
            **asdict(counts),
            "topic_ids": topic_ids,
        }
        data = _parquet(rows, told)
        first = datetime.fromtimestamp(min(rows.acked_ns) / 1e9, UTC) if len(rows) else now
        name = f"{file_part(self._name)}--{self._incarnation}--{self._sequence:010d}.parquet"
        self._put(first.date().isoformat(), name, data)
        self._sequence += 1

    def _put(self, day: str, name: str, data: bytes) -> None:
        if "://" in self._directory:
            import fsspec.core  # noqa: PLC0415  # only where a URL needs it

            filesystem, root = fsspec.core.url_to_fs(self._directory)
            filesystem.makedirs(f"{root}/{day}", exist_ok=True)
            filesystem.pipe_file(f"{root}/{day}/{name}", data)
            return
        folder = Path(self._directory) / day
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{name}.part"
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(folder / name)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
        _synced(folder)
        _synced(folder.parent)


def _parquet(rows: Rows, told: dict[str, Any]) -> bytes:
    outcomes = pa.DictionaryArray.from_arrays(pa.array(rows.in_doubt, pa.uint8()), ["promised", "in-doubt"])
    timestamp = pa.array(rows.timestamp, pa.int64())
    columns = (
        pa.array(rows.topic, pa.string()),
        pa.array(rows.partition, pa.int32()),
        pa.array(rows.offset, pa.int64()),
        pa.compute.if_else(pa.compute.less(timestamp, 0), None, timestamp).cast(pa.timestamp("ms", tz="UTC")),
        pa.compute.divide(pa.array(rows.acked_ns, pa.int64()), 1000).cast(pa.timestamp("us", tz="UTC")),
        pa.array(rows.digest, pa.int64()),
        pa.array(rows.transactional, pa.uint8()).cast(pa.bool_()),
        outcomes.cast(pa.string()),
    )
    table = pa.table(columns, schema=SCHEMA.with_metadata({METADATA: json.dumps(told).encode()}))
    sink = pa.BufferOutputStream()
    few = [name for name in SCHEMA.names if name not in _VARIED]
    pq.write_table(table, sink, compression="zstd", use_dictionary=few)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _synced(folder: Path) -> None:
    """Make a folder's names durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _version() -> str:
    try:
        return metadata.version("kafka-durability-canary")
    except metadata.PackageNotFoundError:
        return "unknown"
