"""``canary forget``: a decommissioned cluster leaves views, metrics and alerts."""

import time
from typing import Annotated

import typer

from canary.cli import session
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError


def forget(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of a cluster that is not probed any more.")],
    *,
    json: JsonOption = False,
) -> None:
    """Take a decommissioned cluster out of views, metrics and alerts, its violations too, for ever.

    Stop its runners first, and take it out of the settings: an API that has it there goes on listing it.

    Example: canary forget prod-old
    """
    settings = session.load_settings()
    now = time.time_ns()
    with session.open_store(settings) as store:
        store.upgrade()
        deleted = store.retention.forget(cluster, now)
        if deleted is None:
            names = ", ".join(store.retention.clusters()) or "none"
            raise UserError(f"the store holds nothing of a cluster called {cluster}; it does of: {names}")
        store.actions.record("command line", "forget", f"cluster {cluster}", now, {})
    counts = {name: getattr(deleted, name) for name in ("violations", "incidents", "reconciliations")}
    text = f"{cluster} is forgotten: {', '.join(f'{count} {name}' for name, count in counts.items())}"
    session.report({"cluster": cluster, **counts}, text, json=json)
    if not json and cluster in {one.name for one in settings.clusters}:
        typer.echo(
            f"{cluster} is still in {session.current().config or 'the settings'}: take it out there, too", err=True
        )
