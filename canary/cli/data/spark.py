"""``canary dump|reconcile|digest``: probe topics to Parquet, a probe log against them, digests of other topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.extras import require, require_for_url

if TYPE_CHECKING:
    from spark_reconcile.dump.dumping import Dumped
    from spark_reconcile.job.driver import Report

MasterOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark master; default: this machine, two cores.")
]


def dump(
    *,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL for records/ and bounds/.")],
    cluster: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this cluster of the settings (repeat).")
    ] = None,
    isolation: Annotated[
        list[str] | None, typer.Option(metavar="LEVEL", help="read_committed or read_uncommitted; default: both.")
    ] = None,
    master: MasterOption = None,
    json: JsonOption = False,
) -> None:
    """Dump the probe topics with their bounds. Exit status 0, 2 for bad input, 3 if a cluster cannot be reached.

    Example: canary dump --config canary.yaml --out /tmp/dump
    """
    from spark_reconcile.dump.dumping import dump as dump_topics  # noqa: PLC0415  # Spark and Arrow take their time
    from spark_reconcile.dump.targets import wanted  # noqa: PLC0415

    require("spark", "canary dump")
    require_for_url(out, "--out")
    everything = wanted(session.load_settings(), cluster, isolation)
    with started("canary dump", master, kafka=True) as spark:
        dumped = dump_topics(spark, everything, out)
    rows = [{"topic": topic, "isolation": level, "rows": rows} for (topic, level), rows in sorted(dumped.rows.items())]
    document = {"records": rows, "bounds": list(dumped.bounds), "silent_partitions": dumped.silent}
    session.report(document, _dump_text(dumped, out), json=json)


def _dump_text(dumped: Dumped, out: str) -> str:
    lines = [f"{topic}, {level}: {rows} records" for (topic, level), rows in sorted(dumped.rows.items())]
    if dumped.silent:
        lines.append(f"{dumped.silent} partitions have no leader and no bounds: they will not be judged")
    return "\n".join([*(lines or ["no records"]), f"{dumped.seconds:.1f} s; everything is in {out}"])


def reconcile(
    *,
    probe_log: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL with probes/, transactions/, polls/.")],
    dump: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL with records/ and bounds/ (canary dump).")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL for verdicts, summary and report.")],
    master: MasterOption = None,
    json: JsonOption = False,
) -> None:
    """Reconcile a probe log with a dump. Exit status 0 clean, 1 violations, 2 bad input, 3 something not judged.

    Example: canary reconcile --probe-log var/canary/probe-log --dump /tmp/dump --out /tmp/reconciled
    """
    from spark_reconcile.job import driver  # noqa: PLC0415  # Spark and Arrow take their time
    from spark_reconcile.job.inputs import look  # noqa: PLC0415

    require("spark", "canary reconcile")
    for option, url in (("--probe-log", probe_log), ("--dump", dump), ("--out", out)):
        require_for_url(url, option)
    inputs = look(probe_log, dump, out)
    with started("canary reconcile", master, light=True) as spark:
        report = driver.run(spark, inputs, out)
    session.report(report.summary, _reconcile_text(report, out), json=json)
    raise typer.Exit(report.exit_status)


def digest(
    *,
    cluster: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this cluster of the settings (repeat).")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Topics; default: digests.topics (repeat).")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder or URL of earlier digests; default: the last night's.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Let these digests replace those of --against.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Read all known records again, not only where a log was cut.")
    ] = False,
    master: MasterOption = None,
    json: JsonOption = False,
) -> None:
    """Compare topics with their last digests: which records are lost or changed.

    Exit status 0 as they were, 1 lost or changed, 2 bad input, 3 unreachable, or something is unknown.

    Example: canary digest --topic orders --all
    """
    from spark_reconcile.digests import demand, findings  # noqa: PLC0415  # Spark and Arrow take their time

    require("spark", "canary digest")
    require_for_url(against or "", "--against")
    wanted = demand.wanted(session.load_settings(), cluster, topic or (), against, keep=keep)
    with started("canary digest", master, kafka=True) as spark:
        found = {one.cluster: demand.compare(spark, one, folder, keep, everything) for one, folder in wanted}
    said = {name: findings.document(one) for name, one in found.items()}
    session.report(said, "\n".join(findings.text(name, one) for name, one in found.items()), json=json)
    statuses = {findings.exit_status(one, keep=keep) for one in found.values()}
    raise typer.Exit(1 if 1 in statuses else max(statuses))


def _reconcile_text(report: Report, out: str) -> str:
    table: dict[str, Any] = report.summary["summary"]
    lines = [
        f"{table['attempted']} attempted, {table['acked']} acknowledged, {table['survivors']} survivors",
        f"{table['acked_lost']} acknowledged writes lost, {table['unacked_found']} unacknowledged writes found",
    ]
    rates = {
        "ack_rate": "ack rate",
        "loss_rate": "loss rate",
        "unacked_but_successful_rate": "unacknowledged but successful rate",
        "loss_rate_upper_95": "upper bound of the loss rate (95 %)",
    }
    lines += [f"{table[name]:.6g} {words}" for name, words in rates.items() if table[name] is not None]
    lines += [f"{name}: {count}" for name, count in report.summary["anomalies"].items()] or ["no anomaly"]
    lines += [
        f"not judged: cluster {place['cluster']}, topic {place['topic']}, partition {place['partition']} (no bounds)"
        for place in report.summary["unjudged"]
    ]
    lines += report.summary["notes"]
    return "\n".join([*lines, f"{report.seconds:.1f} s; everything is in {out}"])


@contextmanager
def started(name: str, master: str | None, *, kafka: bool = False, light: bool = False) -> Iterator[Any]:
    """Start Spark, and show the progress of its stages while the block runs."""
    from canary.cli import progress  # noqa: PLC0415  # structlog takes its time
    from canary.threads.ending import ended_by_sigterm  # noqa: PLC0415
    from spark_reconcile.job import session as spark_session  # noqa: PLC0415

    with ended_by_sigterm(), progress.shown() as show:
        show("starting Spark", 0, 1)
        with spark_session.session(name, master=master, kafka=kafka, light=light) as spark:
            show("starting Spark", 1, 1)
            with spark_session.progress(spark, show):
                yield spark
