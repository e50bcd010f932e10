"""``canary serve``: REST, metrics and the status page alone."""

from __future__ import annotations

import typer

from canary.cli import session
from canary.footprint import keep_small


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve() -> None:
    """Serve REST, /metrics and the status page of what runners have stored. Any number may serve one store.

    Answers from the first moment: while the store is away with 503, and /metrics with canary_api_store_up 0.

    Example: canary serve --config canary.yaml
    """
    keep_small()
    settings = session.load_settings()
    from canary.runner import service  # noqa: PLC0415  # FastAPI takes its time; wrong settings are told before

    service.serve(settings, lambda address: typer.echo(f"Status page: {address}/  (Ctrl-C ends it)"))
