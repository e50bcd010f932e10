"""The topology's timeline: what was so, from when, until when. Only changes are rows; told again, nothing is added.

A *place* is (subject, topic, number), see canary.anomalies.topology_change. Each place has one row that is so now
(``until_ns`` NULL) and one for each state before it. Several runners of a cluster tell the same: the first one counts,
and what is older than the present row of its place is known already (a replay). The leader epoch is told a moment after
the leader: it completes the row that has none yet.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, or_, select, update

from storage.store.models import TopologyRow
from storage.store.pages import Page, read_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

    from canary.anomalies.topology_change import TopologyChange

_CHUNK = 400
_STATE = ("leader", "replicas", "isr", "detail")


@dataclass(frozen=True, slots=True)
class TopologySpan:
    """What was so from ``at_ns`` to ``until_ns`` (ns since the epoch; None: it still is)."""

    id: str
    cluster: str
    subject: str
    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    detail: str
    at_ns: int
    until_ns: int | None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TopologyFilter:
    """Which spans; None = any. ``since_ns``, ``until_ns``: so at some time in between, both included."""

    cluster: str | None = None
    subject: str | None = None
    topic: str | None = None
    number: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None


def record(connection: Connection, cluster: str, changes: Sequence[TopologyChange]) -> int:
    """Add changes, oldest first; return how many rows were added.

    The caller's transaction must be the only one that records for this cluster (Database.writing(serial=...)).
    """
    present = _present(connection, cluster, sorted({change.topic for change in changes}))
    rows: list[dict[str, Any]] = []
    closed: dict[str, int] = {}
    told: dict[str, int | None] = {}
    for change in changes:
        if change.subject == "topic" and change.detail == "gone":
            _close_topic(change, present, closed)
            continue
        place = (change.subject, change.topic, change.number)
        known = present.get(place)
        state = {name: getattr(change, name) for name in _STATE}
        epoch = change.leader_epoch
        if known is not None:
            alike = all(known[name] == value for name, value in state.items())
            if alike and known["leader_epoch"] is None and epoch is not None and change.at_ns >= known["at_ns"]:
                known["leader_epoch"] = told[known["id"]] = epoch
            if change.at_ns <= known["at_ns"] or (alike and epoch in (None, known["leader_epoch"])):
                continue
            _close(known, change.at_ns, closed)
        row = {
            "id": uuid.uuid4().hex,
            "cluster": cluster,
            "subject": change.subject,
            "topic": change.topic,
            "number": change.number,
            **state,
            "at_ns": change.at_ns,
            "until_ns": None,
            "leader_epoch": epoch,
        }
        rows.append(row)
        present[place] = row
    _write(connection, rows, closed, told)
    return len(rows)


def _write(
    connection: Connection, rows: list[dict[str, Any]], closed: dict[str, int], told: dict[str, int | None]
) -> None:
    """Write new rows; of rows that were there, when they ended (``closed``) and their epochs (``told``), by id."""
    fresh = {row["id"] for row in rows}
    for row_id, until_ns in closed.items():
        if row_id not in fresh:
            connection.execute(update(TopologyRow).where(TopologyRow.id == row_id).values(until_ns=until_ns))
    for row_id, epoch in told.items():
        if row_id not in fresh:
            connection.execute(update(TopologyRow).where(TopologyRow.id == row_id).values(leader_epoch=epoch))
    for begin in range(0, len(rows), _CHUNK):
        connection.execute(insert(TopologyRow), rows[begin : begin + _CHUNK])


def _present(connection: Connection, cluster: str, topics: list[str]) -> dict[tuple[str, str, int], dict[str, Any]]:
    present: dict[tuple[str, str, int], dict[str, Any]] = {}
    for begin in range(0, len(topics), _CHUNK):
        query = select(TopologyRow.__table__).where(
            TopologyRow.cluster == cluster,
            TopologyRow.topic.in_(topics[begin : begin + _CHUNK]),
            TopologyRow.until_ns.is_(None),
        )
        for row in connection.execute(query).mappings():
            present[row["subject"], row["topic"], row["number"]] = dict(row)
    return present


def _close(row: dict[str, Any], at_ns: int, closed: dict[str, int]) -> None:
    row["until_ns"] = closed[row["id"]] = max(at_ns, row["at_ns"])


def _close_topic(
    change: TopologyChange, present: dict[tuple[str, str, int], dict[str, Any]], closed: dict[str, int]
) -> None:
    """A topic is gone: all of its partitions end."""
    for place in [place for place in present if place[1] == change.topic and place[0] == "partition"]:
        if present[place]["at_ns"] < change.at_ns:
            _close(present.pop(place), change.at_ns, closed)


def list_page(connection: Connection, wanted: TopologyFilter, cursor: str | None, limit: int) -> Page[TopologySpan]:
    """Return a page of the timeline, newest first."""
    query = select(TopologyRow.__table__).where(*_where(wanted))
    return read_page(connection, query, (TopologyRow.at_ns, TopologyRow.id), cursor=cursor, limit=limit, make=_span)


def spans(connection: Connection, wanted: TopologyFilter, limit: int) -> list[TopologySpan]:
    """Return the timeline, oldest first, at most ``limit`` rows (the newest ones)."""
    query = select(TopologyRow.__table__).where(*_where(wanted)).order_by(TopologyRow.at_ns.desc(), TopologyRow.id)
    return [_span(row) for row in reversed(connection.execute(query.limit(limit)).all())]


def _where(wanted: TopologyFilter) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = [
        getattr(TopologyRow, name) == value
        for name in ("cluster", "subject", "topic", "number")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.since_ns is not None:
        where.append(or_(TopologyRow.until_ns.is_(None), TopologyRow.until_ns >= wanted.since_ns))
    if wanted.until_ns is not None:
        where.append(TopologyRow.at_ns <= wanted.until_ns)
    return where


def _span(row: Any) -> TopologySpan:
    return TopologySpan(
        row.id,
        row.cluster,
        row.subject,
        row.topic,
        row.number,
        row.leader,
        _numbers(row.replicas),
        _numbers(row.isr),
        row.detail,
        row.at_ns,
        row.until_ns,
        row.leader_epoch,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
