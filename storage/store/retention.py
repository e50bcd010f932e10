"""What the store forgets after a while: resolved violations, ended reconciliations, views of runners long gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from storage.store import topology
from storage.store.models import ForgottenRow, IncidentRow, ReconciliationRow, ViewRow, ViolationRow
from storage.store.values import Purged

if TYPE_CHECKING:
    from sqlalchemy import Connection


def purge(
    connection: Connection, *, violations_before_ns: int, reconciliations_before_ns: int, views_before_ns: int
) -> Purged:
    """Delete what is older than told.

    A violation goes only when it is resolved and was closed before; its id and records stay, so that seen again they
    are neither new nor counted twice, and totals never fall. An incident goes with its last violation. The topology's
    timeline is kept as long as violations are.
    """
    old = (ViolationRow.state == "resolved", ViolationRow.closed_ns < violations_before_ns)
    kept = [column.name for column in ForgottenRow.__table__.c]
    known = select(*(getattr(ViolationRow, name) for name in kept)).where(*old)
    connection.execute(insert(ForgottenRow).from_select(kept, known))
    violations = connection.execute(delete(ViolationRow).where(*old)).rowcount
    incidents = connection.execute(
        delete(IncidentRow).where(
            IncidentRow.state == "resolved",
            IncidentRow.last_ns < violations_before_ns,
            IncidentRow.id.not_in(select(ViolationRow.incident_id)),
        )
    ).rowcount
    reconciliations = connection.execute(
        delete(ReconciliationRow).where(ReconciliationRow.ended_ns < reconciliations_before_ns)
    ).rowcount
    topology.purge(connection, violations_before_ns)
    views = connection.execute(delete(ViewRow).where(ViewRow.at_ns < views_before_ns)).rowcount
    return Purged(violations, incidents, reconciliations, views)
