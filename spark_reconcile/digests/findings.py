"""What a run of digests found, as violations and in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from canary.anomalies.violation import MOST_RUNS, Records, Violation
from spark_reconcile.digests.result import Digested, Finding
from spark_reconcile.digests.tree import Run
from spark_reconcile.report.application_records import KINDS, violation

_SHOWN: Final = 20
_NAMED: Final = 10
_LISTED: Final = 100
_UNPROVEN: Final = (
    "known records of compacted topics were not read again, and it is unknown whether their logs were cut: the last "
    "records that were known are compacted away."
)
_SUMMARIES: Final = {
    "lost": "A record that could be read when digests were last made is not in the log",
    "changed": "Where there was a record when digests were last made, there is another one",
    "replaced": "An election cut the log, and another record was written where there was one",
}


def violations(found: Digested, at_ns: int, reconciliation: str | None = None) -> Iterator[Violation]:
    """Yield a violation for all that was lost, or was changed, in a partition; more, if it is scattered a lot.

    Of what is changed one record is counted for each leaf, the first of it: which of them it is, is not known.
    """
    for one in found.findings:
        for start in range(0, len(one.runs), MOST_RUNS):
            yield _violation(one, one.runs[start : start + MOST_RUNS], (at_ns, reconciliation))


def _violation(found: Finding, runs: Sequence[Run], seen: tuple[int, str | None]) -> Violation:
    exact = found.kind != "changed"
    # what is lost since a person resolved a violation of the same offsets opens it again
    evidence: dict[str, Any] = {"by": "digests", "there_at": _time(found.there_ns), "since_ns": found.there_ns}
    if found.cut is not None:
        evidence["cut_at"] = found.cut
    if not exact:
        evidence["one_or_more_within"] = [[run.offset, run.end - 1] for run in runs[:_LISTED]]
        evidence["one_or_more_within_total"] = len(runs)
    records = [Records(run.offset, run.size if exact else 1, None) for run in runs]
    place = found.topic, found.topic_id, found.partition
    return violation(found.kind, place, records, seen, found.there_ns, _SUMMARIES[found.kind], evidence)


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what a run read, took over and found, from its `Digested.summary` or the reason why there is none."""
    if (error := summary.get("error")) is not None:
        return [f"Digests could not be made; of records written or lost since the last ones nothing is known: {error}"]
    known = f"{summary['records']:,} records in {summary['partitions']:,} partitions are known"
    said = [f"{known}; {summary['records_read']:,} were read, and {summary['verified']:,} are what they were."]
    if summary["since_ns"] is None:
        said.append("There were no digests to compare them with.")
    elif summary["begun"]:
        said.append(f"Nothing was known of {_names(summary['begun'])}: what is there now was compared with nothing.")
    since = f", of some since {_time(summary['oldest_ns'])}" if summary["oldest_ns"] else ""
    taken_over = (
        "known records were not read again: their logs were not cut, but whether each is still what it was is taken "
        f"over from before{since}."
    )
    for name, words in (
        ("taken_over", taken_over),
        ("unproven", _UNPROVEN),
        ("lost", "records are lost."),
        ("replaced", "records were cut by an election, and others were written in their place."),
        ("changed", "ranges of at most 64 offsets have one record or more that is another one."),
        ("expired", "known records expired."),
        ("compacted", "known records of compacted topics are gone: compaction may have removed them. Not judged."),
        ("not_compared", "records stand where others of their 64 offsets are gone: they could not be compared."),
    ):
        if summary.get(name):
            said.append(f"{summary[name]:,} {words}")
    return [*said, *_unknown(summary), *summary["notes"]]


def _unknown(summary: Mapping[str, Any]) -> Iterator[str]:
    unjudged = "partitions lack known records, and it is unknown whether their topics are compacted"
    for name, words in (
        ("unknown", "partitions had no leader: nothing is known of them now"),
        ("unjudged", unjudged),
        ("held", "partitions have new records behind an open transaction: they are digested once it has ended"),
    ):
        if places := summary[name]:
            yield f"{len(places):,} {words} ({_names([f'{topic}-{partition}' for topic, partition in places])})."
    if summary["missing"]:
        yield f"There is no topic {_names(summary['missing'])}."


def exit_status(found: Digested, *, keep: bool) -> int:
    """Return the exit status of a run on demand: 1 lost or changed, 3 something is unknown, else 0.

    What was compared with nothing is unknown, unless it is to ``keep`` for the first time.
    """
    if found.findings:
        return 1
    return 3 if found.not_known or (not keep and (found.begun or found.notes)) else 0


def document(found: Digested) -> dict[str, Any]:
    """Return a run as JSON values: its summary, and each finding with its runs as [first offset, last offset]."""
    rows = [
        {
            "topic": one.topic,
            "topic_id": one.topic_id,
            "partition": one.partition,
            "kind": KINDS[one.kind],
            "exact": one.kind != "changed",
            "cut_at": one.cut,
            "offsets": [[run.offset, run.end - 1] for run in one.runs],
        }
        for one in found.findings
    ]
    return found.summary() | {"findings": rows}


def text(cluster: str, found: Digested) -> str:
    """Return a run in lines for people."""
    lines = [f"{cluster}:", *sentences(found.summary())]
    for one in found.findings:
        runs = ", ".join(f"{run.offset} to {run.end - 1}" for run in one.runs[:_SHOWN])
        more = f" and {len(one.runs) - _SHOWN:,} more ranges" if len(one.runs) > _SHOWN else ""
        within = "changed: one or more in each of" if one.kind == "changed" else f"{one.kind}:"
        lines.append(f"{one.topic}, partition {one.partition}: {within} offsets {runs}{more}")
    return "\n".join([*lines, f"{found.seconds:.1f} s"])


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="seconds")
