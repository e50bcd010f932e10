"""Leases without clocks of others (ARCHITECTURE decision 9).

A holder renews, which makes the counter rise. Who wants the lease watches the counter on its own monotonic clock: 15 s
unchanged means dead, and ``take_over`` with the counter that stood still is a compare-and-set, so that a holder that
renewed meanwhile keeps it and of two successors one wins. ``holder`` names one process, not one name of a runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_, select, update

from storage.store.models import LeaseRow
from storage.store.upserts import insert_or
from storage.store.values import Held, Lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from storage.store.database import Database


class Leases:
    """The lease table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, name: str, holder: str) -> Lease | Held:
        """Take a lease that is free (or ours already); otherwise say who holds it and at which counter.

        Raises:
            StoreError: the store cannot be reached.
        """
        with self._database.writing() as connection:
            connection.execute(
                insert_or(connection, LeaseRow)
                .values(name=name, holder=holder, counter=0, released=True)
                .on_conflict_do_nothing(index_elements=["name"])
            )
            connection.execute(
                update(LeaseRow)
                .where(LeaseRow.name == name, LeaseRow.released)
                .values(holder=holder, counter=LeaseRow.counter + 1, released=False)
            )
            return _look(connection, name, holder)

    def hold(self, names: Sequence[str], holder: str) -> dict[str, Lease | Held]:
        """Renew those leases that are ours and take those that are free, all at once; say whose each one is.

        Raises:
            StoreError: the store cannot be reached (what was ours may still be).
        """
        with self._database.writing() as connection:
            connection.execute(
                update(LeaseRow)
                .where(LeaseRow.name.in_(names), or_(LeaseRow.released, LeaseRow.holder == holder))
                .values(holder=holder, counter=LeaseRow.counter + 1, released=False)
            )
            found = _look_at(connection, names, holder)
            missing = [{"name": name, "holder": holder, "counter": 1} for name in names if name not in found]
            if missing:
                connection.execute(
                    insert_or(connection, LeaseRow)
                    .values(released=False)
                    .on_conflict_do_nothing(index_elements=["name"]),
                    missing,
                )
                found = _look_at(connection, names, holder)
            return found

    def renew(self, name: str, holder: str) -> bool:
        """Make the counter rise; False: the lease is not ours any more, stop what it allowed.

        Raises:
            StoreError: the store cannot be reached (the lease may still be ours).
        """
        with self._database.writing() as connection:
            renewed = connection.execute(
                update(LeaseRow)
                .where(LeaseRow.name == name, LeaseRow.holder == holder, LeaseRow.released.is_(False))
                .values(counter=LeaseRow.counter + 1)
            )
            return renewed.rowcount == 1

    def release(self, name: str, holder: str) -> None:
        """Give the lease back, so that the next one need not wait. Nothing happens if it is not ours.

        Raises:
            StoreError: the store cannot be reached.
        """
        with self._database.writing() as connection:
            connection.execute(
                update(LeaseRow)
                .where(LeaseRow.name == name, LeaseRow.holder == holder)
                .values(counter=LeaseRow.counter + 1, released=True)
            )

    def take_over(self, name: str, holder: str, seen_counter: int) -> Lease | Held:
        """Take the lease from a holder whose counter still is ``seen_counter``; otherwise say who holds it now.

        Raises:
            StoreError: the store cannot be reached.
        """
        with self._database.writing() as connection:
            connection.execute(
                update(LeaseRow)
                .where(LeaseRow.name == name, LeaseRow.counter == seen_counter)
                .values(holder=holder, counter=LeaseRow.counter + 1, released=False)
            )
            return _look(connection, name, holder)


def runner_lease(cluster: str, runner: str) -> str:
    """Return the name of the lease of a cluster's live runner of a name."""
    return f"runner/{cluster}/{runner}"


def _look(connection: Connection, name: str, holder: str) -> Lease | Held:
    return _look_at(connection, [name], holder).get(name, Held(name, "", -1))


def _look_at(connection: Connection, names: Sequence[str], holder: str) -> dict[str, Lease | Held]:
    rows = connection.execute(select(LeaseRow.__table__).where(LeaseRow.name.in_(names)))
    return {
        row.name: (Lease if row.holder == holder and not row.released else Held)(row.name, row.holder, row.counter)
        for row in rows
    }
