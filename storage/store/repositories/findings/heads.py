"""What an incident is by its violations: its state, and its head, which titles it and which people are told of.

The head is the worst violation that is open; where none is, the worst that a person acknowledged. What led to an
incident is another thing (``lead_id``: the first violation, for cause and exposure). Example: brokers are killed,
partitions have no leader, and one comes back with a cut log. The offline partition leads; the lost write heads.

Of violations that are alike the first one heads, of one moment one that names its probes. What happened in a planned
window heads only where nothing else is unresolved; a resolved violation only where all are. An incident is open while
one of its violations is, and resolved when all are: `follow` says so at the end of each transaction that changes them
(`changing`, `recording.record`), and of all incidents after the store's tables were changed. These run one after the
other for each cluster (``serial_of``).
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import REHEARSALS, rank
from storage.store.database import Database
from storage.store.models import INCIDENTS, VIOLATIONS
from storage.store.rows import chunks, value_of
from storage.store.values import WINDOW, Incident

_PLANNED = 1
"""How much a violation in a planned window asks for attention: more than a resolved one, less than an open one."""
_REASONS = ("lost", "false", "planned", "ended")
"""Of an incident whose violations are resolved for several reasons the first of these."""


def is_by_window(row: Any) -> bool:
    """Return whether a planned window acknowledged a row, and no person has since: a person's note is another one."""
    return bool(row["state"] == "acknowledged" and (row["note"] or "").startswith(WINDOW))


def serial_of(cluster: str) -> str:
    """Return the word of Database.writing for whatever changes violations or incidents of a cluster."""
    return f"violations {cluster}"


@contextmanager
def changing(database: Database, table: Table, ids: Collection[str]) -> Iterator[Connection]:
    """Run the body in a transaction that changes violations or incidents with these ids; incidents follow at its end.

    It is alone with what the clusters of these rows found.
    """
    incident_id = table.c.id if table is INCIDENTS else table.c.incident_id
    incidents: dict[str, str] = {}
    with database.reading() as connection:
        for chunk in chunks(ids):
            query = select(incident_id, table.c.cluster).where(table.c.id.in_(chunk))
            incidents.update((of, cluster) for of, cluster in connection.execute(query))
    with database.writing(serial=[serial_of(one) for one in set(incidents.values())]) as connection:
        yield connection
        follow(connection, incidents)


def head(row: Any) -> dict[str, Any]:
    """Return the columns that an incident has from a violation's row that heads it."""
    same = {name: row[name] for name in ("kind", "severity", "summary")}
    return {"head_id": row["id"], "head_ns": row["first_seen_ns"], **same}


def incident_of(row: Any) -> Incident:
    """Return an incident; one that a runner of a version before wrote has no head yet but what led to it."""
    return value_of(Incident, row, head_id=row.head_id or row.lead_id, head_ns=row.head_ns or row.lead_ns)


def has_note_of_window(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row's note is that of a planned window, and no person has written another one."""
    return func.coalesce(table.c.note, "").startswith(WINDOW, autoescape=True)


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
        found = [
            {"this": row["incident_id"], **head(row), **_state(row), "note": _note(row)}
            for row in connection.execute(_HEADS, {"these": chunk}).mappings()
        ]
        if found:
            connection.execute(_FOLLOW, found)


def _heads() -> Select[Any]:
    """Return the query of the heads of incidents (parameter ``these``), and what else says their states."""
    mine, head = VIOLATIONS.alias(), VIOLATIONS
    of_incident = mine.c.incident_id == INCIDENTS.c.id
    names_none = mine.c.producer_id.is_(None)  # of one moment first what names its probes: a truncation does not
    worst = _unresolved(mine).desc(), rank_of(mine).desc(), mine.c.first_seen_ns, names_none, mine.c.id
    first = select(mine.c.id).where(of_incident).order_by(*worst).limit(1)  # 10 times as fast as a window function
    reason = case({one: nth for nth, one in enumerate(_REASONS)}, value=mine.c.reason)
    return (
        select(
            *(head.c[name] for name in ("incident_id", "id", "kind", "severity", "summary", "first_seen_ns", "note")),
            _unresolved(head).label("unresolved"),
            INCIDENTS.c.note.label("noted"),
            select(mine.c.id).where(of_incident, mine.c.state == "open").exists().label("is_open"),
            select(func.min(reason)).where(of_incident).scalar_subquery().label("reason"),
        )
        .select_from(INCIDENTS.join(head, head.c.id == first.correlate(INCIDENTS).scalar_subquery()))
        .where(INCIDENTS.c.id.in_(bindparam("these", expanding=True)))
    )


def _unresolved(table: FromClause) -> ColumnElement[int]:
    """Return how much a violation asks for attention: 0 (it is resolved), _PLANNED, 2 (acknowledged) or 3 (open)."""
    state, planned = table.c.state, or_(table.c.reason == "planned", has_note_of_window(table))
    return case(
        (state == "resolved", 0),
        (and_(state == "acknowledged", planned), _PLANNED),
        (state == "acknowledged", 2),
        else_=3,
    )


_HEADS = _heads()
_FOLLOW = update(INCIDENTS).where(INCIDENTS.c.id == bindparam("this"))


def _state(row: Any) -> dict[str, str | None]:
    """Return state and reason of an incident by its head."""
    if row["is_open"]:
        return {"state": "open", "reason": None}
    if row["unresolved"]:
        return {"state": "acknowledged", "reason": "planned" if row["unresolved"] == _PLANNED else None}
    return {"state": "resolved", "reason": None if row["reason"] is None else _REASONS[row["reason"]]}


def _note(row: Any) -> str | None:
    """Return the note of an incident: that of a head in a planned window, or what a person wrote."""
    planned = row["unresolved"] == _PLANNED
    note: str | None = row["note" if planned else "noted"]
    return note if planned or not (note or "").startswith(WINDOW) else None
