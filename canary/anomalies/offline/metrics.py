"""Numbers about a history that are no errors: lag behind real time, unseen messages over time, consumption, orders."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from canary.anomalies.offline.read_rules import NEVER, unseen_messages
from canary.anomalies.offline.tables import Tables
from canary.history.columns import ASSIGN, INFO, OK, POLL, SUBSCRIBE, TXN, UNKNOWN, Column, History


def realtime_lag(history: History) -> list[dict[str, Any]]:
    """Return for each ok poll or txn, and each key its process held: time (of its invocation), process, key, lag in ns.

    The lag is the least time for which what the process had seen of the key cannot have been all of it. Once an
    offset is known to any process, every position below it is outdated, from then on at the latest. An assign starts
    new keys before offset 0 and keeps the others; a subscribe forgets all of them until they are polled.
    """
    records: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    by_op: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for op, key, offset in _highest_offsets(history):
        by_op[op].append((key, offset))
        offsets, times = records[key]
        if not offsets or offset > offsets[-1]:
            offsets.append(offset)
            times.append(int(history.time[op]))
    held: defaultdict[int, list[int]] = defaultdict(list)
    for op, key in zip(history.held_op.tolist(), history.held_key.tolist(), strict=True):
        held[op].append(key)
    positions: dict[int, dict[int, int]] = {}
    points: list[dict[str, Any]] = []
    for row in np.flatnonzero(history.type == OK):
        op, function, process = int(row), history.f[row], int(history.process[row])
        if function == ASSIGN:
            before = positions.get(process, {})
            positions[process] = {key: before.get(key, -1) for key in held[op]}
        elif function == SUBSCRIBE:
            positions[process] = {}
        elif function in (POLL, TXN):
            mine = positions.setdefault(process, {})
            for key, offset in by_op.get(op, ()):
                mine[key] = max(mine.get(key, -1), offset)
            began = int(history.time[history.invocation[row]])
            for key, position in mine.items():
                offsets, times = records[key]
                place = bisect_left(offsets, position + 1)
                lag = max(0, began - times[place]) if place < len(offsets) else 0
                points.append({"time": began, "process": process, "key": history.keys[key], "lag": lag})
    return points


def worst_realtime_lag(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the point with the greatest lag; ``{"time": 0, "lag": 0}`` if there are none."""
    return max(points, key=lambda point: point["lag"], default={"time": 0, "lag": 0})


def _highest_offsets(history: History) -> list[tuple[int, int, int]]:
    """Return (row, key, highest offset sent or polled) for each ok or info completion, in order."""
    full = np.flatnonzero(history.segment_length > 0)
    highest = np.maximum.reduceat(history.read_offset, history.segment_start[full]) if len(full) else full
    op = np.concatenate((history.segment_op[full], history.send_op))
    key = np.concatenate((history.segment_key[full], history.send_key))
    offset = np.concatenate((highest, history.send_offset))
    type_ = history.type[op]
    rows = np.flatnonzero(((type_ == OK) | (type_ == INFO)) & (offset != UNKNOWN))
    rows = rows[np.lexsort((offset[rows], key[rows], op[rows]))]
    op, key, offset = op[rows], key[rows], offset[rows]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = (op[1:] != op[:-1]) | (key[1:] != key[:-1])
    return list(zip(op[last].tolist(), key[last].tolist(), offset[last].tolist(), strict=True))


def unseen_changes(tables: Tables) -> tuple[Column, Column, Column]:
    """Return (row, key, +1 or -1): when messages become unseen and when they stop being so, in order of rows."""
    messages, since, until = unseen_messages(tables)
    ended = until != NEVER
    row = np.concatenate((since, until[ended]))
    key = np.concatenate((tables.message_key[messages], tables.message_key[messages[ended]]))
    change = np.concatenate((np.ones(len(since), np.int64), np.full(int(ended.sum()), -1)))
    order = np.argsort(row, kind="stable")
    return row[order], key[order], change[order]


def unseen_series(tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield after each ok send, poll and txn: time, unseen {key: how many are acknowledged and not polled}."""
    history = tables.history
    rows, keys, changes = (column.tolist() for column in unseen_changes(tables))
    sent = np.flatnonzero(history.type[history.send_op] == OK)
    sent_op, sent_key = history.send_op[sent].tolist(), history.send_key[sent].tolist()
    counts: dict[str, int] = {}
    place = sent_place = 0
    for row in np.flatnonzero((history.type == OK) & (history.f <= TXN)).tolist():
        while sent_place < len(sent_op) and sent_op[sent_place] <= row:
            counts.setdefault(history.keys[sent_key[sent_place]], 0)
            sent_place += 1
        while place < len(rows) and rows[place] <= row:
            counts[history.keys[keys[place]]] += changes[place]
            place += 1
        yield {"time": int(history.time[row]), "unseen": dict(counts)}


def consume_counts(tables: Tables) -> dict[str, Any]:
    """Return how often processes that had subscribed consumed each message, in their ok polls.

    ``distribution`` maps a number of times to how many (process, message) there are; ``dup_counts`` maps key to value
    to number, where it is more than one. Exactly-once processing would make every number 1.
    """
    history = tables.history
    since: dict[int, int] = {}
    for row in np.flatnonzero((history.type == OK) & (history.f == SUBSCRIBE)).tolist():
        since.setdefault(int(history.process[row]), row)
    counts: Counter[tuple[int, int]] = Counter()
    for process, first in since.items():
        mine = (history.process == process) & (history.type == OK)
        mine[:first] = False
        counts.update((process, int(m)) for m in tables.read_message[mine[tables.read_op]])
    twice: dict[str, dict[str, int]] = {}
    for (_, message), count in sorted(counts.items()):
        if count > 1:
            of_key = twice.setdefault(tables.key(message), {})
            value = str(tables.value(message))
            of_key[value] = max(count, of_key.get(value, 0))
    distribution = {str(times): many for times, many in sorted(Counter(counts.values()).items())}
    return {"distribution": distribution, "dup_counts": twice}


def version_orders(tables: Tables) -> dict[str, list[Any]]:
    """Return for each key its values in order of their offsets, one for each offset known."""
    orders: dict[str, list[Any]] = {}
    for key, message in zip(tables.slot_key.tolist(), tables.slot_message.tolist(), strict=True):
        orders.setdefault(tables.history.keys[key], []).append(tables.value(message))
    return orders
