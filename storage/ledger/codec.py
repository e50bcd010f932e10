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
from canary.facts import COLUMNS, FACT_KINDS, Batch, Fact, Facts, count
from canary.facts.batch import NULL, NUMBERS, getter
from storage.ledger.errors import LedgerError

KIND_COLUMN = "_kind"
_ARROW_TYPES: dict[type, Any] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}
_NUMBER: dict[type, int] = {kind: number for number, kind in enumerate(FACT_KINDS)}
_FIELDS: dict[type, tuple[str, ...]] = {kind: tuple(f.name for f in dataclasses.fields(kind)) for kind in FACT_KINDS}
_REQUIRED: dict[type, frozenset[str]] = {
    kind: frozenset(f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING) for kind in FACT_KINDS
}
_LZ4 = b"\x04\x22\x4d\x18"
"""How an LZ4 frame begins, and no Arrow stream."""
_SERIAL = pa.ipc.IpcReadOptions(use_threads=False)
"""To wake Arrow's threads for a batch costs more than all that they do."""
_log = structlog.get_logger(__name__)


_GETTERS = {kind: getter(names) for kind, names in _FIELDS.items()}


def encode_facts(facts: Facts) -> bytes:
    """Return ``facts`` as one Arrow IPC stream in an LZ4 frame, in their order.

    Raises:
        TypeError: a value of a fact is not of its column's type (a bug where the fact was made).
    """
    columns = _Columns(count(facts))
    single: list[Fact] = []
    for one in facts:
        if isinstance(one, Batch):
            columns.add_facts(single)
            columns.add_batch(one)
            single = []
        else:
            single.append(one)
    columns.add_facts(single)
    batch = columns.batch()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    encoded: bytes = pa.compress(sink.getvalue(), codec="lz4", asbytes=True)
    return encoded


class _Columns:
    """The columns of so many facts, in the making."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._row = 0
        self._kinds = np.empty(rows, np.int8)
        self._lists: dict[str, list[Any]] = {}
        self._numbers: dict[str, tuple[Any, Any]] = {}
        """By field: the values, and where they are not None."""

    def add_batch(self, batch: Batch[Any]) -> None:
        """Append the facts of a batch."""
        here = slice(self._row, self._row + len(batch))
        self._row = here.stop
        self._kinds[here] = _NUMBER[batch.kind]
        for name, text in batch.texts.items():
            self._list(name)[here] = [text] * len(batch)
        for name in NUMBERS[batch.kind]:
            values, known = self._number(name)
            values[here] = batch.numbers(name)
            known[here] = values[here] != NULL

    def add_facts(self, facts: Sequence[Fact]) -> None:
        """Append facts."""
        by_kind: dict[type, list[int]] = {}
        for row, fact in enumerate(facts):
            by_kind.setdefault(type(fact), []).append(row)
        for kind, rows in by_kind.items():
            here = [self._row + row for row in rows]
            self._kinds[here] = _NUMBER[kind]
            fields = zip(*map(_GETTERS[kind], (facts[row] for row in rows)), strict=True)
            for name, values in zip(_FIELDS[kind], fields, strict=True):
                if COLUMNS[name] is int:
                    self._fill(name, here, values)
                else:
                    column = self._list(name)
                    for row, value in zip(here, values, strict=True):
                        column[row] = value
        self._row += len(facts)

    def _fill(self, name: str, here: list[int], values: Sequence[Any]) -> None:
        numbers, known = self._number(name)
        if None in values:
            given = [(row, value) for row, value in zip(here, values, strict=True) if value is not None]
            here, values = [row for row, _ in given], [value for _, value in given]
        if values:
            if not set(map(type, values)) <= {int}:
                raise TypeError(f"a fact holds a value of another type than its column {name}: {values!r:.200}")
            try:
                numbers[here] = values
            except OverflowError as error:
                raise TypeError(f"a fact holds a number in {name} that does not fit: {error}") from error
            known[here] = True

    def _list(self, name: str) -> list[Any]:
        return self._lists.setdefault(name, [None] * self._rows)

    def _number(self, name: str) -> tuple[Any, Any]:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = (np.zeros(self._rows, np.int64), np.zeros(self._rows, np.bool_))
        return found

    def batch(self) -> Any:
        """Return them as one record batch."""
        try:
            lists = {name: _array(values, COLUMNS[name]) for name, values in self._lists.items()}
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TypeError(f"a fact holds a value of another type than its column: {error}") from error
        numbers = {name: pa.array(values, mask=~known) for name, (values, known) in self._numbers.items()}
        columns = {KIND_COLUMN: pa.array(self._kinds), **lists, **numbers}
        return pa.record_batch(list(columns.values()), names=list(columns))


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
        table = stream_of(payload).read_all()
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


def stream_of(payload: bytes) -> pa.ipc.RecordBatchStreamReader:
    """Return the reader of an encoded batch; version 0.2 compressed its columns one by one, not the whole.

    Raises:
        pyarrow.ArrowInvalid: it is no Arrow stream.
    """
    source = pa.BufferReader(payload)
    if payload.startswith(_LZ4):
        source = pa.CompressedInputStream(source, "lz4")
    return pa.ipc.open_stream(source, options=_SERIAL)


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
