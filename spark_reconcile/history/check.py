"""``canary check --engine spark``: a history that is too large for one process, key by key.

Nearly every rule looks at one key at a time, so the history is cut twice. Tasks parse stretches of the file and divide
each by buckets of keys; other tasks put each bucket together and judge it, with the code that judges a whole history
(canary.anomalies.offline). Two things cross keys. A read of any of its values proves an indeterminate operation, so the
buckets are asked for proofs first. And cycles go through many keys: buckets write down dependencies, and the driver
goes over them twice, with one number an operation in memory, to drop those that can be on no cycle, before it looks
for cycles in the rest.

Tasks exchange files in a folder (that of TMPDIR, which all workers must see, as they must see the history). Cases are
files, too, and read one by one: the driver's memory does not grow with the number of cases, and by a few bytes for each
operation.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.offline import Options
from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.cycles import Edges, cases_of, joined, shortest_cycles
from canary.anomalies.offline.verdict import Conclusion
from canary.history.errors import HistoryError
from spark_reconcile.history.tasks import Judged, Stretch, judge, proofs, read_stretch
from spark_reconcile.job.session import session

STRETCH = 32 << 20
"""Bytes of the file that a task parses."""
BUCKET = 96 << 20
"""Bytes of the file for each bucket of keys, about."""


class StoredCases(Sequence[Case]):
    """Cases in files of JSON lines, one a bucket; read when they are looked at."""

    def __init__(self, counts: Mapping[Path, int]) -> None:
        self._counts = {path: count for path, count in counts.items() if count}

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[Case]:
        """Read one after the other."""
        for path in self._counts:
            with path.open("rb") as file:
                yield from map(orjson.loads, file)

    def __getitem__(self, place: Any) -> Any:
        """Return a case, or those of a slice as a list."""
        wanted = range(len(self))[place]
        if isinstance(wanted, int):
            return next(islice(self, wanted, None))
        return list(islice(self, wanted.start, wanted.stop, wanted.step))


@dataclass(frozen=True, slots=True)
class SparkVerdict(Conclusion):
    """What is wrong with a history, the number of its ``keys``, and its file."""

    keys: int
    source: str


@contextmanager
def check_file(
    path: Path, options: Options, *, spark: Any = None, stretch: int = STRETCH, buckets: int | None = None
) -> Iterator[SparkVerdict]:
    """Check the history at ``path`` (JSON Lines) and yield the verdict, whose cases can be read within the block.

    Every worker must see the file. ``spark``: a session to use; None starts one and stops it. ``stretch``: bytes of the
    file for a task. ``buckets``: how many groups of keys; None: by the size of the file.

    Raises:
        HistoryError: the history cannot be read; says where and why.
        OSError: there is no such file.
    """
    size = path.stat().st_size
    buckets = buckets or max(2, size // BUCKET)
    with path.open("rb") as file:
        if file.read(1024).lstrip()[:1] not in (b"{", b""):
            raise HistoryError(str(path), 1, "--engine spark reads JSON Lines only (not EDN)")
    with (
        tempfile.TemporaryDirectory(prefix="canary-check-") as directory,
        session("canary check", light=True) if spark is None else nullcontext(spark) as at_work,
    ):
        yield _check(at_work, path, options, Path(directory), size, stretch, buckets)


def _check(
    spark: Any, path: Path, options: Options, folder: Path, size: int, stretch: int, buckets: int
) -> SparkVerdict:
    context = spark.sparkContext
    starts = range(0, size, stretch)
    cuts = [(number, (start, min(start + stretch, size))) for number, start in enumerate(starts)]

    def on_all(what: str, items: Sequence[Any], task: Any) -> list[Any]:
        context.setJobGroup("check", f"check: {what} {path.name}")
        return list(context.parallelize(list(items), max(1, len(items))).map(task).collect()) if items else []

    stretches = on_all("read", cuts, lambda cut: read_stretch(path, folder, cut[0], cut[1], buckets))
    _raise_errors(path, stretches)
    proven = np.unique(
        np.concatenate(
            [
                np.zeros(0, np.int64),
                *on_all("find what proves writes in", range(buckets), lambda b: proofs(path, folder, b)),
            ]
        )
    )
    shared = context.broadcast(proven)
    judged = on_all("judge the keys of", range(buckets), lambda b: judge(path, folder, b, shared.value))
    _raise_unpaired(path, judged, stretches)
    confirmed = any(s.confirmed for s in stretches)
    last = max((s.last_data for s in stretches), default=(-1, 0))
    anomalies: dict[str, Sequence[Case]] = {}
    for name in judged[0].counts if judged else ():
        anomalies[name] = StoredCases({folder / f"cases-{b}-{name}": one.counts[name] for b, one in enumerate(judged)})
    anomalies["precommitted-read"] = _once_an_operation(judged)
    anomalies["unseen"] = _unseen(judged, last[1])
    highest = max((s.last_index for s in stretches), default=-1)
    if options.ww_deps:
        anomalies["G0"] = _cycles(folder, buckets, highest + 1, kinds=("ww",))
    anomalies["G1c"] = _cycles(folder, buckets, highest + 1, kinds=("ww", "wr") if options.ww_deps else ("wr",))
    return SparkVerdict(
        anomalies={name: anomalies[name] for name in CATALOGUE if anomalies.get(name)},
        allowed=options.allowed,
        operations=sum(s.operations for s in stretches),
        confirmed=confirmed,
        keys=sum(one.keys for one in judged),
        source=str(path),
    )


def _raise_errors(path: Path, stretches: Sequence[Stretch]) -> None:
    """Raise the first stretch's error, with the line counted from the beginning of the file."""
    before, last = 0, -1
    for one in stretches:
        if one.error is not None:
            raise HistoryError(str(path), before + one.error[0], one.error[1])
        if one.first_index is not None and one.first_index <= last:
            raise HistoryError(str(path), before + one.first_line, f"index {one.first_index} comes after index {last}")
        before += one.lines
        last = max(last, one.last_index)


