"""What a receiver has to be told: what it knows of each incident, held against what the incident is.

What it knows is how bad the incident was at the last look, not how bad it ever was: what is as bad as an earlier thing
that is over is told again, and so is what was hidden by something worse that is over, if it was never told.

Nothing that records incidents knows of receivers. So nothing is missed whatever changed an incident, or whatever was
down meanwhile: an incident that went to and fro between two looks is told as it is now.
"""

from typing import Any, Final, get_args

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import ALERT_TEST, DRILL, REHEARSALS, WRITES_LOST, alert_of, rank
from storage.store.models import INCIDENTS, NOTIFICATIONS, VIOLATIONS
from storage.store.receivers import Change, Interest
from storage.store.repositories.findings.heads import has_note_of_window, rank_of

_WORST: Final = {one: max(rank(kind, one) for kind in CATALOGUE) for one in get_args(Severity)}
"""How bad that may have been of which a version told that knew severities only."""
_KNOWN = NOTIFICATIONS.c
_KNEW: Final = func.coalesce(_KNOWN.rank, case(_WORST, value=_KNOWN.severity))
_TOLD = ("id", "number", "change", "alerts", "openings", "state")


def changed(interest: Interest, since_ns: int) -> Select[Any]:
    """Return the query for the incidents that a receiver has to be told of, with what it knows of them.

    An incident that is over and that it was never told of is told if it was last seen at ``since_ns`` or later. One
    that was found in a planned window or in shadow mode is not, unless it goes on after that: also not when its
    conditions have ended, each in its window. Told once, the end of an incident is always told.
    """
    of_it = VIOLATIONS.c.incident_id == INCIDENTS.c.id
    unplanned = select(VIOLATIONS.c.id).where(of_it, ~has_note_of_window(VIOLATIONS))
    known = and_(_KNOWN.incident_id == INCIDENTS.c.id, _KNOWN.receiver == interest.receiver, _KNOWN.latest.is_(True))
    over = INCIDENTS.c.state == "resolved"
    again = INCIDENTS.c.openings > func.coalesce(_KNOWN.openings, INCIDENTS.c.openings)
    worse, milder = rank_of(INCIDENTS) > _KNEW, rank_of(INCIDENTS) < _KNEW
    wanted = _wanted(interest)
    told = (_KNOWN[name].label(f"known_{name}") for name in _TOLD)
    gone = VIOLATIONS.c.kind == WRITES_LOST, func.coalesce(VIOLATIONS.c.reason, "") != "false"
    lost = select(func.sum(VIOLATIONS.c.record_count)).where(of_it, *gone).scalar_subquery()
    return (
        select(INCIDENTS, *told, wanted.label("wanted"), milder.label("milder"), lost.label("lost_records"))
        .select_from(INCIDENTS.outerjoin(NOTIFICATIONS, known))
        .where(
            or_(
                and_(over, _KNOWN.change != "resolved"),
                and_(over, _KNOWN.id.is_(None), INCIDENTS.c.last_ns >= since_ns, unplanned.exists(), wanted),
                and_(~over, or_(_KNOWN.id.is_(None), _KNOWN.change == "resolved", worse, again), wanted),
                and_(~over, milder),
            )
        )
        .order_by(case((and_(~over, milder), 1), else_=0), INCIDENTS.c.first_ns, INCIDENTS.c.id)  # news first
    )


def changes(row: Any) -> tuple[Change, ...]:
    """Return what has to be told of a row of `changed`; nothing if it is only milder than it was."""
    over = row.state == "resolved"
    if row.known_id is None:
        return ("opened", "resolved") if over else ("opened",)
    if over:
        return ("resolved",)
    if row.wanted and (row.known_change == "resolved" or row.openings > (row.known_openings or row.openings)):
        return ("reopened",)
    if not row.milder:  # of an acknowledged incident it was told before, unless it is worse than ever
        return ("worsened",) if row.state == "open" or row.known_alerts is None or _was_hidden(row) else ()
    return ("continues",) if row.wanted and row.state == "open" and _was_hidden(row) else ()


def known_rank(row: Any) -> int:
    """Return the rank that a receiver knows from now on of an incident that is milder, and of which it is not told.

    What it was never told of counts as less: that is news once the receiver wants it.
    """
    return rank(row.kind, row.severity) - 2 * _was_hidden(row)  # not 1, which is that of damage without a loss


def alerts(row: Any, change: Change) -> list[str]:
    """Return of what the receiver of a row of `changed` was told, with this change: severities and classes.

    Each of them rings by itself at a pager, because an update of an alert that has rung wakes nobody. The last one is
    told now; where it is there twice, it has rung before.
    """
    if change == "opened" or (row.known_change == "resolved" and row.known_state == "delivered"):
        known: list[str] = []
    else:
        known = ["?"] if row.known_alerts is None else row.known_alerts  # "?": an older version told it
    return list(dict.fromkeys(known)) + ([] if change == "resolved" else [alert_of(row.kind, row.severity)])


def _was_hidden(row: Any) -> bool:
    """Return whether what heads an incident now was never told, as something worse was."""
    return row.known_alerts is not None and alert_of(row.kind, row.severity) not in row.known_alerts


def _wanted(interest: Interest) -> ColumnElement[bool]:
    """Return the condition that a receiver is told of an incident; everyone is told of a test of the alarm."""
    kind, cluster = INCIDENTS.c.kind, INCIDENTS.c.cluster
    drill = [] if interest.drills else [kind != DRILL]
    where = [cluster.in_(sorted(interest.clusters))] if interest.clusters else []
    return or_(
        kind == ALERT_TEST,
        and_(
            INCIDENTS.c.severity.in_(sorted(interest.severities)),
            or_(kind.in_(sorted(REHEARSALS)), cluster.not_in(sorted(interest.shadow))),
            or_(INCIDENTS.c.reason.is_(None), INCIDENTS.c.reason != "planned"),
            *drill,
            *where,
        ),
    )
