"""``canary reconcile``: what was promised against what the topics hold, by Spark, by hand."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.extras import require, require_for_url

if TYPE_CHECKING:
    from spark_reconcile.running import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reconcile")(reconcile)


def reconcile(
    *,
    probe_log: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL with probes/, transactions/, polls/.")],
    dump: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL with records/ and bounds/ (canary dump).")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL for verdicts, summary and report.")],
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: this machine, two cores.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Reconcile a probe log with a dump. Exit status 0 clean, 1 violations, 2 bad input, 3 something not judged.

    Example: canary reconcile --probe-log var/canary/probe-log --dump /tmp/dump --out /tmp/reconciled
    """
    from canary.cli import progress  # noqa: PLC0415  # structlog takes its time
    from spark_reconcile import running  # noqa: PLC0415  # Spark and Arrow take their time
    from spark_reconcile import session as spark  # noqa: PLC0415
    from spark_reconcile.inputs import look  # noqa: PLC0415

    require("spark", "canary reconcile")
    for option, url in (("--probe-log", probe_log), ("--dump", dump), ("--out", out)):
        require_for_url(url, option)
    inputs = look(probe_log, dump, out)
    with spark.ended_by_sigterm(), progress.shown() as tell:
        tell("starting Spark", 0, 1)
        with spark.session("canary reconcile", master=master, light=True) as running_spark:
            tell("starting Spark", 1, 1)
            with spark.progress(running_spark, tell):
                report = running.run(running_spark, inputs, out)
    typer.echo(json_module.dumps(report.summary) if json else _words(report, out))
    raise typer.Exit(report.exit_status)


def _words(report: Report, out: str) -> str:
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
