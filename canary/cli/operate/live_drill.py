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


def owned(name: str, confirmed: str) -> Brokers:
    """Return what gives the brokers of a cluster that may be broken: those that a running ``canary up`` embeds.

    Raises:
        UserError: it was not confirmed, or the brokers are not the canary's.
    """
    from canary.lab import Lab  # noqa: PLC0415

    if confirmed != name:
        raise UserError(f"--i-own-this-cluster {confirmed} is not --cluster {name}: nothing is broken")
    settings = session.load_settings()
    cluster = next((one for one in settings.clusters if one.name == name), None)
    if cluster is None or not cluster.embedded:
        raise UserError(f"{name} is not the embedded cluster of `canary up`: only its brokers can be broken from here")
    found = Lab.attach(settings.lab.directory)
    if not found.alive():
        raise UserError(f"the brokers in {found.directory} do not run; start them: canary up", _NOT_POSSIBLE)
    own = {cluster.topic_of(mode) for mode in cluster.modes.enabled()}

    @contextmanager
    def brokers(stage: Stage, _hand: Stagehand) -> Iterator[Lab]:
        _refuse_others(found, own | set(stage.topics))
        _delete(found, set(stage.topics))
        try:
            yield found
        finally:
            found.mend()
            _delete(found, set(stage.topics))

    return brokers


def _refuse_others(lab: Lab, ours: set[str]) -> None:
    if others := sorted(_topics(lab) - ours):
        raise UserError(f"the cluster has topics of others, which would be harmed: {', '.join(others[:5])}")


def _topics(lab: Lab) -> set[str]:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  # it takes its time

    named = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0}).list_topics(timeout=60).topics
    return {name for name in named if not name.startswith("__")}


def _delete(lab: Lab, topics: set[str]) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  # it takes its time

    if gone := sorted(topics & _topics(lab)):
        admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
        for future in admin.delete_topics(gone, operation_timeout=60).values():
            future.exception(90)
