"""``canary drill run NAME --cluster NAME``: the way from Kafka to the pager is proven in a live cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from canary.cli import session
from canary.errors import UserError

if TYPE_CHECKING:
    from canary.drills.catalogue import Entry
    from canary.drills.rig.performance import Stagehand
    from canary.drills.rig.result import Brokers
    from canary.drills.stage import Stage
    from canary.lab import Lab
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
    page_s = None if page_within == "never" else session.seconds_of(page_within, "--page-within")
    runs: list[DrillRun] = []
    with session.open_store(settings) as store:
        live = Live(
            cluster=session.with_address(settings, session.cluster_named(settings, name)),
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


def owned(name: str, confirmed: str) -> Brokers:
    """Return what gives the brokers of a cluster that may be broken: those that a running ``canary up`` embeds.

    Raises:
        UserError: it was not confirmed, or the brokers are not the canary's.
    """
    from canary.lab import Lab  # noqa: PLC0415

    if confirmed != name:
        raise UserError(f"--i-own-this-cluster {confirmed} is not --cluster {name}: nothing is broken")
    settings = session.load_settings()
    cluster = session.cluster_named(settings, name)
    if not cluster.embedded:
        raise UserError(f"{name} is not the embedded cluster of `canary up`: only its brokers can be broken from here")
    found = Lab.attach(settings.lab.directory)
    if not found.alive():
        raise UserError(f"the brokers in {found.directory} do not run; start them: canary up", _NOT_POSSIBLE)
    own = {cluster.topic_of(mode) for mode in cluster.modes.enabled()}

    @contextmanager
    def brokers(stage: Stage, _hand: Stagehand) -> Iterator[Lab]:
        from canary.drills.rig.performance import delete, topics  # noqa: PLC0415  # Kafka's client takes its time

        if others := sorted(topics(found) - own - set(stage.topics)):
            raise UserError(f"the cluster has topics of others, which would be harmed: {', '.join(others[:5])}")
        delete(found, stage.topics)
        try:
            yield found
        finally:
            found.mend()
            delete(found, stage.topics)

    return brokers
