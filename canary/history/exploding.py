"""From operations as they are parsed to columns, a batch at a time.

Speed is what this is about: a loop over micro-operations costs several times what parsing them does. So every step
takes a whole batch through something written in C, and assumes that operations are regular. When one is not, the
batch is looked at one operation at a time (canary.history.checking), which either makes it regular or says what is
wrong.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from canary.history.checking import OperationError, regular
from canary.history.columns import ASSIGN, COLUMNS, INVOKE, SUBSCRIBE, TXN, UNKNOWN, Column, History
from canary.history.errors import HistoryError
from canary.history.lifting import PLACEHOLDER, Lifted
from canary.history.operation import FUNCTIONS, TYPES
from canary.history.pairing import UnpairedError, invocations
from canary.history.values import LIMIT, IrregularError, KeyCodes, ValueCodes

_FIELDS = itemgetter("index", "time", "process", "type", "f", "value")
_FIRST = itemgetter(0)
_IS_SEND = {"send": True, "poll": False}
_TYPE_CODES = {name: code for code, name in enumerate(TYPES)}
_PROCESSES = frozenset({int, str, type(None)})
_OFFSETS = frozenset({int, type(None)})
_MAX_FUNCTIONS = 255
_PACK = 128
"""Batches whose columns are joined."""

_NOT_REGULAR = (IrregularError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some operations, and the line on which each stands; apart from them the lists of polls that were lifted.

    ``again`` parses them once more, nothing lifted; it raises HistoryError where that cannot be done.
    """

    operations: Sequence[Any]
    lines: Sequence[int]
    again: Callable[[], tuple[Sequence[Any], Sequence[int]]]
    lifted: Lifted | None = None


class _FunctionCodes(dict[str, int]):
    """Function to its number, given at first sight."""

    def __init__(self) -> None:
        super().__init__((name, code) for code, name in enumerate(FUNCTIONS))

    def __missing__(self, name: object) -> int:
        """Give ``name`` the next number."""
        if not isinstance(name, str) or len(self) >= _MAX_FUNCTIONS:
            raise IrregularError
        self[name] = len(self)
        return self[name]


