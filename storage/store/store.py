"""The store: one connection, and a repository for each family of tables."""

from collections.abc import Callable
from typing import Self

import structlog
from sqlalchemy import text

from canary.anomalies.policy import DRILL
from canary.threads import system
from storage.store import migrating
from storage.store.database import Database
from storage.store.errors import StoreError
from storage.store.repositories.access import Actions, Sessions, Tokens
from storage.store.repositories.identities import Identities
from storage.store.repositories.incidents import Incidents
from storage.store.repositories.leases import Leases
from storage.store.repositories.maintenance import Drills, Windows
from storage.store.repositories.notifications.outbox import Notifications
from storage.store.repositories.reconciliations import Reconciliations
from storage.store.repositories.retention import Retention
from storage.store.repositories.topology import Topology
from storage.store.repositories.views import Views
from storage.store.repositories.violations import Violations

_log = structlog.get_logger(__name__)
_RETRY_S = 0.5


class Store:
    """A connected store; safe for several threads and processes. Everything in it may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        """The URL without its password."""
        self.identities = Identities(database)
        self.leases = Leases(database)
        self.violations = Violations(database)
        self.incidents = Incidents(database)
        self.notifications = Notifications(database)
        self.views = Views(database)
        self.topology = Topology(database)
        self.reconciliations = Reconciliations(database)
        self.maintenance = Windows(database)
        self.drills = Drills(database)
        self.tokens = Tokens(database)
        self.sessions = Sessions(database)
        self.actions = Actions(database)
        self.retention = Retention(database)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        timeout: float,
        monotonic: Callable[[], float] = system.monotonic,
        sleep: Callable[[float], None] = system.sleep,
    ) -> Self:
        """Return the store at ``url`` as soon as it answers; try again for ``timeout`` seconds (0: only once).

        Raises:
            StoreError: the URL is not understood, or the database did not answer in time.
        """
        store = cls(Database(url))
        deadline = monotonic() + timeout
        waiting = False
        while True:
            try:
                store.ping()
            except StoreError as error:
                left = deadline - monotonic()
                if left <= 0:
                    store.close()
                    raise StoreError(f"{error}; tried for {timeout:g} s, see store.url") from None
                if not waiting:
                    _log.warning("store_not_ready", store=store.name, reason=str(error), patience_s=timeout)
                waiting = True
                sleep(min(_RETRY_S, left))
            else:
                return store

    def of(self, clusters: frozenset[str]) -> "Store":
        """Return this store for a principal that may see ``clusters`` only.

        What belongs to another cluster is not there; what is of all clusters raises AllClustersError.
        """
        return Store(self._database.of(clusters))

    def __enter__(self) -> Self:
        """Return the store itself; leaving closes its connections."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def ping(self) -> None:
        """Raise StoreError if the database does not answer."""
        with self._database.reading() as connection:
            connection.execute(text("SELECT 1"))

    def upgrade(self) -> None:
        """Bring the tables up to date; several processes may do so at once."""
        migrating.upgrade(self._database)

    def downgrade(self, revision: str) -> None:
        """Take the tables back to those of an older version; see `migrating.downgrade`."""
        migrating.downgrade(self._database, revision)

    def end_abandoned_drills(self, cluster: str, at_ns: int) -> None:
        """End what drills of a cluster left open whose process died: they would page for ever."""
        if not self.drills.abandon(cluster, at_ns):
            left = self.violations.unended(cluster, {DRILL})
            self.violations.end([one.id for one in left], at_ns)

    def current(self) -> str | None:
        """Return the schema revision of the tables; None if there are none."""
        return migrating.current(self._database)
