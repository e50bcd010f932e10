"""The store as everybody else sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, Self

import structlog
from sqlalchemy import select, text

from storage.store import (
    access,
    maintenance,
    migrating,
    producers,
    reconciliations,
    retention,
    standing,
    topology,
    violation_lists,
    violations,
)
from storage.store.database import Database
from storage.store.errors import StoreError
from storage.store.leases import Leases
from storage.store.models import ViewRow
from storage.store.upserts import insert_or
from storage.store.values import IncidentFilter, View, ViolationFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import Violation
    from storage.store.pages import Page
    from storage.store.producers import Producer
    from storage.store.topology import TopologyFilter, TopologySpan
    from storage.store.values import (
        Action,
        Incident,
        Maintenance,
        Purged,
        Reconciliation,
        Scope,
        Standing,
        StoredViolation,
        Token,
        ViolationCount,
    )

_log = structlog.get_logger(__name__)
_RETRY_S = 0.5
AHEAD_NS = 3_600 * 10**9
"""What is dated later than so long from now was dated by a clock that was ahead."""


class Store:
    """A connected store; safe for several threads, and each method for several processes. All raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.leases = Leases(database)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Store:
        """Return the store at ``url`` as soon as it answers.

        Args:
            url: sqlite:///FILE or postgresql+psycopg://….
            timeout: how long to try again, in s; 0 = once.
            monotonic: clock in s.
            sleep: waits between two tries, in s.

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

    def __enter__(self) -> Self:
        """Return the store itself; leaving closes its connections."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self._database.name

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def ping(self) -> None:
        """Ask the database for nothing; raises if it does not answer."""
        with self._database.reading() as connection:
            connection.execute(text("SELECT 1"))

    def upgrade(self) -> None:
        """Bring the tables up to date; several processes may do so at once."""
        migrating.upgrade(self._database)

    def current(self) -> str | None:
        """Return the revision of the tables, None if there are none."""
        return migrating.current(self._database)

    # Who we are

    def installation(self, known: str | None = None) -> str:
        """Return this installation's name (32 hex), minted once.

        ``known`` is the one that a ledger knows: a store that lost its memory takes it over.
        """
        with self._database.writing() as connection:
            return producers.installation(connection, known)

    def remember_cluster(self, name: str, cluster_id: str) -> str:
        """Return the cluster.id known of the cluster ``name`` before, or ``cluster_id``, known from now on."""
        with self._database.writing() as connection:
            return producers.remember_cluster(connection, name, cluster_id)

    def producer(self, cluster: str, runner: str, topic: str, mode: str, known: int | None = None) -> Producer:
        """Begin a producer of (cluster, runner, topic, mode): 63 random bits at each call.

        So no store and no ledger that was put back, wiped or cloned makes two starts write the same identity. The first
        one is kept; ``known`` is the first that the ledger knows: a store that lost its memory takes it over.
        """
        with self._database.writing() as connection:
            return producers.producer(connection, (cluster, runner, topic, mode), known)

    def next_generation(self, producer_id: int, at_least: int, cluster: str) -> int:
        """Take a producer's next generation: above the last one that is known here, and at least ``at_least``."""
        with self._database.writing() as connection:
            return producers.next_generation(connection, producer_id, at_least, cluster)

    def generations(self, cluster: str) -> dict[int, int]:
        """Return the highest generation taken of every producer that ever wrote to ``cluster``."""
        with self._database.reading() as connection:
            return producers.generations(connection, cluster)

    def generation(self, producer_id: int) -> int | None:
        """Return the highest generation taken of a producer; None if it is not known here."""
        with self._database.reading() as connection:
            return producers.generation(connection, producer_id)

    # What is wrong

    def record(self, cluster: str, found: Sequence[Violation]) -> int:
        """Keep violations of ``cluster``; return how many records of them are new. Again, it only adds sightings."""
        if not found:
            return 0
        with self._database.writing(serial=f"violations {cluster}") as connection:
            return violations.record(connection, cluster, found)

    def end(self, ids: Sequence[str], at_ns: int) -> int:
        """Resolve conditions (by Violation.key) that hold no more; seen again later they are open again."""
        with self._database.writing() as connection:
            return violation_lists.end_violations(connection, ids, at_ns)

    def violations(
        self, wanted: ViolationFilter | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[StoredViolation]:
        """Return a page of violations, newest first, without evidence; BadCursorError for a strange cursor."""
        with self._database.reading() as connection:
            return violation_lists.list_violations(connection, wanted or ViolationFilter(), cursor, limit)

    def violation(self, violation_id: str) -> StoredViolation | None:
        """Return one violation with its evidence; None if there is none."""
        with self._database.reading() as connection:
            return violation_lists.get_violation(connection, violation_id)

    def acknowledge(self, violation_id: str, note: str | None = None) -> StoredViolation | None:
        """Mark a violation as seen by a person; None if there is none."""
        with self._database.writing() as connection:
            return violation_lists.acknowledge_violation(connection, violation_id, note)

    def violation_counts(self) -> list[ViolationCount]:
        """Return the counts of everything ever found, by cluster, kind and severity."""
        with self._database.reading() as connection:
            return violation_lists.count_violations(connection)

    def standing(self) -> list[Standing]:
        """Return what was ever found and still counts, grouped by cluster, kind, severity, mode, state and reason."""
        with self._database.reading() as connection:
            return standing.standing(connection)

    def incidents(
        self, wanted: IncidentFilter | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[Incident]:
        """Return a page of incidents, newest first."""
        with self._database.reading() as connection:
            return violation_lists.list_incidents(connection, wanted or IncidentFilter(), cursor, limit)

    def incident(self, incident_id: str) -> Incident | None:
        """Return one incident (its violations: ViolationFilter.incident_id); None if there is none."""
        with self._database.reading() as connection:
            return violation_lists.get_incident(connection, incident_id)

    def acknowledge_incident(self, incident_id: str, note: str | None = None) -> Incident | None:
        """Mark an incident and its violations as seen by a person; None if there is none."""
        with self._database.writing() as connection:
            return violation_lists.acknowledge_incident(connection, incident_id, note)

    def resolve_incident(
        self, incident_id: str, reason: Literal["lost", "planned", "false"], at_ns: int, note: str | None = None
    ) -> Incident | None:
        """Resolve an incident with all of its violations; None if there is none."""
        with self._database.writing() as connection:
            return violation_lists.resolve_incident(connection, incident_id, reason, note, at_ns)

    # What is

    def save_view(self, cluster: str, runner: str, at_ns: int, view: bytes) -> None:
        """Replace the view that ``runner`` showed of ``cluster``."""
        with self._database.writing() as connection:
            insert = insert_or(connection, ViewRow).values(cluster=cluster, runner=runner, at_ns=at_ns, view=view)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["cluster", "runner"], set_={"at_ns": at_ns, "view": view})
            )

    def view(self, cluster: str, runner: str) -> View | None:
        """Return the last view that ``runner`` showed of ``cluster``; None if it never did."""
        with self._database.reading() as connection:
            query = select(ViewRow.__table__).where(ViewRow.cluster == cluster, ViewRow.runner == runner)
            row = connection.execute(query).one_or_none()
            return None if row is None else View(row.cluster, row.runner, row.at_ns, row.view)

    def views(self) -> list[View]:
        """Return the last view of each (cluster, runner), in that order."""
        with self._database.reading() as connection:
            rows = connection.execute(select(ViewRow.__table__).order_by(ViewRow.cluster, ViewRow.runner))
            return [View(row.cluster, row.runner, row.at_ns, row.view) for row in rows]

    # Who may do what, who did what, and what is planned

    def create_token(self, name: str, scope: Scope, at_ns: int, expires_ns: int | None = None) -> tuple[str, Token]:
        """Mint a token; return its text, which nobody can tell later, and what it is."""
        with self._database.writing() as connection:
            return access.create_token(connection, name, scope, at_ns, expires_ns)

    def tokens(self) -> list[Token]:
        """Return every token, oldest first, the revoked ones too."""
        with self._database.reading() as connection:
            return access.list_tokens(connection)

    def token(self, text: str, at_ns: int) -> Token | None:
        """Return what a token's text opens; None: nothing (unknown, revoked, expired)."""
        with self._database.reading() as connection:
            return access.verify(connection, text, at_ns)

    def revoke_token(self, token_id: str, at_ns: int) -> Token | None:
        """Close a token for ever; None if there is none."""
        with self._database.writing() as connection:
            return access.revoke(connection, token_id, at_ns)

    def note_action(self, actor: str, action: str, target: str, at_ns: int, detail: Mapping[str, Any]) -> Action:
        """Write down what somebody does."""
        with self._database.writing() as connection:
            return access.note_action(connection, actor, action, target, at_ns, detail)

    def actions(self, cursor: str | None = None, limit: int = 100) -> Page[Action]:
        """Return a page of what was done, newest first."""
        with self._database.reading() as connection:
            return access.list_actions(connection, cursor, limit)

    def plan_maintenance(
        self, cluster: str | None, begin_ns: int, end_ns: int, reason: str, requested_by: str
    ) -> Maintenance:
        """Plan a window of one cluster (None: of all); what is found in it is recorded, as planned."""
        with self._database.writing() as connection:
            return maintenance.plan(connection, cluster, begin_ns, end_ns, reason, requested_by)

    def end_maintenance(self, maintenance_id: str, at_ns: int) -> Maintenance | None:
        """End a window now; one that has not begun never was. None: there is none."""
        with self._database.writing() as connection:
            return maintenance.end(connection, maintenance_id, at_ns)

    def maintenance(self, cursor: str | None = None, limit: int = 100) -> Page[Maintenance]:
        """Return a page of windows, the latest beginning first."""
        with self._database.reading() as connection:
            return maintenance.list_page(connection, cursor, limit)

    def windows(self, since_ns: int, until_ns: int) -> list[Maintenance]:
        """Return every window that holds at some time from ``since_ns`` to ``until_ns``, both included."""
        with self._database.reading() as connection:
            return maintenance.between(connection, since_ns, until_ns)

    # The topology's timeline

    def record_topology(self, cluster: str, changes: Sequence[TopologyChange]) -> int:
        """Add changes of ``cluster``, oldest first; return how many were not known."""
        if not changes:
            return 0
        with self._database.writing(serial=f"topology {cluster}") as connection:
            return topology.record(connection, cluster, changes)

    def topology(self, wanted: TopologyFilter, cursor: str | None = None, limit: int = 100) -> Page[TopologySpan]:
        """Return a page of the timeline, newest first; BadCursorError for a strange cursor."""
        with self._database.reading() as connection:
            return topology.list_page(connection, wanted, cursor, limit)

    def topology_spans(self, wanted: TopologyFilter, limit: int = 200_000) -> list[TopologySpan]:
        """Return the timeline of a stretch, oldest first."""
        with self._database.reading() as connection:
            return topology.spans(connection, wanted, limit)

    # Reconciliations

    def request_reconciliation(self, cluster: str, requested_by: str, at_ns: int) -> Reconciliation:
        """Ask for a reconciliation of ``cluster``; a request still waiting is returned instead of a second one."""
        with self._database.writing(serial=f"reconciliations {cluster}") as connection:
            return reconciliations.request(connection, cluster, requested_by, at_ns)

    def claim_reconciliation(
        self, holder: str, at_ns: int, clusters: Collection[str] | None = None
    ) -> Reconciliation | None:
        """Begin the oldest request of ``clusters`` (None: of any); None: there is none, or another was quicker."""
        with self._database.writing() as connection:
            return reconciliations.claim(connection, holder, at_ns, clusters)

    def progress_reconciliation(self, reconciliation_id: str, holder: str, words: str) -> bool:
        """Say how far a running one is; False: it is not ``holder``'s."""
        with self._database.writing() as connection:
            return reconciliations.progress(connection, reconciliation_id, holder, words)

    def finish_reconciliation(
        self,
        reconciliation_id: str,
        holder: str,
        at_ns: int,
        *,
        error: str | None = None,
        bounds: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        verdicts: Mapping[str, Any] | None = None,
        report: str | None = None,
    ) -> bool:
        """End a running one, failed if there is an ``error``; False: it is not ``holder``'s."""
        with self._database.writing() as connection:
            return reconciliations.finish(
                connection,
                reconciliation_id,
                holder,
                at_ns=at_ns,
                error=error,
                bounds=bounds or {},
                summary=summary or {},
                verdicts=verdicts or {},
                report=report,
            )

    def abandon_reconciliations(self, holder: str, at_ns: int, clusters: Collection[str] | None = None) -> int:
        """Fail those of ``clusters`` (None: of all) that a dead process left running; for who holds their leases."""
        with self._database.writing() as connection:
            return reconciliations.abandon(connection, holder, at_ns, clusters)

    def reconciliations(
        self,
        cluster: str | None = None,
        state: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
        until_ns: int | None = None,
    ) -> Page[Reconciliation]:
        """Return a page of reconciliations, newest first; ``until_ns``: of those asked for until then."""
        with self._database.reading() as connection:
            return reconciliations.list_page(connection, cluster, state, until_ns, cursor, limit)

    def last_successes(self, now_ns: int) -> list[Reconciliation]:
        """Return the last reconciliation of each cluster that ended well, by the cluster's name.

        One that a clock that was ahead dated to more than an hour from now is none: nobody would miss the next ones.
        """
        with self._database.reading() as connection:
            return reconciliations.last_successes(connection, now_ns + AHEAD_NS)

    def reconciliation(self, reconciliation_id: str) -> Reconciliation | None:
        """Return one reconciliation; None if there is none."""
        with self._database.reading() as connection:
            return reconciliations.get(connection, reconciliation_id)

    # What is forgotten

    def purge(self, cluster: str, before_ns: int, most: int = 2000) -> Purged:
        """Delete some of what of ``cluster`` was over before; nothing deleted: there is no more.

        At most ``most`` rows of each kind are, so that nobody waits long for the database. What stays, however old it
        is, says storage.store.retention.
        """
        with self._database.writing(serial=f"violations {cluster}") as connection:
            return retention.purge(connection, cluster, before_ns, most)

    def forget(self, cluster: str, at_ns: int) -> Purged | None:
        """Delete all that is shown, counted or alarmed of a cluster; None: there is nothing of it.

        Raises:
            StillProbedError: a runner of it lives.
        """
        with self._database.writing(serial=f"violations {cluster}") as connection:
            return retention.forget(connection, cluster, at_ns)

    def clusters(self) -> list[str]:
        """Return the names of clusters of which there is something to forget."""
        with self._database.reading() as connection:
            return retention.clusters(connection)
