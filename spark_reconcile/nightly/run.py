"""A cluster's reconciliation from end to end: dump, wait for the log, reconcile, tell the store.

It runs in a process of its own (``python -m spark_reconcile.nightly``), started by the scheduler, which has claimed
the row in `reconciliations` that this process ends. Run twice, killed in between or not, it leaves the same: files are
replaced, violations are upserted by their place, and a row is ended once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from canary.settings import UserError, load
from spark_reconcile import ends, findings, running, schedule, session
from spark_reconcile.comparing import compare
from spark_reconcile.dump import dump
from spark_reconcile.inputs import look
from spark_reconcile.keeping import FULL_EVERY_NS, expiry_ns, keep, kept, recognised, size
from spark_reconcile.report import with_comparison
from spark_reconcile.targets import target
from spark_reconcile.ticket import BY_THE_CLOCK, Ticket
from storage.store import Store, StoreError, ViolationFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation
    from canary.settings import Settings
    from spark_reconcile.dump import Dumped, Wanted
    from spark_reconcile.keeping import Kept, Range
    from storage.store import StoredViolation

log = structlog.get_logger(__name__)

KEPT_RUNS: Final = 30
"""Results of so many runs of a cluster are kept on disk."""
SHIPPED_WITHIN_S: Final = 30.0
"""A sealed segment is in the probe log so soon."""
_TURNS: Final = 3
"""Dumps of a log that changes, at each of them, below where the one before it ended; the last is of everything."""
_CHUNK: Final = 500
_TELL_S: Final = 2.0
Dump: TypeAlias = "Callable[[SparkSession, Sequence[Wanted], str], Dumped]"
"""Reads what topics hold into a folder, as `spark_reconcile.dump.dump` does."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left: ``new`` violations of ``violations`` found; ``report`` is a path.

    ``read``: whether that was the ``full`` log, and how many records and bytes it read.
    """

    summary: dict[str, Any]
    violations: int
    new: int
    report: str
    seconds: float
    read: dict[str, Any]


def folder_of(settings: Settings, cluster: str, name: str) -> Path:
    """Return where a run keeps its files: beside the ledger."""
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
    """Reconcile a cluster now, and end its row in the store, well or not.

    Args:
        settings: all of them.
        store: connected.
        ticket: the claimed row.
        spark: a session with the Kafka source.
        settle_s: how long to wait for the log after the dump; None: until a segment of then must have been shipped.
        full_every_ns: after this time a run by the clock reads everything again.
        dump: reads the topics of the cluster.

    Raises:
        UserError: a cluster does not answer, or the log is damaged; the row says so, too.
        StoreError: the store does not answer.
    """
    began = time.monotonic()
    try:
        outcome, bounds = _run(settings, store, ticket, spark, settle_s, full_every_ns, dump, began)
    except BaseException as error:
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, KeyboardInterrupt):
            reason = "stopped before it was done"
        _patiently(
            lambda: store.finish_reconciliation(
                ticket.reconciliation_id, ticket.holder, time.time_ns(), error=reason[:1000]
            )
        )
        raise
    summary = {name: value for name, value in outcome.summary.items() if name != "verdicts"}
    _patiently(
        lambda: store.finish_reconciliation(
            ticket.reconciliation_id,
            ticket.holder,
            time.time_ns(),
            bounds=bounds,
            summary=summary
            | {"violations": outcome.violations, "new": outcome.new, "seconds": outcome.seconds}
            | outcome.read,
            verdicts=outcome.summary["verdicts"],
            report=outcome.report,
        )
    )
    return outcome


def _run(
    settings: Settings,
    store: Store,
    ticket: Ticket,
    spark: SparkSession,
    settle_s: float | None,
    full_every_ns: int,
    dump: Dump,
    began: float,
) -> tuple[Outcome, dict[str, Any]]:
    cluster = next((one for one in settings.clusters if one.name == ticket.cluster), None)
    if cluster is None:
        raise UserError(f"cluster {ticket.cluster} is not in the settings any more")
    folder = folder_of(settings, cluster.name, ticket.reconciliation_id)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "dump", ignore_errors=True)
    before = settings.ledger.directory.parent / "reconciled-dumps" / cluster.name
    began_ns = time.time_ns()
    next_ns = _next_ns(settings, began_ns)
    try:
        with _telling(store, ticket, spark) as tell:
            tell("dumping")
            basis = None
            forgotten = _forgotten(store, cluster.name)
            if not _asked_for(store, ticket):
                basis = kept(before, _succeeded(store, cluster.name), began_ns, next_ns, full_every_ns)
                if basis is not None and any(one.last_seen_ns >= basis.full_ns for one in forgotten):
                    basis = None
            wanted = target(settings, cluster, store.installation())
            dumped, basis, ranges = _dumped(dump, spark, wanted, str(folder / "dump"), basis, next_ns)
            within_ns = expiry_ns(dumped.bounds)
            bytes_read = size(folder / "dump")
            if basis is not None:
                ranges += basis.add_to(folder / "dump")
                within_ns = basis.within_ns
            tell("waiting for the probe log")
            _settle(settings.runner.segment_age + SHIPPED_WITHIN_S if settle_s is None else settle_s)
            tell("reconciling")
            inputs = look(settings.probe_log.url, str(folder / "dump"), cluster=cluster.name)
            issued = _patiently(lambda: store.generations(cluster.name))
            report = running.run(spark, inputs, str(folder / "out"), issued)
            tell("recording")
            found, new = record(store, str(folder / "out"), ticket)
            compared = _compared(store, ticket, dumped, str(folder / "out"), began_ns)
        full_ns = began_ns if basis is None else basis.full_ns
        keep(folder / "dump", before, ticket.reconciliation_id, ranges, full_ns, within_ns)
        if basis is None and not report.summary["unjudged"]:
            _patiently(lambda: store.end([one.id for one in forgotten], began_ns))
    finally:
        shutil.rmtree(folder / "dump", ignore_errors=True)
    _keep(folder.parent)
    seconds = time.monotonic() - began
    rows = sum(dumped.rows.values())
    log.info(
        "reconciled", cluster=cluster.name, violations=found, new=new, full=basis is None, seconds=round(seconds, 1)
    )
    page = str((folder / "out" / "report.html").resolve())
    read = {"full": basis is None, "records_read": rows, "bytes": bytes_read, "compared": compared}
    return Outcome(report.summary, found, new, page, seconds, read), _bounds(dumped)


def _forgotten(store: Store, cluster: str) -> Sequence[StoredViolation]:
    """Return the times that a runner of the cluster has forgotten, whose promises only the probe log still tells."""
    return list(_patiently(lambda: store.violations(ViolationFilter(cluster=cluster, kind="memory-lost"))).items)


def _dumped(
    dump: Dump, spark: SparkSession, wanted: Wanted, out: str, basis: Kept | None, next_ns: int
) -> tuple[Dumped, Kept | None, list[Range]]:
    """Dump what is not kept; return with it what of ``basis`` is to be used beside it, and which ranges were read."""
    reread = partial(ends.read, wanted.config)
    for turn in range(_TURNS):
        if turn == _TURNS - 1:
            basis = None
        dumped = dump(spark, [replace(wanted, since=basis.since if basis is not None else {})], out)
        usable = basis.agreeing(dumped.bounds, reread, next_ns) if basis is not None else None
        if basis is None or (usable is not None and usable.since == basis.since):
            break
        basis = usable
    return dumped, usable, recognised(dumped.parts, reread)


def _next_ns(settings: Settings, now_ns: int) -> int:
    """Return when the clock starts the next run; now, if it starts none."""
    hours = schedule.trigger(settings)
    following = schedule.following(hours, datetime.fromtimestamp(now_ns / 1e9, UTC)) if hours is not None else None
    return now_ns if following is None else int(following.timestamp() * 1e9)


def _asked_for(store: Store, ticket: Ticket) -> bool:
    """Return whether somebody asked for this run, who wants to know what the topics hold now."""
    row = _patiently(lambda: store.reconciliation(ticket.reconciliation_id))
    return row is None or row.requested_by != BY_THE_CLOCK


def _compared(store: Store, ticket: Ticket, dumped: Dumped, out: str, dumped_ns: int) -> list[str]:
    """Return how what was found compares with what was known, and put it on the page."""
    sentences = _patiently(
        lambda: compare(store, ticket.cluster, _sighted_ns(store, ticket), dumped.bounds, out, dumped_ns).sentences()
    )
    page = Path(out) / "report.html"
    page.write_text(with_comparison(page.read_text(encoding="utf-8"), sentences), encoding="utf-8")
    return list(sentences)


def _sighted_ns(store: Store, ticket: Ticket) -> int:
    """Return when the run was claimed: the time of all its sightings, so that done again it adds none."""
    row = _patiently(lambda: store.reconciliation(ticket.reconciliation_id))
    return time.time_ns() if row is None or row.started_ns is None else int(row.started_ns)


def _succeeded(store: Store, cluster: str) -> list[str]:
    return [row.id for row in _patiently(lambda: store.reconciliations(cluster, "succeeded")).items]


def record(store: Store, out: str, ticket: Ticket) -> tuple[int, int]:
    """Put a run's violations into the store; return of how many records they are, and how many of these are new."""
    found = new = 0
    chunk: list[Violation] = []
    at_ns = _sighted_ns(store, ticket)
    for cluster, violation in findings.violations(out, at_ns, ticket.reconciliation_id):
        if cluster != ticket.cluster:
            continue
        chunk.append(violation)
        found += violation.count
        if len(chunk) >= _CHUNK:
            new += _patiently(lambda: store.record(ticket.cluster, chunk))  # noqa: B023  # called at once
            chunk = []
    if chunk:
        new += _patiently(lambda: store.record(ticket.cluster, chunk))
    return found, new