class Exploder:
    """Takes batches of operations, gives a History."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys = KeyCodes()
        self._values = ValueCodes()
        self._functions = _FunctionCodes()
        self._columns: defaultdict[str, list[Column]] = defaultdict(list)
        self._packed = 0
        self._rows = 0
        self._polls = 0
        self._reads = 0
        self._operations = 0

    def add(self, batch: Batch) -> None:
        """Add the operations of a batch.

        Raises:
            HistoryError: one of them cannot be read.
        """
        self._operations += len(batch.operations)
        try:
            self._explode(batch.operations, batch.lines, batch.lifted)
        except _NOT_REGULAR:
            operations, lines = batch.again()
            self._explode(self._look_closely(operations, lines), lines, None)

    def _look_closely(self, operations: Sequence[Any], lines: Sequence[int]) -> list[dict[str, Any]]:
        looked_at = []
        for operation, line in zip(operations, lines, strict=True):
            try:
                looked_at.append(regular(operation))
            except OperationError as error:
                raise HistoryError(self._source, line, str(error)) from None
        if len(self._functions | dict.fromkeys(o["f"] for o in looked_at if isinstance(o["f"], str))) > _MAX_FUNCTIONS:
            raise HistoryError(self._source, lines[0], f"more than {_MAX_FUNCTIONS} kinds of operations (f)")
        return looked_at

    def _explode(self, operations: Sequence[Any], lines: Sequence[int], lifted: Lifted | None) -> None:
        """Add a batch, all of it or (with an exception) nothing."""
        if not operations:
            return
        line = np.asarray(lines, dtype=np.int64)
        rows = list(map(_FIELDS, operations))
        kinds = {type(row[2]) for row in rows}
        if kinds != {int}:
            if not kinds <= _PROCESSES:
                raise IrregularError
            kept = [place for place, row in enumerate(rows) if type(row[2]) is int]
            operations, rows, line = [operations[i] for i in kept], [rows[i] for i in kept], line[kept]
            if not rows:
                return
        index, time, process, type_, function, value = zip(*rows, strict=True)
        if set(map(type, index)) != {int} or set(map(type, time)) != {int}:
            raise IrregularError
        count = len(rows)
        new: dict[str, Column] = {
            "index": np.fromiter(index, np.int64, count),
            "time": np.fromiter(time, np.int64, count),
            "process": np.fromiter(process, np.int64, count),
            "type": np.fromiter(map(_TYPE_CODES.__getitem__, type_), np.uint8, count),
            "f": np.fromiter(map(self._functions.__getitem__, function), np.uint8, count),
            "line": line,
        }
        data = new["f"] <= TXN
        places = np.arange(self._rows, self._rows + count)
        micro = value if data.all() else [value[i] for i in np.flatnonzero(data)]
        sends, polls = self._split(micro, places[data])
        new |= self._sends(*sends)
        new |= self._segments(*polls, lifted)
        new |= self._held(value, np.flatnonzero((new["f"] == ASSIGN) | (new["f"] == SUBSCRIBE)))
        new |= self._rebalanced(operations)
        for name, column in new.items():
            self._columns[name].append(column)
        if len(self._columns["index"]) - self._packed >= _PACK:
            self._pack()
        self._rows += count
        self._polls += len(polls[0])
        self._reads += len(new["read_value"])

    def _pack(self) -> None:
        """Join the columns of the latest batches and narrow them, so that few lie in memory wider than at the end."""
        for parts in self._columns.values():
            parts[self._packed :] = [_narrow(np.concatenate(parts[self._packed :]))]
        self._packed += 1

    @staticmethod
    def _split(values: Sequence[list[Any]], rows: Column) -> tuple[tuple[list[Any], Column], tuple[list[Any], Column]]:
        """Return (sends, their rows), (polls, their rows)."""
        _must_be(list, map(type, values))
        micro = list(chain.from_iterable(values))
        _must_be(list, map(type, micro))
        counts = np.fromiter(map(len, values), np.int64, len(values))
        row = rows if len(micro) == len(values) and (counts == 1).all() else np.repeat(rows, counts)
        is_send = np.fromiter(map(_IS_SEND.__getitem__, map(_FIRST, micro)), np.bool_, len(micro))
        sends = [m for m in micro if m[0] == "send"]
        polls = [m for m in micro if m[0] != "send"]
        return (sends, row[is_send]), (polls, row[~is_send])

    def _sends(self, sends: list[Any], rows: Column) -> dict[str, Column]:
        _must_be(3, map(len, sends))
        pairs = [m[2] if m[2].__class__ is list else (None, m[2]) for m in sends]
        _must_be(2, map(len, pairs))
        return {
            "send_op": rows,
            "send_key": self._keys.encode([m[1] for m in sends]),
            "send_offset": _offsets([pair[0] for pair in pairs]),
            "send_value": self._values.encode([pair[1] for pair in pairs]),
        }

    def _segments(self, polls: list[Any], rows: Column, lifted: Lifted | None) -> dict[str, Column]:
        completed = [m for m in polls if len(m) != 1]
        _must_be(2, map(len, completed))
        maps = [m[1] for m in completed]
        _must_be(dict, map(type, maps))
        per_poll = np.fromiter(map(len, maps), np.int64, len(maps))
        poll = np.flatnonzero(np.fromiter(map(len, polls), np.int64, len(polls)) != 1)
        lists = list(chain.from_iterable(map(dict.values, maps)))
        if lifted is None:
            length, read_offset, read_value = self._reads_of(lists)
        else:
            length, read_offset, read_value = _lifted_reads(lists, lifted)
        place = np.repeat(poll, per_poll)
        return {
            "segment_op": rows[place],
            "segment_poll": place + self._polls,
            "segment_key": self._keys.encode(list(chain.from_iterable(maps))),
            "segment_start": self._reads + np.cumsum(length) - length,
            "segment_length": length,
            "read_offset": read_offset,
            "read_value": read_value,
        }

    def _reads_of(self, lists: list[Any]) -> tuple[Column, Column, Column]:
        """Return the length of each list of messages, and their offsets and values."""
        _must_be(list, map(type, lists))
        length = np.fromiter(map(len, lists), np.int64, len(lists))
        pairs = list(chain.from_iterable(lists))
        _must_be(2, map(len, pairs))  # whatever is no list has no offset among its parts
        flat = list(chain.from_iterable(pairs))
        if set(map(type, flat)) == {int}:
            both = np.fromiter(flat, np.int64, len(flat)).reshape(-1, 2)
            if both.min() >= 0 and both.max() < LIMIT:
                return length, both[:, 0].copy(), both[:, 1].copy()
        return length, _offsets(flat[0::2]), self._values.encode(flat[1::2])

    def _held(self, values: Sequence[Any], places: Column) -> dict[str, Column]:
        lists = [values[i] for i in places]
        _must_be(list, map(type, lists))
        return {
            "held_op": np.repeat(self._rows + places, [len(keys) for keys in lists]),
            "held_key": self._keys.encode(list(chain.from_iterable(lists))),
        }

    def _rebalanced(self, operations: Sequence[Any]) -> dict[str, Column]:
        found = [
            (self._rows + row, rebalance.get("keys", ()))
            for row, operation in enumerate(operations)
            if "rebalance_log" in operation
            for rebalance in operation["rebalance_log"] or ()
        ]
        if not all(isinstance(keys, (list, tuple)) for _, keys in found):
            raise IrregularError
        return {
            "rebalanced_op": np.repeat([row for row, _ in found], [len(keys) for _, keys in found]).astype(np.int64),
            "rebalanced_key": self._keys.encode([key for _, keys in found for key in keys]),
        }

    def finish(self, *, whole: bool = True) -> History:
        """Return everything that was added: a ``whole`` history, or a stretch of one, where operations may be cut off.

        Raises:
            HistoryError: a completion without invocation, an invocation within another, or an index that does not rise.
        """
        columns: dict[str, Column] = {}
        for name in COLUMNS:
            parts = self._columns.pop(name, [])
            columns[name] = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        for name in ("type", "f"):
            columns[name] = columns[name].astype(np.uint8)
        first_code = self._values.settle([columns["send_value"], columns["read_value"]])
        for name, column in columns.items():
            columns[name] = _narrow(column)
        index = columns["index"]
        falls = np.flatnonzero(index[1:] <= index[:-1])
        if len(falls):
            row = int(falls[0]) + 1
            reason = f"index {index[row]} comes after index {index[row - 1]}"
            raise HistoryError(self._source, int(columns["line"][row]), reason)
        early = np.flatnonzero(columns["type"][columns["segment_op"]] == INVOKE)
        if len(early):
            line = int(columns["line"][columns["segment_op"][early[0]]])
            raise HistoryError(self._source, line, "an invoked poll cannot know yet what it returns")
        invocation: Column = np.full(len(columns["index"]), -1, np.int64)
        if whole:
            try:
                invocation = invocations(columns["process"], columns["type"], columns["f"])
            except UnpairedError as error:
                raise HistoryError(self._source, int(columns["line"][error.row]), error.reason) from None
        return History(
            source=self._source,
            operations=self._operations,
            invocation=_narrow(invocation),
            keys=self._keys.names,
            first_code=first_code,
            other_values=self._values.others,
            **columns,
        )


def _must_be(wanted: object, found: Iterable[object]) -> None:
    """Raise IrregularError if one of those found is not as wanted."""
    if not {wanted}.issuperset(found):
        raise IrregularError


def _offsets(offsets: Sequence[int | None]) -> Column:
    """Return the offsets, UNKNOWN for None."""
    types = set(map(type, offsets))
    if types <= {int}:
        column = np.fromiter(offsets, np.int64, len(offsets))
        lowest = int(column.min(initial=0))
    elif types <= _OFFSETS:
        lowest = min((offset for offset in offsets if offset is not None), default=0)
        column = np.fromiter((UNKNOWN if o is None else o for o in offsets), np.int64, len(offsets))
    else:
        raise IrregularError
    if lowest < 0:
        raise IrregularError
    return column


def _lifted_reads(lists: list[Any], lifted: Lifted) -> tuple[Column, Column, Column]:
    """Return the length of each list of messages, and their offsets and values, of lists that were lifted or empty."""
    full = np.fromiter(map(bool, lists), np.bool_, len(lists))
    if full.sum() != len(lifted.lengths) or not {PLACEHOLDER} >= set(filter(None, lists)):
        raise IrregularError
    if not {int, list}.issuperset(map(type, lists)) or 0 in lists or lifted.pairs.max() >= LIMIT:
        raise IrregularError
    length = np.zeros(len(lists), np.int64)
    length[full] = lifted.lengths
    return length, lifted.pairs[:, 0].copy(), lifted.pairs[:, 1].copy()


def _narrow(column: Column) -> Column:
    """Return the column as int32 where that is enough."""
    small = column.dtype == np.int64 and column.min(initial=0) >= -(1 << 31) and column.max(initial=0) < 1 << 31
    return column.astype(np.int32) if small else column
