"""Recording: how a batch of violations becomes new rows, changed rows and incidents.

A violation is one row for ever, by Violation.key(cluster), and no record is in two rows of one kind. Example: offsets
10 to 19 are recorded as lost; then 15 to 24 are found. 15 to 19 become a sighting of the first row, 20 to 24 a new row.

A row that is found again can become worse, with the summary and the evidence of what is worse, and confirmed (by a
finding of all its records), never milder. A duplicate that the client is known to have made stays a warning. What
happened in a planned window, for certain, is acknowledged from the start, with the reason "planned": recorded and
shown, and no alert. What is found in one and may have happened before it pages. A new row joins the open incident of
its place within 10 minutes of its own time, or opens one; the worst that is open in it heads it (`heads`). The place of
a kind without a partition (another-cluster, topic-recreated), and of one whose partitions share an incident
(`is_gathered`), is the incarnation and the kind.

A condition ends by itself. One that a person resolved stays resolved while it goes on. When it holds another time it is
open again with the severity and the evidence of that time (in a planned window: acknowledged). One that is found again
after its planned window is open from then on. So it is with records of applications that are lost at offsets where
others were lost before: their evidence has since when, too. What has no identity, and happened after all that was seen
of its row, is another event: it counts, and the row is open again.
"""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, case, insert, or_, select, update

from canary.anomalies.policy import CONDITIONS, WIDE, is_gathered, rank
from canary.anomalies.violation import SENT_AGAIN, Records, Violation
from canary.threads import system
from storage.store.models import INCIDENTS, VIOLATION_TOTALS, VIOLATIONS
from storage.store.repositories import maintenance
from storage.store.repositories.findings import heads
from storage.store.repositories.findings.known_records import IDENTITY, Known, Row, runs_of
from storage.store.rows import chunks, insert_or
from storage.store.values import WINDOW, Maintenance

INCIDENT_WINDOW_NS = 10 * 60 * 1_000_000_000
MAX_SIGHTINGS_EACH = 10
_SAME = ("kind", "severity", "topic", "topic_id", "partition", "offset", "leader_epoch", "mode")
"""Columns of the same names as the fields of a violation."""
_INCIDENT_TOO = ("id", "cluster", "topic", "topic_id", "partition", "state", "reason", "note")
"""Columns that a new incident takes from its first violation."""
_MOVED = ("first_ns", "last_ns", "lead_id", "lead_ns", "openings")
"""Columns of an incident that a violation that joins it changes."""
_TOLD = ("state", "reason", "severity", "summary", "first_seen_ns")
"""Columns of a violation by which it heads its incident, or does no more."""


def record(connection: Connection, cluster: str, violations: Sequence[Violation]) -> int:
    """Store ``violations`` of ``cluster``; return how many of their records are new.

    The transaction must be the only one that records for this cluster (Database.writing(serial=...)).
    """
    known = Known(connection, cluster, violations)
    rows = known.rows
    before = {
        row_id: {**row, "sightings": list(row["sightings"]), "evidence": dict(row["evidence"])}
        for row_id, row in rows.items()
    }
    incidents = _Incidents(connection, cluster)
    planned = maintenance.covering(connection, cluster, violations)
    found: Counter[tuple[str, str]] = Counter()
    for violation in violations:
        window = planned(violation)
        again, pieces = _divide(known, cluster, known.met(violation))
        for row_id, count in again.items():
            row = rows[row_id]
            state = row["state"]
            raised = _see_again(row, violation, window, whole=count == row["record_count"])
            if row["state"] == "open" != state:
                incidents.again.append(row)
            if raised:
                found[row["kind"], row["severity"]] += row["record_count"]
        for piece in pieces:
            row = _new_row(piece.key(cluster), cluster, piece, window)
            row["incident_id"] = incidents.join(piece, row)
            known.add(row)
            found[row["kind"], row["severity"]] += row["record_count"]
    incidents.save()
    new = [row for row_id, row in rows.items() if row_id not in before]
    for chunk in chunks(new):
        connection.execute(insert(VIOLATIONS), chunk)
    for row_id, old in before.items():
        changed = {name: value for name, value in rows[row_id].items() if value != old[name]}
        if changed:
            connection.execute(update(VIOLATIONS).where(VIOLATIONS.c.id == row_id).values(changed))
    told = [rows[row_id] for row_id, old in before.items() if any(rows[row_id][name] != old[name] for name in _TOLD)]
    heads.follow(connection, [*(row["incident_id"] for row in told), *incidents.joined])
    _count(connection, cluster, found)
    return sum(row["record_count"] for row in new)


def _divide(known: Known, cluster: str, violation: Violation) -> tuple[dict[str, int], list[Violation]]:
    """Return how many of its records each known row has, by id, and the rest as violations of their own."""
    again: Counter[str] = Counter()
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
            again[row_id] += run.size
        if rest[-1]:
            rest.append([])
    return again, [violation.about(runs) for runs in rest if runs]


