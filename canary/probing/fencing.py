"""A deliberate zombie: does the cluster keep a producer out whose transactional id was taken over?

Each round the present owner of one transactional id commits a transaction, opens another one, and leaves it open. A new
client with the same id then takes over (init_transactions), under a new generation. From there on the old one is a
zombie: its open transaction is aborted for good, and whatever it still writes must never be read committed
(idempotent-producer, "Fencing"; jepsen-redpanda 1.3). It tries: it writes into its old transaction and asks for the
commit. What of that is seen, or acknowledged as committed, the tracker calls a zombie-write.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from canary.client.worker import Worker
from canary.probing.idempotent import Renewal
from canary.probing.session import Book, Session
from canary.probing.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_TAKE_OVER_S = 60.0
"""How long a successor tries to take over before the round is given up."""
_HAUNT_S = 2.0
"""How long the zombie waits for an answer."""


class FencingProbe(Worker):
    """The thread that does all of it. Nothing is sent before ``start()``.

    Args:
        config: librdkafka properties, with ``transactional.id``.
        topic: the mode's topic; it must exist.
        under: generation, tag and partitions to write under.
        producer_id: who writes.
        mode: name of the mode the facts carry.
        interval_s: seconds between two take-overs.
        deliver_s: how long delivery reports are waited for.
        record_length: bytes of a probe's value.
        inbox: where facts go.
        clock: what time it is.
        renew: called in this thread before each take-over; returns under what the successor writes.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topic: str,
        under: Renewal,
        *,
        producer_id: int,
        mode: str,
        interval_s: float,
        deliver_s: float,
        record_length: int,
        inbox: Inbox,
        clock: Clock,
        renew: Callable[[str], Renewal],
    ) -> None:
        super().__init__(f"producer-{mode}")
        self._config = dict(config)
        self._topic = topic
        self._under = under
        self._producer_id = producer_id
        self._mode = mode
        self._interval_s = interval_s
        self._deliver_s = deliver_s
        self._record_length = record_length
        self._inbox = inbox
        self._clock = clock
        self._succession = Succession(self.name, renew, self.stopping)
        self._wanted: Renewal | None = None
        self._lock = threading.Lock()
        self._owner = self._session(under)
        self.rounds = 0

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values, soon and in its own thread, with another client."""
        with self._lock:
            self._wanted = Renewal(generation, tag, tuple(partitions))

    def run(self) -> None:
        """Round after round until stopped."""
        next_at = time.monotonic()
        while not self.stopping.is_set():
            self._obey()
            now = time.monotonic()
            left = _PACE_S if self._inbox.paused else next_at - now
            if left > 0:
                self.stopping.wait(min(left, _PACE_S))
            elif not self._owner.ready:
                if now >= self._owner.due:
                    self._owner.prepare(1.0)
                self.stopping.wait(_PACE_S)
            else:
                next_at = now + self._interval_s
                self._round()

    def end(self) -> None:
        """Give up what is open."""
        self._owner.give_up("stopped")

    def _session(self, under: Renewal) -> Session:
        book = Book(self._topic, self._mode, self._producer_id, self._record_length, under, self._inbox, self._clock)
        return Session(self._config, book, f"{self._mode}-{under.generation}")

    def _obey(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._owner.give_up("the topic has changed")
            self._under = wanted
            self._owner = self._session(wanted)

    def _round(self) -> None:
        zombie = self._owner
        if not self._commit_one() or not zombie.begin() or zombie.open is None:
            self._succeed(self._follow(self._succession.after_death("the owner's client was closed")))
            return
        zombie.send(self._under.partitions)
        zombie.deliver(self._deliver_s, self.stopping)
        successor = self._follow(self._succession.at_once("a take-over on purpose"))
        if successor is None or not successor.ready:
            zombie.give_up("nobody could take over")
        else:
            zombie.fenced_by(f"generation {self._under.generation} took over")
            zombie.haunt(self._under.partitions, _HAUNT_S)
            self.rounds += 1
        self._succeed(successor)

    def _commit_one(self) -> bool:
        """What is promised, so that there is something to tell from what is not. Returns whether the client is well."""
        owner = self._owner
        if not owner.begin():
            return False
        owner.send(self._under.partitions)
        if not owner.deliver(self._deliver_s, self.stopping):
            owner.abort("not delivered")
            return owner.ready
        owner.commit()
        while owner.settling and not self.stopping.wait(_PACE_S):
            if time.monotonic() >= owner.due:
                owner.commit()
        if owner.settling:
            owner.give_up("stopped before its outcome was known")
        return owner.ready

    def _follow(self, under: Renewal | None) -> Session | None:
        """Return a client with the same id under a new generation; not ready if it could not be initialised in time."""
        if under is None:
            return None
        self._under = under
        session = self._session(under)
        deadline = time.monotonic() + _TAKE_OVER_S
        while not self.stopping.is_set() and time.monotonic() < deadline:
            if session.prepare(1.0):
                break
            self.stopping.wait(_PACE_S)
        return session

    def _succeed(self, successor: Session | None) -> None:
        if successor is not None:
            self._owner.give_up("succeeded")
            self._owner = successor