def _settle(seconds: float) -> None:
    """Let the segments that were open during the dump be shipped: their time is known, nothing else is."""
    threading.Event().wait(seconds)


def _bounds(dumped: Dumped) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for row in dumped.bounds:
        partition = result.setdefault(row["topic"], {}).setdefault(str(row["partition"]), {})
        partition[row["isolation"]] = [row["earliest_offset"], row["end_offset"]]
    return result


def _keep(folder: Path) -> None:
    """Take old runs' files away."""
    runs = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    for old in runs[:-KEPT_RUNS]:
        shutil.rmtree(old, ignore_errors=True)


def _patiently(ask: Callable[[], Any], patience_s: float = 300.0) -> Any:
    """Return what the store answers, asking again while it does not: an hour's work hangs on it."""
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
def _telling(store: Store, ticket: Ticket, spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Keep the row's progress: the step we are at and, from Spark's status tracker, how far it is.

    A step does not begin in a run that is not ours any more (UserError): what it found is nobody's business.
    """
    step = ["starting"]

    def put(words: str) -> bool:
        return store.progress_reconciliation(ticket.reconciliation_id, ticket.holder, words)

    def tell(words: str) -> None:
        step[0] = words
        if not _patiently(lambda: put(words)):
            raise UserError(f"another scheduler has taken {ticket.cluster} over, or it was forgotten")

    def stage(_name: str, done: int, total: int) -> None:
        try:
            put(f"{step[0]}: {done} of {total} tasks")
        except StoreError as error:
            log.debug("progress_not_told", reason=str(error))

    with session.progress(spark, stage, _TELL_S):
        yield tell


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one claimed reconciliation; the process that the scheduler starts."""
    parser = argparse.ArgumentParser(prog="python -m spark_reconcile.nightly", description=main.__doc__)
    parser.add_argument("--config")
    parser.add_argument("--master")
    parser.add_argument("--settle", type=float)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--reconciliation", required=True)
    parser.add_argument("--holder", required=True)
    options = parser.parse_args(arguments)
    settings = load(options.config, os.environ)
    ticket = Ticket(options.reconciliation, options.holder, options.cluster)
    with session.ended_by_sigterm():
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
