"""What a run found, as violations: places, hence keys, are those of online (CONTRACTS "Place of a violation").

Example: the probes at offsets 10 to 12 and 14 are lost, and 13 was a transaction's marker. Offsets 10 to 12 are one run
of records, 14 is another; since nothing can have survived between them, both are one violation of four records.

Cases are gathered batch by batch, so that memory grows with the number of runs and not with the number of cases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canary.anomalies import policy
from canary.anomalies.violation import MOST_RUNS, Records, Violation, following
from canary.probe.identity import Identity
from spark_reconcile.match.anomalies import ANOMALIES, FRACTURED, LOST_WRITE, NightlyAnomaly
from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.parquet import result_batches

if TYPE_CHECKING:
    Numbers = NDArray[np.int64]

Case = dict[str, Any]
Modes = dict[tuple[str, str], set[str]]
"""The modes of the probes of each (cluster, topic)."""

_OF_OFFSET: Final = pa.array([anomaly.kind for anomaly in ANOMALIES.values() if anomaly.of_offset])
_SINGLE: Final = pa.array([anomaly.kind for anomaly in ANOMALIES.values() if anomaly.single])
_BATCH: Final = 1 << 16
_NOT_KNOWN: Final[Mapping[Place, int]] = {}
_HELD: Final = 20_000
"""The most runs that are held to be joined into ranges."""


class _Group(NamedTuple):
    """What all cases of one violation have in common."""

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    kind: str
    mode: str | None


class _Run(NamedTuple):
    """Cases of consecutive records: the first, the last, and all of their places."""

    first: Case
    last: Case
    records: Records
    stood_us: int
    """When the first of them was acknowledged, or sent; 0: that is not known of each."""

    @property
    def anomaly(self) -> NightlyAnomaly:
        """What they are cases of."""
        return ANOMALIES[self.first["kind"]]


def violations(
    out: str, at_ns: int, reconciliation: str | None = None, dumped_ns: Mapping[Place, int] = _NOT_KNOWN
) -> Iterator[tuple[str, Violation]]:
    """Yield (cluster, violation) for the anomalies of a run, in ranges; expiries one a partition or topic, as online.

    ``dumped_ns`` has until when each partition was read: by then all that is wrong in it had happened.
    """
    finder = _Finder(modes(out), at_ns, reconciliation, dumped_ns)
    single: dict[tuple[str, str, int | None, str], tuple[int, Case, int]] = {}
    held: dict[_Group, list[_Run]] = defaultdict(list)
    count = 0
    for run in _runs(out):
        case = run.first
        if run.anomaly.once_a is not None:
            partition = case["partition"] if run.anomaly.once_a == "partition" else None
            place = case["cluster"], case["topic"], partition, case["kind"]
            before, first, stood_us = single.get(place, (0, case, run.stood_us))
            first = min(first, case, key=itemgetter("partition", "offset"))
            single[place] = before + run.records.size, first, min(stood_us, run.stood_us)
            continue
        held[_Group(*(case[name] for name in _Group._fields))].append(run)
        count += 1
        if count >= _HELD:
            yield from finder.join(held)
            held.clear()
            count = 0
    yield from finder.join(held)
    for number, case, stood_us in single.values():
        yield case["cluster"], finder.violation(case, stood_us, number)


def modes(out: str) -> Modes:
    """Return the modes of a run's probes, from its table/: a record that only the log holds does not name its own."""
    found: Modes = defaultdict(set)
    for batch in result_batches(out, "table", _BATCH, ["cluster", "topic", "mode"]):
        for row in batch.to_pylist():
            found[row["cluster"], row["topic"]].add(row["mode"])
    return found


def _runs(out: str) -> Iterator[_Run]:
    """Yield the rows of a run's anomalies/, in runs."""
    for batch in result_batches(out, "anomalies", _BATCH):
        if batch.num_rows:
            yield from _runs_of(pa.Table.from_batches([batch]))


def _runs_of(cases: pa.Table) -> Iterator[_Run]:
    keys = (*_Group._fields, "offset", "producer_id", "generation", "sequence")
    cases = cases.take(pc.sort_indices(cases, sort_keys=[(name, "ascending") for name in keys]))
    offset, producer_id, generation, sequence = (_numbers(cases.column(name)) for name in keys[-4:])
    kind = cases.column("kind")
    goes_on = (np.diff(offset) == 1) & (offset[:-1] >= 0) & ~pc.is_in(kind, _SINGLE).to_numpy()[1:]
    for name in _Group._fields:
        goes_on &= np.diff(_codes(cases.column(name))) == 0
    next_one = (np.diff(producer_id) == 0) & (np.diff(generation) == 0) & (np.diff(sequence) == (producer_id[1:] >= 0))
    goes_on &= next_one | pc.is_in(kind, _OF_OFFSET).to_numpy()[1:]
    starts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    ends = np.append(starts[1:], cases.num_rows)
    firsts, lasts = (cases.take(pa.array(rows)).to_pylist() for rows in (starts, ends - 1))
    stood = pc.coalesce(cases.column("acked_at"), cases.column("sent_at")).cast("int64").fill_null(0).to_numpy()
    sizes, stood_us = (ends - starts).tolist(), np.minimum.reduceat(stood, starts).tolist()
    for first, last, size, at_us in zip(firsts, lasts, sizes, stood_us, strict=True):
        yield _Run(first, last, Records(first["offset"], size, _identity(first)), max(at_us, 0))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    """Return a column of numbers, none of which is negative; -1 is null."""
    numbers: Numbers = column.fill_null(-1).to_numpy()
    return numbers


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return equal numbers for equal values, null being one of them."""
    codes: Numbers = column.combine_chunks().dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
    return codes


def _identity(case: Case) -> Identity | None:
    """Return the identity that is part of a case's place; None where there is none."""
    if case["producer_id"] is None or ANOMALIES[case["kind"]].of_offset:
        return None
    return Identity(case["producer_id"], case["generation"], case["partition"], case["sequence"])


