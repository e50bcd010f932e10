"""Leases that need no common clock (ARCHITECTURE decision 9).

The holder renews its lease, which raises a counter. A process that wants the lease watches the counter on its own
monotonic clock: unchanged for 15 s means that the holder is dead. ``take_over`` is a compare-and-set on that counter:
if the holder renewed meanwhile it keeps the lease, and of two successors one wins. ``holder`` names one process, not a
runner.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from sqlalchemy import ColumnElement, Connection, or_, select, update

from canary.threads import system
from storage.store.database import Repository
from storage.store.models import LEASES
from storage.store.rows import insert_missing
from storage.store.values import Held, Lease

log = structlog.get_logger(__name__)

DEAD_AFTER_S: Final = 15.0
"""The holder of a lease whose counter has not moved for so long is dead."""
RENEW_S: Final = 3.0
"""How often leases are renewed."""

_TRIAL: Final = "store/written"
"""The row of `Leases.try_write`; no lease."""


class Leases(Repository):
    """The lease table."""

    def acquire(self, name: str, holder: str) -> Lease | Held:
        """Take a lease that is free (or ours already); otherwise return its holder and counter."""
        with self._database.writing() as connection:
            insert_missing(connection, LEASES, name=name, holder=holder, counter=0, released=True)
            _take(connection, holder, LEASES.c.name == name, LEASES.c.released)
            return _look(connection, name, holder)

    def hold(self, names: Sequence[str], holder: str) -> dict[str, Lease | Held]:
        """Renew those leases that are ours and take those that are free, all at once; return whose each one is.

        Raises:
            StoreError: the store cannot be reached (what was ours may still be).
        """
        with self._database.writing() as connection:
            _take(connection, holder, LEASES.c.name.in_(names), or_(LEASES.c.released, LEASES.c.holder == holder))
            found = _look_at(connection, names, holder)
            missing = [name for name in names if name not in found]
            for name in missing:
                insert_missing(connection, LEASES, name=name, holder=holder, counter=1, released=False)
            if missing:
                found = _look_at(connection, names, holder)
            return found

    def renew(self, name: str, holder: str) -> bool:
        """Make the counter rise; False: the lease is lost, stop what it allowed.

        Raises:
            StoreError: the store cannot be reached (the lease may still be ours).
        """
        with self._database.writing() as connection:
            renewed = connection.execute(
                update(LEASES)
                .where(LEASES.c.name == name, LEASES.c.holder == holder, LEASES.c.released.is_(False))
                .values(counter=LEASES.c.counter + 1)
            )
            return renewed.rowcount == 1

    def release(self, name: str, holder: str) -> None:
        """Release the lease, so that a successor need not wait; nothing happens if it is not ours."""
        with self._database.writing() as connection:
            connection.execute(
                update(LEASES)
                .where(LEASES.c.name == name, LEASES.c.holder == holder)
                .values(counter=LEASES.c.counter + 1, released=True)
            )

    def take_over(self, name: str, holder: str, seen_counter: int) -> Lease | Held:
        """Take the lease from a holder whose counter still is ``seen_counter``; otherwise return its holder."""
        with self._database.writing() as connection:
            _take(connection, holder, LEASES.c.name == name, LEASES.c.counter == seen_counter)
            return _look(connection, name, holder)

    def scheduled(self) -> frozenset[str]:
        """Return the clusters that a scheduler leads or has led: there are nights, or there were."""
        named = select(LEASES.c.name).where(LEASES.c.name.startswith(scheduler_lease(""), autoescape=True))
        with self._database.reading() as connection:
            return frozenset(name.removeprefix(scheduler_lease("")) for name in connection.scalars(named))

    def try_write(self) -> None:
        """Change a row of its own, which every process changes: so it is one row for ever.

        Raises:
            UnwritableError: the store answers and takes no write.
            StoreError: the store cannot be reached.
        """
        with self._database.writing() as connection:
            insert_missing(connection, LEASES, name=_TRIAL, holder="", counter=0, released=True)
            _take(connection, "", LEASES.c.name == _TRIAL)


class Leadership:
    """What a process leads among others of its kind, because it holds the leases.

    The others watch the leases' counters on their own clocks, and take over when those stop.
    """

    def __init__(
        self,
        leases: Leases,
        holder: str,
        names: Mapping[str, str],
        event: str,
        *,
        dead_after_s: float = DEAD_AFTER_S,
        monotonic: Callable[[], float] = system.monotonic,
    ) -> None:
        """Lead nothing yet. ``names``: by the lease's name, what its holder leads; ``event``: of the log."""
        self._leases = leases
        self._holder = holder
        self._names = names
        self._event = event
        self._dead_after_s = dead_after_s
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, float]] = {}
        self._due = float("-inf")
        self.mine: frozenset[str] = frozenset()

    def renewed(self) -> frozenset[str]:
        """Return what this process leads; renew the leases if that is due.

        Raises:
            StoreError: the store does not answer; the leases held before may still be held.
        """
        now = self._monotonic()
        if now >= self._due:
            self.renew()
            self._due = now + RENEW_S
        return self.mine

    def renew(self) -> frozenset[str]:
        """Renew the leases, or take those that are free; return what this process leads.

        Raises:
            StoreError: the store does not answer; the leases held before may still be held.
        """
        answers = self._leases.hold(list(self._names), self._holder)
        mine = frozenset(self._names[name] for name, answer in answers.items() if self._ours(answer))
        if mine != self.mine:
            log.info(self._event, mine=sorted(mine), lost=sorted(self.mine - mine))
        self.mine = mine
        return mine

    def _ours(self, answer: Lease | Held) -> bool:
        """Return whether this process holds a lease; take it over if its holder is dead."""
        if isinstance(answer, Lease):
            return True
        now = self._monotonic()
        counter, since = self._seen.get(answer.name, (-1, now))
        if counter != answer.counter:
            self._seen[answer.name] = answer.counter, now
        elif now - since >= self._dead_after_s:
            return isinstance(self._leases.take_over(answer.name, self._holder, answer.counter), Lease)
        return False

    def release(self) -> None:
        """Release the leases, so that another process can act at once."""
        mine, self.mine = self.mine, frozenset()
        for name, what in sorted(self._names.items()):
            if what in mine:
                self._leases.release(name, self._holder)


def runner_lease(cluster: str, runner: str) -> str:
    """Return the name of the lease of a cluster's live runner of a name."""
    return f"runner/{cluster}/{runner}"


def scheduler_lease(cluster: str) -> str:
    """Return the name of the lease whose holder reconciles a cluster."""
    return f"scheduler/{cluster}"


def _take(connection: Connection, holder: str, *where: ColumnElement[bool]) -> None:
    taken = {"holder": holder, "counter": LEASES.c.counter + 1, "released": False}
    connection.execute(update(LEASES).where(*where).values(taken))


def _look(connection: Connection, name: str, holder: str) -> Lease | Held:
    return _look_at(connection, [name], holder).get(name, Held(name, "", -1))


def _look_at(connection: Connection, names: Sequence[str], holder: str) -> dict[str, Lease | Held]:
    rows = connection.execute(select(LEASES).where(LEASES.c.name.in_(names)))
    return {
        row.name: (Lease if row.holder == holder and not row.released else Held)(row.name, row.holder, row.counter)
        for row in rows
    }
