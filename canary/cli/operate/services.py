"""``canary up``."""

from __future__ import annotations

import typer

from canary.cli import session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up")(up)


def up() -> None:
    """Run everything: runner, API and nightly jobs; without bootstrap.servers, on an embedded three-broker Kafka.

    Example: canary up --config canary.yaml
    """
    from canary.cli import progress  # noqa: PLC0415  # structlog and pydantic take their time
    from canary.runner import group, signals  # noqa: PLC0415

    settings = session.load_settings()
    current = session.current()
    stopping = signals.stop_on_signals()
    with progress.shown() as report:
        status = group.up(
            settings,
            current.config,
            current.verbosity,
            stopping,
            progress=report,
            announce=lambda address: typer.echo(f"canary is up: {address}  (Ctrl-C ends it)"),
        )
    raise typer.Exit(status)