def _ranges(runs: list[_Run], lost: list[tuple[int, int]]) -> Iterator[list[_Run]]:
    """Yield ranges: between two runs of a range there is nothing, a marker, or only what is ``lost``."""
    found: list[_Run] = []
    for run in sorted(runs, key=lambda one: -1 if one.records.offset is None else one.records.offset):
        if found and (len(found) == MOST_RUNS or not _goes_on(found[-1], run, lost)):
            yield found
            found = []
        found.append(run)
    if found:
        yield found


def _goes_on(before: _Run, after: _Run, lost: list[tuple[int, int]]) -> bool:
    if before.records.offset is None or after.records.offset is None or after.anomaly.single:
        return False
    gap = after.records.offset - before.records.offset - before.records.size
    if gap <= 0:
        return gap == 0
    i = bisect_right(lost, before.records.offset, key=itemgetter(0)) - 1
    if i >= 0 and after.records.offset <= lost[i][1]:
        return True
    transactions = before.last["transaction_id"], after.first["transaction_id"]
    following_one = following(_identity(before.last), 1) == _identity(after.first)
    return gap == 1 and following_one and None not in transactions and transactions[0] != transactions[1]


def _spans(runs: list[_Run]) -> list[tuple[int, int]]:
    """Return the first and last offset of ranges, ascending."""
    ends = [(joined[0].first["offset"], joined[-1].last["offset"]) for joined in _ranges(runs, [])]
    return [(first, last) for first, last in ends if first is not None]


@dataclass(frozen=True, slots=True)
class _Finder:
    """Makes violations of a run's cases."""

    modes: Modes
    at_ns: int
    reconciliation: str | None
    dumped_ns: Mapping[Place, int]

    def join(self, held: dict[_Group, list[_Run]]) -> Iterator[tuple[str, Violation]]:
        """Yield the violations of runs that belong together."""
        lost = {group: _spans(runs) for group, runs in held.items() if group.kind == LOST_WRITE.kind}
        for group, runs in held.items():
            spans = lost.get(group._replace(kind=LOST_WRITE.kind), []) if group.kind == FRACTURED.kind else []
            for joined in _ranges(runs, spans):
                found = self.violation(joined[0].first, min(run.stood_us for run in joined))
                violation = found.about([run.records for run in joined])
                if violation.count > 1:
                    evidence = {**violation.evidence, "last": _evidence(joined[-1].last)}
                    violation = replace(violation, summary=ANOMALIES[group.kind].many, evidence=evidence)
                yield group.cluster, violation

    def violation(self, case: Case, stood_us: int, count: int = 1) -> Violation:
        """Return the violation of one case, or of ``count`` cases of a partition, of which this is the first.

        ``stood_us``: when all records still stood there; 0: that is not known.
        """
        anomaly = ANOMALIES[case["kind"]]
        evidence = _evidence(case)
        if self.reconciliation is not None:
            evidence["reconciliation"] = self.reconciliation
        if count > 1:
            evidence["count"] = count
        own = {case["mode"]} if case["mode"] is not None else self.modes.get((case["cluster"], case["topic"]), set())
        at = f"offset {case['offset']}" if case["offset"] is not None else "an unknown offset"
        return Violation(
            kind=anomaly.kind,
            severity=policy.severity(anomaly.kind, *own),
            topic=case["topic"],
            topic_id=case["topic_id"] or "",
            partition=None if anomaly.once_a == "topic" else case["partition"],
            offset=None if anomaly.once_a == "topic" else case["offset"],
            identity=None if anomaly.once_a is not None else _identity(case),
            mode=next(iter(own)) if len(own) == 1 else None,
            at_ns=self.at_ns,
            by="reconcile",
            summary=f"{anomaly.one}: {at}" + (f" and {count - 1} more" if count > 1 else ""),
            evidence=evidence,
        ).since(stood_us * 1000, self.dumped_ns.get(Place(case["cluster"], case["topic"], case["partition"])))


def _evidence(case: Case) -> dict[str, Any]:
    evidence = {
        name: case[name] if not hasattr(case[name], "isoformat") else case[name].isoformat()
        for name in ("transaction_id", "sent_at", "acked_at", "found_offset")
        if case[name] is not None
    }
    if case["producer_id"] is not None and (ANOMALIES[case["kind"]].once_a is not None or _identity(case) is None):
        evidence["identity"] = [case["producer_id"], case["generation"], case["partition"], case["sequence"]]
    return evidence | (orjson.loads(case["evidence"]) if case["evidence"] is not None else {})
