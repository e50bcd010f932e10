"""What this run found against what the store already knew: every difference with its reason.

A run finds what online checks find, and what only a re-read can know. Why it did not find what was found online follows
from what it judged: the record expired since, its topic was created anew, it is beyond the dump, it was found after the
dump was taken, or it is in the topic after all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_reconcile.match.anomalies import ANOMALIES, LOST_WRITE
from spark_reconcile.tables.parquet import result_batches
from storage.store import Store
from storage.store.values import StoredViolation, ViolationFilter

KINDS: Final = frozenset(anomaly.kind for anomaly in ANOMALIES.values() if anomaly.compared)
"""What both decide, with one violation for each case."""
MOST: Final = 20_000
"""Violations looked at."""
UNEXPLAINED: Final = "not explained: look at both"


@dataclass(slots=True)
class Compared:
    """Numbers of records found by both, by this run only (by kind), and online only (by kind and reason)."""

    both: int = 0
    only_here: Counter[str] = field(default_factory=Counter)
    only_online: Counter[tuple[str, str]] = field(default_factory=Counter)

    def sentences(self) -> list[str]:
        """Return the comparison in words."""
        lines = [f"{self.both:,} violations were found online, too"] if self.both else []
        lines += [
            f"{count:,} {kind} not found online: only a re-read can know them"
            for kind, count in sorted(self.only_here.items())
        ]
        lines += [
            f"{count:,} {kind} found online and not here: {why}"
            for (kind, why), count in sorted(self.only_online.items())
        ]
        return lines or ["nothing was found, online or here"]


def compare(
    store: Store, cluster: str, at_ns: int, bounds: Iterable[Mapping[str, Any]], out: str, dumped_ns: int
) -> Compared:
    """Compare a run of ``cluster`` with what the store, which has recorded the run, knows from elsewhere.

    ``at_ns`` is the time of the run's sightings, ``bounds`` are the rows of the dump's bounds/, ``out`` is the folder
    of the run's results, ``dumped_ns`` is when the dump began.
    """
    compared = Compared()
    missing = []
    for violation in _known(store, cluster):
        if violation.kind not in KINDS:
            continue
        here = any(one.by == "reconcile" and one.at_ns == at_ns for one in violation.sightings)
        elsewhere = any(one.by != "reconcile" for one in violation.sightings)
        if here and elsewhere:
            compared.both += violation.count
        elif here:
            compared.only_here[violation.kind] += violation.count
        elif elsewhere:
            missing.append(violation)
    judged = _verdicts(out, missing)
    levels = {(row["topic"], row["partition"], row["isolation"]): row for row in bounds}
    for violation in missing:
        compared.only_online[violation.kind, _why(violation, levels, judged, dumped_ns)] += violation.count
    return compared


def _known(store: Store, cluster: str) -> Iterator[StoredViolation]:
    cursor: str | None = None
    seen = 0
    while seen < MOST:
        page = store.violations.page(ViolationFilter(cluster=cluster), cursor, 500)
        yield from page.items
        seen += len(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return


def _why(  # noqa: PLR0911  # one reason a line, the first that fits
    violation: StoredViolation,
    levels: Mapping[tuple[str, int, str], Mapping[str, Any]],
    judged: Mapping[tuple[str, int, int, int, int], str],
    dumped_ns: int,
) -> str:
    row = levels.get((violation.topic, violation.partition or 0, "read_committed"))
    if row is None:
        return "its partition was not dumped"
    if violation.topic_id and row["topic_id"] and violation.topic_id != row["topic_id"]:
        return "its topic has been made anew since"
    if violation.offset is not None and violation.offset < row["earliest_offset"]:
        return "expired since: the log begins above it"
    if violation.first_seen_ns > dumped_ns:
        return "found after the dump was taken"
    if violation.identity is not None:
        who = violation.identity
        verdict = judged.get((violation.topic, who.partition, who.producer_id, who.generation, who.sequence))
        if verdict is not None:
            return f"judged {verdict} here"
        if violation.kind == LOST_WRITE.kind:
            return "it is in the topic now, or its ledger is not in the probe log"
    if violation.offset is not None and violation.offset >= row["end_offset"]:
        return "beyond the end of the dump"
    return UNEXPLAINED


def _verdicts(out: str, missing: Sequence[StoredViolation]) -> dict[tuple[str, int, int, int, int], str]:
    """Return the verdicts of these violations' identities, of those that did not plainly survive."""
    sequences = {violation.identity.sequence for violation in missing if violation.identity is not None}
    if not sequences:
        return {}
    wanted = pa.array(sorted(sequences), pa.int64())
    found = {}
    for batch in result_batches(out, "verdicts", 1 << 16):
        for row in batch.filter(pc.is_in(batch.column("sequence"), wanted)).to_pylist():
            who = (row["producer_id"], row["generation"], row["sequence"])
            found[row["topic"], row["partition"], *who] = row["verdict"]
    return found
