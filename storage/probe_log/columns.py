"""Operations on whole columns."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.probe_log.schemas import SCHEMAS, SORTED_BY

Flags: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]


def numbered(*columns: pa.Array) -> tuple[Numbers, Numbers]:
    """Number the distinct rows of ``columns``; return the number of each row, and the first row of each number."""
    numbers = np.zeros(len(columns[0]), np.int64)
    count = 1
    for column in columns:
        codes, values = _coded(column)
        if count > 1 and values > 1:
            codes, values = _coded(pa.array(numbers * values + codes))
        if values > 1:
            numbers, count = codes, values
    first = np.empty(count if len(numbers) else 0, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several rows the last assignment stays
    return numbers, first


def _coded(column: pa.Array) -> tuple[Numbers, int]:
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def or_null(rows: Numbers) -> pa.Array:
    """Return ``rows`` as indices; of a negative one comes null."""
    return pa.array(rows, mask=rows < 0)


def micros(times_ns: pa.Array) -> pa.Array:
    """Return times in ns in the unit of the probe log."""
    return pa.array(np.asarray(times_ns.fill_null(0)) // 1000, mask=np.asarray(times_ns.is_null()))


def table_of(name: str, cluster: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return the table ``name`` of its other columns, sorted; a column that is not there is null in each row."""
    schema, rows = SCHEMAS[name], len(next(iter(columns.values())))
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(columns[field.name].cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(cluster if field.name == "cluster" else None, field.type), rows))
    table = pa.table(arrays, schema=schema).combine_chunks()
    batches = table.to_batches()  # the columns of one batch sort in half the time of a table's
    if not batches:
        return table
    return table.take(pc.sort_indices(batches[0], [(key, "ascending") for key in SORTED_BY[name]]))
