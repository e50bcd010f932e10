"""A reconciliation of one cluster from end to end: dump, wait for the probe log, reconcile, record violations.

The scheduler claims a row in `reconciliations` and starts this process (``python -m spark_reconcile.nightly.run``),
which ends the row. Done again, after a kill or not, it has the same result: files are replaced, violations are upserted
by their place, and a row is ended once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from canary.settings import Settings, UserError, load
from canary.threads.ending import ended_by_sigterm
from spark_reconcile.digests import demand
from spark_reconcile.digests.findings import sentences
from spark_reconcile.dump import fingerprints
from spark_reconcile.dump.dumping import Dumped, Wanted, dump
from spark_reconcile.dump.kept_dump import FULL_EVERY_NS, Kept, Range, expiry_ns, keep, kept, recognised, size
from spark_reconcile.dump.targets import reachable, target
from spark_reconcile.errors import reason_of
from spark_reconcile.job import driver, session
from spark_reconcile.job.inputs import look
from spark_reconcile.nightly import digesting, receipting, scheduler
from spark_reconcile.nightly.scheduler import BY_THE_CLOCK, Ticket
from spark_reconcile.report import findings
from spark_reconcile.report.comparison import compare
from spark_reconcile.report.page import with_section
from storage.store import Store, StoreError
from storage.store.values import StoredViolation, ViolationFilter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation
    from spark_reconcile.tables.bounds import Place
    from spark_reconcile.tables.columns import Bounds


log = structlog.get_logger(__name__)

KEPT_RUNS: Final = 30
"""The results of so many runs of a cluster are kept on disk."""
SHIPPED_WITHIN_S: Final = 30.0
"""The probe log has a segment at most so long after it was sealed."""
_TURNS: Final = 3
"""A dump is begun again while the log is not the kept one; the last of so many dumps reads everything."""
_CHUNK: Final = 500
_PROGRESS_S: Final = 2.0
Dump: TypeAlias = "Callable[[SparkSession, Sequence[Wanted], str], Dumped]"
"""Reads topics into a folder, as `spark_reconcile.dump.dumping.dump` does."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: ``new`` violations of ``violations`` found; ``report`` is a path.

    ``read``: whether the ``full`` log was read, how many records and bytes, and how it ``compared`` with online.
    """

    summary: dict[str, Any]
    violations: int
    new: int
    report: str
    seconds: float
    read: dict[str, Any]


def folder_of(settings: Settings, cluster: str, name: str) -> Path:
    """Return the folder of a run's files: beside the ledger."""
    return settings.ledger.directory.parent / "reconciliations" / cluster / name


def run(
    settings: Settings,
    store: Store,
    ticket: Ticket,
    spark: SparkSession,
    *,
    settle_s: float | None = None,
    full_every_ns: int = FULL_EVERY_NS,
    dump: Dump = dump,
) -> Outcome:
    """Reconcile a cluster now, and end its row in the store, as succeeded or failed.

    ``spark`` has the Kafka source. ``settle_s``: how long to wait for the probe log after the dump; None: until it has
    every segment of that time. A scheduled run reads the whole log ``full_every_ns`` after the last full read.

    Raises:
        UserError: a cluster does not answer, or the log is damaged; the row has the reason, too.
        StoreError: the store does not answer.
    """
    ours = ticket.reconciliation_id, ticket.holder
    finish = partial(store.reconciliations.finish, *ours)
    try:
        outcome, bounds = _Run(settings, store, ticket, spark).reconcile(dump, settle_s, full_every_ns)
    except KeyboardInterrupt:
        _patiently(lambda: store.reconciliations.interrupt(*ours, time.time_ns(), "it was stopped"))
        raise
    except BaseException as error:
        reason = reason_of(error)
        _patiently(lambda: finish(time.time_ns(), error=reason[:1000]))
        raise
    summary = {name: value for name, value in outcome.summary.items() if name != "verdicts"}
    summary |= {"violations": outcome.violations, "new": outcome.new, "seconds": outcome.seconds} | outcome.read
    verdicts = outcome.summary["verdicts"]
    page = Path(outcome.report).read_bytes()
    if not _patiently(lambda: store.reconciliations.keep_report(ticket.reconciliation_id, page)):
        log.warning("report_not_kept", why="it is too large", path=outcome.report)
    _patiently(lambda: finish(time.time_ns(), bounds=bounds, summary=summary, verdicts=verdicts, report=outcome.report))
    return outcome