def _new_row(row_id: str, cluster: str, violation: Violation, window: Maintenance | None) -> Row:
    return {
        **{name: getattr(violation, name) for name in _SAME},
        **dict(zip(IDENTITY, violation.identity or (None,) * len(IDENTITY), strict=True)),
        **_range(violation),
        **_state(window),
        **_happened(violation),
        "id": row_id,
        "cluster": cluster,
        "first_seen_ns": violation.at_ns,
        "last_seen_ns": violation.at_ns,
        "closed_ns": None,
        "ended_ns": None,
        "sightings": [{"by": violation.by, "at_ns": violation.at_ns}],
        "summary": _storable(violation.sentence),
        "evidence": dict(violation.evidence),
    }


def _range(violation: Violation) -> Row:
    """Return the columns that only a range of records has."""
    if not violation.records:
        return {"last_offset": None, "record_count": 1, "last_identity": None, "records": None}
    return {
        "last_offset": violation.last_offset,
        "record_count": violation.count,
        "last_identity": violation.last_identity and list(violation.last_identity),
        "records": [[run.offset, run.size, run.identity and list(run.identity)] for run in violation.records],
    }


def _state(window: Maintenance | None) -> Row:
    """Return the state of a new finding: open, or acknowledged in a planned window."""
    if window is None:
        return {"state": "open", "reason": None, "note": None}
    return {"state": "acknowledged", "reason": "planned", "note": f"{WINDOW}: {window.reason}"}


def _happened(violation: Violation) -> Row:
    """Return between which moments it happened."""
    return {"happened_after_ns": violation.happened_after_ns, "happened_before_ns": violation.found_ns}


def _storable(words: str) -> str:
    """Return ``words`` without what PostgreSQL refuses: NUL and lone surrogates (from corrupt records)."""
    return words.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _see_again(row: Row, violation: Violation, window: Maintenance | None, *, whole: bool) -> bool:
    """Merge a sighting of all records of ``row`` (``whole``) or some into it; return whether it became worse."""
    is_another = _is_another(row, violation)
    row["first_seen_ns"] = min(row["first_seen_ns"], violation.at_ns)
    row["last_seen_ns"] = max(row["last_seen_ns"], violation.at_ns)
    mine = [position for position, sighting in enumerate(row["sightings"]) if sighting["by"] == violation.by]
    if not mine or violation.at_ns > row["sightings"][mine[-1]]["at_ns"]:
        if len(mine) >= MAX_SIGHTINGS_EACH:  # a condition that holds for days keeps its first sightings and the last
            del row["sightings"][mine[-1]]
        row["sightings"].append({"by": violation.by, "at_ns": violation.at_ns})
    evidence = dict(violation.evidence)
    if whole and row["evidence"].get("confirmed") is False and evidence.get("confirmed") is True:
        if row["reason"] == "false":  # a person's word on what was not proven
            row.update(_state(window) | {"closed_ns": None})
        row["evidence"] = {**row["evidence"], **evidence}
        row["summary"] = _storable(violation.about(runs_of(row)).sentence)
    else:
        row["evidence"] = {**evidence, **row["evidence"]}
    if is_another or _holds_anew(row, violation) or _outlasts(row, violation, window):
        milder = min(row["severity"], violation.severity, key=lambda severity: rank(row["kind"], severity))
        now = {"summary": _storable(violation.sentence), "evidence": evidence, "severity": milder}
        word = {} if (row["note"] or WINDOW).startswith(WINDOW) or window is not None else {"note": row["note"]}
        word |= {"reason": "lost"} if row["reason"] == "lost" else {}
        row.update(_state(window) | _happened(violation) | word | now | {"closed_ns": None, "ended_ns": None})
    elif whole and violation.kind not in CONDITIONS:
        _narrow(row, violation)
    worse = rank(row["kind"], violation.severity) > rank(row["kind"], row["severity"])
    if worse and SENT_AGAIN not in row["evidence"]:
        row["severity"], row["evidence"] = violation.severity, {**row["evidence"], **evidence}
        row["summary"] = _storable((violation.about(runs_of(row)) if row["records"] else violation).sentence)
        return True
    return is_another


def _is_another(row: Row, violation: Violation) -> bool:
    """Return whether something happened at a place, to no identity, after all that was seen of ``row``."""
    after_ns = violation.happened_after_ns
    event = violation.identity is None and violation.kind not in CONDITIONS
    return event and after_ns is not None and bool(after_ns > row["last_seen_ns"])


def _narrow(row: Row, violation: Violation) -> None:
    """Take the later lower and the earlier upper bound of two findings of one event, unless they exclude each other."""
    after_ns = max((one for one in (row["happened_after_ns"], violation.happened_after_ns) if one), default=None)
    before_ns = min(row["happened_before_ns"] or row["first_seen_ns"], violation.found_ns)
    if after_ns is None or after_ns <= before_ns:
        row.update({"happened_after_ns": after_ns, "happened_before_ns": before_ns})


