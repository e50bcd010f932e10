"""``canary schedule``: nightly jobs, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.cli import session
from canary.extras import require

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schedule")(schedule)


def schedule() -> None:
    """Reconcile at the hours of the settings, and whenever the API is asked to; one of several leads.

    Example: canary schedule --config canary.yaml
    """
    from canary.runner import signals  # noqa: PLC0415  # SQLAlchemy takes its time
    from canary.runner.start import open_store  # noqa: PLC0415
    from spark_reconcile.schedule import Scheduler  # noqa: PLC0415

    require("spark", "canary schedule")
    settings = session.load_settings()
    stopping = signals.stop_on_signals()
    store = open_store(settings, stopping)
    if store is None:
        return
    config = session.current().config
    with store:
        Scheduler(settings, store, ["--config", str(config)] if config is not None else []).run(stopping)
