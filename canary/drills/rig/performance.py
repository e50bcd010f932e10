"""One performance of a drill (or of its control): stage, steps, what was said, and what a direct reading finds gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from canary.anomalies.violation import following
from canary.drills.drill import Said
from canary.drills.rig import direct, tally
from canary.drills.rig.direct import Place
from canary.drills.rig.guarded import guarded
from canary.drills.rig.rig import Finding, Line, Rig
from canary.drills.rig.tally import Reading
from canary.drills.stage import Stage
from canary.drills.steps.step import Step, take
from canary.lab import Lab
from canary.probe.identity import Identity

_START_S: Final = 60.0
_SETTLE_S: Final = 60.0
_REQUEST_S: Final = 60.0
_CALM_S: Final = 5.0
"""How long a canary that nothing is doubtful to is given to say something false."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a performance.

    Attributes:
        findings: all that the canary said, in the order in which it did.
        gone: what was promised and is not there, with the identity that was.
        places: of records, by a name that a step gave them.
        marks: moments, s since the epoch.
        timeline: what happened.
        complaints: what steps found wrong, a sentence each.
        table: what steps measured: rows of words, the first is the head.
        began, ended: s since the epoch.
        reading: of the probe topics, with what was promised.
        other: what else is not as it was promised, by its name in rig.direct.
    """

    findings: tuple[Finding, ...]
    gone: Mapping[Place, Identity]
    places: Mapping[str, set[Place]]
    marks: Mapping[str, float]
    timeline: tuple[Line, ...]
    began: float
    ended: float
    reading: Reading = field(default_factory=Reading)
    complaints: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    other: Mapping[str, Mapping[Place, Identity]] = field(default_factory=dict)

    @property
    def readings(self) -> Mapping[str, Mapping[Place, Identity]]:
        """What is not as it was promised by a direct reading, by its name there, with the identity of that."""
        return {direct.GONE: self.gone, **self.other}


@dataclass(frozen=True, slots=True)
class Stagehand:
    """What performances need from outside: where to write, when to end, and whom to tell each line of the timeline.

    ``patience``: how many times as long as on an idle machine anything may take.
    """

    directory: Path
    stopping: Event
    tell: Callable[[str], None]
    patience: float = 3.0


@contextmanager
def lab(stage: Stage, hand: Stagehand) -> Iterator[Lab]:
    """Yield the brokers of a stage, running; they are killed in the end."""
    brokers = Lab(
        hand.directory / "lab",
        version=stage.version,
        properties=guarded(stage.properties) if stage.guarded else stage.properties,
        **{"profile": "quick", **stage.lab},
        die_with_parent=True,
    )
    try:
        brokers.start(timeout=hand.patience * _START_S)
        yield brokers
    finally:
        brokers.stop(hard=True)


def clear(brokers: Lab) -> None:
    """Make a cluster that was used as good as new: every broker runs, and only internal topics are left.

    Raises:
        LabError: a broker does not come back.
    """
    brokers.mend()
    delete(brokers, topics(brokers))
    admin = _admin(brokers)
    groups = [one.group_id for one in admin.list_consumer_groups(request_timeout=_REQUEST_S).result(_REQUEST_S).valid]
    for future in (admin.delete_consumer_groups(groups, request_timeout=_REQUEST_S) if groups else {}).values():
        future.exception(2 * _REQUEST_S)  # one with members still ends by itself


def topics(brokers: Lab) -> set[str]:
    """Return the topics of a cluster but for the internal ones."""
    return {name for name in _admin(brokers).list_topics(timeout=_REQUEST_S).topics if not name.startswith("__")}


def delete(brokers: Lab, names: Iterable[str]) -> None:
    """Delete those of some topics that there are."""
    if there := sorted(topics(brokers).intersection(names)):
        admin = _admin(brokers)  # it outlives its answers: those of a client that is gone never come
        asked = admin.delete_topics(there, operation_timeout=_REQUEST_S, request_timeout=_REQUEST_S)
        for future in asked.values():
            future.exception(2 * _REQUEST_S)


def _admin(brokers: Lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})


def play(brokers: Lab, stage: Stage, steps: Iterable[Step], says: Iterable[Said], hand: Stagehand) -> Played:
    """Start a canary, take the steps, wait for what is to be said, and look at what is there.

    Raises:
        LabError: a step could not be done, or what it waits for did not come.
        StoppedError: the drill is to end.
    """
    began = time.time()
    rig = Rig(
        kafka={"bootstrap.servers": brokers.bootstrap},
        stopping=hand.stopping,
        tell=hand.tell,
        patience=hand.patience,
        lab=brokers,
        stage=stage,
        directory=hand.directory,
    )
    rig.canary.start()
    try:
        rig.until(lambda: rig.metric("canary_probes_seen_total") > 10, _START_S, "the canary probes")
        rig.note(f"the canary probes: {rig.canary.base}")
        take(rig, steps)
        _await(rig, tuple(says))
        told = [*(_finding(rig, one) for one in rig.canary.violations()), *rig.recorded]
        findings = tuple(sorted(told, key=lambda one: one.at))
        rig.canary.stop()
        seen = direct.look(brokers.bootstrap, rig.canary.probe_log)
        found, reading = direct.readings(seen, rig.shown), tally.read(seen)
        for check in rig.checks:
            check()
    finally:
        rig.canary.kill()
        for undo in reversed(rig.undoing):
            undo()
    rest = tuple(rig.timeline), began, time.time(), reading, tuple(rig.complaints), tuple(rig.table)
    return Played(findings, found.pop(direct.GONE), rig.places, rig.marks, *rest, found)


def _await(rig: Rig, says: tuple[Said, ...]) -> None:
    """Wait until everything is said, or its time is over; then until nothing is in doubt, and a little longer."""
    for one in says:
        until = time.time() + rig.patience * one.within_s
        rig.until(
            lambda one=one, until=until: _is_said(rig, one.kind) or time.time() > until,  # type: ignore[misc]
            one.within_s + _SETTLE_S,
            f"the canary answers what it says of {one.kind}",
        )
    rig.until(lambda: rig.metric("canary_suspects") == 0, _SETTLE_S, "nothing is in doubt any more")
    rig.stopping.wait(_CALM_S)


def _is_said(rig: Rig, kind: str) -> bool:
    return any(one.kind == kind for one in rig.recorded) or bool(rig.canary.violations(kind))


def _finding(rig: Rig, violation: dict[str, Any]) -> Finding:
    topic, partition = violation["topic"], violation["partition"]
    records: dict[Place, Identity | None] = {}
    if partition is not None and violation["offset"] is not None:
        for offset, size, who in rig.canary.runs_of(violation):
            first = Identity(*who) if who else None
            for step in range(size):
                records[Place(topic, partition, offset + step)] = following(first, step)
    at = datetime.fromisoformat(violation["first_seen_at"]).timestamp()
    return Finding(
        kind=violation["kind"],
        severity=violation["severity"],
        at=at,
        summary=violation["summary"],
        partition=None if partition is None else (topic, partition),
        planned=violation["planned"],
        records=records,
    )
