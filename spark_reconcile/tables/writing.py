"""Files of a run's results: written by tasks under names of their own, and put in place once a run is whole."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.errors import BadInputError

GROUP_ROWS: Final = 1 << 17


def write_part(work: str, table: pa.Table) -> str | None:
    """Write a table to the work folder and return the file's name; None: it has no rows, and there is no file."""
    if not len(table):
        return None
    stream = PartStream(work, table.schema)
    stream.write(table)
    return stream.close()[0]


def read_part(work: str, name: str) -> pa.Table:
    """Return the rows of a file of the work folder."""
    fs, root = fsspec.core.url_to_fs(work)
    return pq.read_table(f"{root}/{name}", filesystem=fs)


class PartStream:
    """A file of the work folder that is written bit by bit; ``rising`` columns grow by a little from row to row."""

    def __init__(self, work: str, schema: pa.Schema, rising: Sequence[str] = ()) -> None:
        fs, root = fsspec.core.url_to_fs(work)
        self._name = f"{uuid.uuid4().hex}.parquet"
        self._file = fs.open(f"{root}/{self._name}", "wb")
        how: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
        if rising:
            how["use_dictionary"] = [name for name in schema.names if name not in rising]
            how["column_encoding"] = dict.fromkeys(rising, "DELTA_BINARY_PACKED")
            how["store_schema"] = False  # what Parquet itself says is the contract; Arrow's dictionaries are not
        self._writer = pq.ParquetWriter(self._file, schema, **how)
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Write rows as row groups of at most GROUP_ROWS."""
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._rows += len(table)

    def close(self) -> tuple[str, int]:
        """End the file; return its name and rows."""
        self._writer.close()
        self._file.close()
        return self._name, self._rows


class Folder:
    """The folder of a run's results, on a disk or at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, self._root = fsspec.core.url_to_fs(self.url)

    @property
    def work(self) -> str:
        """The folder that tasks write to."""
        return f"{self.url}/_work"

    def begin(self) -> None:
        """Make room for the files of a run.

        Raises:
            BadInputError: the folder cannot be written.
        """
        try:
            self._fs.makedirs(self._root, exist_ok=True)
            self.forget()
            self.clean()
            self._fs.makedirs(f"{self._root}/_work", exist_ok=True)
        except OSError as error:
            raise BadInputError(self.url, f"cannot be written ({' '.join(str(error).split())})") from error

    def forget(self) -> None:
        """Remove an earlier run's summary and page."""
        for name in ("summary.json", "report.html"):
            if self._fs.exists(f"{self._root}/{name}"):
                self._fs.rm(f"{self._root}/{name}")

    def clean(self) -> None:
        """Remove the work folder, with files of tasks that were killed or ran twice."""
        if self._fs.exists(f"{self._root}/_work"):
            self._fs.rm(f"{self._root}/_work", recursive=True)

    def publish(self, table: str, names: Sequence[str | None], schema: pa.Schema) -> list[str]:
        """Put files of the work folder in the place of whatever the table's folder held; return their new names.

        None stands for no file (see `write_part`). Without any, the table has an empty file.
        """
        moved = [name for name in names if name is not None]
        folder = f"{self._root}/{table}"
        if self._fs.exists(folder):
            self._fs.rm(folder, recursive=True)
        self._fs.makedirs(folder, exist_ok=True)
        published = [f"part-{number:05d}.parquet" for number in range(len(moved))]
        for name, new in zip(moved, published, strict=True):
            self._fs.mv(f"{self._root}/_work/{name}", f"{folder}/{new}")
        if not moved:
            with self._fs.open(f"{folder}/part-00000.parquet", "wb") as file:
                pq.write_table(schema.empty_table(), file)
        return published

    def text(self, name: str, content: bytes) -> None:
        """Write a file so that it is there whole or not at all."""
        with self._fs.open(f"{self._root}/.{name}", "wb") as file:
            file.write(content)
        self._fs.mv(f"{self._root}/.{name}", f"{self._root}/{name}")
