"""What is done for one receiver by one process: of those that serve the API, the one that leads the receiver."""

from abc import abstractmethod
from typing import Final

import structlog

from canary.processes.notifying import sending
from canary.settings.notify.receivers import ReceiverSettings
from canary.threads import system
from canary.threads.worker import Worker
from storage.store import Store, StoreError
from storage.store.repositories.leases import Leadership

log = structlog.get_logger(__name__)

LOOK_S: Final = 1.0
"""How often is looked whether something is due."""
DEAD_AFTER_S: Final = 30.0
"""A process that leads a receiver may be busy with an attempt for so long."""


class Leader(Worker):
    """A thread that serves one receiver, while this process leads it."""

    def __init__(self, work: str, store: Store, receiver: ReceiverSettings) -> None:
        """Lead nothing yet; ``work`` names what it does."""
        super().__init__(f"{work} {receiver.name}")
        self._store = store
        self._receiver = receiver
        self._http = sending.client()
        self._leadership = Leadership(
            store.leases,
            system.token_hex(16),
            {f"notify/{receiver.name}": receiver.name},
            "notifier_leads",
            dead_after_s=DEAD_AFTER_S,
        )

    def run(self) -> None:
        """Look until stopped; then let another process lead."""
        logged = ""
        while not self.stopping.is_set():
            try:
                self.tick()
                logged = ""
            except StoreError as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("notifier_without_store", receiver=self._receiver.name, reason=logged)
            self.stopping.wait(LOOK_S)
        try:
            self._leadership.release()
        except StoreError as error:
            log.warning("notifier_left_without_store", receiver=self._receiver.name, reason=str(error))

    @abstractmethod
    def tick(self) -> None:
        """Look once, and do what is due if this process leads.

        Raises:
            StoreError: the store does not answer.
        """
