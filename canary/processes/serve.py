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
from canary.threads.backoff import Pauses
from canary.threads.worker import Worker, stop_together
from storage.store import Store
from storage.store.database import Database

log = structlog.get_logger(__name__)

GRACE_S = 2.0
"""How long parts may take to end: one may wait for an answer, which another process asks for again."""


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until a signal; ``announce`` is called with the address.

    Raises:
        ServeError: the address cannot be listened on.
        UserError: a receiver of notifications needs an extra that is not installed.
    """
    store = Store(Database(settings.store.url.get_secret_value()))
    parts = _parts(settings, store)
    stopping = stop_on_signals()
    if not settings.api.needs_token and not is_loopback(settings.api.host):
        log.warning(
            "open_to_all", host=settings.api.host, remedy="set api.auth.required to auto, or keep a proxy in front"
        )
    with ApiServer(create_app(settings, store), settings.api.host, settings.api.port, settings.api.tls) as server:
        announce(server.address)
        system.thread(lambda: migrated(lambda: store, stopping), "upgrade").start()
        pauses = Pauses()
        for part in parts:
            part.start()
        while server.alive() and not stopping.wait(1.0):
            for part in parts:
                if not part.alive and pauses.may_start(part.name):
                    log.error("part_started_again", part=part.name, failure=repr(part.failure))
                    part.restart()
        stop_together(parts, GRACE_S)


def _parts(settings: Settings, store: Store) -> list[Worker]:
    """Return the threads beside the API: each is started again when it ends."""
    if not settings.notify:
        return []
    from canary.processes.notifying.notifier import notifiers  # noqa: PLC0415  # its HTTP client takes 10 MiB

    return [*notifiers(settings, store)]
