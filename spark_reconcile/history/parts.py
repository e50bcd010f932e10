"""Histories in parts: the rows of a stretch that concern some keys, and such parts of all stretches joined again."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from canary.history.columns import ASSIGN, COLUMNS, SUBSCRIBE, History

Column = NDArray[Any]

_OF_OPERATIONS = ("index", "time", "process", "type", "f", "line")


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a history that concern some of its keys.

    Attributes:
        history: Its operations are those that send, poll or hold one of the keys, and every assign and subscribe.
        senders: Whether each of them sends anything, to whatever key.
        order: Place of each poll segment among all of its operation, whatever their keys.
    """

    history: History
    senders: Column
    order: Column


def parts(history: History, buckets: int) -> list[Part]:
    """Return the part of each bucket's keys."""
    bucket = np.asarray([zlib.crc32(key.encode()) % buckets for key in history.keys] or [0])
    sends = np.zeros(len(history) + 1, np.bool_)
    sends[history.send_op] = True
    first = np.searchsorted(history.segment_op, history.segment_op)
    order = np.arange(len(history.segment_op)) - first
    return [_part(history, bucket == number, sends, order) for number in range(buckets)]


def _part(history: History, wanted: Column, sends: Column, order: Column) -> Part:
    changes = (history.f == ASSIGN) | (history.f == SUBSCRIBE)
    rows = {
        "send": np.flatnonzero(wanted[history.send_key]),
        "segment": np.flatnonzero(wanted[history.segment_key]),
        "held": np.flatnonzero(wanted[history.held_key]),
        "rebalanced": np.flatnonzero(wanted[history.rebalanced_key]),
    }
    needed = changes.copy()
    for name in ("send", "segment"):
        needed[getattr(history, f"{name}_op")[rows[name]]] = True
    ops = np.flatnonzero(needed)
    number = np.full(len(history) + 1, -1)
    number[ops] = np.arange(len(ops))
    columns = {name: getattr(history, name)[ops] for name in _OF_OPERATIONS}
    rebalanced = rows["rebalanced"]
    rows["rebalanced"] = rebalanced[number[history.rebalanced_op[rebalanced]] >= 0]
    for name, chosen in rows.items():
        columns |= {n: getattr(history, n)[chosen] for n in COLUMNS if n.startswith(f"{name}_")}
        columns[f"{name}_op"] = number[columns[f"{name}_op"]]
    length = columns["segment_length"].astype(np.int64)
    start = np.cumsum(length) - length
    reads = np.arange(int(length.sum())) + np.repeat(columns["segment_start"] - start, length)
    columns |= {name: getattr(history, name)[reads] for name in COLUMNS if name.startswith("read_")}
    columns["segment_start"] = start
    part = replace(history, operations=len(ops), invocation=np.full(len(ops), -1), **columns)
    return Part(part, sends[ops], order[rows["segment"]])


def save(part: Part, path: Path) -> None:
    """Write a part to ``path``."""
    columns = {name: getattr(part.history, name) for name in COLUMNS}
    with path.open("wb") as file:
        np.savez(file, names=names(part.history), senders=part.senders, order=part.order, **columns)


def names(history: History) -> Column:
    """Return as JSON in bytes what the codes of a history's keys and values stand for."""
    described = {"keys": history.keys, "first_code": history.first_code, "others": history.other_values}
    return np.frombuffer(orjson.dumps(described), np.uint8)


def load(paths: Sequence[Path], source: str) -> Part:
    """Return the parts at ``paths``, in this order, as one."""
    keys: dict[str, int] = {}
    others: dict[tuple[type, Any], int] = {}
    gathered: dict[str, list[Column]] = {name: [] for name in (*COLUMNS, "senders", "order")}
    coded: list[tuple[Column, Column]] = []
    highest = ops = reads = polls = 0
    for path in paths:
        with np.load(path) as stored:
            columns = {name: stored[name] for name in gathered}
            names = orjson.loads(stored["names"].tobytes())
        key = np.asarray([keys.setdefault(name, len(keys)) for name in names["keys"]] or [0])
        for name in ("send_key", "segment_key", "held_key", "rebalanced_key"):
            columns[name] = key[columns[name]]
        for name in ("send_op", "segment_op", "held_op", "rebalanced_op"):
            columns[name] = columns[name].astype(np.int64) + ops
        columns["segment_start"] = columns["segment_start"] + reads
        columns["segment_poll"] = columns["segment_poll"].astype(np.int64) + polls
        other = np.asarray([others.setdefault((type(v), v), len(others)) for v in names["others"]] or [0])
        for name in ("send_value", "read_value"):
            values = columns[name].astype(np.int64)
            mask = values >= names["first_code"]
            highest = max(highest, int(values[~mask].max(initial=0)))
            values[mask] = other[values[mask] - names["first_code"]]
            columns[name] = values
            coded.append((values, mask))
        ops += len(columns["index"])
        reads += len(columns["read_value"])
        polls = int(columns["segment_poll"].max(initial=polls)) + 1
        for name, column in columns.items():
            gathered[name].append(column)
    for values, mask in coded:
        values[mask] += highest + 1
    joined: dict[str, Any] = {
        name: np.concatenate(columns) if columns else np.zeros(0, np.int64) for name, columns in gathered.items()
    }
    senders, order = joined.pop("senders"), joined.pop("order")
    history = History(
        source=source,
        operations=ops,
        invocation=np.full(ops, -1),
        keys=list(keys),
        first_code=highest + 1,
        other_values=[value for _, value in others],
        **joined,
    )
    return Part(history, senders, order)
