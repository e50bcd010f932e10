"""Rules on who read what: G1a, precommitted-read, lost-write, unseen (ANOMALIES Part I, rules 3 to 6)."""

from typing import Any

import numpy as np

from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.tables import NONE, Tables
from canary.history.columns import INVOKE, OK, TXN, Column

NEVER = np.iinfo(np.int32).max


def aborted_read(tables: Tables) -> Cases:
    """An ok operation polled a value that a failed one sent (G1a): key, value, writer, reader; once for each reading.

    Sound only if the client files errors that prove nothing (a timeout, NotLeaderOrFollower) as info and not as fail.
    """
    bad = tables.message_failed_writer != NONE
    reads = np.flatnonzero(bad[tables.read_message]) if bad.any() else np.zeros(0, np.int64)
    reads = reads[tables.history.type[tables.read_op[reads]] == OK]

    def case(number: int) -> Case:
        read = reads[number]
        message = int(tables.read_message[read])
        return {
            **tables.named(message),
            "writer": tables.op(tables.message_failed_writer[message]),
            "reader": tables.op(tables.read_op[read]),
        }

    return Cases(len(reads), case)


def precommitted_read(tables: Tables) -> Cases:
    """An operation, of whatever outcome, polled what it sent itself: op, key, value; at most once an operation.

    What is sent becomes visible when its transaction has committed, to the transaction itself too.
    """
    history = tables.history
    own = tables.message_writer[tables.read_message] == tables.read_op
    completed = np.flatnonzero(history.type[history.send_op] != INVOKE)
    sent_twice = np.bincount(tables.send_message[completed], minlength=len(tables.message_key)) > 1
    if sent_twice.any():  # the format forbids it, but then the last writer is not the only one
        doubtful = np.flatnonzero(sent_twice[tables.read_message])
        sent = _pairs(history.send_op[completed], tables.send_message[completed], tables)
        own[doubtful] = np.isin(_pairs(tables.read_op[doubtful], tables.read_message[doubtful], tables), sent)
    reads = np.flatnonzero(own)
    _, first = np.unique(tables.read_op[reads], return_index=True)
    reads = reads[first]

    def case(number: int) -> Case:
        read = reads[number]
        return {"op": tables.op(tables.read_op[read]), **tables.named(int(tables.read_message[read]))}

    return Cases(len(reads), case)


def _pairs(op: Column, message: Column, tables: Tables) -> Column:
    """Return one number for each (operation, message)."""
    return op.astype(np.int64) * max(1, len(tables.message_key)) + message


def lost_write(tables: Tables) -> Cases:
    """A write that happened, below the highest place read, that no ok operation polled.

    Evidence: key, value, index, max_read_index, writer, max_read (first reader of a value at the highest place; null
    if there is none). Where offsets conflict, or values stand at several, we take the lowest place of what was read
    and the highest of what should have been: only certain losses count. What lies above is not lost but unseen.
    """
    first, last, key = tables.message_first, tables.message_last, tables.message_key
    known = first != NONE
    bound = np.full(len(tables.history.keys), NONE, np.int64)
    read = np.flatnonzero(tables.message_ok_read & known)
    np.maximum.at(bound, key[read], first[read])
    due = known & ~tables.message_ok_read & (last <= bound[key]) & (tables.message_writer != NONE)
    lost = np.flatnonzero(due)
    lost = lost[tables.committed[tables.message_writer[lost]]]
    lost = lost[np.argsort(first[lost], kind="stable")]

    at_bound = np.flatnonzero(known & (last == bound[key]) & (tables.message_first_reader != NONE))
    max_read = np.full(len(bound), NEVER, np.int64)
    np.minimum.at(max_read, key[at_bound], tables.message_first_reader[at_bound])

    def case(number: int) -> Case:
        message = int(lost[number])
        reader = int(max_read[key[message]])
        slot = int(bound[key[message]])
        return {
            **tables.named(message),
            "index": tables.index(int(first[message])),
            "offset": int(tables.slot_offset[first[message]]),
            "max_read_index": tables.index(slot),
            "writer": tables.op(tables.message_writer[message]),
            "max_read": None if reader == NEVER else tables.op(reader),
        }

    return Cases(len(lost), case)


def unseen_messages(tables: Tables) -> tuple[Column, Column, Column]:
    """Return (message, row from which it is unseen, row from which it is not) of all that were ever unseen.

    A message is unseen from the operation that got its acknowledgement until the first ok operation that polled it
    (NEVER: to the end). One that was polled before its acknowledgement came never was.
    """
    history = tables.history
    count = len(tables.message_key)
    sent = np.full(count, NEVER, np.int32)
    acknowledged = np.flatnonzero(history.type[history.send_op] == OK)[::-1]
    sent[tables.send_message[acknowledged]] = history.send_op[acknowledged]
    seen = np.full(count, NEVER, np.int32)
    ok_reads = np.flatnonzero(history.type[tables.read_op] == OK)[::-1]
    seen[tables.read_message[ok_reads]] = tables.read_op[ok_reads]
    messages = np.flatnonzero((sent != NEVER) & (seen > sent))
    return messages, sent[messages], seen[messages]


def unseen(tables: Tables) -> Cases:
    """Acknowledged and never polled, at the end: one case with time, unseen {key: n}, messages {key: values}."""
    messages, _, seen = unseen_messages(tables)
    messages = messages[seen == NEVER]
    history = tables.history
    rows = np.flatnonzero((history.type == OK) & (history.f <= TXN))

    def case(_: int) -> Case:
        by_key: dict[str, list[Any]] = {}
        for message in messages:
            by_key.setdefault(tables.key(message), []).append(tables.value(message))
        return {
            "time": int(history.time[rows[-1]]),
            "unseen": {key: len(values) for key, values in by_key.items()},
            "messages": by_key,
        }

    return Cases(min(1, len(messages)), case)
