"""What is planned: maintenance windows, for what happens in them, and drills of live clusters."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, insert, select, update

from canary.anomalies.policy import CONDITIONS, DRILL, REHEARSALS
from canary.anomalies.violation import Violation
from canary.threads import system
from storage.store.cursors import Page
from storage.store.database import Repository
from storage.store.models import DRILLS, MAINTENANCE
from storage.store.rows import value_of
from storage.store.values import DrillRun, Maintenance

_window = partial(value_of, Maintenance)
_run = partial(value_of, DrillRun)


class Windows(Repository):
    """The planned windows."""

    def plan(self, cluster: str | None, begin_ns: int, end_ns: int, reason: str, requested_by: str) -> Maintenance:
        """Plan a window of one cluster (None: of all)."""
        window = Maintenance(system.token_hex(16), cluster, begin_ns, end_ns, reason, requested_by)
        with self._database.writing() as connection:
            connection.execute(insert(MAINTENANCE).values(asdict(window)))
        return window

    def get(self, maintenance_id: str) -> Maintenance | None:
        """Return a window, or None."""
        return self._one(select(MAINTENANCE).where(MAINTENANCE.c.id == maintenance_id), _window)

    def end(self, maintenance_id: str, at_ns: int) -> Maintenance | None:
        """End a window at ``at_ns``; one that begins later is deleted, one that is over stays as it is.

        Returns None if there is no such window.
        """
        this = MAINTENANCE.c.id == maintenance_id
        query = select(MAINTENANCE).where(this)
        with self._database.writing() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            if row.begin_ns >= at_ns:
                connection.execute(delete(MAINTENANCE).where(this))
                return _window(row)
            connection.execute(update(MAINTENANCE).where(this, MAINTENANCE.c.end_ns > at_ns).values(end_ns=at_ns))
            return _window(connection.execute(query).one())

    def page(self, cursor: str | None = None, limit: int = 100) -> Page[Maintenance]:
        """Return a page of windows, the latest beginning first."""
        return self._page(select(MAINTENANCE), MAINTENANCE.c.begin_ns, _window, cursor, limit)

    def between(self, since_ns: int, until_ns: int) -> list[Maintenance]:
        """Return every window that overlaps the time from ``since_ns`` to ``until_ns``, both included."""
        return self._all(_between(since_ns, until_ns), _window)


class Drills(Repository):
    """The drills: while one runs, what is found in its topic is the drill's."""

    def begin(self, cluster: str, name: str, topic: str, began_ns: int, until_ns: int, requested_by: str) -> DrillRun:
        """Write that a drill begins."""
        run = DrillRun(system.token_hex(16), cluster, name, topic, began_ns, until_ns, requested_by)
        with self._database.writing() as connection:
            connection.execute(insert(DRILLS).values(asdict(run)))
        return run

    def note(self, drill_id: str, **found: Any) -> None:
        """Write what is known of a drill by now: some of DrillRun's fields that are None at its beginning."""
        with self._database.writing() as connection:
            connection.execute(update(DRILLS).where(DRILLS.c.id == drill_id).values(found))

    def get(self, drill_id: str) -> DrillRun | None:
        """Return a drill; None: there is no such one."""
        return self._one(select(DRILLS).where(DRILLS.c.id == drill_id), _run)

    def paged(self, cluster: str, at_ns: int) -> int:
        """Write that the pager's webhook came back for the drills of a cluster that run; return how many these are."""
        running = (DRILLS.c.cluster == cluster, DRILLS.c.began_ns <= at_ns, DRILLS.c.until_ns > at_ns)
        with self._database.writing() as connection:
            return connection.execute(
                update(DRILLS)
                .where(*running, DRILLS.c.ended_ns.is_(None), DRILLS.c.paged_ns.is_(None))
                .values(paged_ns=at_ns)
            ).rowcount

    def filed(self, cluster: str, found: Sequence[Violation]) -> list[Violation]:
        """Return violations as they are to be stored: what a drill did to its topic is of the kind ``drill``.

        What one did that is over is left out: the drill's own row has it, and it would page again. Conditions stay what
        they are: they are true of the cluster, and end by themselves.
        """
        topics = {one.topic for one in found if one.kind not in CONDITIONS}
        if not topics:
            return list(found)
        runs = self._all(select(DRILLS).where(DRILLS.c.cluster == cluster, DRILLS.c.topic.in_(topics)), _run)
        return [one for one in (_filed(one, runs) for one in found) if one is not None]

    def abandon(self, cluster: str, at_ns: int) -> bool:
        """End the drills of a cluster whose time is over and whose process did not; return whether one still runs."""
        over = (DRILLS.c.cluster == cluster, DRILLS.c.ended_ns.is_(None), DRILLS.c.until_ns <= at_ns)
        with self._database.writing() as connection:
            connection.execute(update(DRILLS).where(*over).values(ended_ns=at_ns, error="its process did not end it"))
            return connection.execute(select(DRILLS.c.id).where(*over[:2]).limit(1)).first() is not None

    def page(self, cursor: str | None = None, limit: int = 100) -> Page[DrillRun]:
        """Return a page of drills, the latest beginning first."""
        return self._page(select(DRILLS), DRILLS.c.began_ns, _run, cursor, limit)

    def last(self, cluster: str) -> DrillRun | None:
        """Return the drill of a cluster that began last."""
        query = select(DRILLS).where(DRILLS.c.cluster == cluster).order_by(DRILLS.c.began_ns.desc()).limit(1)
        return self._one(query, _run)

    def last_proofs(self) -> list[DrillRun]:
        """Return each cluster's last drill that was found and came back from the pager."""
        reached = (DRILLS.c.detected_ns, DRILLS.c.paged_ns, DRILLS.c.ended_ns)
        proven = (DRILLS.c.error.is_(None), *(moment.is_not(None) for moment in reached))
        last = (
            select(DRILLS.c.cluster, func.max(DRILLS.c.began_ns).label("began_ns"))
            .where(*proven)
            .group_by(DRILLS.c.cluster)
            .subquery()
        )
        same = (DRILLS.c.cluster == last.c.cluster, DRILLS.c.began_ns == last.c.began_ns)
        found = self._all(select(DRILLS).join(last, and_(*proven, *same)).order_by(DRILLS.c.cluster), _run)
        return list({run.cluster: run for run in found}.values())