def _holds_anew(row: Row, violation: Violation) -> bool:
    """Return whether a condition holds another time: the time before ended, or was resolved before this one began."""
    if row["ended_ns"] is not None:  # one that ended later than now ended by a clock that was ahead
        return bool(violation.at_ns > row["ended_ns"] or row["ended_ns"] > system.wall_ns())
    began_ns = violation.evidence.get("since_ns", 0)
    return bool(row["state"] == "resolved" and began_ns > (row["closed_ns"] or 0))


def _outlasts(row: Row, violation: Violation, window: Maintenance | None) -> bool:
    """Return whether a condition that a planned window covered still holds after the window."""
    planned = heads.is_by_window(row) and violation.kind in CONDITIONS
    return planned and window is None and bool(violation.at_ns >= row["last_seen_ns"])


class _Incidents:
    """The incidents of one cluster that a batch touches: read when first needed, written once at the end."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self._connection = connection
        self._cluster = cluster
        self._places: dict[str, list[Row]] = {}
        self._new: dict[str, Row] = {}
        self.joined: dict[str, Row] = {}
        """Incidents that have another violation, by id: what they are follows once their violations are stored."""
        self.again: list[Row] = []
        """Rows that are open again, which is news though their incidents may be acknowledged."""

    def join(self, violation: Violation, row: Row) -> str:
        """Add ``violation``, stored as ``row``, to the incident of its place and time; return the incident's id."""
        at = dict(row)
        if violation.kind in WIDE:
            at |= {"topic": "", "topic_id": "", "partition": None}
        elif is_gathered(violation.kind, violation.topic):
            at |= {"partition": None}
        where = f"*{violation.kind}" if at["partition"] is None else str(at["partition"])
        place = f"{self._cluster}\x1f{at['topic']}\x1f{at['topic_id']}\x1f{where}"
        for incident in self._at(place):
            if incident["first_ns"] - INCIDENT_WINDOW_NS <= violation.at_ns <= incident[
                "last_ns"
            ] + INCIDENT_WINDOW_NS and (incident["state"] != "resolved" or incident["reason"] == "ended"):
                incident["first_ns"] = min(incident["first_ns"], violation.at_ns)
                incident["last_ns"] = max(incident["last_ns"], violation.at_ns)
                if violation.at_ns < incident["lead_ns"]:
                    incident.update(_lead(row))
                if row["state"] == "open" and incident["state"] == "acknowledged":
                    incident |= {"state": "open", "openings": incident["openings"] + 1}  # what joins is news
                self.joined[incident["id"]] = incident
                return str(incident["id"])
        incident = {
            **{name: at[name] for name in _INCIDENT_TOO},
            "place": place,
            "first_ns": violation.at_ns,
            "last_ns": violation.at_ns,
            "openings": 1,
            **_lead(row),
            **heads.head(row),
        }
        self._places[place].append(incident)
        self._new[row["id"]] = incident
        return str(row["id"])

    def save(self) -> None:
        """Write new and changed incidents."""
        for chunk in chunks(self._new.values()):
            self._connection.execute(insert(INCIDENTS), chunk)
        for row_id, incident in self.joined.items():
            if row_id not in self._new:
                moved = {name: incident[name] for name in _MOVED}
                self._connection.execute(update(INCIDENTS).where(INCIDENTS.c.id == row_id).values(moved))
        for row in self.again:
            this = INCIDENTS.c.id == row["incident_id"]
            last_ns = case((INCIDENTS.c.last_ns < row["last_seen_ns"], row["last_seen_ns"]), else_=INCIDENTS.c.last_ns)
            is_open = INCIDENTS.c.state == "open"  # then that more is open again is no news
            again = {"last_ns": last_ns, "openings": INCIDENTS.c.openings + case((is_open, 0), else_=1)}
            self._connection.execute(update(INCIDENTS).where(this).values(again))

    def _at(self, place: str) -> list[Row]:
        if place not in self._places:
            query = select(INCIDENTS).where(
                INCIDENTS.c.place == place, or_(INCIDENTS.c.state != "resolved", INCIDENTS.c.reason == "ended")
            )
            rows = self._connection.execute(query.order_by(INCIDENTS.c.first_ns)).mappings()
            self._places[place] = [dict(row) for row in rows]
        return self._places[place]


def _lead(row: Row) -> Row:
    return {"lead_id": row["id"], "lead_ns": row["first_seen_ns"]}


def _count(connection: Connection, cluster: str, found: Counter[tuple[str, str]]) -> None:
    for (kind, severity), number in sorted(found.items()):
        place = {"cluster": cluster, "kind": kind, "severity": severity}
        statement = insert_or(connection, VIOLATION_TOTALS).values(**place, total=number)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(place), set_={"total": VIOLATION_TOTALS.c.total + number}
            )
        )
