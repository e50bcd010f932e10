"""What tasks do to check a history: read a stretch of the file, and judge a bucket of keys."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from canary.anomalies.offline import tables as tables_module
from canary.anomalies.offline.cases import Case
from canary.anomalies.offline.cycles import Edges, read_dependencies, write_dependencies
from canary.anomalies.offline.tables import Tables
from canary.anomalies.offline.verdict import by_key
from canary.history.columns import INFO, INVOKE, OK, TXN, History
from canary.history.errors import HistoryError
from canary.history.operation import FUNCTIONS
from canary.history.pairing import UnpairedError, invocations
from canary.history.reading import load_stretch
from spark_reconcile.history import parts as history_parts

Column = NDArray[Any]

_APART = ("unseen", "precommitted-read")
"""Rules whose cases of several buckets are put together by the driver."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the file, as a task read it.

    ``error`` is (line within the stretch, reason); ``last_data`` is (index, time) of the last ok send, poll or txn.
    """

    lines: int
    operations: int = 0
    first_index: int | None = None
    first_line: int = 1
    last_index: int = -1
    confirmed: bool = False
    last_data: tuple[int, int] = (-1, 0)
    error: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A bucket of keys, as a task judged it.

    ``counts`` are those of the cases that it wrote, ``precommitted`` are (place in its operation, case), ``unseen`` is
    key to values; ``error`` is (number of the stretch, line within it, reason).
    """

    counts: dict[str, int] = field(default_factory=dict)
    precommitted: list[tuple[int, Case]] = field(default_factory=list)
    unseen: dict[str, list[Any]] = field(default_factory=dict)
    keys: int = 0
    error: tuple[int, int, str] | None = None


def read_stretch(path: Path, folder: Path, number: int, place: tuple[int, int], buckets: int) -> Stretch:
    """Parse the operations that begin at a place (from byte, to byte); write a part for each bucket."""
    try:
        with path.open("rb") as file:
            history, lines = load_stretch(file, str(path), *place)
    except HistoryError as error:
        return Stretch(0, error=(error.line, error.reason))
    whose = history.process % buckets
    for bucket, part in enumerate(history_parts.parts(history, buckets)):
        history_parts.save(part, folder / f"part-{bucket}-{number:06}.npz")
        rows = np.flatnonzero(whose == bucket)
        columns: dict[str, Any] = {name: getattr(history, name)[rows] for name in ("process", "type", "f", "line")}
        columns["f"] = np.minimum(columns["f"], len(FUNCTIONS))  # the numbers of others are this stretch's own
        np.savez(folder / f"processes-{bucket}-{number:06}.npz", **columns)
    data = np.flatnonzero((history.type == OK) & (history.f <= TXN))
    return Stretch(
        lines=lines,
        operations=history.operations,
        first_index=int(history.index[0]) if len(history) else None,
        first_line=int(history.line[0]) if len(history) else 1,
        last_index=int(history.index[-1]) if len(history) else -1,
        confirmed=len(data) > 0,
        last_data=(int(history.index[data[-1]]), int(history.time[data[-1]])) if len(data) else (-1, 0),
    )


def _part(path: Path, folder: Path, bucket: int) -> history_parts.Part:
    return history_parts.load(sorted(folder.glob(f"part-{bucket}-*.npz")), str(path))


def proofs(path: Path, folder: Path, bucket: int) -> Column:
    """Return the indexes of indeterminate operations that ok reads of the bucket's keys prove to have happened."""
    history = _part(path, folder, bucket).history
    base = tables_module.build(history)
    proven: Column = history.index[(history.type == INFO) & base.committed].astype(np.int64)
    return proven


def judge(path: Path, folder: Path, bucket: int, proven: Column) -> Judged:
    """Judge the bucket's keys; write cases and dependencies to files."""
    error = _pairing(folder, bucket)
    if error is not None:
        return Judged(error=error)
    part = _part(path, folder, bucket)
    history = part.history
    base = tables_module.build(history, np.flatnonzero(np.isin(history.index, proven) & (history.type == INFO)))
    counts = {}
    found = by_key(base)
    for name, cases in found.items():
        if name not in _APART:
            counts[name] = len(cases)
            with (folder / f"cases-{bucket}-{name}").open("wb") as file:
                file.writelines(orjson.dumps(case, option=orjson.OPT_APPEND_NEWLINE) for case in cases)
    senders = np.flatnonzero(part.senders & (history.type != INVOKE))
    _write_edges(base, write_dependencies(base), folder / f"edges-{bucket}-ww.npz")
    _write_edges(base, read_dependencies(base, senders), folder / f"edges-{bucket}-wr.npz")
    return Judged(
        counts=counts,
        precommitted=_precommitted(base, part, found["precommitted-read"]),
        unseen=dict(found["unseen"][0]["messages"]) if found["unseen"] else {},
        keys=len(set(history.segment_key.tolist()) | set(history.send_key.tolist())),
    )


def _precommitted(base: Tables, part: history_parts.Part, cases: Any) -> list[tuple[int, Case]]:
    """Return each case with the place of its read among all reads of its operation."""
    history = part.history
    placed = []
    for case in cases:
        row = int(np.searchsorted(history.index, case["op"]))
        segments = range(*np.searchsorted(history.segment_op, [row, row + 1]))
        for segment in segments:
            start = int(history.segment_start[segment])
            read = base.read_message[start : start + int(history.segment_length[segment])]
            if any(base.key(m) == case["key"] and base.value(m) == case["value"] for m in read.tolist()):
                placed.append((int(part.order[segment]), case))
                break
    return placed


def _write_edges(base: Tables, edges: Edges, path: Path) -> None:
    """Write edges between indexes of operations, with what explains them."""
    history: History = base.history
    if len(edges.wr) and edges.wr[0]:
        message = base.read_message[edges.why]
        columns: dict[str, Any] = {"value": base.message_value[message]}
    else:
        message = base.slot_message[edges.why]
        columns = {"value": base.message_value[message], "next": base.message_value[base.slot_message[edges.why + 1]]}
    np.savez(
        path,
        tail=history.index[edges.tail].astype(np.int64),
        head=history.index[edges.head].astype(np.int64),
        key=base.message_key[message],
        names=history_parts.names(history),
        **columns,
    )


def _pairing(folder: Path, bucket: int) -> tuple[int, int, str] | None:
    """Return the first operation of this bucket's processes that has no partner."""
    columns: dict[str, list[Column]] = {name: [] for name in ("process", "type", "f", "line", "stretch")}
    for path in sorted(folder.glob(f"processes-{bucket}-*.npz")):
        number = int(path.stem.rsplit("-", 1)[1])
        with np.load(path) as stored:
            for name in ("process", "type", "f", "line"):
                columns[name].append(stored[name])
            columns["stretch"].append(np.full(len(stored["process"]), number))
    if not columns["process"]:
        return None
    process, type_, function, line, stretch = (np.concatenate(parts) for parts in columns.values())
    try:
        invocations(process, type_, function)
    except UnpairedError as error:
        return int(stretch[error.row]), int(line[error.row]), error.reason
    return None
