"""A thread that asks round after round over canary.wire, with a connection of its own."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import structlog

from canary.kafka.client_inbox import ClientInbox
from canary.kafka.quiet import Gate
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.wire.errors import WireError

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 5.0
_REST: Final = 2
"""After a round it rests at least so many times as long as the round took: that of many partitions costs CPU."""


class WireWatcher(Worker):
    """Asks until stopped.

    Args:
        name: of the part.
        config: librdkafka's properties.
        inbox: takes the facts of the part, which has it as ``_inbox``.
        interval_s: from the beginning of one round to the next.

    ``failing`` is what the cluster refuses, None if it refuses nothing.
    """

    def __init__(self, name: str, config: Mapping[str, object], inbox: Inbox, clock: Clock, interval_s: float) -> None:
        super().__init__(name)
        self._inbox = ClientInbox(inbox, clock, name, self._met)
        self._admin: Any = None
        self._config = {"client.id": f"durability-canary-{name}", **config}
        self._clock = clock
        self._interval_s = interval_s
        self._gate = Gate()
        self.failing: str | None = None

    def run(self) -> None:
        """Ask until stopped; a connection that fails is made anew."""
        from canary.wire.client import opened  # noqa: PLC0415  # 23 MB, for whoever has this in the settings

        while not self.stopping.is_set():
            try:
                with opened(self._config, TIMEOUT_S) as admin:
                    self._rounds(admin)
            except WireError as error:
                self._admin = None
                self._not_answered(error)
                self.wait(self._interval_s)

    def _met(self) -> str | None:
        """Return which cluster the connection of now has met."""
        from canary.wire.client import cluster_of  # noqa: PLC0415  # the same

        return None if self._admin is None else cluster_of(self._admin)

    def _rounds(self, admin: Any) -> None:
        self._admin, going = admin, True
        while going:
            began = system.monotonic()
            self.look(admin)
            self._inbox.tell([])  # it may have met another cluster and found nothing new there
            took = system.monotonic() - began
            going = self.wait(max(self._interval_s - took, _REST * took))

    def _not_answered(self, error: WireError) -> None:
        if self._gate.admit("unanswered") is not None:
            log.info("not_answered", part=self.name, reason=str(error))
        self.unanswered(error)

    @abstractmethod
    def look(self, admin: Any) -> None:
        """Ask once, with a client of canary.wire.

        Raises:
            WireError: the cluster does not answer: the connection is made anew.
        """

    @abstractmethod
    def unanswered(self, error: WireError) -> None:
        """Nothing is known now."""
