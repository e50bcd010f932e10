"""What a check of receipts found, as violations, as JSON and in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, Final

from canary.anomalies.violation import MOST_RUNS, Records, Violation
from spark_reconcile.receipts.check import BAD, UNKNOWN, VERDICTS, Checked, Run
from spark_reconcile.report.application_records import violation

_SUMMARIES: Final = {
    "lost": "A record whose producer has a receipt is not in the log",
    "changed": "Where a producer has a receipt for its record, there is another one",
}
_SHOWN: Final = 20
_LISTED: Final = 10_000


def violations(found: Checked, at_ns: int, reconciliation: str | None = None) -> Iterator[Violation]:
    """Yield a violation for all that was lost, or was changed, in a partition; more, if it is scattered a lot."""
    for (topic, partition, verdict), group in groupby(found.runs, lambda run: (run.topic, run.partition, run.verdict)):
        while some := list(islice(group, MOST_RUNS)):
            acked_us = min(one.acked_from for one in some)
            evidence = {"by": "receipts", "acked_from": _time(acked_us)}
            evidence["acked_to"] = _time(max(one.acked_to for one in some))
            records = [Records(one.first, one.last - one.first + 1, None) for one in some]
            place, seen = (topic, found.topic_ids.get(topic), partition), (at_ns, reconciliation)
            yield violation(verdict, place, records, seen, acked_us * 1000, _SUMMARIES[verdict], evidence)


def document(found: Checked) -> dict[str, Any]:
    """Return a check as JSON values; of its ranges the largest ones, as [first offset, last offset]."""
    coverage = found.coverage
    ranges = found.runs.largest(_LISTED)
    return {
        "cluster": found.cluster,
        "verdicts": {verdict: found.total(verdict) for verdict in VERDICTS},
        "reasons": dict(found.why),
        "unmatched": list(found.unmatched),
        "partitions": [
            {"topic": topic, "partition": partition, **counts}
            for (topic, partition), counts in sorted(found.counts.items())
        ],
        "ranges": [
            {
                "topic": run.topic,
                "partition": run.partition,
                "verdict": run.verdict,
                "offsets": [run.first, run.last],
                "acked_from": _time(run.acked_from),
                "acked_to": _time(run.acked_to),
            }
            for run in sorted(ranges.items, key=lambda run: (run.topic, run.partition, run.first))
        ],
        "ranges_total": ranges.total,
        "ranges_truncated": ranges.truncated,
        "coverage": {
            name: getattr(coverage, name)
            for name in ("files", "missing", "open", "dropped", "failed", "aborted", "elsewhere")
        }
        | {"unreadable": list(coverage.unreadable)},
        "seconds": round(found.seconds, 1),
    }


def sentences(found: Checked) -> list[str]:
    """Return what a check found."""
    coverage = found.coverage
    receipts = sum(map(found.total, VERDICTS))
    said = [
        f"{receipts:,} receipts in {coverage.files:,} files: {found.total('present'):,} records are where they were."
    ]
    for verdict, words in (
        ("lost", "records are lost."),
        ("changed", "records are not what they were."),
        ("expired", "records expired: they are before the start of the log."),
        ("compacted", "records of compacted topics are gone: compaction may have removed them. Not judged."),
        ("recreated", "receipts are of a topic that was deleted and made again since. Not judged."),
        ("in-doubt", "records of transactions whose end the producer never learned are not there. Not judged."),
    ):
        if number := found.total(verdict):
            said.append(f"{number:,} {words}")
    if found.counts and not found.judged:
        said.append("No receipt could be held against its record: whether the records survive is not known.")
    said += [f"There are no receipts of {one}: nothing is known of its records." for one in found.unmatched]
    said += [f"{number:,} records could not be judged: {UNKNOWN[one]}." for one, number in sorted(found.why.items())]
    for number, words in (
        (coverage.dropped, "receipts were dropped by producers: nothing is known of those records."),
        (coverage.missing, "files are missing between others."),
        (
            coverage.open,
            "producers have not closed their receipts: they live, or were killed; their last receipts are not here.",
        ),
        (coverage.elsewhere, "files are of other clusters, and were left out."),
        (len(coverage.unreadable), "files or folders could not be read."),
    ):
        if number:
            said.append(f"{number:,} {words}")
    return [*said, *coverage.unreadable[:_SHOWN], *_ranges(found)]


def _ranges(found: Checked) -> list[str]:
    shown = found.runs.largest(_SHOWN)
    said = [_sentence(run) for run in shown.items]
    if shown.truncated:
        records = sum(map(found.total, BAD))
        said.insert(0, f"{shown.words('largest', 'ranges').capitalize()} ({records:,} records):")
    if left_out := found.runs.total - found.runs.table.num_rows:
        said.append(f"{left_out:,} ranges are counted above, and not recorded as violations.")
    return said


def _sentence(run: Run) -> str:
    acked = f"acknowledged {_time(run.acked_from)} to {_time(run.acked_to)}"
    return f"{run.topic}, partition {run.partition}: {run.verdict}: offsets {run.first} to {run.last}, {acked}"


def _time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")
