"""Rules on order: do consumers skip or go back, do sends go up (ANOMALIES Part I, rules 7 to 10).

All of them compare two values u and v that follow each other, by delta = index of v - index of u in the version order:
1 is right, more is a skip, less is going back. If either has no index there, no error is made.

*Internal* rules look at neighbours within one operation, *external* ones at the last value of one operation and the
first of the next of the same process.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from canary.anomalies.offline.cases import MAX_SKIPPED, Case, Cases
from canary.anomalies.offline.tables import NONE, Tables
from canary.history.columns import ASSIGN, INFO, INVOKE, OK, SUBSCRIBE, Column


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs of messages that follow each other, with the operations of both (the same one for internal rules)."""

    left: Column
    right: Column
    left_op: Column
    right_op: Column

    def __getitem__(self, rows: Column) -> Self:
        """Return some of them."""
        return type(self)(self.left[rows], self.right[rows], self.left_op[rows], self.right_op[rows])


@dataclass(frozen=True, slots=True)
class Groups:
    """What each operation read (or sent), by key: one group for each (operation, key), sorted by both.

    ``first`` and ``last`` are messages, NONE for a group of nothing.
    """

    op: Column
    key: Column
    first: Column
    last: Column


def internal_polls(tables: Tables) -> tuple[Cases, Cases]:
    """Return the cases of (int-poll-skip, int-nonmonotonic-poll): key, values, delta, op, and what was skipped.

    A key that was rebalanced during the operation is excused for all of the operation.
    """
    history = tables.history
    place = tables.message_place[tables.read_message]
    wrong = _differ(place[:-1], place[1:])
    starts = history.segment_start[(history.segment_length > 0) & (history.segment_start > 0)]
    wrong[starts - 1] = False
    within = np.flatnonzero(wrong)
    _, (left, right) = _read_groups(tables)
    across = np.flatnonzero(_differ(place[left], place[right]))
    left, right = np.concatenate((within, left[across])), np.concatenate((within + 1, right[across]))
    order = np.lexsort((left, tables.read_op[left]))
    left, right = left[order], right[order]
    pairs = Neighbours(
        tables.read_message[left], tables.read_message[right], tables.read_op[left], tables.read_op[right]
    )
    keys = max(1, len(history.keys))
    excused = history.rebalanced_op.astype(np.int64) * keys + history.rebalanced_key
    pairs = pairs[~np.isin(pairs.left_op.astype(np.int64) * keys + tables.message_key[pairs.left], excused)]
    return _split(tables, pairs, internal=True)


def internal_sends(tables: Tables) -> tuple[Cases, Cases]:
    """Return the cases of (int-send-skip, int-nonmonotonic-send); fields as for polls. No rebalance excuses a send."""
    op, key, message = _completed_sends(tables)
    same = np.flatnonzero((op[1:] == op[:-1]) & (key[1:] == key[:-1]))
    place = tables.message_place[message]
    same = same[_differ(place[same], place[same + 1])]
    return _split(tables, Neighbours(message[same], message[same + 1], op[same], op[same]), internal=True)


def external_polls(tables: Tables) -> tuple[Cases, Cases]:
    """Return the cases of (poll-skip, nonmonotonic-poll): key, values, delta, ops, and what was skipped.

    Only an ok operation moves a consumer: after a failed or indeterminate one it has to be back where the last ok one
    left it. A key that is not among those of an assign or subscribe (ok or info) is forgotten; the others are kept.
    Neither rebalances nor seeks excuse anything here: under subscribe both are allowed to show, and are reported.
    """
    groups, _ = _read_groups(tables)
    return _split(tables, _consecutive(tables, groups, tables.history.type[groups.op] == OK), internal=False)


def external_sends(tables: Tables) -> Cases:
    """Return the cases of nonmonotonic-send: key, values, delta, ops. Failed sends are left out."""
    op, key, message = _completed_sends(tables)
    type_ = tables.history.type[op]
    counted = (type_ == OK) | (type_ == INFO)
    op, key, message = op[counted], key[counted], message[counted]
    first = np.ones(len(op), np.bool_)
    first[1:] = (op[1:] != op[:-1]) | (key[1:] != key[:-1])
    start = np.flatnonzero(first)
    end = np.append(start[1:], len(op)) - 1
    groups = Groups(op[start], key[start], message[start], message[end[: len(start)]])
    return _split(tables, _consecutive(tables, groups, np.ones(len(groups.op), np.bool_)), internal=False)[1]


def _completed_sends(tables: Tables) -> tuple[Column, Column, Column]:
    """Return operation, key and message of each send of a completion, sorted by operation, key and order of sending."""
    history = tables.history
    rows = np.flatnonzero(history.type[history.send_op] != INVOKE)
    op, key = history.send_op[rows], history.send_key[rows]
    several = np.flatnonzero((op[1:] == op[:-1]) & (key[1:] < key[:-1]))
    if len(several):
        order = np.lexsort((key, op))
        rows, op, key = rows[order], op[order], key[order]
    return op, key, tables.send_message[rows]


