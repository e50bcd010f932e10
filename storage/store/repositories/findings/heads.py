"""What an incident is by its violations: its state, and its head, which titles it and which people are told of.

The head is the worst violation that is not resolved. What led to an incident is another thing (``lead_id``: the first
violation, for cause and exposure). Example: brokers are killed, partitions have no leader, and one comes back with a
cut log. The offline partition leads; the lost write heads.

Of violations that are alike the first one heads. What happened in a planned window heads only where nothing else is
unresolved; a resolved violation only where all are. An incident is open while one of its violations is, and resolved
when all are. Whoever changes violations lets `follow` say so, one after the other for each cluster (``serial_of``).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, FromClause, Table, and_, case, func, or_, select, update

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import REHEARSALS, rank
from storage.store.database import Database
from storage.store.models import INCIDENTS, VIOLATIONS
from storage.store.rows import chunks
from storage.store.values import WINDOW

_BY_WINDOW = and_(
    VIOLATIONS.c.state == "acknowledged",
    or_(
        func.coalesce(VIOLATIONS.c.reason, "") == "planned",
        func.coalesce(VIOLATIONS.c.note, "").startswith(WINDOW, autoescape=True),
    ),
)
"""`is_by_window`, for queries."""
_ALIKE = {name: VIOLATIONS.c[name] for name in ("kind", "severity", "state", "reason")} | {"by_window": _BY_WINDOW}
"""What violations of an incident have in common that are alike."""
_REASONS = ("lost", "false", "planned", "ended")
"""Of an incident whose violations are resolved for several reasons the first of these."""


class Weight(NamedTuple):
    """How much a violation asks for attention; the greatest of an incident heads it."""

    unresolved: int
    """2: it is not resolved; 1: neither, but planned; 0: it is resolved."""
    rank: int
    earlier: int
    """The negative of when it was first seen, in ns."""


def weight(row: Any) -> Weight:
    """Return the weight of a violation's row."""
    unresolved = 0 if row["state"] == "resolved" else 1 if is_by_window(row) else 2
    return Weight(unresolved, rank(row["kind"], row["severity"]), -row["first_seen_ns"])


def is_by_window(row: Any) -> bool:
    """Return whether a planned window acknowledged a row, and no person: also one that was lost at another time."""
    by_window = row["reason"] == "planned" or (row["note"] or "").startswith(WINDOW)
    return bool(row["state"] == "acknowledged" and by_window)


def serial_of(cluster: str) -> str:
    """Return the word of Database.writing for whatever changes violations or incidents of a cluster."""
    return f"violations {cluster}"


@contextmanager
def changing(database: Database, table: Table, ids: Collection[str]) -> Iterator[Connection]:
    """Run the body in a transaction that changes rows with these ids: alone with what their clusters found."""
    clusters: set[str] = set()
    with database.reading() as connection:
        for chunk in chunks(ids):
            clusters.update(connection.scalars(select(table.c.cluster).where(table.c.id.in_(chunk)).distinct()))
    with database.writing(serial=[serial_of(one) for one in clusters]) as connection:
        yield connection


def of_incident(row: Any) -> Weight:
    """Return the weight of the head of an incident's row."""
    return weight({**row, "first_seen_ns": row["head_ns"]})


def head(row: Any) -> dict[str, Any]:
    """Return the columns that an incident has from a violation's row that heads it."""
    same = {name: row[name] for name in ("kind", "severity", "summary")}
    return {"head_id": row["id"], "head_ns": row["first_seen_ns"], **same}


def rank_of(table: FromClause) -> ColumnElement[int]:
    """Return `policy.rank` of the rows of a table that has kind and severity, for queries."""
    kind, severity = table.c.kind, table.c.severity
    ranks = {one: {each: rank(one, each) for each in get_args(Severity)} for one in (*CATALOGUE, *REHEARSALS)}
    alike: dict[tuple[int, ...], list[str]] = {}
    for one, of in ranks.items():
        alike.setdefault(tuple(of.values()), []).append(one)
    weights = [(kind.in_(kinds), case(ranks[kinds[0]], value=severity)) for kinds in alike.values()]
    return case(*weights, else_=case({each: rank("", each) for each in get_args(Severity)}, value=severity))


def follow(connection: Connection, incident_ids: Iterable[str]) -> None:
    """Let the violations of some incidents say again what these are."""
    for chunk in chunks(sorted(set(incident_ids))):
        for incident_id, groups in _grouped(connection, chunk).items():
            worst = max(groups, key=weight)
            like = [column.is_not_distinct_from(worst[name]) for name, column in _ALIKE.items()]
            known = [VIOLATIONS.c[name] for name in ("id", "kind", "severity", "summary", "first_seen_ns", "note")]
            these = select(*known).where(VIOLATIONS.c.incident_id == incident_id, *like)
            first = these.order_by(VIOLATIONS.c.first_seen_ns, VIOLATIONS.c.id)
            row = connection.execute(first.limit(1)).mappings().one()
            is_noted = func.coalesce(INCIDENTS.c.note, "").startswith(WINDOW, autoescape=True)
            note = row["note"] if is_by_window(worst) else case((is_noted, None), else_=INCIDENTS.c.note)
            now = {**head(row), **_state(groups), "note": note}
            connection.execute(update(INCIDENTS).where(INCIDENTS.c.id == incident_id).values(now))


def _state(groups: Sequence[Any]) -> dict[str, str | None]:
    """Return state and reason of an incident with these groups of violations."""
    states = {one["state"] for one in groups}
    if "open" in states:
        return {"state": "open", "reason": None}
    if "acknowledged" in states:
        planned = all(is_by_window(one) for one in groups if one["state"] == "acknowledged")
        return {"state": "acknowledged", "reason": "planned" if planned else None}
    reasons = {one["reason"] for one in groups}
    return {"state": "resolved", "reason": next((one for one in _REASONS if one in reasons), None)}


def _grouped(connection: Connection, incident_ids: Collection[str]) -> dict[str, list[Any]]:
    """Return the violations of incidents in groups that are alike, by incident; a group has the note of any of it."""
    columns = [VIOLATIONS.c.incident_id, *(column.label(name) for name, column in _ALIKE.items())]
    of_all = func.min(VIOLATIONS.c.first_seen_ns).label("first_seen_ns"), func.min(VIOLATIONS.c.note).label("note")
    query = select(*columns, *of_all).where(VIOLATIONS.c.incident_id.in_(incident_ids)).group_by(*columns)
    groups: dict[str, list[Any]] = {}
    for row in connection.execute(query).mappings():
        groups.setdefault(row["incident_id"], []).append(row)
    return groups