def _filed(violation: Violation, runs: Sequence[DrillRun]) -> Violation | None:
    """Return a violation as it is to be stored; None: it is the doing of a drill that is over."""
    if violation.kind in CONDITIONS:
        return violation
    place = violation.topic, violation.partition, violation.offset, violation.at_ns
    did = [run for run in runs if run.explains(*place)]
    if not did:
        return violation
    running = next((run for run in did if run.ended_ns is None), None)
    return None if running is None else violation.rehearsed(DRILL, running.id)


def covering(
    connection: Connection, cluster: str, found: Sequence[Violation]
) -> Callable[[Violation], Maintenance | None]:
    """Return a function from a violation (one of ``found``) to the window of ``cluster`` in which it happened, or None.

    A window covers what happened in it, and nothing that may have happened before. Windows that adjoin or overlap count
    as one. A condition began when it says so; of what else is not known since when it may be, nothing is planned.
    """
    spans = [(_began_ns(one), one.found_ns) for one in found]
    known = [(min(after_ns, before_ns), before_ns) for after_ns, before_ns in spans if after_ns is not None]
    begin_ns, end_ns = min((a for a, _ in known), default=0), max((b for _, b in known), default=0)
    rows = map(_window, connection.execute(_between(begin_ns, end_ns).order_by(MAINTENANCE.c.begin_ns)))
    windows = [window for window in rows if window.cluster in {None, cluster}]

    def covers(violation: Violation) -> Maintenance | None:
        after_ns, before_ns = _began_ns(violation), violation.found_ns
        if violation.kind in REHEARSALS or after_ns is None:
            return None
        reached_ns = min(after_ns, before_ns)
        for window in windows:
            if window.begin_ns <= reached_ns < window.end_ns:
                if before_ns < window.end_ns:
                    return window
                reached_ns = window.end_ns
        return None

    return covers


def _began_ns(violation: Violation) -> int | None:
    """Return since when it may be; None: that is not known. An unclean election with an offset is no condition."""
    began_ns = violation.evidence.get("since_ns", violation.at_ns if violation.offset is None else None)
    is_condition = violation.kind in CONDITIONS and violation.happened_after_ns is None
    return began_ns if is_condition else violation.happened_after_ns


def _between(since_ns: int, until_ns: int) -> Select[Any]:
    return select(MAINTENANCE).where(MAINTENANCE.c.begin_ns <= until_ns, MAINTENANCE.c.end_ns > since_ns)
