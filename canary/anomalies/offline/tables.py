"""What every rule starts from: messages, the log, the version order (ANOMALIES Part I, section 2).

A *message* is a distinct (key, value); a *slot* is a distinct (key, offset) at which some value is known. Both are
numbered densely, ordered by key; so the slots of a key, less the first of them, are its indexes, and the difference of
two slots of one key is the difference of their indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canary.anomalies.offline.ranking import rank
from canary.history.columns import FAIL, INFO, INVOKE, OK, UNKNOWN

if TYPE_CHECKING:
    from canary.history.columns import History

Column = NDArray[Any]
NONE = -1
"""No such row, message or slot."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Base tables over a history; arrays are over reads, sends, messages or slots as their names begin.

    Attributes:
        history: What it was made of.
        process: A small number for the process of each operation.
        read_op: Row of the operation of each read.
        read_message: Its message.
        send_message: Message of each send, invocations' too.
        message_key: Key of each message.
        message_value: Its value's code.
        message_writer: Row of the completion that sent it (the last one, should there be several), else NONE.
        message_failed_writer: Row of the failed completion that sent it, else NONE.
        message_invoked: Somebody set out to send it.
        message_first_reader: Row of the first completion, of whatever type, that polled it, else NONE.
        message_ok_read: An ok operation polled it.
        message_first: The lowest slot it stands at, else NONE.
        message_last: The highest slot it stands at, else NONE.
        message_place: Its slot in the version order: the last one where it was chosen, else NONE.
        committed: For each operation, whether its sends count as having happened.
        slot_key: Key of each slot.
        slot_offset: Its offset.
        slot_message: The message chosen to stand there in the version order.
        slot_conflict: More than one message stands there.
        key_first_slot: First slot of each key, one more entry than keys.
        conflicts: (slot, message, row of the first operation that says so) for slots with conflicts, sorted.
        copies: (message, slot, row of the first operation that says so) for messages at several slots, sorted.
    """

    history: History
    process: Column
    read_op: Column
    read_message: Column
    send_message: Column
    message_key: Column
    message_value: Column
    message_writer: Column
    message_failed_writer: Column
    message_invoked: Column
    message_first_reader: Column
    message_ok_read: Column
    message_first: Column
    message_last: Column
    message_place: Column
    committed: Column
    slot_key: Column
    slot_offset: Column
    slot_message: Column
    slot_conflict: Column
    key_first_slot: Column
    conflicts: tuple[Column, Column, Column]
    copies: tuple[Column, Column, Column]

    def value(self, message: int) -> Any:
        """Return the value of a message."""
        return self.history.value(self.message_value[message])

    def key(self, message: int) -> str:
        """Return the name of the key of a message."""
        return self.history.keys[int(self.message_key[message])]

    def index(self, slot: int) -> int:
        """Return the index of a slot in its key's version order."""
        return int(slot - self.key_first_slot[self.slot_key[slot]])

    def op(self, row: int) -> int:
        """Return the index of the operation in ``row``."""
        return int(self.history.index[row])


