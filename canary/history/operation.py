"""One operation of a history, as a value."""

from dataclasses import dataclass
from typing import Any, Literal

Type = Literal["invoke", "ok", "fail", "info"]
Scalar = str | int | float | bool

TYPES: tuple[Type, ...] = ("invoke", "ok", "fail", "info")
"""A type's place here is its number in the columns."""

FUNCTIONS = ("send", "poll", "txn", "assign", "subscribe", "crash")
"""A function's place here is its number in the columns; any other function gets the next free number."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An invocation or a completion.

    Attributes:
        index: Place in the history, rising in real-time order.
        time: Nanoseconds since the history began.
        process: The process; an integer, or a name such as "nemesis".
        type: invoke, ok, fail or info.
        f: send, poll, txn, assign, subscribe, crash, or anything else, which no rule looks at.
        value: For send, poll and txn a list of micro-operations; for assign and subscribe a list of keys.
        rebalance_log: ``{"keys": [...]}`` for each rebalance during the operation.
        seek_to_beginning: The consumer went back to the beginning first.
        error: The client's error, if any.
    """

    index: int
    time: int
    process: int | str
    type: Type
    f: str
    value: Any
    rebalance_log: Any = None
    seek_to_beginning: Any = None
    error: Any = None
