"""``canary serve``: REST, metrics and the status page of one store, until SIGTERM or Ctrl-C."""

from collections.abc import Callable

import structlog

from api import create_app
from api.server import ApiServer
from canary.processes.signals import stop_on_signals
from canary.processes.store_start import migrated
from canary.settings import Settings
from canary.settings.serving import is_loopback
from canary.threads import system
from storage.store import Store
from storage.store.database import Database

log = structlog.get_logger(__name__)


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until a signal; ``announce`` is called with the address.

    Raises:
        ServeError: the address cannot be listened on.
    """
    store = Store(Database(settings.store.url.get_secret_value()))
    stopping = stop_on_signals()
    if not settings.api.needs_token and not is_loopback(settings.api.host):
        log.warning(
            "open_to_all", host=settings.api.host, remedy="set api.auth.required to auto, or keep a proxy in front"
        )
    with ApiServer(create_app(settings, store), settings.api.host, settings.api.port, settings.api.tls) as server:
        announce(server.address)
        system.thread(lambda: migrated(lambda: store, stopping), "upgrade").start()
        while server.alive() and not stopping.wait(1.0):
            pass