def build(history: History, proven_elsewhere: Column | None = None) -> Tables:
    """Return the base tables of ``history``.

    Args:
        history: All of it, or what of it concerns some of its keys.
        proven_elsewhere: Rows of indeterminate operations that reads of other keys prove to have happened.
    """
    keys = len(history.keys)
    read_op = np.repeat(history.segment_op, history.segment_length)
    read_key = np.repeat(history.segment_key, history.segment_length)
    reads = len(read_key)
    messages = rank(
        np.concatenate((read_key, history.send_key)), np.concatenate((history.read_value, history.send_value)), keys
    )
    read_message, send_message = messages.rank[:reads], messages.rank[reads:]
    count = len(messages.key)

    ok_read = np.zeros(count, np.bool_)
    ok_read[read_message[history.type[read_op] == OK]] = True
    first_reader = np.full(count, NONE, np.int32)
    first_reader[read_message[::-1]] = read_op[::-1]  # the last one written is the first one read

    send_type = history.type[history.send_op]
    completed = send_type != INVOKE
    failed = send_type == FAIL
    invoked = np.zeros(count, np.bool_)
    invoked[send_message] = True
    writer = np.full(count, NONE, np.int32)
    writer[send_message[completed]] = history.send_op[completed]
    failed_writer = np.full(count, NONE, np.int32)
    failed_writer[send_message[failed]] = history.send_op[failed]

    committed = history.type == OK
    proven = (send_type == INFO) & ok_read[send_message]
    committed[history.send_op[proven]] = True
    if proven_elsewhere is not None:
        committed[proven_elsewhere] = True

    known = history.read_offset != UNKNOWN
    stands = (history.send_offset != UNKNOWN) & committed[history.send_op]
    if known.all():
        facts = (read_key, history.read_offset, read_message, read_op)
    else:
        facts = (read_key[known], history.read_offset[known], read_message[known], read_op[known])
    slots = rank(
        np.concatenate((facts[0], history.send_key[stands])),
        np.concatenate((facts[1], history.send_offset[stands])),
        keys,
    )
    fact_message = np.concatenate((facts[2], send_message[stands]))
    some_message = np.empty(len(slots.key), np.int32)
    some_message[slots.rank] = fact_message
    some_slot = np.full(count, NONE, np.int32)
    some_slot[fact_message] = slots.rank
    fact_op = (facts[3], history.send_op[stands])
    conflicts = _several(slots.rank, fact_message, some_message, fact_op)
    copies = _several(fact_message, slots.rank, some_slot, fact_op)

    conflict = np.zeros(len(slots.key), np.bool_)
    conflict[conflicts[0]] = True
    chosen = some_message
    np.maximum.at(chosen, conflicts[0], conflicts[1])  # any will do, but always the same
    first, last = some_slot.copy(), some_slot
    np.minimum.at(first, copies[0], copies[1])
    np.maximum.at(last, copies[0], copies[1])
    in_order = np.full(count, NONE, np.int32)
    in_order[chosen] = np.arange(len(chosen), dtype=np.int32)

    return Tables(
        history=history,
        process=_small(history.process),
        read_op=read_op,
        read_message=read_message,
        send_message=send_message,
        message_key=messages.key,
        message_value=messages.x,
        message_writer=writer,
        message_failed_writer=failed_writer,
        message_invoked=invoked,
        message_first_reader=first_reader,
        message_ok_read=ok_read,
        message_first=first,
        message_last=last,
        message_place=in_order,
        committed=committed,
        slot_key=slots.key,
        slot_offset=slots.x,
        slot_message=chosen,
        slot_conflict=conflict,
        key_first_slot=np.searchsorted(slots.key, np.arange(keys + 1)),
        conflicts=conflicts,
        copies=copies,
    )


def _small(process: Column) -> Column:
    """Return small numbers for processes."""
    if len(process) and int(process.min()) >= 0 and int(process.max()) <= len(process) + 1000:
        return process.astype(np.int64)
    return np.unique(process, return_inverse=True)[1]


def _several(of: Column, what: Column, some: Column, op: tuple[Column, Column]) -> tuple[Column, Column, Column]:
    """Return the distinct pairs (of, what), sorted, for which ``of`` has several ``what``, and their first rows.

    ``some`` holds one ``what`` for each ``of``: who differs from it shows that there are several.
    """
    differing = np.flatnonzero(some[of] != what)
    if len(differing) == 0:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    wanted = np.zeros(len(some), np.bool_)
    wanted[of[differing]] = True
    rows = np.flatnonzero(wanted[of])
    of, what, by = of[rows], what[rows], np.concatenate(op)[rows]
    order = np.lexsort((by, what, of))
    of, what, by = of[order], what[order], by[order]
    new = np.ones(len(of), np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (what[1:] != what[:-1])
    return of[new], what[new], by[new]