def _raise_unpaired(path: Path, judged: Sequence[Judged], stretches: Sequence[Stretch]) -> None:
    """Raise the first operation that has no partner."""
    found = [one.error for one in judged if one.error is not None]
    if found:
        number, line, reason = min(found)
        raise HistoryError(str(path), sum(one.lines for one in stretches[:number]) + line, reason)


def _once_an_operation(judged: Sequence[Judged]) -> Cases:
    """Return one case an operation: of its own values that it polled, the one that it polled first."""
    first: dict[int, Case] = {}
    for _, case in sorted((placed for one in judged for placed in one.precommitted), key=itemgetter(0)):
        first.setdefault(case["op"], case)
    cases = [first[op] for op in sorted(first)]
    return Cases(len(cases), cases.__getitem__)


def _unseen(judged: Sequence[Judged], time: int) -> Cases:
    messages = {key: values for one in judged for key, values in one.unseen.items()}
    case = {"time": time, "unseen": {key: len(values) for key, values in messages.items()}, "messages": messages}
    return Cases(min(1, len(messages)), lambda _: case)


def _cycles(folder: Path, buckets: int, nodes: int, *, kinds: tuple[str, ...]) -> Cases:
    """Return the cases of cycles over the dependencies of all buckets."""

    def of_bucket(number: int) -> Edges:
        parts = []
        for kind in kinds:
            with np.load(folder / f"edges-{number}-{kind}.npz") as stored:
                why = np.arange(len(stored["tail"])) * buckets + number
                parts.append(Edges(stored["tail"], stored["head"], np.full(len(why), kind == "wr"), why))
        return joined(parts)

    covered = np.zeros(nodes + 1, np.int32)
    leads, led_to = np.zeros(nodes + 1, np.bool_), np.zeros(nodes + 1, np.bool_)
    for number in range(buckets):
        edges = of_bucket(number)
        back = edges.tail > edges.head
        np.add.at(covered, edges.head[back], np.int32(1))
        np.add.at(covered, edges.tail[back], np.int32(-1))
        leads[edges.tail] = True
        led_to[edges.head] = True
    np.cumsum(covered, out=covered)
    stretch = np.concatenate((np.zeros(1, np.int32), np.cumsum(covered == 0, dtype=np.int32)[:-1]))
    kept = []
    for number in range(buckets):
        edges = of_bucket(number)
        kept.append(
            edges[np.flatnonzero((stretch[edges.tail] == stretch[edges.head]) & led_to[edges.tail] & leads[edges.head])]
        )
    cycles = shortest_cycles(joined(kept), nodes, need_wr="wr" in kinds) if kept else []
    return cases_of(cycles, int, partial(_evidence, folder, buckets))


def _evidence(folder: Path, buckets: int, edges: Edges, n: int) -> dict[str, Any]:
    """Return key and values of an edge."""
    row, number = divmod(int(edges.why[n]), buckets)
    wr = bool(edges.wr[n])
    with np.load(folder / f"edges-{number}-{'wr' if wr else 'ww'}.npz") as stored:
        names = orjson.loads(stored["names"].tobytes())
        columns = ("value",) if wr else ("value", "next")

        def value(code: int) -> Any:
            return names["others"][code - names["first_code"]] if code >= names["first_code"] else code

        return {"key": names["keys"][int(stored["key"][row])]} | {c: value(int(stored[c][row])) for c in columns}
