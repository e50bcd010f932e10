"""Files of receipts: docs/receipts.md, "The format"."""

from __future__ import annotations

import json
import os
import secrets
import socket
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
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
_OUTCOMES: Final = ("promised", "in-doubt")
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

    def publish(self, rows: Rows, topics: Sequence[str], counts: Counts, known: Mapping[str, Any]) -> None:
        """Write a file that appears whole; a row's topic is a place in ``topics``, ``known`` more of the metadata.

        After an error there is no file, and the next one has its number.

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
            **asdict(counts),
            **known,
        }
        data = _parquet(rows, topics, told)
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


def _parquet(rows: Rows, topics: Sequence[str], told: dict[str, Any]) -> bytes:
    """Return the file, made of buffers: pyarrow.array and casts would load pandas into the application."""
    timestamp = np.frombuffer(rows.timestamp, np.int64)
    acked_us = np.frombuffer(rows.acked_ns, np.int64) // 1000
    columns = (
        _names(rows.topic, topics),
        _column("partition", len(rows), rows.partition),
        _column("offset", len(rows), rows.offset),
        _column("timestamp", len(rows), timestamp, _bits(timestamp >= 0)),
        _column("acked_at", len(rows), acked_us),
        _column("digest", len(rows), rows.digest, _bits(np.frombuffer(rows.digested, np.uint8))),
        _column("transactional", len(rows), _bits(np.frombuffer(rows.transactional, np.uint8))),
        _names(array("i", list(rows.in_doubt)), _OUTCOMES),
    )
    fields = [one.with_type(column.type) for one, column in zip(SCHEMA, columns, strict=True)]
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    few = [name for name in SCHEMA.names if name not in _VARIED]
    with pq.ParquetWriter(sink, table.schema, compression="zstd", use_dictionary=few, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: json.dumps(told).encode()})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _column(name: str, rows: int, values: Any, valid: Any = None) -> pa.Array:
    return pa.Array.from_buffers(
        SCHEMA.field(name).type, rows, [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    )


def _names(numbers: array[int], names: Sequence[str]) -> pa.Array:
    """Return a column of texts, given as their places in ``names``."""
    content = [name.encode() for name in names]
    ends = array("i", accumulate(map(len, content), initial=0))
    texts = pa.StringArray.from_buffers(len(names), pa.py_buffer(ends), pa.py_buffer(b"".join(content)))
    places = pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
    return pa.DictionaryArray.from_arrays(places, texts)


def _bits(flags: Any) -> Any:
    return np.packbits(flags, bitorder="little")


def _synced(folder: Path) -> None:
    """Make a folder's names durable, where its file system can: the file is published all the same."""
    with suppress(OSError):
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
