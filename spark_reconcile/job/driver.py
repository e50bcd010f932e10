"""The Spark job: from two folders of Parquet to verdicts."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from canary.anomalies.policy import severity
from canary.metrics.statistics import loss_rate_upper_95
from spark_reconcile import ordering
from spark_reconcile.bounding import described
from spark_reconcile.fractures import Fractures
from spark_reconcile.inputs import LayoutUntrueError, believed, known_to_tasks, outlined
from spark_reconcile.lost import LOST_SCHEMA
from spark_reconcile.lost import write as write_lost
from spark_reconcile.merging import Bracket, wanted, whole
from spark_reconcile.ordering import Writes
from spark_reconcile.output import (
    CASE_SCHEMA,
    PARTITION_SCHEMA,
    TABLE_SCHEMA,
    VERDICT_SCHEMA,
    Folder,
    Writer,
    day_table,
    partitions_table,
)
from spark_reconcile.ranges import chunks, mixed, plan
from spark_reconcile.report import render
from spark_reconcile.sources import Direct, Shuffled, Source
from spark_reconcile.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from spark_reconcile.bounding import Dumped, Place
    from spark_reconcile.columns import Identities
    from spark_reconcile.inputs import Inputs, Issued
    from spark_reconcile.kernel import Residue
    from spark_reconcile.ordering import Step
    from spark_reconcile.tasks import FirstLook, Key, Known

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Report:
    """What a run found. ``summary`` is summary.json; ``cases`` counts anomalies by name; ``seconds`` it took."""

    summary: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """Return 1 with an anomaly, else 3 with something unjudged, else 0 (RECONCILIATION rule 19)."""
        if any(n and severity(name) != "info" for name, n in self.summary["anomalies"].items()):
            return 1
        return 3 if self.summary["unjudged"] else 0


def run(spark: SparkSession, inputs: Inputs, out: str, issued: Issued | None = None) -> Report:
    """Reconcile, and write what was found to the folder ``out``.

    Args:
        spark: the session.
        inputs: what `inputs.look` saw.
        out: a folder or URL.
        issued: the highest generation ever begun, by producer id, as the store knows it: one that the log does not
            hold yet is late, and a producer that it does not hold out of its scope; neither is strange.

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


