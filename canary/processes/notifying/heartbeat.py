"""A heartbeat: calls an address each minute while all is well, so that a service outside notices when calls stop.

A canary that is down tells nobody. So what proves that it works is sent, and what is missing rings there: the process,
the store, a runner, or the way to another receiver.
"""

from collections.abc import Sequence
from typing import Final

import structlog

from api.health import silent
from api.judgement.safety import waits
from api.knowledge.heartbeats import Heartbeats
from api.knowledge.views import read_views
from api.state import Knowledge
from canary.processes.notifying import sending
from canary.processes.notifying.leader import Leader
from canary.processes.notifying.sending import NotTakenError
from canary.settings.notify.receivers import ReceiverSettings
from canary.threads import system
from storage.store import Store
from storage.store.receivers import UNTOLD_S

log = structlog.get_logger(__name__)

CALL_S: Final = 60.0
"""How often the receiver is called."""
RETRY_S: Final = 5.0
"""How soon is looked again after something was not well, or the receiver did not answer."""
LOG_S: Final = 60.0
"""How often is logged why calls stop; each time they do it is logged at once."""
DROPPED_NS: Final = 3600 * 10**9
"""For so long after a notification was given up all is not well."""


class Heartbeat(Leader):
    """Calls one receiver, while this process leads it."""

    def __init__(
        self, store: Store, receiver: ReceiverSettings, *, clusters: Sequence[str], others: Sequence[str] = ()
    ) -> None:
        """Take the names of the clusters that have to be judged, and of the receivers that have to be told."""
        super().__init__("heartbeat", store, receiver)
        self._clusters = tuple(clusters)
        self._others = others
        self._heard = Heartbeats()
        self._due = float("-inf")
        self._log_due = float("-inf")

    def tick(self) -> None:
        """Call the receiver if that is due and all is well.

        Raises:
            StoreError: the store does not answer.
        """
        if not self._leadership.renewed() or system.monotonic() < self._due:
            return
        self._due = system.monotonic() + RETRY_S
        why = self._unjudged() or self._untold()
        if why is None:
            try:
                sending.send(self._http, self._receiver)
            except NotTakenError as error:
                why = str(error)
                self._due = system.monotonic() + max(RETRY_S, error.wait_s or 0.0)
        if why is None:
            self._called()
        elif system.monotonic() >= self._log_due:
            self._log_due = system.monotonic() + LOG_S
            log.warning("heartbeat_stops", receiver=self._receiver.name, reason=why)

    def _called(self) -> None:
        """Note that the receiver has answered."""
        self._due, self._log_due = system.monotonic() + CALL_S, float("-inf")
        log.info("heartbeat_called", receiver=self._receiver.name)
        self._store.notifications.register([self._receiver.name], system.wall_ns())
        self._store.notifications.looked(self._receiver.name, system.wall_ns())

    def _unjudged(self) -> str | None:
        """Return why a cluster is not judged; None: all are."""
        now_ns, now_s = system.wall_ns(), system.monotonic()
        views = read_views(
            self._store.views.all(), now_ns, self._clusters, lambda runner, ns: self._heard.heard(runner, ns, now_s)
        )
        waiting = (words for name, view in views.items() if name in (self._clusters or views) for words in waits(view))
        return silent(Knowledge(now_ns, views, (), ()), self._clusters) or next(waiting, None)

    def _untold(self) -> str | None:
        """Return which other receiver could not be told of incidents; None: all are told."""
        now_ns = system.wall_ns()
        known = {one.name: one for one in self._store.notifications.receivers(self._others)}
        late = [name for name in self._others if name not in known or known[name].untold_s(now_ns) > UNTOLD_S]
        late += self._store.notifications.given_up(self._others, now_ns - DROPPED_NS)
        return f"{late[0]} is not told of incidents" if late else None
