"""``canary run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.cli import session
from canary.footprint import keep_small

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run() -> None:
    """Probe the clusters of the settings: the runner alone, without API and nightly jobs.

    Example: canary run --config canary.yaml
    """
    keep_small()
    from canary.runner import signals, supervise  # noqa: PLC0415  # the Kafka client takes its time

    settings = session.load_settings()
    supervise.run(settings, signals.stop_on_signals())
