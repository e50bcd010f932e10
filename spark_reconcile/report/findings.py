"""What a run found, as violations: places, hence keys, are those of online (CONTRACTS "Place of a violation").

Cases at consecutive offsets, of consecutive probes, are one run of records; runs between which nothing can have
survived are one violation. They are gathered batch by batch, so that what is held grows with breaks and not with cases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fsspec.core
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from canary.anomalies import policy
from canary.anomalies.violation import MOST_RUNS, Records, Violation, following
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

Case = dict[str, Any]
Modes = dict[tuple[str, str], set[str]]
"""The modes of the probes of each (cluster, topic)."""

_WORDS: Final[Mapping[str, str]] = {
    "lost-write": "an acknowledged write is not in the topic",
    "duplicate": "one probe stands at two offsets",
    "inconsistent-offsets": "two probes claim one offset",
    "corrupt": "a record that bears our magic and tag is damaged",
    "phantom": "the topic holds an intact probe that was never sent",
    "G1a": "a write that is definitely not committed can be read",
    "fractured-transaction": "a transaction committed, and this write of it is not there",
    "early-expiry": "promised records are gone that retention does not explain",
    "G0": "transactions wrote before and after one another",
}
_PLURAL: Final[Mapping[str, str]] = {
    "lost-write": "acknowledged writes are not in the topic",
    "duplicate": "probes stand at two offsets each",
    "inconsistent-offsets": "two probes each claim the offsets",
    "corrupt": "records that bear our magic and tag are damaged",
    "phantom": "the topic holds intact probes that were never sent",
    "G1a": "writes that are definitely not committed can be read",
    "fractured-transaction": "transactions committed, and writes of theirs are not there",
}
_OF_THE_OFFSET: Final = frozenset({"inconsistent-offsets", "corrupt", "G0"})
_ALONE: Final = "G0"
"""Each case is about a circle of transactions, not about a record."""
_EARLY: Final = "early-expiry"
_SMALL: Final = 4096
_BATCH: Final = 1 << 16
_HELD: Final = 20_000
"""Runs that are held at most, to be put together."""
_GROUP: Final = ("cluster", "topic", "topic_id", "partition", "kind", "mode")
_Group = tuple[Any, ...]


class _Run(NamedTuple):
    """Cases of consecutive records: the first, the last, and all of their places."""

    first: Case
    last: Case
    records: Records


def violations(out: str, at_ns: int, reconciliation: str | None = None) -> Iterator[tuple[str, Violation]]:
    """Yield (cluster, violation) for the anomalies of a run, in ranges; early expiries one a partition, as online."""
    known = modes(out)
    early: dict[tuple[str, str, int], tuple[int, Case]] = {}
    held: dict[_Group, list[_Run]] = {}
    count = 0
    for run in _runs(out):
        case = run.first
        if case["kind"] == _EARLY:
            place = case["cluster"], case["topic"], case["partition"]
            before, first = early.get(place, (0, case))
            early[place] = before + run.records.size, min(first, case, key=lambda one: one["offset"])
            continue
        held.setdefault(tuple(case[name] for name in _GROUP), []).append(run)
        count += 1
        if count >= _HELD:
            yield from _put_together(held, known, at_ns, reconciliation)
            held, count = {}, 0
    yield from _put_together(held, known, at_ns, reconciliation)
    for (cluster, _, _), (n, case) in early.items():
        yield cluster, _violation(case, known, at_ns, reconciliation, n)


def cases(out: str) -> Iterator[Case]:
    """Yield the rows of a run's anomalies/."""
    for batch in _batches(out, _SMALL):
        yield from batch.to_pylist()


def _runs(out: str) -> Iterator[_Run]:
    """Yield the rows of a run's anomalies/, in runs."""
    for batch in _batches(out, _BATCH):
        yield from _runs_of(pa.Table.from_batches([batch]))


def _batches(out: str, rows: int) -> Iterator[pa.RecordBatch]:
    fs, root = fsspec.core.url_to_fs(f"{out.rstrip('/')}/anomalies")
    for path in sorted(fs.find(root)):
        with fs.open(path, "rb") as file, pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(rows)


def modes(out: str) -> Modes:
    """Return the modes of a run's probes, from its table/: what is only found in a log does not say its own."""
    fs, root = fsspec.core.url_to_fs(f"{out.rstrip('/')}/table")
    found: Modes = defaultdict(set)
    for path in fs.find(root):
        with fs.open(path, "rb") as file:
            for row in pq.read_table(file, columns=["cluster", "topic", "mode"]).to_pylist():
                found[row["cluster"], row["topic"]].add(row["mode"])
    return found


