"""``canary serve``: REST, metrics and the status page alone."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Final

import structlog
import typer

from canary.cli import session

if TYPE_CHECKING:
    from storage.store import Store

_RETRY_S: Final = 2.0

log = structlog.get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve() -> None:
    """Serve REST, /metrics and the status page of what runners have stored. Any number may serve one store.

    Answers from the first moment: while the store is away with 503, and /metrics with canary_api_store_up 0.

    Example: canary serve --config canary.yaml
    """
    from api import create_app  # noqa: PLC0415  # FastAPI takes its time
    from api.server import ApiServer  # noqa: PLC0415
    from canary.settings.serving import is_loopback  # noqa: PLC0415
    from storage.store import Store  # noqa: PLC0415
    from storage.store.database import Database  # noqa: PLC0415

    settings = session.load_settings()
    store = Store(Database(settings.store.url.get_secret_value()))
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    if not settings.api.needs_token and not is_loopback(settings.api.host):
        log.warning(
            "open_to_all", host=settings.api.host, remedy="set api.auth.required to auto, or keep a proxy in front"
        )
    with ApiServer(create_app(settings, store), settings.api.host, settings.api.port, settings.api.tls) as server:
        typer.echo(f"Status page: {server.address}/  (Ctrl-C ends it)")
        threading.Thread(target=_upgrade, args=(store, ending), name="upgrade", daemon=True).start()
        while server.alive() and not ending.wait(1.0):
            pass


def _upgrade(store: Store, ending: threading.Event) -> None:
    """Bring the schema up to date as soon as the store can be reached."""
    from storage.store import StoreError  # noqa: PLC0415

    said = False
    while not ending.is_set():
        try:
            store.upgrade()
        except StoreError as error:
            if not said:
                log.warning("store_not_ready", reason=str(error))
            said = True
            ending.wait(_RETRY_S)
        else:
            return
