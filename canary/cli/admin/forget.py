"""``canary forget``: a decommissioned cluster leaves views, metrics and alerts."""

from __future__ import annotations

import json as json_module
import time
from typing import Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # noqa: TC001  # typer reads it
from canary.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("forget")(forget)


def forget(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of a cluster that is not probed any more.")],
    *,
    json: JsonOption = False,
) -> None:
    """Take a decommissioned cluster out of views, metrics and alerts, its violations too, for ever.

    Stop its runners first, and take it out of the settings: an API that has it there goes on listing it.

    Example: canary forget prod-old
    """
    from storage.store import Store  # noqa: PLC0415  # SQLAlchemy takes its time

    settings = session.load_settings()
    now = time.time_ns()
    with Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout) as store:
        store.upgrade()
        deleted = store.forget(cluster, now)
        if deleted is None:
            names = ", ".join(store.clusters()) or "none"
            raise UserError(f"the store holds nothing of a cluster called {cluster}; it does of: {names}", 2)
        store.note_action("command line", "forget", f"cluster {cluster}", now, {})
    counts = {name: getattr(deleted, name) for name in ("violations", "incidents", "reconciliations")}
    if json:
        typer.echo(json_module.dumps({"cluster": cluster, **counts}))
        return
    typer.echo(f"{cluster} is forgotten: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    if cluster in {one.name for one in settings.clusters}:
        typer.echo(
            f"{cluster} is still in {session.current().config or 'the settings'}: take it out there, too", err=True
        )
