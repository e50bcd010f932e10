"""A deliberate zombie: does the cluster fence a producer whose transactional id was taken over?

Each round the present owner of one transactional id commits a transaction, opens another one, and leaves it open. A new
client with the same id then takes over (init_transactions), under a new generation. From there on the old one is a
zombie: its open transaction is aborted for good, and its later writes must never be read committed
(idempotent-producer, "Fencing"; jepsen-redpanda 1.3). The zombie tries: it writes into its old transaction and asks
for the commit. A write of it that is read, or acknowledged as committed, is a zombie-write.
"""

from collections.abc import Mapping

import structlog

from canary.probing.base import Renewal, Wiring, Writer
from canary.probing.book import Book
from canary.probing.session import DELIVERY_SHARE, Session, client_config
from canary.threads import system
from canary.workloads.fencing import FencingSettings

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_TAKE_OVER_S = 60.0
"""How long a successor tries to take over before the round is given up."""
_HAUNT_S = 2.0
"""How long the zombie waits for an answer."""


class FencingProbe(Writer):
    """The thread that takes over from itself; ``config`` has the ``transactional.id``."""

    def __init__(self, config: Mapping[str, object], wiring: Wiring[FencingSettings]) -> None:
        super().__init__(wiring)
        self._config = dict(config)
        self._deliver_s = wiring.settings.timeout * DELIVERY_SHARE
        self._owner = self._session()

    def run(self) -> None:
        """Round after round until stopped."""
        next_at = system.monotonic()
        while not self.stopping.is_set():
            self._obey()
            now = system.monotonic()
            left = _PACE_S if self._inbox.paused else next_at - now
            if left > 0:
                self.stopping.wait(min(left, _PACE_S))
            elif not self._owner.ready:
                if now >= self._owner.due:
                    self._owner.prepare(1.0)
                self.stopping.wait(_PACE_S)
            else:
                next_at = now + self._wiring.settings.interval
                self._round()

    def end(self) -> None:
        """Give up what is open."""
        self._owner.give_up("stopped")

    def _session(self) -> Session:
        """Return a client of the present generation, with numbers of its own: its predecessor goes on with its own."""
        name = f"{self._wiring.mode}-{self._under.generation}"
        return Session(self._config, Book(self._wiring, self._under), name)

    def _go_on_after(self, before: Renewal) -> None:
        if (self._under.generation, self._under.tag) == (before.generation, before.tag):
            return  # the next round writes to the other partitions: numbers count on, so that none is given twice
        self._owner.give_up("the topic has changed")
        self._owner = self._session()

    def _round(self) -> None:
        zombie, partitions = self._owner, self._under.partitions
        if not self._commit_one() or not zombie.begin() or zombie.open is None:
            if self._renew_after_death("the owner's client was closed"):
                self._succeed(self._successor())
            return
        zombie.send(partitions)
        zombie.deliver(self._deliver_s, self.stopping)
        successor = self._successor() if self._renew("a take-over on purpose") else None
        if successor is None or not successor.ready:
            zombie.give_up("no successor could take over")
        else:
            zombie.fenced_by(f"generation {self._under.generation} took over")
            zombie.haunt(self._under.partitions, _HAUNT_S)
        if successor is not None:
            self._succeed(successor)

    def _commit_one(self) -> bool:
        """Commit a transaction, which the take-over must not undo. Returns whether the client is well."""
        owner = self._owner
        if not owner.begin():
            return False
        owner.send(self._under.partitions)
        if not owner.deliver(self._deliver_s, self.stopping):
            owner.abort("not delivered")
            return owner.ready
        owner.commit()
        while owner.settling and not self.stopping.wait(_PACE_S):
            if system.monotonic() >= owner.due:
                owner.commit()
        if owner.settling:
            owner.give_up("stopped before its outcome was known")
        return owner.ready

    def _successor(self) -> Session:
        """Return a client with the same id under the new generation; not ready if it was not initialised in time."""
        session = self._session()
        deadline = system.monotonic() + _TAKE_OVER_S
        while not self.stopping.is_set() and system.monotonic() < deadline:
            if session.prepare(1.0):
                break
            self.stopping.wait(_PACE_S)
        return session

    def _succeed(self, successor: Session) -> None:
        self._owner.give_up("succeeded")
        self._owner = successor


def make(wiring: Wiring[FencingSettings]) -> FencingProbe:
    """Return the workload's writer."""
    return FencingProbe(client_config(wiring, wiring.own_name), wiring)
