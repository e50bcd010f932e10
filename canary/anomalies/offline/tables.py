"""What every rule starts from: messages, the log, the version order (ANOMALIES Part I, section 2).

A *message* is a distinct (key, value); a *slot* is a distinct (key, offset) at which some value is known. Both are
numbered densely, ordered by key; so the slots of a key, less the first of them, are its indexes, and the difference of
two slots of one key is the difference of their indexes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.anomalies.offline.ranking import rank
from canary.history.columns import FAIL, INFO, INVOKE, OK, UNKNOWN, Column, History

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
        message_invoked: An operation sent it or tried to.
        message_first_reader: Row of the first completion, of whatever type, that polled it, else NONE.
        message_ok_read: An ok operation polled it.
        message_first: Its lowest slot, else NONE.
        message_last: Its highest slot, else NONE.
        message_place: Its slot in the version order: the last one where it was chosen, else NONE.
        committed: For each operation, whether its sends count as having happened.
        slot_key: Key of each slot.
        slot_offset: Its offset.
        slot_message: The message chosen for it in the version order.
        slot_conflict: More than one message is there.
        key_first_slot: First slot of each key, one more entry than keys.
        conflicts: (slot, message, row of the first operation that shows it) for slots with conflicts, sorted.
        copies: (message, slot, row of the first operation that shows it) for messages at several slots, sorted.
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

    def named(self, message: int) -> dict[str, Any]:
        """Return the key and value of a message, as evidence."""
        return {"key": self.key(message), "value": self.value(message)}

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
    messages = rank(
        np.concatenate((read_key, history.send_key)), np.concatenate((history.read_value, history.send_value)), keys
    )
    read_message, send_message = messages.rank[: len(read_key)], messages.rank[len(read_key) :]
    count = len(messages.key)
    ok_read = np.zeros(count, np.bool_)
    ok_read[read_message[history.type[read_op] == OK]] = True
    first_reader = np.full(count, NONE, np.int32)
    first_reader[read_message[::-1]] = read_op[::-1]  # the last one written is the first one read
    send_type = history.type[history.send_op]
    committed = history.type == OK
    committed[history.send_op[(send_type == INFO) & ok_read[send_message]]] = True
    if proven_elsewhere is not None:
        committed[proven_elsewhere] = True
    return Tables(
        history=history,
        process=_small(history.process),
        read_op=read_op,
        read_message=read_message,
        send_message=send_message,
        message_key=messages.key,
        message_value=messages.x,
        message_writer=_writer(history, send_message, send_type != INVOKE, count),
        message_failed_writer=_writer(history, send_message, send_type == FAIL, count),
        message_invoked=np.bincount(send_message, minlength=count).astype(np.bool_),
        message_first_reader=first_reader,
        message_ok_read=ok_read,
        committed=committed,
        **_slots(history, (read_key, read_op, read_message), send_message, committed, count),
    )


def _writer(history: History, send_message: Column, which: Column, count: int) -> Column:
    """Return for each of ``count`` messages the row of the last operation among ``which`` that sent it, else NONE."""
    writer = np.full(count, NONE, np.int32)
    writer[send_message[which]] = history.send_op[which]
    return writer


def _slots(
    history: History, reads: tuple[Column, Column, Column], send_message: Column, committed: Column, count: int
) -> dict[str, Any]:
    """Return the log and its version order: the fields of Tables about slots, and each message's slots.

    Reads (key, row of the operation, message) of any outcome say what stands at an offset, and so do committed sends.
    """
    read_key, read_op, read_message = reads
    keys = len(history.keys)
    known = history.read_offset != UNKNOWN
    stands = (history.send_offset != UNKNOWN) & committed[history.send_op]
    if known.all():  # the usual case: nothing is copied
        known = np.s_[:]
    slots = rank(
        np.concatenate((read_key[known], history.send_key[stands])),
        np.concatenate((history.read_offset[known], history.send_offset[stands])),
        keys,
    )
    message = np.concatenate((read_message[known], send_message[stands]))
    some_message = np.empty(len(slots.key), np.int32)
    some_message[slots.rank] = message
    some_slot = np.full(count, NONE, np.int32)
    some_slot[message] = slots.rank
    ops = (read_op[known], history.send_op[stands])
    conflicts = _several(slots.rank, message, some_message, ops)
    copies = _several(message, slots.rank, some_slot, ops)

    conflict = np.zeros(len(slots.key), np.bool_)
    conflict[conflicts[0]] = True
    chosen = some_message
    np.maximum.at(chosen, conflicts[0], conflicts[1])  # any will do, but always the same
    first, last = some_slot.copy(), some_slot
    np.minimum.at(first, copies[0], copies[1])
    np.maximum.at(last, copies[0], copies[1])
    in_order = np.full(count, NONE, np.int32)
    in_order[chosen] = np.arange(len(chosen), dtype=np.int32)
    return {
        "message_first": first,
        "message_last": last,
        "message_place": in_order,
        "slot_key": slots.key,
        "slot_offset": slots.x,
        "slot_message": chosen,
        "slot_conflict": conflict,
        "key_first_slot": np.searchsorted(slots.key, np.arange(keys + 1)),
        "conflicts": conflicts,
        "copies": copies,
    }


def _small(process: Column) -> Column:
    """Return small numbers for processes."""
    if len(process) and int(process.min()) >= 0 and int(process.max()) <= len(process) + 1000:
        return process.astype(np.int64)
    return np.unique(process, return_inverse=True)[1]


def _several(of: Column, what: Column, some: Column, op: tuple[Column, Column]) -> tuple[Column, Column, Column]:
    """Return the distinct pairs (of, what), sorted, for which ``of`` has several ``what``, and their first rows.

    ``some`` holds one ``what`` for each ``of``; a row that differs from it shows that there are several.
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
