"""``canary up|run|serve|schedule``: the processes that stay."""

import typer

from canary.cli import session
from canary.extras import require
from canary.footprint import keep_quiet, keep_small

_HINT = "To see a real loss being found, in a minute, on other brokers: canary drill run fsync-loss"


def up() -> None:
    """Run everything: runner, API and nightly jobs; without bootstrap.servers, on an embedded three-broker Kafka.

    Example: canary up --config canary.yaml
    """
    from canary.cli import progress  # noqa: PLC0415  # structlog and pydantic take their time
    from canary.processes import signals, up  # noqa: PLC0415

    settings = session.load_settings()
    current = session.current()
    stopping = signals.stop_on_signals()
    hint = f"\n{_HINT}" if any(cluster.embedded for cluster in settings.clusters) else ""
    with progress.shown() as report:
        status = up.up(
            settings,
            current.config,
            current.verbosity,
            stopping,
            progress=report,
            announce=lambda address: typer.echo(f"canary is up: {address}  (Ctrl-C ends it){hint}"),
        )
    raise typer.Exit(status)


def run() -> None:
    """Probe the clusters of the settings: the runner alone, without API and nightly jobs.

    Example: canary run --config canary.yaml
    """
    keep_small()
    from canary.processes import run, signals  # noqa: PLC0415  # the Kafka client takes its time

    settings = session.load_settings()
    keep_quiet()
    run.run(settings, signals.stop_on_signals())


def serve() -> None:
    """Serve REST, /metrics and the status page of what runners have stored. Any number may serve one store.

    Answers from the first moment: while the store is away with 503, and /metrics with canary_api_store_up 0.

    Example: canary serve --config canary.yaml
    """
    keep_small()
    settings = session.load_settings()
    from canary.processes import serve  # noqa: PLC0415  # FastAPI takes its time; wrong settings are reported before

    keep_quiet()
    serve.serve(settings, lambda address: typer.echo(f"Status page: {address}/  (Ctrl-C ends it)"))


def schedule() -> None:
    """Reconcile at the hours of the settings, and whenever the API is asked to; one of several leads.

    Example: canary schedule --config canary.yaml
    """
    from canary.processes import signals  # noqa: PLC0415  # SQLAlchemy takes its time
    from canary.processes.store_start import open_store  # noqa: PLC0415
    from spark_reconcile.nightly.scheduler import Scheduler  # noqa: PLC0415

    require("spark", "canary schedule")
    settings = session.load_settings()
    stopping = signals.stop_on_signals()
    store = open_store(settings, stopping)
    if store is None:
        return
    config = session.current().config
    with store:
        Scheduler(settings, store, ["--config", str(config)] if config is not None else []).run(stopping)
