"""Operations on whole columns."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.probe_log.schemas import SCHEMAS, SORTED_BY

Flags: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]
_LAST = np.iinfo(np.int64).max


def numbered(*columns: pa.Array) -> tuple[npt.NDArray[np.int32], Numbers]:
    """Number the distinct rows of ``columns``; return the number of each row, and the first row of each number."""
    numbers = np.zeros(len(columns[0]), np.int32)
    count = 1
    for column in columns:
        codes, values = _coded(column)
        if count > 1 and len(values) > 1:
            codes, values = _coded(pa.array(numbers.astype(np.int64) * len(values) + codes))
        if len(values) > 1:
            numbers, count = codes, len(values)
    first = np.empty(count if len(numbers) else 0, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several rows the last assignment stays
    return numbers, first


def _coded(column: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Return the values of a column, each once as it first comes, and the number of the value in each row."""
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(), encoded.dictionary


def or_null(rows: Numbers) -> pa.Array:
    """Return ``rows`` as indices; of a negative one comes null."""
    return pa.array(rows, mask=rows < 0)


def micros(times_ns: pa.Array) -> pa.Array:
    """Return times in ns in the unit of the probe log."""
    return pa.array(np.asarray(times_ns.fill_null(0)) // 1000, mask=np.asarray(times_ns.is_null()))


def table_of(name: str, cluster: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return the table ``name`` of its other columns, sorted; a column that is not there is null in each row."""
    schema = SCHEMAS[name]
    arrays = {key: column.cast(schema.field(key).type) for key, column in columns.items()}
    order = _order([arrays[key] for key in SORTED_BY[name]])
    rows = {key: column.take(pa.array(order)) for key, column in arrays.items()}
    for field in schema:
        if field.name not in rows:
            one = pa.scalar(cluster if field.name == "cluster" else None, field.type)
            rows[field.name] = pa.repeat(one, len(order))
    return pa.table([rows[key] for key in schema.names], schema=schema)


def _order(columns: Sequence[pa.Array]) -> Numbers:
    """Return the rows in the order of ``columns``, the first one above all, nulls last; equal ones stay as they are."""
    keys = []
    for column in columns:
        if pa.types.is_string(column.type):
            codes, values = _coded(column)
            rank = np.empty(len(values), np.int64)
            rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
            keys.append(rank[codes])
        else:
            keys.append(column.cast(pa.int64()).fill_null(_LAST).to_numpy())
    return np.lexsort(keys[::-1])
