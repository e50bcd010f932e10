"""Leases that need no common clock (ARCHITECTURE decision 9).

The holder renews its lease, which raises a counter. A process that wants the lease watches the counter on its own
monotonic clock: unchanged for 15 s means that the holder is dead. ``take_over`` is a compare-and-set on that counter:
if the holder renewed meanwhile it keeps the lease, and of two successors one wins. ``holder`` names one process, not a
runner.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, or_, select, update

from storage.store.database import Repository
from storage.store.models import LEASES
from storage.store.rows import insert_missing
from storage.store.values import Held, Lease


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


def runner_lease(cluster: str, runner: str) -> str:
    """Return the name of the lease of a cluster's live runner of a name."""
    return f"runner/{cluster}/{runner}"


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
