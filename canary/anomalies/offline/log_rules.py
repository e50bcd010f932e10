"""Rules on the log alone: inconsistent-offsets, duplicate, phantom (ANOMALIES Part I, rules 1, 2 and 12)."""

import numpy as np

from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.tables import NONE, Tables


def inconsistent_offsets(tables: Tables) -> Cases:
    """Two or more values at one offset of a key: key, offset, index, values, ops (the first to show each value).

    Not counted are offsets of failed sends, and of indeterminate sends that nothing proves: those never came into the
    log.
    """
    slots, messages, rows = tables.conflicts
    distinct, start = np.unique(slots, return_index=True)
    end = np.append(start[1:], len(slots))

    def case(number: int) -> Case:
        slot = int(distinct[number])
        here = slice(start[number], end[number])
        said = sorted(
            ((tables.value(m), tables.op(row)) for m, row in zip(messages[here], rows[here], strict=True)),
            key=lambda pair: (isinstance(pair[0], str), pair[0]),  # numbers first, then text
        )
        return {
            "key": tables.history.keys[tables.slot_key[slot]],
            "offset": int(tables.slot_offset[slot]),
            "index": tables.index(slot),
            "values": [value for value, _ in said],
            "ops": [op for _, op in said],
        }

    return Cases(len(distinct), case)


def duplicate(tables: Tables) -> Cases:
    """One value at two or more offsets of its key: key, value, count, offsets, ops (the first to show each offset).

    The same value read again at the same offset is none: that is a poll that went back.
    """
    messages, slots, rows = tables.copies
    distinct, start = np.unique(messages, return_index=True)
    end = np.append(start[1:], len(messages))

    def case(number: int) -> Case:
        message = int(distinct[number])
        here = slice(start[number], end[number])
        offsets = tables.slot_offset[slots[here]].tolist()
        return {
            **tables.named(message),
            "count": len(offsets),
            "offsets": offsets,
            "ops": [tables.op(row) for row in rows[here]],
        }

    return Cases(len(distinct), case)


def phantom(tables: Tables) -> Cases:
    """A polled value that no operation tried to send: key, value, offset (null if not known), reader (the first).

    An invocation that never completed counts as a try.
    """
    messages = np.flatnonzero(~tables.message_invoked)  # so they come from reads

    def case(number: int) -> Case:
        message = int(messages[number])
        slot = int(tables.message_first[message])
        return {
            **tables.named(message),
            "offset": None if slot == NONE else int(tables.slot_offset[slot]),
            "reader": tables.op(tables.message_first_reader[message]),
        }

    return Cases(len(messages), case)
