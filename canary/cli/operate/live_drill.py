"""``canary drill run NAME --cluster NAME``: the way from Kafka to the pager is proven in a live cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from canary.cli import session
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.drills.catalogue import Entry
    from canary.settings import ClusterSettings, Settings
    from storage.store.values import DrillRun

_NOT_POSSIBLE = 3


def perform(entries: Sequence[Entry], name: str, page_within: str, *, json: bool) -> None:
    """Perform drills in the cluster called ``name``, and report; ``page_within``: a duration, or "never".

    Raises:
        UserError: one cannot be performed there.
        typer.Exit: 1: one was not found or not paged; 3: stopped.
    """
    from canary.drills.rig.live import Live  # noqa: PLC0415  # Kafka's client takes its time
    from canary.drills.rig.rig import StoppedError  # noqa: PLC0415
    from canary.processes import signals  # noqa: PLC0415

    settings = session.load_settings()
    page_s = _seconds(page_within)
    runs: list[DrillRun] = []
    with session.open_store(settings) as store:
        live = Live(
            cluster=_reached(settings, name),
            store=store,
            actor="command line",
            page_s=page_s,
            stopping=signals.stop_on_signals(),
            tell=lambda line: typer.echo(f"  {line}", err=True),
        )
        try:
            for entry in entries:
                typer.echo(f"{entry.name}: {entry.drill.title}, in {name}", err=True)
                runs.append(live.perform(entry))
        except StoppedError:
            raise typer.Exit(_NOT_POSSIBLE) from None
    lines = [f"{run.name}: {run.error or ('proven' if run.paged_ns else 'found')}" for run in runs]
    session.report({"items": [asdict(run) for run in runs]}, "\n".join(lines), json=json)
    if any(run.error for run in runs):
        raise typer.Exit(1)


def _seconds(page_within: str) -> float | None:
    from pydantic_core import PydanticCustomError  # noqa: PLC0415  # pydantic takes its time

    from canary.settings.fields import seconds  # noqa: PLC0415

    if page_within == "never":
        return None
    try:
        return seconds(page_within)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message(), param_hint="--page-within") from None


def _reached(settings: Settings, name: str) -> ClusterSettings:
    """Return a cluster with its address, which the embedded lab's directory knows."""
    from canary.lab import Lab  # noqa: PLC0415

    for cluster in settings.clusters:
        if cluster.name == name:
            return cluster.at(Lab.attach(settings.lab.directory).bootstrap) if cluster.embedded else cluster
    raise UserError(f"there is no cluster {name}; there are: {', '.join(one.name for one in settings.clusters)}")
