"""What a process waits for before it begins: the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from storage.store import Store, StoreError

if TYPE_CHECKING:
    import threading

    from canary.settings import Settings

log = structlog.get_logger(__name__)

_PATIENCE_S = 2.0


def open_store(settings: Settings, stopping: threading.Event) -> Store | None:
    """Return the store, migrated, as soon as it answers; None when told to stop before (a start waits: decision 4)."""
    said: str | None = None
    url = settings.store.url.get_secret_value()
    while not stopping.is_set():
        try:
            store = Store.connect(url, timeout=0)
            store.upgrade()
        except StoreError as error:
            if str(error) != said:
                said = str(error)
                log.warning("waiting_for_store", reason=said)
            stopping.wait(_PATIENCE_S)
        else:
            return store
    return None
