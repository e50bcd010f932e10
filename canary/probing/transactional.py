"""Transactions over several partitions: mostly committed, some aborted on purpose, some left open.

One thread takes turns through several transactional ids, one for each coordinator of the cluster
(canary.probing.coordinators), so that a broken coordinator is seen wherever it is. Only one transaction writes at a
time, and the next one begins to write when every record of the last is reported: so the order of sequences is the
order of offsets. What may take its time is a commit: its session settles it in later turns, while others go on.

Whatever an error does not prove is indeterminate, and that client is closed. No transaction begins until its successor
has initialised the same id: from then on what the closed client wrote is in the log, or never will be. Where that takes
longer than _FENCE_S, every session goes on under a new generation: its sequences are others.
"""

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from canary.facts import CoordinatorsSeen
from canary.probing.base import Renewal, Wiring, Writer
from canary.probing.book import Book
from canary.probing.coordinators import STATE_TOPIC, Coordinators, choose, missed
from canary.probing.session import DELIVERY_SHARE, Session, client_config
from canary.threads import system
from canary.workloads.transactional import TransactionalSettings

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_SAME_TURNS = 101
"""After so many transactions another coordinator's turn is next: what goes round in fewer meets all of them."""
_FENCE_S = 5.0
"""How long a closed client's successor may take to initialise its id before the next generation is begun."""
_LAST_S = 1.5
"""What a stop may cost: the transaction that is open is ended, the commit that is asked for is asked for once more."""