class _Run:
    """One reconciliation. Every method is a step of `report`."""

    def __init__(self, spark: SparkSession, inputs: Inputs, folder: Folder, issued: Issued) -> None:
        self._issued = issued
        self._spark = spark
        self._inputs = inputs
        self._folder = folder
        self._writer = Writer(folder.work, inputs.dumped)

    def report(self) -> Report:
        """Do it all."""
        known = known_to_tasks(self._spark, self._inputs, self._folder.work, self._issued)
        ranges = plan(self._inputs.files, outlined(self._spark, mixed(self._inputs.files)))
        log.info("reconcile_planned", ranges=len(ranges or ()), layout="fast" if ranges is not None else "any")
        if ranges is not None:
            try:
                return self._with(Direct(self._spark, ranges, known, self._inputs.groups()), known)
            except LayoutUntrueError:
                log.warning("reconcile_layout_untrue", so="reading everything through a shuffle")
        return self._with(Shuffled(self._spark, chunks(self._inputs.files), known), known)

    def _with(self, source: Source, known: Known) -> Report:
        """Settle every range, look again where the residue says so, and add up each partition."""
        by_place: dict[Place, list[FirstLook]] = defaultdict(list)
        for result in source.first_looks():
            first: FirstLook = believed(result)
            by_place[first.key[0]].append(first)
        said: dict[Key, Identities] = {}
        runs = {}
        for looks in by_place.values():
            looks.sort(key=lambda look: look.key[1])
            identities = [look.residue.identities() for look in looks]
            again = wanted([(who, look.runs) for who, look in zip(identities, looks, strict=True)])
            for look, who, ask in zip(looks, identities, again, strict=True):
                if len(ask):
                    said[look.key], runs[look.key] = who, ask
        second = dict(map(believed, source.second_looks(runs, said))) if runs else {}
        log.info("reconcile_looked", ranges=sum(map(len, by_place.values())), again=len(runs))
        total, fractures = Tally(), Fractures()
        counts: dict[Place, dict[str, int]] = {}
        tables: dict[Place, dict[tuple[str, int], Any]] = {}
        places: dict[str, int] = {"inconsistent-offsets": 0, "corrupt": 0}
        verdicts: list[str] = []
        cases: list[str] = []
        unjudged = []
        for place, looks in sorted(by_place.items()):
            partition = known.slice_of(place)
            empty = looks[0].residue
            extra = [second.get(look.key, _nothing(empty)) for look in looks]
            added = whole(
                [look.tally for look in looks],
                [look.residue for look in looks],
                extra,
                partition,
                partial(self._bracket, source, [look.key for look in looks]),
            )
            total += added.tally
            counts[place], tables[place] = added.tally.by_verdict(), added.tally.table
            for look, retracted in zip(looks, added.retracted, strict=True):
                fractures.merge(look.fractures.without(place, retracted))
                for name, into in ((look.written.verdicts, verdicts), (look.written.cases, cases)):
                    kept = self._writer.without(name, retracted) if name and len(retracted) else name
                    into.extend([kept] if kept else [])
                places["inconsistent-offsets"] += len(look.conflicts)
                places["corrupt"] += len(look.damaged)
                written = self._writer.disputed(place, look.conflicts, look.damaged)
                cases.extend([written.cases] if written.cases else [])
            fractures.add(place, added.concluded.probes, added.concluded.judgement)
            for written in self._writer.concluded(place, added.concluded):
                verdicts.extend([written.verdicts] if written.verdicts else [])
                cases.extend([written.cases] if written.cases else [])
            if partition.bounds is None and added.tally.notes.get("promised"):
                unjudged.append(place)
        broken = fractures.fractured()
        cases.extend(filter(None, [self._writer.fractured(broken)]))
        circles, skipped = self._circles(source, by_place)
        cases.extend(filter(None, [self._writer.circular(circles)]))
        places |= {"fractured-transaction": len(broken), "G0": len(circles)}
        summary = _summary(total, places, unjudged, known.dumped)
        summary["notes"] += skipped
        self._publish(verdicts, cases, counts, tables)
        self._folder.text("report.html", render(summary, tables, self._folder.url, self._inputs.files).encode())
        self._folder.summary(summary)
        return Report(summary)

    def _circles(self, source: Source, looks: Mapping[Place, list[FirstLook]]) -> tuple[list[list[Step]], list[str]]:
        """Return the smallest circles of transactions, and of which cluster there are too many to look for any."""
        circles: list[list[Step]] = []
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
            for key, (number, tail, head) in map(believed, source.edges(keys, within, most) if keys else ()):
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
            circles += ordering.cycles(edges)
        return circles, notes

    def _bracket(self, source: Source, keys: list[Key], who: Identities) -> Bracket:
        result = Bracket.unknown(len(who))
        for bracket in source.brackets(keys, who):
            result = result.narrowed(believed(bracket))
        return result

    def _publish(
        self,
        verdicts: list[str],
        cases: list[str],
        counts: Mapping[Place, dict[str, int]],
        tables: Mapping[Place, dict[tuple[str, int], Any]],
    ) -> None:
        partitions = self._writer.write(partitions_table(counts))
        table = self._writer.write(day_table(tables))
        lost = write_lost(self._folder.work, cases)
        self._folder.publish("lost", [lost] if lost else [], LOST_SCHEMA)
        self._folder.publish("verdicts", verdicts, VERDICT_SCHEMA)
        self._folder.publish("anomalies", cases, CASE_SCHEMA)
        self._folder.publish("partitions", [partitions] if partitions else [], PARTITION_SCHEMA)
        self._folder.publish("table", [table] if table else [], TABLE_SCHEMA)


def _nothing(like: Residue) -> Residue:
    return type(like)(
        like.probes.take(slice(0, 0)),
        like.evidence.take(slice(0, 0)),
        like.records.take(slice(0, 0)),
        like.polls.take(slice(0, 0)),
    )


def _summary(total: Tally, places: dict[str, int], unjudged: list[Place], dumped: Dumped) -> dict[str, Any]:
    table = total.total()
    attempted, acked, lost = table["attempted"], table["acked"], table["acked_lost"]
    anomalies = {name: n for name, n in sorted((total.anomalies | places).items()) if n}
    notes = []
    single = sorted(place for place, bounds in dumped.bounds.items() if not bounds.both)
    if single:
        shown = "; ".join(map(described, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        notes.append(
            f"no read_uncommitted bounds for {shown}: what was acknowledged at or above the last stable offset stays "
            f"pending ({total.notes.get('blind', 0)} acknowledged probes)"
        )
        log.warning("reconcile_without_read_uncommitted", partitions=len(single))
    if total.notes.get("strays"):
        notes.append(f"{total.notes['strays']} probes were found at another offset than the one acknowledged")
    return {
        "summary": {
            "attempted": attempted,
            "acked": acked,
            "survivors": table["survivors"],
            "acked_lost": lost,
            "unacked_found": table["unacked_found"],
            "ack_rate": acked / attempted if attempted else None,
            "loss_rate": lost / acked if acked else None,
            "unacked_but_successful_rate": table["unacked_found"] / acked if acked else None,
            "loss_rate_upper_95": loss_rate_upper_95(lost, acked),
        },
        "anomalies": anomalies,
        "verdicts": total.by_verdict(),
        "unverified": total.notes.get("unverified", 0),
        "voided": total.notes.get("voided", 0),
        "unjudged": [place._asdict() for place in unjudged],
        "notes": notes,
    }
