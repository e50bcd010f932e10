"""A whole history as NumPy columns."""

from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from canary.history.operation import FUNCTIONS, TYPES, Scalar

Column = NDArray[Any]
"""A column of whatever numbers."""
Ints = NDArray[np.signedinteger]
"""A column of int32 or int64, whichever is enough."""

INVOKE, OK, FAIL, INFO = range(len(TYPES))
SEND, POLL, TXN, ASSIGN, SUBSCRIBE, CRASH = range(len(FUNCTIONS))
UNKNOWN = -1
"""An offset that is not known."""


@dataclass(frozen=True, slots=True)
class History:
    """A history, exploded: one table for each kind of thing in it; rows keep the order of the file.

    A *row* of the first table is one operation of an integer process; other tables refer to it by its row number. A
    *poll segment* is what one poll returned for one key; its reads are ``reads[start : start + length]``, and reads of
    consecutive segments lie one behind the other.

    In every table ``..._op`` is a row of the first one, ``..._key`` a place in ``keys``, ``..._offset`` UNKNOWN if not
    known, and ``..._value`` a code (see ``value``): from ``first_code`` on codes stand for ``other_values``, in order;
    below they are integers themselves.

    Attributes:
        operations: Number of operations in the file, those of other than integer processes included.
        time: In ns.
        type: INVOKE, OK, FAIL or INFO.
        f: SEND, POLL, TXN, ASSIGN, SUBSCRIBE, CRASH or a greater number.
        invocation: Row of the invocation of a completion, else -1.
        send_op: Of each send micro-operation, invocations' too.
        segment_poll: Number of the poll micro-operation among all, so that two polls of one operation differ.
        segment_start: Its first read.
        segment_length: How many reads it has, perhaps 0.
        held_op: Of an assign or subscribe operation, once for each of its keys.
        rebalanced_op: Of an operation during which a key was rebalanced.
    """

    source: str
    operations: int
    index: Ints
    time: Ints
    process: Ints
    type: NDArray[np.uint8]
    f: NDArray[np.uint8]
    line: Ints
    invocation: Ints
    send_op: Ints
    send_key: Ints
    send_offset: Ints
    send_value: Ints
    segment_op: Ints
    segment_poll: Ints
    segment_key: Ints
    segment_start: Ints
    segment_length: Ints
    read_offset: Ints
    read_value: Ints
    held_op: Ints
    held_key: Ints
    rebalanced_op: Ints
    rebalanced_key: Ints
    keys: list[str]
    first_code: int
    other_values: list[Scalar]

    def value(self, code: int) -> Scalar:
        """Return the value that ``code`` stands for."""
        place = int(code) - self.first_code
        return self.other_values[place] if place >= 0 else int(code)

    def __len__(self) -> int:
        """Return the number of operations of integer processes."""
        return len(self.index)


COLUMNS = tuple(
    name for name, kind in get_type_hints(History).items() if get_origin(kind) is np.ndarray and name != "invocation"
)
"""The arrays that are read from a file; ``invocation`` follows from them."""
