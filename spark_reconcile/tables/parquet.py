"""Reads row groups of any layout as Arrow tables with the types of CONTRACTS, and columns of them as NumPy arrays."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import fsspec.core
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from spark_reconcile.errors import BadInputError
from spark_reconcile.tables.schema import ARROW, STRING, TABLES, TIME, File

USED: Final[dict[str, tuple[str, ...]]] = {
    "probes": (
        *("cluster", "topic", "topic_id", "partition", "producer_id", "generation", "sequence", "mode"),
        *("transaction_id", "sent_at", "outcome", "offset", "acked_at"),
    ),
    "transactions": ("cluster", "producer_id", "generation", "transaction_id", "began_at", "outcome"),
    "polls": (
        *("cluster", "topic", "topic_id", "partition", "isolation", "offset", "producer_id", "generation", "sequence"),
    ),
    "records": (
        *("cluster", "topic", "topic_id", "partition", "isolation", "offset", "producer_id", "generation", "sequence"),
        "valid",
    ),
    "bounds": tuple(TABLES["bounds"]),
}
"""The columns that reconciliation reads of each table."""

BATCH: Final = 1 << 18


def read(file: File, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """Return row groups of a file (None: all) with the used columns, text as dictionaries, missing columns as null.

    Raises:
        BadInputError: the file is damaged.
    """
    (table,) = batches(file, groups, columns, whole=True)
    return table


def batches(
    file: File, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None, *, whole: bool = False
) -> Iterator[pa.Table]:
    """Yield the same in batches of at most BATCH rows; as one table if ``whole``."""
    wanted = columns if columns is not None else USED[file.table]
    spec = TABLES[file.table]
    held = [name for name in wanted if name in file.columns]
    fs, path = fsspec.core.url_to_fs(file.path)
    local = isinstance(fs, LocalFileSystem)
    try:
        source = path if local else fs.open(path, "rb")
        with pq.ParquetFile(
            source,
            read_dictionary=[name for name in held if spec[name].type == STRING],
            coerce_int96_timestamp_unit="us",
            memory_map=local,
            pre_buffer=not local,
        ) as parquet:
            numbers = list(groups) if groups is not None else list(range(parquet.num_row_groups))
            if whole:
                yield shaped(parquet.read_row_groups(numbers, columns=held, use_threads=False), file, wanted)
                return
            for batch in parquet.iter_batches(BATCH, row_groups=numbers, columns=held, use_threads=False):
                yield shaped(pa.Table.from_batches([batch]), file, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInputError(file.path, f"damaged Parquet file ({first})") from error


def result_batches(out: str, table: str, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a table that a run wrote to the folder ``out``, in batches of ``rows`` at most."""
    fs, root = fsspec.core.url_to_fs(f"{out.rstrip('/')}/{table}")
    for path in sorted(fs.find(root)):
        with fs.open(path, "rb") as file, pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(rows, columns=columns)


def shaped(table: pa.Table, file: File, wanted: Sequence[str]) -> pa.Table:
    """Return a table with exactly the wanted columns, in the types of _KINDS."""
    columns = []
    for name in wanted:
        spec = TABLES[file.table][name]
        kind = _KINDS[spec.type]
        if name in file.columns:
            column: Any = table.column(name)
            if column.null_count and not spec.nullable:
                raise BadInputError(file.path, f"column {name} has nulls, which {file.table} does not allow")
        else:
            try:
                value = pa.scalar(file.given.get(name), pa.string()).cast(ARROW[spec.type])
            except pa.ArrowInvalid as error:
                raise BadInputError(file.path, f"column {name} in its path is no {spec.type}") from error
            column = pa.chunked_array([pa.repeat(value, len(table))])
        if spec.type == STRING and not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        if spec.type == TIME and column.type.__class__ is pa.TimestampType and column.type.unit != "us":
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        columns.append(column.cast(kind, safe=False) if column.type != kind else column)
    return pa.table(dict(zip(wanted, columns, strict=True)))


_KINDS: Final = ARROW | {STRING: pa.dictionary(pa.int32(), pa.string())}


def numbers(table: pa.Table, name: str, null: int | None = None) -> NDArray[Any]:
    """Return an integer or time column (us) as NumPy, nulls as ``null``."""
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if column.null_count and null is not None:
        column = pc.fill_null(column, pa.scalar(null, column.type))
    chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def codes(
    table: pa.Table, name: str, known: Sequence[str] | None, place: str
) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Return a text column as numbers of ``known`` values (None: of the column's values), -1 for null; and the values.

    Raises:
        BadInputError: a value is not among the known ones.
    """
    values: list[str] = list(known or ())
    parts = []
    for chunk in table.column(name).chunks:
        if not len(chunk):
            continue
        here = chunk.dictionary.to_pylist()
        used = chunk.indices
        missing = [value for value in here if value not in values]
        if missing and known is not None:
            occurring = set(pc.unique(used).drop_null().to_pylist())
            wrong = [value for number, value in enumerate(here) if value not in values and number in occurring]
            if wrong:
                raise BadInputError(place, f"column {name} has {wrong[0]!r}", f"expected {', '.join(known)}")
        if known is None:
            values += missing
        mapping = np.array([values.index(value) if value in values else -1 for value in here] or [-1], dtype=np.int16)
        if used.null_count:
            index = used.fill_null(-1).to_numpy(zero_copy_only=False)
            parts.append(np.where(index < 0, np.int16(-1), mapping[np.maximum(index, 0)]))
        else:
            parts.append(mapping[used.to_numpy(zero_copy_only=False)])
    result = np.concatenate(parts) if parts else np.empty(0, dtype=np.int16)
    return result, tuple(values)
