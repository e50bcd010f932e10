"""The salvaged records: a Parquet file for each partition, in the order of offsets, which replay reads again.

Files hold keys and values. Only their owner may read them, and one has its name once it is whole.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from canary.errors import UserError
from canary.salvage.counts import FORMAT

MANIFEST: Final = "manifest.json"
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.string(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("transactional", pa.bool_(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("collision", pa.bool_()),
    ]
)
"""``timestamp_ms``: ms since the epoch, -1: none; ``timestamp_type``: "create" or "append"; ``outcome``: "committed" or
"undecided"; ``collision``: the key has a newer record in the cluster, null: nobody looked, or there is no key."""
_ROWS: Final = 10_000
_BYTES: Final = 16 << 20
"""So many rows, or bytes of keys and values, are kept until they are written."""


class Salvaged(NamedTuple):
    """A row."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: Literal["create", "append"]
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool
    outcome: str
    collision: bool | None


class Writer:
    """Writes the rows of one file."""

    def __init__(self, parquet: pq.ParquetWriter) -> None:
        self._parquet = parquet
        self._rows: list[Salvaged] = []
        self._bytes = 0

    def write(self, row: Salvaged) -> None:
        """Write a row, soon."""
        self._rows.append(row)
        self._bytes += len(row.key or b"") + len(row.value or b"")
        if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            self._parquet.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._rows, self._bytes = [], 0


def made(out: Path) -> Path:
    """Make the directory for what is salvaged.

    Raises:
        UserError: there is something, or it cannot be made.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UserError(f"--out {out} is not empty; name a new directory")
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}") from error
    return out


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Open a file of records; it is there at the end of the block, unless that raised.

    Raises:
        UserError: it cannot be written.
    """
    with _whole(path) as part, pq.ParquetWriter(part, SCHEMA, compression="zstd") as parquet:
        writer = Writer(parquet)
        yield writer
        writer.flush()


def write_manifest(out: Path, document: dict[str, Any]) -> None:
    """Write the manifest, the last file of all: a directory without one is not whole.

    Raises:
        UserError: it cannot be written.
    """
    with _whole(out / MANIFEST) as part:
        part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def manifest_of(directory: Path) -> dict[str, Any]:
    """Return the manifest of a directory of salvaged records.

    Raises:
        UserError: there is none, or it is of another version.
    """
    try:
        document = json.loads((directory / MANIFEST).read_text("utf-8"))
        known = document["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{directory} holds no {MANIFEST} of canary salvage: name what --out named, of a run that ended"
        ) from None
    if not known:
        raise UserError(f"{directory}: format {document['format']!r} is not known here; replay it with the same canary")
    return dict(document)


def rows(path: Path) -> Iterator[Salvaged]:
    """Yield the rows of a file, in order; few are in memory at a time.

    Raises:
        UserError: it cannot be read.
    """
    try:
        with pq.ParquetFile(path) as parquet:
            groups = range(parquet.num_row_groups)  # a batch may hold several, and their records may be large
            for batch in itertools.chain.from_iterable(parquet.iter_batches(1000, row_groups=[one]) for one in groups):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row: Any = Salvaged(*values)
                    yield row._replace(headers=tuple((one["key"], one["value"]) for one in row.headers))
    except (OSError, pa.ArrowException, TypeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield another name, of a file that its owner alone may read; at the end it gets its own, or is deleted."""
    part = path.with_name(f".{path.name}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
