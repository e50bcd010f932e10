"""The topology's timeline: each state with its beginning and end.

Example: partition 3 of a topic has leader 1 from 10:00 and leader 2 from 10:05. That is two rows, of which the second
has no end (``until_ns`` NULL) until the next change. A *place* is (subject, topic, number), see
canary.anomalies.topology_change. Several runners of a cluster report the same change: the first report adds the row,
and a report older than the last row of its place is a replay and adds none. The leader epoch, and the offset at which
it begins, are reported a moment after the leader: they complete a row that has none.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from canary.anomalies.topology_change import TopologyChange
from canary.threads import system
from storage.store.cursors import Excerpt, Page
from storage.store.database import Repository
from storage.store.models import TOPOLOGY
from storage.store.rows import chunks, matching, value_of
from storage.store.values import TopologyFilter, TopologySpan

_Row = dict[str, Any]
_STATE = ("leader", "replicas", "isr")


class Topology(Repository):
    """The timeline of every cluster."""

    def record(self, cluster: str, changes: Sequence[TopologyChange]) -> int:
        """Add changes of ``cluster``, oldest first; return how many were not known."""
        if not changes:
            return 0
        with self._database.writing(serial=f"topology {cluster}") as connection:
            return _record(connection, cluster, changes)

    def page(self, wanted: TopologyFilter, cursor: str | None = None, limit: int = 100) -> Page[TopologySpan]:
        """Return a page of the timeline, newest first."""
        query = select(TOPOLOGY).where(*_where(wanted))
        return self._page(query, TOPOLOGY.c.at_ns, _span, cursor, limit)

    def spans(self, wanted: TopologyFilter, limit: int = 200_000) -> Excerpt[TopologySpan]:
        """Return the timeline, oldest first, at most ``limit`` spans (the newest ones)."""
        query = select(TOPOLOGY).where(*_where(wanted)).order_by(TOPOLOGY.c.at_ns.desc(), TOPOLOGY.c.id)
        newest = self._excerpt(query, _span, limit)
        return Excerpt(newest.items[::-1], newest.total)

    def numbers(self, wanted: TopologyFilter) -> set[int]:
        """Return the numbers (of partitions, or of brokers) that the timeline has."""
        return set(self._all(select(TOPOLOGY.c.number).where(*_where(wanted)).distinct(), lambda row: int(row.number)))


def _record(connection: Connection, cluster: str, changes: Sequence[TopologyChange]) -> int:
    """Add changes, oldest first; return how many rows were added.

    The transaction must be the only one that records for this cluster (Database.writing(serial=...)).
    """
    present = _present(connection, cluster, sorted({change.topic for change in changes}))
    stored = [(row, dict(row)) for row in present.values()]
    rows: list[_Row] = []
    for change in changes:
        if change.subject == "topic" and change.detail == "gone":
            _end_topic(present, change)
            continue
        place = (change.subject, change.topic, change.number)
        last = present.get(place)
        if last is not None:
            if _says_no_more(change, last) or change.at_ns <= last["at_ns"]:
                continue
            _end(last, change.at_ns)
        row = {**asdict(change), "id": system.token_hex(16), "cluster": cluster, "until_ns": None}
        rows.append(row)
        present[place] = row
    for row, before in stored:
        if row != before:
            changed = {name: row[name] for name in ("until_ns", "leader_epoch", "detail")}
            connection.execute(update(TOPOLOGY).where(TOPOLOGY.c.id == row["id"]).values(changed))
    for chunk in chunks(rows):
        connection.execute(insert(TOPOLOGY), chunk)
    return len(rows)


def _says_no_more(change: TopologyChange, last: _Row) -> bool:
    """Complete the last row of a place by what is told later; return whether it now has all that ``change`` says."""
    of_partition = change.subject == "partition"  # its detail is where its epoch begins
    if any(last[name] != getattr(change, name) for name in _STATE) or not (
        of_partition or last["detail"] == change.detail
    ):
        return False
    if change.leader_epoch is None:
        return True
    if last["leader_epoch"] is None and change.at_ns >= last["at_ns"]:
        last["leader_epoch"] = change.leader_epoch
    if last["leader_epoch"] != change.leader_epoch:
        return False
    if of_partition and change.detail:
        last["detail"] = change.detail
    return True


def _present(connection: Connection, cluster: str, topics: list[str]) -> dict[tuple[str, str, int], _Row]:
    """Return the last row of each place of ``topics``, if it has not ended."""
    present: dict[tuple[str, str, int], _Row] = {}
    for chunk in chunks(topics):
        query = select(TOPOLOGY).where(
            TOPOLOGY.c.cluster == cluster, TOPOLOGY.c.topic.in_(chunk), TOPOLOGY.c.until_ns.is_(None)
        )
        for row in connection.execute(query).mappings():
            present[row["subject"], row["topic"], row["number"]] = dict(row)
    return present


def _end_topic(present: dict[tuple[str, str, int], _Row], change: TopologyChange) -> None:
    for place in [place for place in present if place[:2] == ("partition", change.topic)]:
        if present[place]["at_ns"] < change.at_ns:
            _end(present.pop(place), change.at_ns)


def _end(row: _Row, at_ns: int) -> None:
    row["until_ns"] = max(at_ns, row["at_ns"])


def _where(wanted: TopologyFilter) -> list[ColumnElement[bool]]:
    where = matching(TOPOLOGY, wanted, "cluster", "subject", "topic", "number")
    if wanted.since_ns is not None:
        where.append(or_(TOPOLOGY.c.until_ns.is_(None), TOPOLOGY.c.until_ns >= wanted.since_ns))
    if wanted.until_ns is not None:
        where.append(TOPOLOGY.c.at_ns <= wanted.until_ns)
    return where


def _span(row: Any) -> TopologySpan:
    return value_of(TopologySpan, row, replicas=_numbers(row.replicas), isr=_numbers(row.isr))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