class TransactionalProducer(Writer):
    """The thread that writes all transactions; which partitions and aborts come next, its settings say by number.

    ``config_of`` returns librdkafka properties for a transactional id (without its prefix).
    """

    def __init__(
        self,
        config_of: Callable[[str], Mapping[str, object]],
        wiring: Wiring[TransactionalSettings],
    ) -> None:
        super().__init__(wiring)
        self._settings = wiring.settings
        self._config_of = config_of
        self._book = Book(wiring, wiring.under)
        self._closed: list[Session] = []
        """Sessions whose clients were closed: until their successors are ready no transaction may begin."""
        self._closed_at = 0.0
        self._begun = 0
        """How many transactions were begun: the number of the next one."""
        self._cut = len(f"{wiring.cluster.identifier_prefix}-")
        self._prefix = f"{wiring.cluster.identifier_prefix}-{wiring.own_name}-"
        """Of the ids as the cluster knows them: their coordinators follow from these."""
        self._ids: list[str] = []
        self._missed: list[int] = []
        self._coordinators = Coordinators(STATE_TOPIC)
        self._sessions: list[Session] = []
        self._loner = self._session(f"{self._prefix}abandoned")
        self._turn = 0

    def run(self) -> None:
        """Transaction after transaction until stopped."""
        self._add_sessions()
        next_at = system.monotonic()
        abandon_at = next_at + self._settings.abandon_every
        while not self.stopping.is_set():
            self._obey()
            self._settle()
            self._go_on()
            now = system.monotonic()
            left = _PACE_S if self._inbox.paused or self._closed else next_at - now
            if left > 0:
                self.stopping.wait(min(left, _PACE_S))
                continue
            next_at = max(next_at + self._settings.interval, now)
            if now >= abandon_at:
                abandon_at = now + self._settings.abandon_every
                self._abandon()
            else:
                self._next()
            self._look()

    def _session(self, transactional_id: str) -> Session:
        name = transactional_id[self._cut :]
        return Session(self._config_of(name), self._book, name, measure=partial(self._measured, transactional_id))

    def _measured(self, transactional_id: str, seconds: float | None) -> None:
        """Count a call of commit_transaction(): how long the commit took, None if it was not committed."""
        self._wiring.meters.committed("transaction", self._coordinators.of(transactional_id), seconds)

    def _add_sessions(self) -> None:
        ids = choose(self._prefix, self._coordinators.leaders, self._ids, self._settings.most_ids)
        for one in ids[len(self._ids) :]:
            log.info("coordinator_probed", worker=self.name, transactional_id=one)
            self._sessions.append(self._session(one))
        self._ids = ids

    def _look(self) -> None:
        """See which brokers are coordinators now: a new one gets an id, and a change of those without one is a fact."""
        client = next((session.client for session in self._sessions if session.client is not None), None)
        if self._coordinators.look(client):
            self._add_sessions()
            before, self._missed = self._missed, missed(self._coordinators.leaders, self._ids)
            if self._missed != before:
                brokers = ",".join(map(str, self._missed))
                self._inbox.put([CoordinatorsSeen(self._clock.now_ns(), self._wiring.mode, brokers)])

    def _next(self) -> None:
        """One transaction, by the session whose turn it is and that can."""
        for step in range(len(self._sessions)):
            session = self._sessions[(self._turn + step) % len(self._sessions)]
            if session.open is None and self._is_ready(session):
                self._turn = (self._turn + step + 1 + (self._begun % _SAME_TURNS == 0)) % len(self._sessions)
                self._transact(session)
                return

    def _is_ready(self, session: Session) -> bool:
        return session.ready or (system.monotonic() >= session.due and session.prepare(1.0))

    def _transact(self, session: Session) -> None:
        abort = self._write(session)
        if abort is None:
            return
        if session.deliver(self._settings.timeout * DELIVERY_SHARE, self.stopping) and not abort:
            session.commit()
        else:
            session.abort("aborted on purpose")
        self._after(session)

    def _write(self, session: Session) -> bool | None:
        """Write the next transaction; return whether it is to be aborted, None if it could not begin."""
        if not session.begin():
            self._after(session)
            return None
        chosen, abort = self._settings.turn(self._begun, self._under.partitions)
        self._begun += 1
        session.send(chosen, self._settings.records)
        return abort

    def _abandon(self) -> None:
        """Leave one open: its coordinator has to end it, and its records must never be read committed."""
        session = self._loner
        if self._is_ready(session) and self._write(session) is not None:
            session.deliver(self._settings.timeout * DELIVERY_SHARE, self.stopping)
            session.give_up("left open on purpose: no commit is ever asked for")
            log.info("transaction_abandoned", worker=self.name, client=session.name)

    def _settle(self) -> None:
        """Ask again for the commits that got no answer."""
        for session in self._sessions:
            if session.settling and system.monotonic() >= session.due:
                session.commit(1.0)
                self._after(session)
            elif session.client is not None and session.open is None:
                session.serve(0)

    def _after(self, session: Session) -> None:
        """A client that had to be closed is followed by a new one, before anything else is written."""
        if session.client is None:
            self._closed.append(session)
            self._closed_at = system.monotonic()

    def _go_on(self) -> None:
        """Go on after clients were closed, when the pause is over; commits are settled meanwhile."""
        if not self._closed or self.pause.left_s:
            return
        if all(map(self._is_ready, self._closed)):
            self.pause.start()
        elif system.monotonic() - self._closed_at < _FENCE_S:
            return
        elif self._renew_after_death(f"{self._closed[0].name} was closed"):
            self._book.renew(self._under)
        self._closed.clear()

    def _go_on_after(self, before: Renewal) -> None:
        if self._under.tag != before.tag:
            for session in [*self._sessions, self._loner]:
                session.give_up("the topic is another one")
        if self._under.generation != before.generation:
            self._closed.clear()
        self._book.renew(self._under)

    def end(self) -> None:
        """Ask once more for the commits that have no answer; what has none then is indeterminate."""
        deadline = system.monotonic() + _LAST_S
        for session in self._sessions:
            if session.settling and (left := deadline - system.monotonic()) > 0:
                session.commit(left)
            session.give_up("stopped before its outcome was known")
        self._loner.give_up("stopped")


def make(wiring: Wiring[TransactionalSettings]) -> TransactionalProducer:
    """Return the workload's writer."""
    return TransactionalProducer(partial(client_config, wiring), wiring)