def _read_groups(tables: Tables) -> tuple[Groups, tuple[Column, Column]]:
    """Return what each operation read by key, and neighbouring reads across polls of one operation."""
    history = tables.history
    op, key, length = history.segment_op, history.segment_key, history.segment_length
    rows = np.arange(len(op))
    if len(op) > 1 and not ((op[1:] > op[:-1]) | ((op[1:] == op[:-1]) & (key[1:] > key[:-1]))).all():
        rows = np.lexsort((history.segment_poll, key, op))
        op, key, length = op[rows], key[rows], length[rows]
    begins = np.ones(len(op), np.bool_)
    begins[1:] = (op[1:] != op[:-1]) | (key[1:] != key[:-1])
    group = np.cumsum(begins) - 1
    groups = int(begins.sum())
    full = np.flatnonzero(length > 0)
    head = history.segment_start[rows[full]]
    tail = head + length[full] - 1
    first, last = np.full(groups, NONE, np.int64), np.full(groups, NONE, np.int64)
    first[group[full][::-1]] = tables.read_message[head[::-1]]
    last[group[full]] = tables.read_message[tail]
    joined = np.flatnonzero(group[full][1:] == group[full][:-1])
    return Groups(op[begins], key[begins], first, last), (tail[joined], head[joined + 1])


def _consecutive(tables: Tables, groups: Groups, moves: Column) -> Neighbours:
    """Return (last of the group before, first of this) for each process and key.

    ``moves`` marks the groups that a later one is compared to.
    """
    history = tables.history
    whose = tables.process[groups.op] * max(1, len(history.keys)) + groups.key
    order = np.argsort(whose, kind="stable")
    whose, moved = whose[order], moves[order]
    places = np.arange(len(order))
    start = np.ones(len(order), np.bool_)
    start[1:] = whose[1:] != whose[:-1]
    run_start = np.maximum.accumulate(np.where(start, places, 0)) if len(places) else places
    last_moved = np.maximum.accumulate(np.where(moved, places, -1)) if len(places) else places
    before = np.full(len(order), -1)
    before[1:] = last_moved[:-1]
    follows = np.flatnonzero(before >= run_start)
    left, right = order[before[follows]], order[follows]
    differing = _differ(_place(tables, groups.last[left]), _place(tables, groups.first[right]))
    left, right, whose = left[differing], right[differing], whose[follows][differing]
    kept = ~_dropped(tables, whose, groups.op[left], groups.op[right])
    left, right = left[kept], right[kept]
    in_time = np.argsort(groups.op[right], kind="stable")
    left, right = left[in_time], right[in_time]
    return Neighbours(groups.last[left], groups.first[right], groups.op[left], groups.op[right])


def _dropped(tables: Tables, whose: Column, since: Column, until: Column) -> Column:
    """Return for which (process, key) an assign or subscribe between two operations left out the key.

    There were fewer of them in between that name the key than there were of the process at all.
    """
    history = tables.history
    count = np.int64(len(history))
    keys = max(1, len(history.keys))
    done = (history.type == OK) | (history.type == INFO)
    changes = np.flatnonzero(done & ((history.f == ASSIGN) | (history.f == SUBSCRIBE)))
    all_changes = np.sort(tables.process[changes] * count + changes)
    naming = done[history.held_op]
    op = history.held_op[naming].astype(np.int64)
    pair = tables.process[op] * keys + history.held_key[naming]
    known = np.unique(whose)
    number = np.searchsorted(known, pair)
    here = number < len(known)
    here[here] = known[number[here]] == pair[here]
    named = np.unique(number[here] * count + op[here])

    def between(table: Column, owner: Column) -> Column:
        counts: Column = np.searchsorted(table, owner * count + until) - np.searchsorted(table, owner * count + since)
        return counts

    return between(all_changes, whose // keys) > between(named, np.searchsorted(known, whose))


def _place(tables: Tables, message: Column) -> Column:
    """Return the places of messages in the version order, NONE for no message."""
    if len(tables.message_place) == 0:
        return np.full(len(message), NONE)
    return np.where(message == NONE, NONE, tables.message_place[message])


def _differ(left: Column, right: Column) -> Column:
    """Return where both places are known and the right one is not the next after the left."""
    differ: Column = (left != NONE) & (right != NONE) & (right - left != 1)
    return differ


def _split(tables: Tables, pairs: Neighbours, *, internal: bool) -> tuple[Cases, Cases]:
    """Return the cases of skipping and of going back among ``pairs``, all of which have places."""
    before, after = tables.message_place[pairs.left], tables.message_place[pairs.right]
    delta = after.astype(np.int64) - before

    def cases(rows: Column) -> Cases:
        def case(number: int) -> Case:
            row = rows[number]
            left, right = int(pairs.left[row]), int(pairs.right[row])
            evidence: dict[str, Any] = {
                "key": tables.key(left),
                "values": [tables.value(left), tables.value(right)],
                "delta": int(delta[row]),
            }
            if internal:
                evidence["op"] = tables.op(pairs.left_op[row])
            else:
                evidence["ops"] = [tables.op(pairs.left_op[row]), tables.op(pairs.right_op[row])]
            if delta[row] > 1:
                skipped = range(before[row] + 1, min(after[row], before[row] + 1 + MAX_SKIPPED))
                evidence["skipped"] = [tables.value(tables.slot_message[slot]) for slot in skipped]
            return evidence

        return Cases(len(rows), case)

    return cases(np.flatnonzero(delta > 1)), cases(np.flatnonzero(delta < 1))
