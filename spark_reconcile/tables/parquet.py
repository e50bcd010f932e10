"""Parquet to columns: whole row groups of any layout, types as CONTRACTS says, nulls as columns.py says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fsspec.core
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reconcile.columns import (
    ACKED,
    COMMITTED_LEVEL,
    ISOLATIONS,
    NEVER,
    NO_OFFSET,
    NO_TRANSACTION,
    OUTCOMES,
    PLAIN,
    UNCOMMITTED_LEVEL,
    Damaged,
    Found,
    Probes,
)
from spark_reconcile.errors import BadInputError
from spark_reconcile.tables import I32, STRING, TABLES, TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from spark_reconcile.tables import File
    from spark_reconcile.transactions import Transactions

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
    """Return row groups of a file (all if None) with the used columns, text as dictionaries, missing ones as null.

    Raises:
        BadInputError: the file is damaged within.
    """
    parts = list(batches(file, groups, columns, whole=True))
    return pa.concat_tables(parts) if len(parts) != 1 else parts[0]


def batches(
    file: File, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None, *, whole: bool = False
) -> Iterator[pa.Table]:
    """Yield the same in batches of BATCH rows at most, unless the ``whole`` is wanted at once."""
    wanted = columns if columns is not None else USED[file.table]
    spec = TABLES[file.table]
    held = [name for name in wanted if name in file.columns]
    fs, path = fsspec.core.url_to_fs(file.path)
    local = "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))
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


def shaped(table: pa.Table, file: File, wanted: Sequence[str]) -> pa.Table:
    """Return a table with exactly the wanted columns, in the types that the rest of this module expects."""
    columns = []
    for name in wanted:
        spec = TABLES[file.table][name]
        kind = _KINDS[spec.type]
        if name in file.given:
            try:
                value = pa.scalar(file.given[name]).cast(pa.int32() if spec.type == I32 else kind_of(spec.type))
            except pa.ArrowInvalid as error:
                raise BadInputError(file.path, f"column {name} in its path is no {spec.type}") from error
            column: Any = pa.chunked_array([pa.repeat(value, len(table))])
            column = column.dictionary_encode() if spec.type == STRING else column
        elif name not in file.columns:
            column = pa.chunked_array([pa.nulls(len(table), kind_of(spec.type))])
            column = column.dictionary_encode() if spec.type == STRING else column
        else:
            column = table.column(name)
            if spec.type == STRING and not pa.types.is_dictionary(column.type):
                column = column.cast(pa.string()).dictionary_encode()
            if spec.type == TIME and column.type.__class__ is pa.TimestampType and column.type.unit != "us":
                column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
            if pa.types.is_null(column.type):
                column = column.cast(kind_of(spec.type))
            if column.null_count and not spec.nullable:
                raise BadInputError(file.path, f"column {name} has nulls, which {file.table} does not allow")
        columns.append(column.cast(kind, safe=False) if column.type != kind else column)
    return pa.table(dict(zip(wanted, columns, strict=True)))


def kind_of(name: str) -> pa.DataType:
    """Return the Arrow type of a column type, text not encoded."""
    return {
        "str": pa.string(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "ts": pa.timestamp("us", "UTC"),
        "bool": pa.bool_(),
    }[name]


_KINDS: Final = {
    "str": pa.dictionary(pa.int32(), pa.string()),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "ts": pa.timestamp("us", "UTC"),
    "bool": pa.bool_(),
}


def numbers(table: pa.Table, name: str, null: int | None = None) -> NDArray[Any]:
    """Return an integer or time column (us) as NumPy, nulls as ``null``."""
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64()) if column.null_count else column.cast(pa.int64())
    if column.null_count and null is not None:
        column = pc.fill_null(column, pa.scalar(null, column.type))
    chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def codes(
    table: pa.Table, name: str, known: Sequence[str] | None, place: str
) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Return a text column as numbers of ``known`` values (or of those it has); -1 for null.

    Raises:
        BadInputError: a value is none of the known.
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


def other_incarnation(table: pa.Table, ours: AbstractSet[str | None], place: str) -> NDArray[np.bool_]:
    """Return which rows have a topic_id, or none, that is not of ``ours`` (Dumped.ours)."""
    if not ours or (None in ours and table.column("topic_id").null_count == len(table)):
        return np.zeros(len(table), dtype=np.bool_)
    number, values = codes(table, "topic_id", None, place)
    foreign = np.array([value not in ours for value in (*values, None)])
    return foreign[number]


def probes(
    table: pa.Table, cluster: str, ours: AbstractSet[str | None], transactions: Transactions, place: str
) -> Probes:
    """Return rows of probes/, all of one partition.

    Raises:
        BadInputError: an outcome is none of the three.
    """
    outcome, _ = codes(table, "outcome", OUTCOMES, place)
    mode, modes = codes(table, "mode", None, place)
    producer, generation = numbers(table, "producer_id"), numbers(table, "generation")
    if table.column("transaction_id").null_count == len(table):
        transaction = np.full(len(table), NO_TRANSACTION, dtype=np.int64)
        state = np.full(len(table), PLAIN, dtype=np.uint8)
    else:
        transaction = numbers(table, "transaction_id", NO_TRANSACTION)
        state = transactions.states(cluster, producer, generation, transaction)
    offset = numbers(table, "offset", NO_OFFSET)
    offset = np.where(offset < 0, NO_OFFSET, offset) if len(offset) and offset.min() < NO_OFFSET else offset
    acked_at = numbers(table, "acked_at", NEVER)
    if (outcome != ACKED).any():
        acked_at = np.where(outcome == ACKED, acked_at, NEVER)
    other = other_incarnation(table, ours, place)
    if other.any():  # without an id only a promise is void: what promised nothing cannot be lost, and may yet be found
        other &= (outcome == ACKED) | pc.is_valid(table.column("topic_id")).to_numpy()
    return Probes(
        producer=producer,
        generation=generation,
        sequence=numbers(table, "sequence"),
        offset=offset,
        outcome=outcome.astype(np.uint8),
        acked_at=acked_at,
        sent_at=numbers(table, "sent_at"),
        transaction=transaction,
        transaction_state=state,
        other=other,
        mode=mode,
        modes=modes,
    )


def _level(table: pa.Table, place: str) -> NDArray[np.uint8]:
    isolation, _ = codes(table, "isolation", ISOLATIONS, place)
    return np.array([COMMITTED_LEVEL, UNCOMMITTED_LEVEL], dtype=np.uint8)[isolation]


def polls(table: pa.Table, ours: AbstractSet[str | None], place: str) -> Found:
    """Return rows of polls/, all of one partition, without another incarnation's."""
    found = Found(
        numbers(table, "producer_id"),
        numbers(table, "generation"),
        numbers(table, "sequence"),
        numbers(table, "offset"),
        _level(table, place),
    )
    other = other_incarnation(table, ours, place)
    return found.take(~other) if other.any() else found


def records(table: pa.Table, ours: AbstractSet[str | None], place: str) -> tuple[Found, Damaged]:
    """Return rows of records/, all of one partition: those with an identity, and the invalid ones; not the foreign."""
    level, offset = _level(table, place), numbers(table, "offset")
    other = other_incarnation(table, ours | {None} if ours else ours, place)  # the dump's own rows need no id
    invalid = table.column("valid").null_count or not pc.all(table.column("valid")).as_py()
    whole = not other.any() and not invalid
    identified = not any(table.column(name).null_count for name in ("producer_id", "generation", "sequence"))
    found = Found(
        numbers(table, "producer_id", -1),
        numbers(table, "generation", -1),
        numbers(table, "sequence", -1),
        offset,
        level,
    )
    if whole and identified:
        return found, Damaged.none()
    valid = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in table.column("valid").chunks] or [[]])
    valid = valid.astype(np.bool_)
    whose = np.ones(len(table), dtype=np.bool_)
    for name in ("producer_id", "generation", "sequence"):
        whose &= pc.is_valid(table.column(name)).to_numpy()
    damaged = ~valid & ~other
    return found.take(valid & whose & ~other), Damaged(offset[damaged], level[damaged])
