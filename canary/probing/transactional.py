"""Transactions over several partitions: mostly committed, some aborted on purpose, some left open.

One thread takes turns through several transactional ids, one for each coordinator of the cluster
(canary.probing.coordinators), so that a broken coordinator is seen wherever it is. Only one transaction writes at a
time, and the next one begins to write when every record of the last is reported: so the order of sequences is the
order of offsets. What may take its time is a commit: its session settles it in later turns, and others go on.

Whatever an error does not prove is indeterminate; that client is closed, and everybody goes on under a new generation.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaException

from canary.client.worker import Worker
from canary.facts import CoordinatorsSeen
from canary.probing.coordinators import STATE_TOPIC, choose, missed
from canary.probing.idempotent import Renewal
from canary.probing.session import Book, Session
from canary.probing.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_LOOK_S = 15.0
"""How often the coordinators are looked at."""
_FIRST_LOOK_S = 1.0
_LAST_S = 1.5
"""What a stop may cost: the transaction that is open is ended, the commit that is asked for is asked for once more."""


class TransactionalProducer(Worker):
    """The thread that does all of it. Nothing is sent before ``start()``.

    Args:
        config_of: returns librdkafka properties for a transactional id (without its prefix).
        topic: the mode's topic; it must exist.
        under: generation, tag and partitions to write under.
        producer_id: who writes (ARCHITECTURE decision 1).
        mode: name of the mode the facts carry.
        interval_s: seconds between two transactions.
        spread: partitions of a transaction at most.
        records: records of a transaction in each partition.
        abort_percent: how many of 100 transactions are aborted on purpose.
        abandon_every_s: how often one is left open.
        deliver_s: how long delivery reports are waited for before a transaction is aborted.
        most_ids: transactional ids at most.
        record_length: bytes of a probe's value.
        inbox: where facts go.
        clock: what time it is.
        renew: called in this thread after a client was closed for what nobody understood; returns under what to go on.
        named: what its transactional ids begin with, the same after a restart; None: they go by the producer id.
        seed: of the dice.
    """

    def __init__(
        self,
        config_of: Callable[[str], Mapping[str, object]],
        topic: str,
        under: Renewal,
        *,
        producer_id: int,
        mode: str,
        interval_s: float,
        spread: int,
        records: int,
        abort_percent: int,
        abandon_every_s: float,
        deliver_s: float,
        most_ids: int,
        record_length: int,
        inbox: Inbox,
        clock: Clock,
        renew: Callable[[str], Renewal],
        named: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(f"producer-{mode}")
        self._config_of = config_of
        self._book = Book(topic, mode, producer_id, record_length, under, inbox, clock)
        self._interval_s = interval_s
        self._spread = spread
        self._records = records
        self._abort_percent = abort_percent
        self._abandon_every_s = abandon_every_s
        self._deliver_s = deliver_s
        self._most_ids = most_ids
        self._succession = Succession(self.name, renew, self.stopping)
        self._closed: str | None = None
        """Why nothing may be written before the next generation."""
        self._dice = random.Random(seed)  # noqa: S311  # which partitions, no secrets
        self._prefix = f"{mode}-{producer_id:x}-" if named is None else named
        self._ids: list[str] = []
        self._missed: list[int] = []
        self._sessions: list[Session] = []
        self._loner = self._session(f"{self._prefix}abandoned")
        self._turn = 0
        self._look_at = 0.0
        self._wanted: Renewal | None = None
        self._lock = threading.Lock()

    @property
    def transactional_ids(self) -> list[str]:
        """The ids in use, without the settings' prefix."""
        return list(self._ids)

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values, soon and in its own thread; with another tag every client is another one."""
        with self._lock:
            self._wanted = Renewal(generation, tag, tuple(partitions))

    def run(self) -> None:
        """Transaction after transaction until stopped."""
        self._add_sessions()
        next_at = time.monotonic()
        abandon_at = next_at + self._abandon_every_s
        while not self.stopping.is_set():
            self._obey()
            self._settle()
            self._go_on()
            now = time.monotonic()
            left = _PACE_S if self._book.inbox.paused or self._closed is not None else next_at - now
            if left > 0:
                self.stopping.wait(min(left, _PACE_S))
                continue
            next_at = max(next_at + self._interval_s, now)
            if now >= abandon_at:
                abandon_at = now + self._abandon_every_s
                self._abandon()
            else:
                self._next()
            if now >= self._look_at:
                self._look()

    def _session(self, transactional_id: str) -> Session:
        return Session(self._config_of(transactional_id), self._book, transactional_id)

    def _add_sessions(self, leaders: Mapping[int, int] | None = None) -> None:
        ids = choose(self._prefix, leaders or {}, self._ids, self._most_ids)
        for one in ids[len(self._ids) :]:
            log.info("coordinator_probed", worker=self.name, transactional_id=one)
            self._sessions.append(self._session(one))
        self._ids = ids

    def _look(self) -> None:
        """See which brokers are coordinators now; a new one gets an id."""
        client = next((session.client for session in self._sessions if session.client is not None), None)
        self._look_at = time.monotonic() + _FIRST_LOOK_S
        if client is None:
            return
        try:
            found = client.list_topics(STATE_TOPIC, timeout=1.0).topics.get(STATE_TOPIC)
        except KafkaException as error:
            log.debug("coordinators_not_known", worker=self.name, error=str(error))
            return
        if found is not None and found.error is None and found.partitions:
            self._look_at = time.monotonic() + _LOOK_S
            leaders = {number: partition.leader for number, partition in found.partitions.items()}
            self._add_sessions(leaders)
            self._tell(missed(leaders, self._ids))

    def _tell(self, brokers: list[int]) -> None:
        """Say which coordinators are not met, when that has changed."""
        if brokers != self._missed:
            self._missed = brokers
            at_ns = self._book.clock.now_ns()
            self._book.inbox.put([CoordinatorsSeen(at_ns, self._book.mode, ",".join(map(str, brokers)))])

    def _next(self) -> None:
        """One transaction, by the session whose turn it is and that can."""
        for step in range(len(self._sessions)):
            session = self._sessions[(self._turn + step) % len(self._sessions)]
            if session.open is None and self._is_ready(session):
                self._turn = (self._turn + step + 1) % len(self._sessions)
                self._transact(session, abort=self._dice.randrange(100) < self._abort_percent)
                return

    def _is_ready(self, session: Session) -> bool:
        return session.ready or (time.monotonic() >= session.due and session.prepare(1.0))

    def _transact(self, session: Session, *, abort: bool) -> None:
        if not self._write(session):
            return
        if session.deliver(self._deliver_s, self.stopping) and not abort:
            session.commit()
        else:
            session.abort("aborted on purpose")
        self._after(session)

    def _write(self, session: Session) -> bool:
        if not session.begin():
            self._after(session)
            return False
        partitions = self._book.under.partitions
        chosen = self._dice.sample(list(partitions), min(self._spread, len(partitions)))
        session.send(sorted(chosen), self._records)
        return True

    def _abandon(self) -> None:
        """Leave one open: its coordinator has to end it, and nobody may ever read it committed."""
        session = self._loner
        if self._is_ready(session) and self._write(session):
            session.deliver(self._deliver_s, self.stopping)
            session.abandon("left open on purpose: no commit is ever asked for")
            log.info("transaction_abandoned", worker=self.name, client=session.name)

    def _settle(self) -> None:
        """Ask again for the commits that got no answer."""
        for session in self._sessions:
            if session.settling and time.monotonic() >= session.due:
                session.commit(1.0)
                self._after(session)
            elif session.client is not None and session.open is None:
                session.serve(0)

    def _after(self, session: Session) -> None:
        """A client that had to be closed is followed by a new one, under a new generation."""
        if session.client is None:
            self._closed = self._closed or f"{session.name} was closed"

    def _go_on(self) -> None:
        """Begin the next generation if one is needed and its pause is over; commits are settled meanwhile."""
        if self._closed is None or not self._succession.due:
            return
        renewal = self._succession.after_death(self._closed)
        if renewal is None:
            return
        self._closed = None
        with self._lock:  # what the owner said before this answer is out of date
            if self._wanted is not None and self._wanted.generation < renewal.generation:
                self._wanted = None
        self._book.renew(renewal)

    def _obey(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        if wanted.tag != self._book.under.tag:
            for session in [*self._sessions, self._loner]:
                session.give_up("the topic is another one")
        if wanted.generation != self._book.under.generation:
            self._closed = None
        self._book.renew(wanted)

    def end(self) -> None:
        """Ask once more for the commits that have no answer; what has none then is indeterminate."""
        deadline = time.monotonic() + _LAST_S
        for session in self._sessions:
            if session.settling and (left := deadline - time.monotonic()) > 0:
                session.commit(left)
            session.give_up("stopped before its outcome was known")
        self._loner.give_up("stopped")
