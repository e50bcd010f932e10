"""One reconciliation: from two folders of Parquet to a folder of verdicts, summary and report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from canary.anomalies.policy import severity
from canary.metrics.statistics import loss_rate_upper_95
from spark_reconcile.job.inputs import Inputs, Issued, known_to_tasks, outlined
from spark_reconcile.job.ranges import LayoutError, chunks, mixed, plan
from spark_reconcile.job.sources import Again, Direct, Source, Spread
from spark_reconcile.job.tasks import FirstLook, Key, Known
from spark_reconcile.match import ordering
from spark_reconcile.match.anomalies import CORRUPT, FRACTURED, INCONSISTENT_OFFSETS, WRITE_CYCLE
from spark_reconcile.match.fractures import Fractures
from spark_reconcile.match.kernel import Unsettled
from spark_reconcile.match.merging import Bracket, add_up, revisits
from spark_reconcile.match.ordering import Step, Writes
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.report.lost_writes import LOST_SCHEMA
from spark_reconcile.report.lost_writes import write as write_lost
from spark_reconcile.report.output import (
    CASE_SCHEMA,
    PARTITION_SCHEMA,
    TABLE_SCHEMA,
    VERDICT_SCHEMA,
    Writer,
    day_table,
    partitions_table,
)
from spark_reconcile.report.page import render
from spark_reconcile.tables.bounds import Dumped, Place, described
from spark_reconcile.tables.writing import Folder, write_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Report:
    """The result of a run: ``summary`` is summary.json; ``seconds`` it took."""

    summary: dict[str, Any]
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """Return 1 with an anomaly, else 3 with something unjudged, else 0 (RECONCILIATION rule 19)."""
        if any(n and severity(name) != "info" for name, n in self.summary["anomalies"].items()):
            return 1
        return 3 if self.summary["unjudged"] else 0


def run(spark: SparkSession, inputs: Inputs, out: str, issued: Issued | None = None) -> Report:
    """Reconcile, and write the results to the folder ``out``.

    ``issued``: the highest generation ever begun, by producer id, as the store knows it. Records of a generation that
    the log does not have yet are late; records of a producer that it does not have are out of scope.

    Raises:
        BadInputError: a value or a page of the input is damaged; then there is no summary.json.
    """
    began = time.monotonic()
    folder = Folder(out)
    folder.begin()
    try:
        report = _Run(spark, inputs, folder, issued or {}).report()
        report.seconds = time.monotonic() - began
    finally:
        folder.clean()
    return report


@dataclass(slots=True)
class _Found:
    """What a run adds up: counts by partition, names of files in the work folder, partitions that are not judged."""

    total: VerdictCounts = field(default_factory=VerdictCounts)
    fractures: Fractures = field(default_factory=Fractures)
    counts: dict[Place, dict[str, int]] = field(default_factory=dict)
    tables: dict[Place, dict[tuple[str, int], Any]] = field(default_factory=dict)
    verdicts: list[str | None] = field(default_factory=list)
    cases: list[str | None] = field(default_factory=list)
    unjudged: list[Place] = field(default_factory=list)


class _Run:
    """One reconciliation. Every method is a step of `report`."""

    def __init__(self, spark: SparkSession, inputs: Inputs, folder: Folder, issued: Issued) -> None:
        self._issued = issued
        self._spark = spark
        self._inputs = inputs
        self._folder = folder
        self._writer = Writer(folder.work, inputs.dumped)

    def report(self) -> Report:
        """Reconcile; rows are written by partition first if the layout of the files demands it."""
        known = known_to_tasks(self._spark, self._inputs, self._folder.work, self._issued)
        ranges = plan(self._inputs.files, outlined(self._spark, mixed(self._inputs.files)))
        log.info("reconcile_planned", ranges=len(ranges or ()), layout="fast" if ranges is not None else "any")
        if ranges is not None:
            try:
                return self._with(Direct(self._spark, ranges, known, self._inputs.groups()), known)
            except LayoutError:
                log.warning("reconcile_layout_untrue", so="writing all rows by partition first")
        return self._with(Spread(self._spark, chunks(self._inputs.files), known), known)

    def _with(self, source: Source, known: Known) -> Report:
        """Settle every range, look again where a range cannot settle an identity, and add up each partition."""
        by_place: dict[Place, list[FirstLook]] = defaultdict(list)
        for first in source.first_looks():
            by_place[first.key[0]].append(first)
        second = self._second_looks(source, by_place)
        found = _Found()
        for place, looks in sorted(by_place.items()):
            self._add_up(found, place, looks, second, (source, known))
        broken = found.fractures.fractured()
        cycles, notes = self._cycles(source, by_place)
        found.cases += [self._writer.fractured(broken), self._writer.cycles(cycles)]
        found.total.add_cases(FRACTURED, len(broken))
        found.total.add_cases(WRITE_CYCLE, len(cycles))
        summary = _summary(found.total, found.unjudged, known.dumped)
        summary["notes"] += notes
        self._publish(found)
        page = render(summary, found.tables, self._folder.url, self._inputs.files)
        self._folder.text("report.html", page.encode())
        self._folder.text("summary.json", orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")
        return Report(summary)

    def _second_looks(self, source: Source, by_place: Mapping[Place, list[FirstLook]]) -> dict[Key, Unsettled]:
        """Sort the looks of each partition, and ask ranges for identities that other ranges cannot settle."""
        asked: dict[Key, Again] = {}
        for looks in by_place.values():
            looks.sort(key=lambda look: look.key[1])
            identities = [look.unsettled.identities() for look in looks]
            again = revisits([(who, look.runs) for who, look in zip(identities, looks, strict=True)])
            asked |= {
                look.key: Again(runs, who)
                for look, who, runs in zip(looks, identities, again, strict=True)
                if len(runs)
            }
        log.info("reconcile_looked", ranges=sum(map(len, by_place.values())), again=len(asked))
        return dict(source.second_looks(asked)) if asked else {}

    def _add_up(
        self,
        found: _Found,
        place: Place,
        looks: Sequence[FirstLook],
        second: Mapping[Key, Unsettled],
        within: tuple[Source, Known],
    ) -> None:
        """Add up the looks of a partition."""
        source, known = within
        partition = known.partition(place)
        keys = [look.key for look in looks]
        added = add_up(
            [look.verdict_counts for look in looks],
            [look.unsettled for look in looks],
            [second.get(look.key, Unsettled.concat([])) for look in looks],
            partition,
            lambda who: reduce(Bracket.narrowed, source.brackets(keys, who), Bracket.unknown(len(who))),
        )
        found.total += added.verdict_counts
        found.counts[place], found.tables[place] = added.verdict_counts.by_verdict(), added.verdict_counts.table
        for look, retracted in zip(looks, added.retracted, strict=True):
            found.fractures.merge(look.fractures.without(place, retracted))
            verdicts, cases = (
                self._writer.without(name, retracted) if name and len(retracted) else name for name in look.written
            )
            found.verdicts.append(verdicts)
            found.cases += [cases, self._writer.disputed(place, look.conflicts, look.damaged)]
            found.total.add_cases(INCONSISTENT_OFFSETS, len(look.conflicts))
            found.total.add_cases(CORRUPT, len(look.damaged))
        found.fractures.add(place, added.concluded.probes, added.concluded.judgement)
        for verdicts, cases in self._writer.concluded(place, added.concluded):
            found.verdicts.append(verdicts)
            found.cases.append(cases)
        if partition.bounds is None and added.verdict_counts.notes["promised"]:
            found.unjudged.append(place)

    def _cycles(self, source: Source, looks: Mapping[Place, list[FirstLook]]) -> tuple[list[list[Step]], list[str]]:
        """Return the smallest cycles of transactions, and notes on clusters with too many dependencies."""
        cycles: list[list[Step]] = []
        notes = []
        for cluster in sorted({place.cluster for place in looks}):
            orders = {place: [look.order for look in some] for place, some in looks.items() if place.cluster == cluster}
            within = ordering.stretches(orders.values())
            if not len(within[0]):
                continue
            keys = [look.key for place in orders for look in looks[place] if look.order.edges]
            most = max(10_000, 4 * ordering.MOST_EDGES // max(1, len(keys)))
            found = {place: [ordering.seams(some, within)] for place, some in orders.items()}
            count, cut = 0, False
            for key, (number, tail, head) in source.edges(keys, within, most) if keys else ():
                count, cut = count + number, cut or number > most
                found[key[0]].append((tail, head))
            if cut or count > ordering.MOST_EDGES:
                notes.append(
                    f"cluster {cluster}: no cycles (G0) were looked for: {count:,} dependencies between transactions "
                    f"may lie on one, more than {ordering.MOST_EDGES:,}"
                )
                continue
            edges = {
                place: (Writes.concat([tail for tail, _ in some]), Writes.concat([head for _, head in some]))
                for place, some in found.items()
            }
            cycles += ordering.cycles(edges)
        return cycles, notes

    def _publish(self, found: _Found) -> None:
        work = self._folder.work
        partitions = write_part(work, partitions_table(found.counts))
        table = write_part(work, day_table(found.tables))
        lost = write_lost(work, found.cases)
        self._folder.publish("lost", [lost], LOST_SCHEMA)
        self._folder.publish("verdicts", found.verdicts, VERDICT_SCHEMA)
        self._folder.publish("anomalies", found.cases, CASE_SCHEMA)
        self._folder.publish("partitions", [partitions], PARTITION_SCHEMA)
        self._folder.publish("table", [table], TABLE_SCHEMA)


def _summary(total: VerdictCounts, unjudged: list[Place], dumped: Dumped) -> dict[str, Any]:
    table = total.total()
    attempted, acked, lost = table["attempted"], table["acked"], table["acked_lost"]
    anomalies = {name: n for name, n in sorted(total.anomalies.items()) if n}
    notes = []
    single = sorted(place for place, bounds in dumped.bounds.items() if not bounds.both)
    if single:
        shown = "; ".join(map(described, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        notes.append(
            f"no read_uncommitted bounds for {shown}: what was acknowledged at or above the last stable offset stays "
            f"pending ({total.notes['blind']} acknowledged probes)"
        )
        log.warning("reconcile_without_read_uncommitted", partitions=len(single))
    if total.notes["moved"]:
        notes.append(f"{total.notes['moved']} probes were found at another offset than the one acknowledged")
    return {
        "summary": {
            **table,
            "ack_rate": acked / attempted if attempted else None,
            "loss_rate": lost / acked if acked else None,
            "unacked_but_successful_rate": table["unacked_found"] / acked if acked else None,
            "loss_rate_upper_95": loss_rate_upper_95(lost, acked),
        },
        "anomalies": anomalies,
        "verdicts": total.by_verdict(),
        "unverified": total.notes["unverified"],
        "voided": total.notes["voided"],
        "unjudged": [place._asdict() for place in unjudged],
        "notes": notes,
    }
