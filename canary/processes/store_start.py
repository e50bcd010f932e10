"""Waits for the store, before a process begins."""

from collections.abc import Callable

import structlog

from canary.settings import Settings
from canary.threads import system
from storage.store import Store, StoreError

log = structlog.get_logger(__name__)

_PATIENCE_S = 2.0


def open_store(settings: Settings, stopping: system.Event) -> Store | None:
    """Return the store, migrated, as soon as it answers; None when stopped before (ARCHITECTURE decision 4)."""
    url = settings.store.url.get_secret_value()
    return migrated(lambda: Store.connect(url, timeout=0), stopping)


def migrated(connect: Callable[[], Store], stopping: system.Event) -> Store | None:
    """Bring the tables up to date as soon as the store answers, and return it; None when stopped before."""
    reason = ""
    while not stopping.is_set():
        try:
            store = connect()
            store.upgrade()
        except StoreError as error:
            if str(error) != reason:
                reason = str(error)
                log.warning("waiting_for_store", reason=reason)
            stopping.wait(_PATIENCE_S)
        else:
            return store
    return None
