"""``canary audit``."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Any, Final

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.settings import ClusterSettings, Settings

_FOUND: Final = 1
_UNREACHABLE: Final = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(*, json: JsonOption = False) -> None:
    """Look for unsafe settings: of the brokers, the internal topics, the probe topics and the named topics.

    Changes nothing. Exit status 0: safe; 1: findings; 3: a cluster does not answer.

    Example: canary audit --config canary.yaml --json
    """
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  # takes its time

    from canary.client.quiet import calm, quiet_logger  # noqa: PLC0415
    from canary.runner import auditing  # noqa: PLC0415
    from canary.settings import admin_config  # noqa: PLC0415
    from canary.watching.audit import UnreachableError  # noqa: PLC0415
    from canary.watching.findings import audit as judge  # noqa: PLC0415

    settings = session.load_settings()
    report: dict[str, list[dict[str, Any]]] = {"findings": [], "notes": []}
    for given in settings.clusters:
        cluster = reachable(settings, given)
        admin = AdminClient(calm(admin_config(cluster), "audit"), logger=quiet_logger("audit"))
        try:
            done = auditing.as_json(judge(auditing.collected(settings, cluster, admin)))
        except UnreachableError as error:
            raise UserError(f"{cluster.name}: {error}; see clusters[].kafka", _UNREACHABLE) from error
        for name, items in report.items():
            items.extend({"cluster": cluster.name, **one} for one in done[name])
    if json:
        typer.echo(json_module.dumps(report))
    else:
        _tell(report)
    if report["findings"]:
        raise typer.Exit(_FOUND)


def reachable(settings: Settings, cluster: ClusterSettings) -> ClusterSettings:
    """Return the cluster with an address: the embedded lab's, where it is that one and runs.

    Raises:
        UserError: the lab does not run.
    """
    from canary.lab import Lab, LabError  # noqa: PLC0415

    if not cluster.embedded:
        return cluster
    try:
        lab = Lab.attach(settings.lab.directory)
    except LabError as error:
        raise UserError(str(error), _UNREACHABLE) from error
    if not lab.alive():
        raise UserError(f"the lab in {settings.lab.directory} does not run; start it: canary lab up", _UNREACHABLE)
    return cluster.at(lab.bootstrap)


def _tell(report: dict[str, list[dict[str, Any]]]) -> None:
    for one in report["findings"]:
        typer.echo(f"{one['severity'].upper()} {one['cluster']}, {one['where']}: {one['found']}")
        typer.echo(f"  why:    {one['why']}")
        typer.echo(f"  change: {one['change']}")
    for one in report["notes"]:
        typer.echo(f"note: {one['cluster']}, {one['where']}: {one['text']}")
    count = len(report["findings"])
    typer.echo("Nothing unsafe was found." if not count else f"{count} finding{'s' if count > 1 else ''}.")
