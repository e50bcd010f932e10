"""``canary serve``: REST, metrics and the status page of one store, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Final

import structlog

from api import create_app
from api.server import ApiServer
from canary.settings.serving import is_loopback
from storage.store import Store, StoreError
from storage.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.settings import Settings

_RETRY_S: Final = 2.0

log = structlog.get_logger(__name__)


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until told to stop; ``announce`` is told the address.

    Raises:
        ServeError: the address cannot be listened on.
    """
    store = Store(Database(settings.store.url.get_secret_value()))
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    if not settings.api.needs_token and not is_loopback(settings.api.host):
        log.warning(
            "open_to_all", host=settings.api.host, remedy="set api.auth.required to auto, or keep a proxy in front"
        )
    with ApiServer(create_app(settings, store), settings.api.host, settings.api.port, settings.api.tls) as server:
        announce(server.address)
        threading.Thread(target=_upgrade, args=(store, ending), name="upgrade", daemon=True).start()
        while server.alive() and not ending.wait(1.0):
            pass


def _upgrade(store: Store, ending: threading.Event) -> None:
    """Bring the schema up to date as soon as the store can be reached."""
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
