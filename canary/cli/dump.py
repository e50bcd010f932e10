"""``canary dump``: what the probe topics really hold, to Parquet."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.extras import require, require_for_url

if TYPE_CHECKING:
    from spark_reconcile.dump import Dumped


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dump")(dump)


def dump(
    *,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder or URL for records/ and bounds/.")],
    cluster: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this cluster of the settings (repeat).")
    ] = None,
    isolation: Annotated[
        list[str] | None, typer.Option(metavar="LEVEL", help="read_committed or read_uncommitted; default: both.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: this machine, two cores.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Dump the probe topics with their bounds. Exit status 0, 2 for bad input, 3 if a cluster cannot be reached.

    Example: canary dump --config canary.yaml --out /tmp/dump
    """
    from canary.cli import progress  # noqa: PLC0415  # structlog takes its time
    from spark_reconcile import session as spark  # noqa: PLC0415  # Spark and Arrow take their time
    from spark_reconcile.dump import dump as dump_topics  # noqa: PLC0415
    from spark_reconcile.targets import wanted  # noqa: PLC0415

    require("spark", "canary dump")
    require_for_url(out, "--out")
    everything = wanted(session.load_settings(), cluster, isolation)
    with spark.ended_by_sigterm(), progress.shown() as tell:
        tell("starting Spark", 0, 1)
        with spark.session("canary dump", master=master, kafka=True) as running:
            tell("starting Spark", 1, 1)
            with spark.progress(running, tell):
                dumped = dump_topics(running, everything, out)
    typer.echo(_as_json(dumped) if json else _words(dumped, out))


def _as_json(dumped: Dumped) -> str:
    rows = [{"topic": topic, "isolation": level, "rows": rows} for (topic, level), rows in sorted(dumped.rows.items())]
    return json_module.dumps({"records": rows, "bounds": list(dumped.bounds), "silent_partitions": dumped.silent})


def _words(dumped: Dumped, out: str) -> str:
    lines = [f"{topic}, {level}: {rows} records" for (topic, level), rows in sorted(dumped.rows.items())]
    if dumped.silent:
        lines.append(f"{dumped.silent} partitions have no leader and no bounds: they will not be judged")
    return "\n".join([*(lines or ["no records"]), f"{dumped.seconds:.1f} s; everything is in {out}"])
