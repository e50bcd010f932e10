"""Facts to one Arrow stream and back.

The table has the columns of canary.facts.COLUMNS (int -> int64, str -> string, bool -> bool, all nullable) and
``_kind``, the fact's number in FACT_KINDS. A batch has only the columns of the facts in it; a missing column is null.
So versions can read each other: a field that the batch lacks takes the dataclass's default, a column that no fact has
any more is ignored, and facts of an unknown kind, which a later version wrote, are left out and logged.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

import storage.arrow  # noqa: F401  # first
from canary.facts import COLUMNS, FACT_KINDS, Batch, Fact, Facts
from canary.facts.batch import NULL, NUMBERS, getter
from storage.ledger.errors import LedgerError

KIND_COLUMN = "_kind"
_ARROW_TYPES: dict[type, Any] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}
_NUMBER: dict[type, int] = {kind: number for number, kind in enumerate(FACT_KINDS)}
_FIELDS: dict[type, tuple[str, ...]] = {kind: tuple(f.name for f in dataclasses.fields(kind)) for kind in FACT_KINDS}
_REQUIRED: dict[type, frozenset[str]] = {
    kind: frozenset(f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING) for kind in FACT_KINDS
}
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_SERIAL = pa.ipc.IpcReadOptions(use_threads=False)
"""To wake Arrow's threads for a batch costs more than all that they do."""
_log = structlog.get_logger(__name__)


_GETTERS = {kind: getter(names) for kind, names in _FIELDS.items()}


def encode_facts(facts: Facts) -> bytes:
    """Return ``facts`` as one Arrow IPC stream (lz4), in their order.

    Raises:
        TypeError: a value of a fact is not of its column's type (a bug where the fact was made).
    """
    parts = []
    single: list[Fact] = []
    for one in facts:
        if isinstance(one, Batch):
            if single:
                parts.append(_of_facts(single))
                single = []
            parts.append(_of_batch(one))
        else:
            single.append(one)
    if single or not parts:
        parts.append(_of_facts(single))
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _of_batch(batch: Batch[Any]) -> Any:
    rows = len(batch)
    columns = {KIND_COLUMN: pa.array(np.full(rows, _NUMBER[batch.kind], np.int8))}
    columns |= {name: pa.repeat(pa.scalar(text, pa.string()), rows) for name, text in batch.texts.items()}
    for name in NUMBERS[batch.kind]:
        numbers = batch.numbers(name)
        columns[name] = pa.array(numbers, mask=numbers == NULL)
    return pa.table(columns)


def _of_facts(facts: Sequence[Fact]) -> Any:
    count = len(facts)
    by_kind: dict[type, list[int]] = {}
    for row, fact in enumerate(facts):
        by_kind.setdefault(type(fact), []).append(row)
    numbers = np.empty(count, np.int8)
    columns: dict[str, list[Any]] = {}
    for kind, rows in by_kind.items():
        numbers[rows] = _NUMBER[kind]
        getter = _GETTERS[kind]
        for name, values in zip(_FIELDS[kind], zip(*(getter(facts[row]) for row in rows), strict=True), strict=True):
            column = columns.get(name)
            if column is None:
                column = columns[name] = [None] * count
            for row, value in zip(rows, values, strict=True):
                column[row] = value
    try:
        arrays = [_array(values, COLUMNS[name]) for name, values in columns.items()]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise TypeError(f"a fact holds a value of another type than its column: {error}") from error
    return pa.table([pa.array(numbers), *arrays], names=[KIND_COLUMN, *columns])


def _array(values: list[Any], kind: type) -> Any:
    try:
        return pa.array(values, _ARROW_TYPES[kind])
    except UnicodeEncodeError:  # half a surrogate pair, from a broken record or a client's error text
        mended = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
        return pa.array(mended, _ARROW_TYPES[kind])


def decode_facts(payload: bytes, kinds: Collection[type[Fact]] = FACT_KINDS) -> list[Fact]:
    """Return the facts of one encoded batch that are of ``kinds``, in their order; no others are made.

    Raises:
        LedgerError: the payload is not such a stream, or lacks a field that has no default.
    """
    table = decode_table(payload)
    with _readable():
        return facts_of(table, kinds)


def decode_table(payload: bytes) -> pa.Table:
    """Return one encoded batch as its table: the rows of known kinds, none of which lacks a field without a default.

    Raises:
        LedgerError: the payload is not such a stream, or lacks such a field.
    """
    with _readable():
        with pa.ipc.open_stream(payload, options=_SERIAL) as stream:
            table = stream.read_all()
        table.validate(full=True)
        (numbers,) = np.nonzero(np.bincount(table.column(KIND_COLUMN).to_numpy()))
        for kind in (FACT_KINDS[number] for number in numbers.tolist() if number < len(FACT_KINDS)):
            if missing := _REQUIRED[kind].difference(table.schema.names):
                named = ", ".join(sorted(missing))
                raise LedgerError(f"a {kind.__name__} in the ledger lacks {named}; use the version that wrote it")
        if len(numbers) and numbers[-1] >= len(FACT_KINDS):
            known = pc.less(table.column(KIND_COLUMN), len(FACT_KINDS))
            _log.warning("ledger_unknown_fact_kind", number=int(numbers[-1]), facts=pc.sum(pc.invert(known)).as_py())
            table = table.filter(known)
        return table


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Make a LedgerError of what no version has written."""
    try:
        yield
    except (pa.ArrowException, LookupError, OSError, TypeError, ValueError) as error:
        raise LedgerError(f"a batch of facts is not readable ({error}); it was written by another program") from error


def facts_of(table: pa.Table, kinds: Collection[type[Fact]] = FACT_KINDS) -> list[Fact]:
    """Return the facts of a table of ``decode_table`` that are of ``kinds``, in their order."""
    numbers = table.column(KIND_COLUMN).to_numpy()
    facts: list[Fact | None] = [None] * len(numbers)
    names = set(table.schema.names)
    for number in np.unique(numbers).tolist():
        kind = FACT_KINDS[number]
        if kind not in kinds:
            continue
        rows = np.flatnonzero(numbers == number)
        present = [name for name in _FIELDS[kind] if name in names]
        part = table.select(present)  # the other kinds' columns are nothing but nulls here
        part = part.take(rows) if len(rows) < len(numbers) else part
        values = zip(*(part.column(name).to_pylist() for name in present), strict=True)
        if len(present) == len(_FIELDS[kind]):
            made = list(itertools.starmap(kind, values))
        else:
            made = [kind(**dict(zip(present, row, strict=True))) for row in values]
        for row, fact in zip(rows.tolist(), made, strict=True):
            facts[row] = fact
    return [fact for fact in facts if fact is not None]
