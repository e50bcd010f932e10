"""What a run found, as violations: places, hence keys, are those of online (CONTRACTS "Place of a violation")."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import fsspec.core
import orjson
import pyarrow.parquet as pq

from canary.anomalies import policy
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
_OF_THE_OFFSET: Final = frozenset({"inconsistent-offsets", "corrupt", "G0"})
_BATCH: Final = 4096


def cases(out: str) -> Iterator[Case]:
    """Yield the rows of a run's anomalies/."""
    fs, root = fsspec.core.url_to_fs(f"{out.rstrip('/')}/anomalies")
    for path in sorted(fs.find(root)):
        with fs.open(path, "rb") as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(_BATCH):
                yield from batch.to_pylist()


def modes(out: str) -> Modes:
    """Return the modes of a run's probes, from its table/: what is only found in a log does not say its own."""
    fs, root = fsspec.core.url_to_fs(f"{out.rstrip('/')}/table")
    found: Modes = defaultdict(set)
    for path in fs.find(root):
        with fs.open(path, "rb") as file:
            for row in pq.read_table(file, columns=["cluster", "topic", "mode"]).to_pylist():
                found[row["cluster"], row["topic"]].add(row["mode"])
    return found


def violations(out: str, at_ns: int, reconciliation: str | None = None) -> Iterator[tuple[str, Violation]]:
    """Yield (cluster, violation) for each anomaly of a run; early expiries one a partition, as online."""
    known = modes(out)
    early: dict[tuple[str, str, int], tuple[int, Case]] = {}
    for case in cases(out):
        if case["kind"] == "early-expiry":
            place = case["cluster"], case["topic"], case["partition"]
            count, first = early.get(place, (0, case))
            early[place] = count + 1, min(first, case, key=lambda one: one["offset"])
        else:
            yield case["cluster"], _violation(case, known, at_ns, reconciliation)
    for (cluster, _, _), (count, case) in early.items():
        yield cluster, _violation(case, known, at_ns, reconciliation, count)


def _violation(case: Case, known: Modes, at_ns: int, reconciliation: str | None, count: int = 1) -> Violation:
    kind = case["kind"]
    identity = None
    if case["producer_id"] is not None:
        identity = Identity(case["producer_id"], case["generation"], case["partition"], case["sequence"])
    own = identity if kind not in _OF_THE_OFFSET and kind != "early-expiry" else None
    evidence = {
        name: case[name] if not hasattr(case[name], "isoformat") else case[name].isoformat()
        for name in ("transaction_id", "sent_at", "acked_at", "found_offset")
        if case[name] is not None
    }
    if identity is not None and own is None:
        evidence["identity"] = list(identity)
    if case["evidence"] is not None:
        evidence |= orjson.loads(case["evidence"])
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
