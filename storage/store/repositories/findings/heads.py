"""The head of an incident: its worst violation that is not resolved, which titles it, and which people are told of.

What led to an incident is another thing (``lead_id``: the first violation, for cause and exposure). Example: brokers
are killed, partitions have no leader, and one comes back with a cut log. The offline partition leads; the lost write
heads.

Of violations that are alike the first one heads. What was found in a planned window heads only where nothing else is
unresolved; a resolved violation only where all are.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, Table, case, func, select, update

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import REHEARSALS, rank
from storage.store.models import INCIDENTS, VIOLATIONS
from storage.store.rows import chunks

_GROUP = ("incident_id", "kind", "severity", "state", "reason")


class Weight(NamedTuple):
    """How much a violation asks for attention; the greatest of an incident heads it."""

    unresolved: int
    """2: it is not resolved; 1: neither, but planned; 0: it is resolved."""
    rank: int
    earlier: int
    """The negative of when it was first seen, in ns."""


def weight(row: Any) -> Weight:
    """Return the weight of a violation's row."""
    unresolved = 0 if row["state"] == "resolved" else 1 if row["reason"] == "planned" else 2
    return Weight(unresolved, rank(row["kind"], row["severity"]), -row["first_seen_ns"])


def of_incident(row: Any) -> Weight:
    """Return the weight of the head of an incident's row."""
    return weight({**row, "first_seen_ns": row["head_ns"]})


def head(row: Any) -> dict[str, Any]:
    """Return the columns that an incident has from a violation's row that heads it."""
    same = {name: row[name] for name in ("kind", "severity", "summary")}
    return {"head_id": row["id"], "head_ns": row["first_seen_ns"], **same}


def rank_of(table: Table) -> ColumnElement[int]:
    """Return `policy.rank` of the rows of a table that has kind and severity, for queries."""
    kind, severity = table.c.kind, table.c.severity
    ranks = {one: {each: rank(one, each) for each in get_args(Severity)} for one in (*CATALOGUE, *REHEARSALS)}
    alike: dict[tuple[int, ...], list[str]] = {}
    for one, of in ranks.items():
        alike.setdefault(tuple(of.values()), []).append(one)
    weights = [(kind.in_(kinds), case(ranks[kinds[0]], value=severity)) for kinds in alike.values()]
    return case(*weights, else_=case({each: rank("", each) for each in get_args(Severity)}, value=severity))


def follow(connection: Connection, incident_ids: Iterable[str]) -> None:
    """Let the violations of some incidents say again which of them heads it."""
    for chunk in chunks(sorted(set(incident_ids))):
        for incident_id, group in _worst(connection, chunk).items():
            alike = [VIOLATIONS.c[name].is_not_distinct_from(group[name]) for name in _GROUP]
            known = [VIOLATIONS.c[name] for name in ("id", "kind", "severity", "summary", "first_seen_ns")]
            first = select(*known).where(*alike).order_by(VIOLATIONS.c.first_seen_ns, VIOLATIONS.c.id).limit(1)
            found = head(connection.execute(first).mappings().one())
            connection.execute(update(INCIDENTS).where(INCIDENTS.c.id == incident_id).values(found))


def _worst(connection: Connection, incident_ids: Collection[str]) -> dict[str, Any]:
    """Return, by incident, the group of violations that are alike, and weigh most."""
    columns = [VIOLATIONS.c[name] for name in _GROUP]
    first = func.min(VIOLATIONS.c.first_seen_ns).label("first_seen_ns")
    query = select(*columns, first).where(VIOLATIONS.c.incident_id.in_(incident_ids)).group_by(*columns)
    worst: dict[str, Any] = {}
    for row in connection.execute(query).mappings():
        known = worst.get(row["incident_id"])
        if known is None or weight(row) > weight(known):
            worst[row["incident_id"]] = row
    return worst
