"""A notifier: the thread that tells one receiver of incidents, in the process that leads the receiver."""

from collections.abc import Sequence
from typing import Final

import structlog

from canary.extras import require
from canary.processes.notifying import sending
from canary.processes.notifying.heartbeat import Heartbeat
from canary.processes.notifying.leader import Leader
from canary.processes.notifying.messages import messages
from canary.processes.notifying.sending import NotTakenError
from canary.settings import Settings
from canary.settings.notify.receivers import ReceiverSettings
from canary.threads import system
from storage.store import Store
from storage.store.receivers import Interest, Notification

log = structlog.get_logger(__name__)

NOTE_S: Final = 10.0
"""How often is noted that a receiver's incidents are looked at, and given up what is too old."""
FIRST_S: Final = 2.0
LONGEST_S: Final = 300.0
"""The pause after a failed attempt, and the longest one; each lasts twice as long as the one before."""


class Notifier(Leader):
    """Tells one receiver, while this process leads it."""

    def __init__(
        self, store: Store, receiver: ReceiverSettings, *, shadow: Sequence[str] = (), address: str | None = None
    ) -> None:
        """Take the clusters in shadow mode, and the address of the pages for links."""
        super().__init__("notifier", store, receiver)
        self._address = address
        self._interest = Interest(
            receiver.name,
            frozenset(receiver.severities),
            frozenset(receiver.clusters),
            receiver.drills,
            frozenset(shadow),
        )
        self._known = False
        self._note_due = self._send_due = float("-inf")
        self._failures = 0
        """How many attempts failed in a row."""

    def tick(self) -> None:
        """Look once, and send what is due.

        Raises:
            StoreError: the store does not answer.
        """
        notifications, name = self._store.notifications, self._receiver.name
        if not self._known:
            notifications.register([name], system.wall_ns())
            self._known = True
        if not self._leadership.renewed():
            return
        notifications.look(self._interest, system.wall_ns())
        if system.monotonic() >= self._note_due:
            self._note_due = system.monotonic() + NOTE_S
            notifications.looked(name, system.wall_ns())
            if count := notifications.drop(name, system.wall_ns()):
                log.error("notifications_given_up", receiver=name, count=count, why="not taken for a day")
        if system.monotonic() < self._send_due:
            return
        for one in notifications.due(name, system.wall_ns()):
            if self.stopping.is_set() or not self._leadership.renewed() or not self._sent(one):
                return

    def _sent(self, one: Notification) -> bool:
        """Try to send a notification; return whether others may be tried now."""
        key = self._receiver.key.get_secret_value() if self._receiver.key is not None else None
        try:
            for message in messages(self._receiver.kind, key, one, self._address):
                sending.send(self._http, self._receiver, message)
        except NotTakenError as error:
            self._failed(one, error)
            return error.alone
        self._failures = 0
        self._store.notifications.delivered(one.id, system.wall_ns())
        log.info("notified", receiver=one.receiver, incident=one.incident_id, change=one.change)
        return True

    def _failed(self, one: Notification, error: NotTakenError) -> None:
        tries = one.attempts if error.alone else max(one.attempts, self._failures)
        pause_s = min(FIRST_S * 2 ** min(tries, 16), LONGEST_S) * (0.5 + system.random_bits(16) / 2**17)
        pause_s = max(pause_s, error.wait_s or 0.0)
        if not error.alone:
            self._failures += 1
            self._send_due = system.monotonic() + pause_s
        log.warning(
            "not_notified",
            receiver=one.receiver,
            incident=one.incident_id,
            change=one.change,
            reason=str(error),
            again_in_s=round(pause_s, 1),
        )
        self._store.notifications.failed(one, system.wall_ns() + int(pause_s * 1e9), str(error))


def notifiers(settings: Settings, store: Store) -> list[Leader]:
    """Return a notifier or a heartbeat for each receiver of the settings, not started.

    Raises:
        UserError: a receiver needs an extra that is not installed.
    """
    for receiver in settings.notify:
        if receiver.kind == "otlp":
            require("otlp", f"the receiver {receiver.name} (notify, kind: otlp)")
    api, told = settings.api, [one for one in settings.notify if one.is_told]
    every, others = [one.name for one in settings.clusters], [one.name for one in told]
    return [
        *(Notifier(store, receiver, shadow=api.shadow, address=api.address) for receiver in told),
        *(
            Heartbeat(store, receiver, clusters=receiver.clusters or every, others=others)
            for receiver in settings.notify
            if not receiver.is_told
        ),
    ]