class _Run:
    """A run of one cluster; every method is a step of `reconcile`."""

    def __init__(self, settings: Settings, store: Store, ticket: Ticket, spark: SparkSession) -> None:
        cluster = next((one for one in settings.clusters if one.name == ticket.cluster), None)
        if cluster is None:
            raise UserError(f"cluster {ticket.cluster} is not in the settings any more")
        self._cluster = cluster
        self._settings = settings
        self._store = store
        self._ticket = ticket
        self._spark = spark
        self._began = time.monotonic()
        self._began_ns = time.time_ns()
        self._next_ns = _next_ns(settings, self._began_ns)
        self._folder = folder_of(settings, cluster.name, ticket.reconciliation_id)
        self._kept = settings.ledger.directory.parent / "reconciled-dumps" / cluster.name
        row = _patiently(lambda: store.reconciliations.get(ticket.reconciliation_id))
        self._scheduled = row is not None and row.requested_by == BY_THE_CLOCK
        # All sightings have the time of the claim, so that a run that is done again adds none.
        self._sighted_ns: int = self._began_ns if row is None or row.started_ns is None else row.started_ns

    def reconcile(self, dump: Dump, settle_s: float | None, full_every_ns: int) -> tuple[Outcome, dict[str, Any]]:
        """Do every step; return the result and the bounds that were dumped."""
        self._folder.mkdir(parents=True, exist_ok=True)
        dump_folder, out = self._folder / "dump", str(self._folder / "out")
        shutil.rmtree(dump_folder, ignore_errors=True)
        try:
            with _progress(self._store, self._ticket, self._spark) as begin:
                begin("dumping")
                memory_lost = self._memory_lost()
                dumped, basis, ranges = self._dumped(dump, self._basis(memory_lost, full_every_ns), str(dump_folder))
                rows = sum(dumped.rows.values())
                read: dict[str, Any] = {"full": basis is None, "records_read": rows, "bytes": size(dump_folder)}
                if basis is not None:
                    ranges += basis.add_to(dump_folder)
                begin("waiting for the probe log")
                open_s = self._settings.runner.segment_age + SHIPPED_WITHIN_S
                threading.Event().wait(open_s if settle_s is None else settle_s)
                begin("reconciling")
                inputs = look(self._settings.probe_log.url, str(dump_folder), cluster=self._cluster.name)
                issued = _patiently(lambda: self._store.identities.generations(self._cluster.name))
                report = driver.run(self._spark, inputs, out, issued)
                begin("recording")
                found, new = self._record(out, inputs.dumped.bounds)
                read["compared"] = self._compared(dumped, out)
                if self._cluster.digests.topics:
                    begin("digests")
                    read["digests"], *more = self._digested(out)
                    found, new = found + more[0], new + more[1]
                if self._cluster.receipts.url is not None:
                    begin("receipts")
                    read["receipts"], *more = self._receipts(self._cluster.receipts.url, out)
                    found, new = found + more[0], new + more[1]
            full_ns, within_ns = self._began_ns, expiry_ns(dumped.bounds)
            if basis is not None:
                full_ns, within_ns = basis.full_ns, basis.within_ns
            keep(dump_folder, self._kept, self._ticket.reconciliation_id, ranges, full_ns, within_ns)
            if basis is None and not report.summary["unjudged"]:
                _patiently(lambda: self._store.violations.end([one.id for one in memory_lost], self._began_ns))
        finally:
            shutil.rmtree(dump_folder, ignore_errors=True)
        runs = sorted(
            (one for one in self._folder.parent.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime
        )
        for old in runs[:-KEPT_RUNS]:
            shutil.rmtree(old, ignore_errors=True)
        seconds = time.monotonic() - self._began
        log.info(
            "reconciled",
            cluster=self._cluster.name,
            violations=found,
            new=new,
            full=basis is None,
            seconds=round(seconds, 1),
        )
        page = str((self._folder / "out" / "report.html").resolve())
        return Outcome(report.summary, found, new, page, seconds, read), _bounds(dumped)

    def _memory_lost(self) -> Sequence[StoredViolation]:
        """Return the times that a runner of the cluster lost its memory: only the probe log has its promises then."""
        wanted = ViolationFilter(cluster=self._cluster.name, kind="memory-lost")
        return list(_patiently(lambda: self._store.violations.page(wanted)).items)

    def _basis(self, memory_lost: Sequence[StoredViolation], full_every_ns: int) -> Kept | None:
        """Return the kept dump that this run can continue; None if it has to read everything.

        A run that a person requested reads everything, and so does the first one after a runner lost its memory.
        """
        if not self._scheduled:
            return None
        rows = _patiently(lambda: self._store.reconciliations.page(self._cluster.name, "succeeded")).items
        basis = kept(self._kept, [row.id for row in rows], self._began_ns, self._next_ns, full_every_ns)
        if basis is None or any(one.last_seen_ns >= basis.full_ns for one in memory_lost):
            return None
        return basis

    def _dumped(self, dump: Dump, basis: Kept | None, out: str) -> tuple[Dumped, Kept | None, list[Range]]:
        """Dump the records that are not kept; return the dump, the usable part of ``basis``, the ranges read."""
        wanted = target(self._settings, self._cluster, self._store.identities)
        reread = partial(fingerprints.read, wanted.config)
        for turn in range(_TURNS):
            if turn == _TURNS - 1:
                basis = None
            dumped = dump(self._spark, [replace(wanted, since=basis.since if basis is not None else {})], out)
            usable = basis.agreeing(dumped.bounds, reread, self._next_ns) if basis is not None else None
            if basis is None or (usable is not None and usable.since == basis.since):
                break
            basis = usable
        return dumped, usable, recognised(dumped.parts, reread)

    def _record(self, out: str, bounds: Mapping[Place, Bounds]) -> tuple[int, int]:
        """Put the violations into the store; return the number of records they are about, and of new violations."""
        dumped_ns = {place: one.later * 1000 for place, one in bounds.items()}
        every = findings.violations(out, self._sighted_ns, self._ticket.reconciliation_id, dumped_ns)
        return self._put(violation for cluster, violation in every if cluster == self._cluster.name)

    def _put(self, ours: Iterator[Violation]) -> tuple[int, int]:
        """Put violations into the store; return the number of records they are about, and of new violations."""
        found = new = 0
        while chunk := list(islice(ours, _CHUNK)):
            now_ns = time.time_ns()  # the claim, which they are sighted at, was before they were looked for
            chunk = [one if one.happened_before_ns else replace(one, happened_before_ns=now_ns) for one in chunk]
            found += sum(violation.count for violation in chunk)
            filed = _patiently(partial(self._store.drills.filed, self._cluster.name, chunk))
            new += _patiently(partial(self._store.violations.record, self._cluster.name, filed))
        return found, new

    def _digested(self, out: str) -> tuple[dict[str, Any], int, int]:
        """Make the digests of other topics, and put what they say on the page."""
        wanted = demand.wanted_of(self._cluster, reachable(self._settings, self._cluster))
        folder = demand.folder_of(self._settings, self._cluster.name)
        seen = self._sighted_ns, self._ticket.reconciliation_id
        summary, found, new = digesting.night(self._spark, wanted, folder, self._put, seen)
        self._say(out, "Digests of other topics", sentences(summary))
        return summary, found, new

    def _receipts(self, url: str, out: str) -> tuple[dict[str, Any], int, int]:
        """Check applications' receipts, and put what they say on the page."""
        seen = self._sighted_ns, self._ticket.reconciliation_id
        cluster = self._cluster.name, reachable(self._settings, self._cluster), url, self._cluster.receipts.topics
        rows = _patiently(lambda: self._store.reconciliations.page(self._cluster.name, "succeeded", limit=1)).items
        before = rows[0].summary.get("receipts") if rows else None
        summary, said, *numbers = receipting.night(self._spark, cluster, self._put, seen, before)
        self._say(out, "Receipts of applications", said)
        return summary, numbers[0], numbers[1]

    def _compared(self, dumped: Dumped, out: str) -> list[str]:
        """Return how the findings compare with those of the running canary, and put that on the page."""
        within = self._sighted_ns, dumped.bounds, out, self._began_ns
        said = list(_patiently(lambda: compare(self._store, self._cluster.name, *within).sentences()))
        self._say(out, "Here and online", said)
        return said

    @staticmethod
    def _say(out: str, heading: str, said: Sequence[str]) -> None:
        """Add a section to the page."""
        page = Path(out) / "report.html"
        page.write_text(with_section(page.read_text(encoding="utf-8"), heading, said), encoding="utf-8")


def _next_ns(settings: Settings, now_ns: int) -> int:
    """Return the time of the next scheduled run; now, if none is scheduled."""
    hours = scheduler.trigger(settings.schedule.reconcile)
    following = scheduler.following(hours, datetime.fromtimestamp(now_ns / 1e9, UTC)) if hours is not None else None
    return now_ns if following is None else int(following.timestamp() * 1e9)


def _bounds(dumped: Dumped) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for row in dumped.bounds:
        partition = result.setdefault(row["topic"], {}).setdefault(str(row["partition"]), {})
        partition[row["isolation"]] = [row["earliest_offset"], row["end_offset"]]
    return result


def _patiently(ask: Callable[[], Any], patience_s: float = 300.0) -> Any:
    """Return the store's answer, asking again for a while: a failure would waste the work of an hour."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except StoreError as error:
            if time.monotonic() > deadline:
                raise
            log.warning("waiting_for_store", reason=str(error))
            threading.Event().wait(2.0)


@contextmanager
def _progress(store: Store, ticket: Ticket, spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Yield a function that begins a step; keep the row's progress: the step and how many of Spark's tasks are done.

    A step of a run that another scheduler has taken over does not begin (UserError): its results must not be recorded.
    """
    step = "starting"

    def put(words: str) -> bool:
        return store.reconciliations.progress(ticket.reconciliation_id, ticket.holder, words)

    def begin(words: str) -> None:
        nonlocal step
        step = words
        if not _patiently(lambda: put(words)):
            raise UserError(f"another scheduler has taken {ticket.cluster} over, or it was forgotten")

    def stage(_name: str, done: int, total: int) -> None:
        try:
            put(f"{step}: {done} of {total} tasks")
        except StoreError as error:
            log.debug("progress_not_stored", reason=str(error))

    with session.progress(spark, stage, _PROGRESS_S):
        yield begin


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one claimed reconciliation; the process that the scheduler starts."""
    parser = argparse.ArgumentParser(prog="python -m spark_reconcile.nightly.run", description=main.__doc__)
    parser.add_argument("--config")
    parser.add_argument("--master")
    parser.add_argument("--settle", type=float)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--reconciliation", required=True)
    parser.add_argument("--holder", required=True)
    options = parser.parse_args(arguments)
    settings = load(options.config, os.environ)
    ticket = Ticket(options.reconciliation, options.holder, options.cluster)
    with ended_by_sigterm():
        try:
            with (
                Store.connect(settings.store.url.get_secret_value(), timeout=60) as store,
                session.session("canary nightly", master=options.master, kafka=True) as spark,
            ):
                run(settings, store, ticket, spark, settle_s=options.settle)
        except UserError as error:
            log.error("reconciliation_failed", cluster=ticket.cluster, reason=str(error))  # noqa: TRY400  # no traceback
            return error.exit_status
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
