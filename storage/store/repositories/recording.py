"""Violations and the incidents that gather them, in one transaction of the caller's.

A violation is one row for ever, by Violation.key(cluster), and no record is in two of one kind: of a range that is
found again in part, only the rest is new. Seen again it gets a sighting; it may become worse or confirmed (by a finding
of all of it), never milder; a copy that the client is known to have made stays a warning, whoever finds it again. What
is found in a planned window is acknowledged from the start, with the reason planned: on record and on the pages, and no
alarm. Every new one joins the open incident of its place whose time is within 10 minutes of its own, or begins one. The
place of a kind without a partition (another-cluster, topic-recreated) is the incarnation and kind.

A condition ends by itself. One that a person resolved stays so while it goes on. When it holds another time it is open
again, whoever resolved it, with the severity and the evidence of that time; in a planned window it is acknowledged. One
that is told again when its planned window is over is open then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, or_, select, update

from canary.anomalies.violation import SENT_AGAIN
from storage.store import maintenance
from storage.store.models import IncidentRow, ViolationRow, ViolationTotalRow
from storage.store.records import Known, Row, chunks, runs_of
from storage.store.upserts import insert_or

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from canary.anomalies.violation import Records, Violation
    from storage.store.values import Maintenance

INCIDENT_WINDOW_NS = 10 * 60 * 1_000_000_000
MAX_SIGHTINGS_EACH = 10
_RANK = {"info": 0, "warning": 1, "critical": 2}


def record(connection: Connection, cluster: str, violations: Sequence[Violation]) -> int:
    """Upsert ``violations`` of ``cluster``; return how many records of theirs were never seen before.

    The caller's transaction must be the only one that records for this cluster (Database.writing(serial=...)).
    """
    known = Known(connection, cluster, violations)
    rows = known.rows
    before = {row_id: _copy(row) for row_id, row in rows.items()}
    incidents = _Incidents(connection, cluster)
    planned = maintenance.covering(connection, cluster, [violation.at_ns for violation in violations])
    found: dict[tuple[str, str], int] = {}
    for violation in violations:
        window = planned(violation.at_ns)
        again, pieces = _divide(known, cluster, violation)
        for row_id, count in again.items():
            row = rows[row_id]
            state = row["state"]
            raised = _see_again(row, violation, window, whole=count == row["record_count"])
            if row["state"] != state:
                incidents.reopen(row)
            if raised:
                incidents.worsen(row)
                _add(found, row)
        for piece in pieces:
            row = _new_row(piece.key(cluster), cluster, piece, window)
            row["incident_id"] = incidents.join(piece, row)
            known.add(row)
            _add(found, row)
    incidents.save()
    new = [row for row_id, row in rows.items() if row_id not in before]
    for chunk in chunks(new):
        connection.execute(insert(ViolationRow), chunk)
    for row_id, old in before.items():
        changed = {name: value for name, value in rows[row_id].items() if value != old[name]}
        if changed:
            connection.execute(update(ViolationRow).where(ViolationRow.id == row_id).values(changed))
    _count(connection, cluster, found)
    return sum(row["record_count"] for row in new)


def _divide(known: Known, cluster: str, violation: Violation) -> tuple[dict[str, int], list[Violation]]:
    """Return how many of its records are in which violation already, and the rest as violations of their own."""
    again: dict[str, int] = {}
    rest: list[list[Records]] = [[]]
    key = violation.key(cluster)
    if key in known.forgotten:
        return again, []
    if key in known.rows:
        return {key: violation.count}, []
    for row_id, run in known.parts(violation):
        if row_id is None:
            rest[-1].append(run)
            continue
        if row_id not in known.forgotten:
            again[row_id] = again.get(row_id, 0) + run.size
        if rest[-1]:
            rest.append([])
    return again, [violation.about(runs) for runs in rest if runs]


def _add(found: dict[tuple[str, str], int], row: Row) -> None:
    place = row["kind"], row["severity"]
    found[place] = found.get(place, 0) + row["record_count"]


def _new_row(row_id: str, cluster: str, violation: Violation, window: Maintenance | None) -> Row:
    identity = violation.identity
    return {
        "id": row_id,
        "kind": violation.kind,
        "severity": violation.severity,
        "cluster": cluster,
        "topic": violation.topic,
        "topic_id": violation.topic_id,
        "partition": violation.partition,
        "offset": violation.offset,
        "producer_id": identity.producer_id if identity else None,
        "generation": identity.generation if identity else None,
        "identity_partition": identity.partition if identity else None,
        "sequence": identity.sequence if identity else None,
        **_range(violation),
        "mode": violation.mode,
        **_standing(window),
        "first_seen_ns": violation.at_ns,
        "last_seen_ns": violation.at_ns,
        "closed_ns": None,
        "ended_ns": None,
        "sightings": [{"by": violation.by, "at_ns": violation.at_ns}],
        "summary": _storable(violation.sentence),
        "evidence": dict(violation.evidence),
    }


def _range(violation: Violation) -> Row:
    """Return the columns that tell more than one record."""
    if not violation.records:
        return {"last_offset": None, "record_count": 1, "last_identity": None, "records": None}
    return {
        "last_offset": violation.last_offset,
        "record_count": violation.count,
        "last_identity": violation.last_identity and list(violation.last_identity),
        "records": [[run.offset, run.size, run.identity and list(run.identity)] for run in violation.records],
    }


def _standing(window: Maintenance | None) -> Row:
    """Return the state of what is found: in a planned window it is as if somebody were on it already."""
    if window is None:
        return {"state": "open", "reason": None, "note": None}
    return {"state": "acknowledged", "reason": "planned", "note": f"In a planned window: {window.reason}"}


def _storable(words: str) -> str:
    """Return ``words`` as PostgreSQL takes them: no NUL, no half a surrogate pair (from broken records)."""
    return words.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _see_again(row: Row, violation: Violation, window: Maintenance | None, *, whole: bool) -> bool:
    """Merge another sighting into ``row`` (of ``whole`` of it, or a part); return whether it became worse."""
    row["first_seen_ns"] = min(row["first_seen_ns"], violation.at_ns)
    row["last_seen_ns"] = max(row["last_seen_ns"], violation.at_ns)
    mine = [position for position, sighting in enumerate(row["sightings"]) if sighting["by"] == violation.by]
    if not mine or violation.at_ns > row["sightings"][mine[-1]]["at_ns"]:
        if len(mine) >= MAX_SIGHTINGS_EACH:  # a condition that holds for days: keep the first ones and the last
            del row["sightings"][mine[-1]]
        row["sightings"].append({"by": violation.by, "at_ns": violation.at_ns})
    evidence = dict(violation.evidence)
    if whole and row["evidence"].get("confirmed") is False and evidence.get("confirmed") is True:
        row["evidence"] = {**row["evidence"], **evidence}
        row["summary"] = _storable(violation.about(runs_of(row)).sentence)
    else:
        row["evidence"] = {**evidence, **row["evidence"]}
    if _holds_anew(row, violation) or _outlasts(row, violation, window):
        milder = min(row["severity"], violation.severity, key=_RANK.__getitem__)
        now = {"summary": _storable(violation.sentence), "evidence": evidence, "severity": milder}
        word = {"note": row["note"]} | ({"reason": "lost"} if row["reason"] == "lost" else {})
        row.update(_standing(window) | word | now | {"closed_ns": None, "ended_ns": None})
    if _RANK[violation.severity] > _RANK[row["severity"]] and SENT_AGAIN not in row["evidence"]:
        row["severity"] = violation.severity
        return True
    return False


def _holds_anew(row: Row, violation: Violation) -> bool:
    """Return whether a condition holds another time than when it was resolved: it ended since, or began after that."""
    if row["ended_ns"] is not None:
        return bool(violation.at_ns > row["ended_ns"])
    began_ns = violation.evidence.get("since_ns", 0)
    return bool(row["state"] == "resolved" and began_ns > (row["closed_ns"] or 0))


def _outlasts(row: Row, violation: Violation, window: Maintenance | None) -> bool:
    """Return whether a condition that was found in a planned window holds on when that is over."""
    planned = row["state"] == "acknowledged" and row["reason"] == "planned" and "since_ns" in violation.evidence
    return planned and window is None and bool(violation.at_ns >= row["last_seen_ns"])


class _Incidents:
    """The incidents of one cluster that a batch touches, read when first needed, written once at the end."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self._connection = connection
        self._cluster = cluster
        self._places: dict[str, list[Row]] = {}
        self._dirty: dict[str, Row] = {}
        self._new: dict[str, Row] = {}
        self._worse: list[Row] = []
        self._again: list[Row] = []

    def join(self, violation: Violation, row: Row) -> str:
        """Return the id of the incident that ``violation`` belongs to from now on."""
        where = f"*{violation.kind}" if violation.partition is None else str(violation.partition)
        place = f"{self._cluster}\x1f{violation.topic}\x1f{violation.topic_id}\x1f{where}"
        for incident in self._at(place):
            if incident["first_ns"] - INCIDENT_WINDOW_NS <= violation.at_ns <= incident[
                "last_ns"
            ] + INCIDENT_WINDOW_NS and (incident["state"] != "resolved" or incident["reason"] == "ended"):
                incident["first_ns"] = min(incident["first_ns"], violation.at_ns)
                incident["last_ns"] = max(incident["last_ns"], violation.at_ns)
                if violation.at_ns < incident["lead_ns"]:
                    incident.update(_lead(row))
                if _RANK[violation.severity] > _RANK[incident["severity"]]:
                    incident["severity"] = violation.severity
                if row["state"] == "open" or incident["state"] == "resolved":
                    # something new happened since somebody looked, outside the window, or since a condition ended
                    incident["state"], incident["reason"] = row["state"], row["reason"]
                self._dirty[incident["id"]] = incident
                return str(incident["id"])
        incident = {
            "id": row["id"],
            "place": place,
            "cluster": self._cluster,
            "topic": violation.topic,
            "topic_id": violation.topic_id,
            "partition": violation.partition,
            "severity": violation.severity,
            **{name: row[name] for name in ("state", "reason", "note")},
            "first_ns": violation.at_ns,
            "last_ns": violation.at_ns,
            **_lead(row),
        }
        self._places[place].append(incident)
        self._new[row["id"]] = incident
        return str(row["id"])

    def worsen(self, row: Row) -> None:
        """A violation of an incident became worse: so does the incident, when it is saved."""
        self._worse.append(row)

    def reopen(self, row: Row) -> None:
        """A condition is open again: so is its incident when it is saved, unless somebody is on it."""
        self._again.append(row)

    def save(self) -> None:
        """Write what changed."""
        for chunk in chunks(self._new.values()):
            self._connection.execute(insert(IncidentRow), chunk)
        for row_id, incident in self._dirty.items():
            if row_id not in self._new:
                self._connection.execute(update(IncidentRow).where(IncidentRow.id == row_id).values(incident))
        for row in self._worse:
            milder = [name for name, rank in _RANK.items() if rank < _RANK[row["severity"]]]
            self._connection.execute(
                update(IncidentRow)
                .where(IncidentRow.id == row["incident_id"], IncidentRow.severity.in_(milder))
                .values(severity=row["severity"])
            )

        for row in self._again:
            self._connection.execute(
                update(IncidentRow)
                .where(
                    IncidentRow.id == row["incident_id"],
                    or_(IncidentRow.state == "resolved", IncidentRow.reason == "planned"),
                )
                .values(state=row["state"], reason=row["reason"], last_ns=row["last_seen_ns"])
            )

    def _at(self, place: str) -> list[Row]:
        if place not in self._places:
            query = select(IncidentRow.__table__).where(
                IncidentRow.place == place, or_(IncidentRow.state != "resolved", IncidentRow.reason == "ended")
            )
            rows = self._connection.execute(query.order_by(IncidentRow.first_ns)).mappings()
            self._places[place] = [dict(row) for row in rows]
        return self._places[place]


def _lead(row: Row) -> Row:
    return {"lead_id": row["id"], "lead_ns": row["first_seen_ns"], "kind": row["kind"], "summary": row["summary"]}


def _count(connection: Connection, cluster: str, found: dict[tuple[str, str], int]) -> None:
    for (kind, severity), number in sorted(found.items()):
        statement = insert_or(connection, ViolationTotalRow).values(
            cluster=cluster, kind=kind, severity=severity, total=number
        )
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["cluster", "kind", "severity"], set_={"total": ViolationTotalRow.total + number}
            )
        )


def _copy(row: Row) -> Row:
    return {**row, "sightings": list(row["sightings"]), "evidence": dict(row["evidence"])}
