"""The outbox: filled by looking at the incidents, emptied by the process that sends. At least once, in order."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from canary.anomalies.policy import rank
from canary.threads import system
from storage.store.database import Repository
from storage.store.models import NOTIFICATIONS, RECEIVERS
from storage.store.receivers import Interest, Notification, Receiver
from storage.store.repositories.findings.heads import incident_of
from storage.store.repositories.notifications.changes import alerts, changed, changes, known_rank
from storage.store.rows import insert_missing, value_of

KEPT_NS: Final = 86_400 * 10**9
"""A notification that could not be sent for so long is given up."""
_MOST: Final = 500
"""At most so many incidents in one transaction; the next look has the rest."""

_notification = partial(value_of, Notification)


class Notifications(Repository):
    """The notifications and their receivers."""

    def register(self, names: Sequence[str], at_ns: int) -> None:
        """Note receivers that are not known yet: what was over before is not told to them."""
        with self._database.writing() as connection:
            for name in names:
                new = {"since_ns": at_ns, "looked_ns": at_ns, "failed": 0, "dropped": 0}
                insert_missing(connection, RECEIVERS, name=name, **new)

    def look(self, interest: Interest, at_ns: int) -> int:
        """Put into the outbox what a registered receiver has to be told, as of now; return how many incidents."""
        this = RECEIVERS.c.name == interest.receiver
        with self._database.reading() as connection:
            since_ns = connection.scalars(select(RECEIVERS.c.since_ns).where(this)).one()
            query = changed(interest, max(since_ns, at_ns - KEPT_NS)).limit(_MOST)
            if connection.execute(query.limit(1)).first() is None:
                return 0
        with self._database.writing(serial=f"notifications {interest.receiver}") as connection:
            rows = connection.execute(query).all()
            told = [one for row in rows for one in _told(interest.receiver, row, at_ns)]
            news = {one["incident_id"] for one in told}
            known = [row.known_id for row in rows if row.known_id is not None and row.id in news]
            connection.execute(update(NOTIFICATIONS).where(NOTIFICATIONS.c.id.in_(known)).values(latest=False))
            milder = [{"this": row.known_id, "rank": known_rank(row)} for row in rows if row.id not in news]
            if milder:
                connection.execute(update(NOTIFICATIONS).where(NOTIFICATIONS.c.id == bindparam("this")), milder)
            if told:
                connection.execute(insert(NOTIFICATIONS), told)
        return len(news)

    def looked(self, name: str, at_ns: int) -> None:
        """Note that the incidents of a receiver are being looked at."""
        with self._database.writing() as connection:
            connection.execute(update(RECEIVERS).where(RECEIVERS.c.name == name).values(looked_ns=at_ns))

    def due(self, name: str, at_ns: int, limit: int = 50) -> list[Notification]:
        """Return what is to be sent to a receiver now: of each incident the first that it has not been told."""
        mine, earlier = NOTIFICATIONS.c, NOTIFICATIONS.alias().c
        same = earlier.receiver == mine.receiver, earlier.incident_id == mine.incident_id
        before = select(earlier.id).where(*same, earlier.state == "waiting", earlier.number < mine.number)
        query = (
            select(NOTIFICATIONS)
            .where(mine.receiver == name, mine.state == "waiting", mine.due_ns <= at_ns, ~before.exists())
            .order_by(mine.at_ns, mine.id)
            .limit(limit)
        )
        return self._all(query, _notification)

    def delivered(self, notification_id: str, at_ns: int) -> None:
        """Note that a receiver has taken a notification."""
        with self._database.writing() as connection:
            done = {"state": "delivered", "ended_ns": at_ns, "attempts": NOTIFICATIONS.c.attempts + 1, "error": None}
            connection.execute(update(NOTIFICATIONS).where(NOTIFICATIONS.c.id == notification_id).values(done))

    def failed(self, one: Notification, due_ns: int, error: str) -> None:
        """Note that a notification could not be sent, why, and when it is tried again."""
        with self._database.writing() as connection:
            again = {"attempts": NOTIFICATIONS.c.attempts + 1, "due_ns": due_ns, "error": error}
            connection.execute(update(NOTIFICATIONS).where(NOTIFICATIONS.c.id == one.id).values(again))
            counted = update(RECEIVERS).where(RECEIVERS.c.name == one.receiver)
            connection.execute(counted.values(failed=RECEIVERS.c.failed + 1))

    def drop(self, name: str, at_ns: int) -> int:
        """Give up what could not be sent to a receiver for too long; return how many."""
        old = (NOTIFICATIONS.c.receiver == name, NOTIFICATIONS.c.state == "waiting")
        late = NOTIFICATIONS.c.at_ns < at_ns - KEPT_NS
        with self._database.writing() as connection:
            given_up = update(NOTIFICATIONS).where(*old, late).values(state="dropped", ended_ns=at_ns)
            count = connection.execute(given_up).rowcount
            if count:
                counted = update(RECEIVERS).where(RECEIVERS.c.name == name)
                connection.execute(counted.values(dropped=RECEIVERS.c.dropped + count))
        return count

    def given_up(self, names: Sequence[str], since_ns: int) -> list[str]:
        """Return the receivers among those for which a notification was given up since then."""
        mine = NOTIFICATIONS.c
        query = select(mine.receiver).where(
            mine.receiver.in_(names), mine.state == "dropped", mine.ended_ns >= since_ns
        )
        return self._all(query.distinct(), lambda row: str(row.receiver))

    def receivers(self, names: Sequence[str]) -> list[Receiver]:
        """Return those receivers that are registered, with what waits for them."""
        waiting = (
            select(NOTIFICATIONS.c.receiver, func.count(), func.min(NOTIFICATIONS.c.at_ns))
            .where(NOTIFICATIONS.c.state == "waiting")
            .group_by(NOTIFICATIONS.c.receiver)
        )
        known = select(RECEIVERS).where(RECEIVERS.c.name.in_(names)).order_by(RECEIVERS.c.name)
        with self._database.reading() as connection:
            counts = {row[0]: (int(row[1]), row[2]) for row in connection.execute(waiting)}
            rows = connection.execute(known).all()
        found = [value_of(Receiver, row, waiting=0, oldest_ns=None) for row in rows]
        return [
            replace(one, waiting=counts[one.name][0], oldest_ns=counts[one.name][1]) if one.name in counts else one
            for one in found
        ]

    def of_incident(self, incident_id: str) -> list[Notification]:
        """Return what receivers were told of an incident, or are to be told, in order."""
        mine = NOTIFICATIONS.c
        query = select(NOTIFICATIONS).where(mine.incident_id == incident_id)
        return self._all(query.order_by(mine.at_ns, mine.receiver, mine.number), _notification)


def _told(receiver: str, row: Any, at_ns: int) -> list[dict[str, Any]]:
    """Return the rows to insert for an incident; the last one is the latest."""
    incident, told = incident_of(row), changes(row)
    return [
        asdict(
            Notification(
                id=system.token_hex(16),
                receiver=receiver,
                incident_id=incident.id,
                number=(row.known_number or 0) + place,
                cluster=incident.cluster,
                change=change,
                severity=incident.severity,
                rank=rank(incident.kind, incident.severity),
                openings=incident.openings,
                alerts=alerts(row, change),
                incident=asdict(incident) | {"lost_records": int(row.lost_records or 0)},
                at_ns=at_ns,
                state="waiting",
                attempts=0,
                due_ns=at_ns,
                ended_ns=None,
                error=None,
            )
        )
        | {"latest": place == len(told)}
        for place, change in enumerate(told, 1)
    ]