def _runs_of(cases: pa.Table) -> Iterator[_Run]:
    keys = (*_GROUP, "offset", "producer_id", "generation", "sequence")
    cases = cases.take(pc.sort_indices(cases, sort_keys=[(name, "ascending") for name in keys]))
    if not cases.num_rows:
        return
    offset, producer_id, generation, sequence = (_numbers(cases.column(name)) for name in keys[-4:])
    goes_on = (np.diff(offset) == 1) & (offset[:-1] >= 0) & (pc.not_equal(cases.column("kind"), _ALONE).to_numpy()[1:])
    for name in _GROUP:
        goes_on &= np.diff(_codes(cases.column(name))) == 0
    next_one = (np.diff(producer_id) == 0) & (np.diff(generation) == 0) & (np.diff(sequence) == (producer_id[1:] >= 0))
    goes_on &= next_one | pc.is_in(cases.column("kind"), pa.array(sorted(_OF_THE_OFFSET))).to_numpy()[1:]
    starts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    ends = np.append(starts[1:], cases.num_rows)
    firsts, lasts = (cases.take(pa.array(rows)).to_pylist() for rows in (starts, ends - 1))
    for first, last, size in zip(firsts, lasts, (ends - starts).tolist(), strict=True):
        yield _Run(first, last, Records(first["offset"], size, _identity(first)))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    """Return a column of numbers, none of which is negative; -1 is null."""
    numbers: Numbers = column.fill_null(-1).to_numpy()
    return numbers


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return equal numbers for equal values, null being one of them."""
    codes: Numbers = column.combine_chunks().dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
    return codes


def _identity(case: Case) -> Identity | None:
    """Return whose place it is; None where the offset alone is the place, or nobody is known."""
    if case["producer_id"] is None or case["kind"] in _OF_THE_OFFSET:
        return None
    return Identity(case["producer_id"], case["generation"], case["partition"], case["sequence"])


def _put_together(
    held: dict[_Group, list[_Run]], known: Modes, at_ns: int, reconciliation: str | None
) -> Iterator[tuple[str, Violation]]:
    lost = {(*group[:4], group[5]): _spans(runs) for group, runs in held.items() if group[4] == "lost-write"}
    for group, runs in held.items():
        spans = lost.get((*group[:4], group[5]), []) if group[4] == "fractured-transaction" else []
        for together in _together(runs, spans):
            first, last = together[0].first, together[-1].last
            records = [run.records for run in together]
            violation = _violation(first, known, at_ns, reconciliation).about(records)
            if violation.count > 1:
                evidence = {**violation.evidence, "last": _evidence(last)}
                violation = replace(violation, summary=_PLURAL[group[4]], evidence=evidence)
            yield group[0], violation


def _together(runs: list[_Run], spans: list[tuple[int, int]]) -> Iterator[list[_Run]]:
    """Yield ranges: between two of a range's runs there is nothing, a marker, or only what is lost (``spans``)."""
    found: list[_Run] = []
    for run in sorted(runs, key=lambda one: -1 if one.records.offset is None else one.records.offset):
        if found and (len(found) == MOST_RUNS or not _goes_on(found[-1], run, spans)):
            yield found
            found = []
        found.append(run)
    if found:
        yield found


def _goes_on(before: _Run, after: _Run, spans: list[tuple[int, int]]) -> bool:
    if before.records.offset is None or after.records.offset is None or after.first["kind"] == _ALONE:
        return False
    gap = after.records.offset - before.records.offset - before.records.size
    if gap <= 0:
        return gap == 0
    i = bisect_right(spans, before.records.offset, key=itemgetter(0)) - 1
    if i >= 0 and after.records.offset <= spans[i][1]:
        return True
    transactions = before.last["transaction_id"], after.first["transaction_id"]
    following_one = following(_identity(before.last), 1) == _identity(after.first)
    return gap == 1 and following_one and None not in transactions and transactions[0] != transactions[1]


def _spans(runs: list[_Run]) -> list[tuple[int, int]]:
    """Return the first and last offset of ranges, ascending."""
    ends = [(together[0].first["offset"], together[-1].last["offset"]) for together in _together(runs, [])]
    return [(first, last) for first, last in ends if first is not None]


def _violation(case: Case, known: Modes, at_ns: int, reconciliation: str | None, count: int = 1) -> Violation:
    kind = case["kind"]
    own = _identity(case) if kind != _EARLY else None
    evidence = _evidence(case)
    if reconciliation is not None:
        evidence["reconciliation"] = reconciliation
    if count > 1:
        evidence["count"] = count
    of = {case["mode"]} if case["mode"] is not None else known.get((case["cluster"], case["topic"]), set())
    at = f"offset {case['offset']}" if case["offset"] is not None else "an offset nobody was told"
    return Violation(
        kind=kind,
        severity=policy.severity(kind, *of),
        topic=case["topic"],
        topic_id=case["topic_id"] or "",
        partition=case["partition"],
        offset=case["offset"],
        identity=own,
        mode=next(iter(of)) if len(of) == 1 else None,
        at_ns=at_ns,
        by="reconcile",
        summary=f"{_WORDS[kind]}: {at}" + (f" and {count - 1} more" if count > 1 else ""),
        evidence=evidence,
    )


def _evidence(case: Case) -> dict[str, Any]:
    evidence = {
        name: case[name] if not hasattr(case[name], "isoformat") else case[name].isoformat()
        for name in ("transaction_id", "sent_at", "acked_at", "found_offset")
        if case[name] is not None
    }
    if case["producer_id"] is not None and (case["kind"] == _EARLY or _identity(case) is None):
        evidence["identity"] = [case["producer_id"], case["generation"], case["partition"], case["sequence"]]
    return evidence | (orjson.loads(case["evidence"]) if case["evidence"] is not None else {})
