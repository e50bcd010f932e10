"""Brokers, a canary, and a direct client: what the steps of a drill act on, and what it remembers of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Final, NamedTuple

import httpx
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from canary.drills.rig import guarded
from canary.drills.rig.direct import Place
from canary.drills.rig.installation import Installation
from canary.drills.rig.postgres import Postgres
from canary.drills.stage import Stage
from canary.lab import Lab, LabError
from canary.probe.identity import Identity

CLUSTER: Final = "drill"
_LOOK_S: Final = 0.1
_REQUEST_S: Final = 60.0


class NotInTimeError(LabError):
    """What a step waited for did not come."""


class StoppedError(Exception):
    """A signal asked for the end."""


class Line(NamedTuple):
    """A line of the timeline: when (s since the epoch), what, and whether the drill did it or saw it."""

    at: float
    what: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation as the REST API tells it, or what `canary check` finds in a history that a drill recorded.

    Attributes:
        records: each of its records, place and identity (None: not of one probe).
        partition: its topic and partition; None: of the whole topic or cluster.
        planned: it happened in a planned window: recorded, without an alert.
    """

    kind: str
    severity: str
    at: float
    summary: str
    records: Mapping[Place, Identity | None]
    partition: tuple[str, int] | None = None
    planned: bool = False


@dataclass(kw_only=True)
class Ground:
    """What any drill has, also one of a live cluster: a way to the cluster, and what it remembers.

    Attributes:
        kafka: properties of a client that reaches the cluster.
        group: what its consumers call their group; none ever joins it.
        topics: the real name of a topic by the name that steps give it, where it has another one.
        stopping: ends every wait.
        tell: is given each line of the timeline as it happens.
        patience: how many times as long as on an idle machine anything may take.
        marks: moments by their names, s since the epoch.
        places: places of records by a name that a step gave them.
        shown: what a direct client was shown, where a step looked.
        timeline: what happened.
        complaints: what a step found wrong, a sentence each.
    """

    kafka: Mapping[str, Any]
    stopping: Event
    tell: Callable[[str], None]
    group: str = "direct-reading"
    topics: Mapping[str, str] = field(default_factory=dict)
    patience: float = 3.0
    marks: dict[str, float] = field(default_factory=dict)
    places: dict[str, set[Place]] = field(default_factory=dict)
    shown: dict[Place, Identity] = field(default_factory=dict)
    timeline: list[Line] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def note(self, what: str, *, done: bool = False) -> float:
        """Write a line of the timeline, and return its time (s since the epoch)."""
        now = time.time()
        self.timeline.append(Line(now, what, done))
        self.tell(what)
        return now

    def complain(self, what: str) -> None:
        """Remember that something is not as it must be."""
        self.complaints.append(what)
        self.note(f"WRONG: {what}")

    def expect(self, reached: Callable[[], object], within_s: float, what: str) -> None:
        """Wait until ``reached``; what does not come is wrong, and what comes late is said.

        Raises:
            StoppedError: the drill is to end.
        """
        began = time.monotonic()
        try:
            self.until(reached, within_s, what)
        except NotInTimeError as error:
            self.complain(str(error))
        else:
            if (took_s := time.monotonic() - began) > within_s:
                self.note(f"late, after {took_s:.1f} s (at most {within_s:g}): {what}")

    def until(self, reached: Callable[[], object], timeout: float, what: str) -> None:
        """Wait until ``reached``; a lab or canary that does not answer has not reached it.

        Args:
            reached: is asked again and again.
            timeout: seconds that are enough on an idle machine.
            what: is waited for, for the error.

        Raises:
            NotInTimeError: it did not come.
            StoppedError: the drill is to end.
        """
        deadline = time.monotonic() + self.patience * timeout
        complaint: object = ""
        while time.monotonic() < deadline:
            try:
                if reached():
                    return
            except (httpx.HTTPError, ValueError, KeyError, LabError) as error:
                complaint = f" ({error})"
            if self.stopping.wait(_LOOK_S):
                raise StoppedError
        raise NotInTimeError(f"not in {self.patience * timeout:g} s: {what}{complaint}")


@dataclass(kw_only=True)
class Rig(Ground):
    """One performance of a drill on brokers of its own, while it lasts.

    Attributes:
        lab: the brokers; they run.
        stage: as the drill wants it.
        directory: of everything that is written here.
        table: what a step measured: rows of words, the first is the head.
        recorded: what `canary check` found in histories that steps recorded.
        counted: by partition, the most acknowledged probes that the canary has shown.
        checks: are made once the canary has ended, when all that it remembers is written.
        undoing: is done in the end, however that comes; the last one first.
        postgres: the server of the store, where there is one.
    """

    lab: Lab
    stage: Stage
    directory: Path
    table: list[tuple[str, ...]] = field(default_factory=list)
    recorded: list[Finding] = field(default_factory=list)
    counted: dict[int, float] = field(default_factory=dict)
    checks: list[Callable[[], None]] = field(default_factory=list)
    undoing: list[Callable[[], None]] = field(default_factory=list)
    postgres: Postgres | None = None

    def __post_init__(self) -> None:
        """Make the topics, and write the canary's settings."""
        self.admin = AdminClient({**self.kafka, "log_level": 0})
        for name in self.stage.topics:
            self.make_topic(name)
        if self.stage.guarded:
            guarded.admit(self.admin)
        cluster: dict[str, Any] = {
            "name": CLUSTER,
            "kafka": {**(guarded.client(self.lab) if self.stage.guarded else self.kafka), **self.stage.clients},
            "topic": {"name": next(iter(self.stage.topics), "probes")},
            "modes": self.stage.modes,
            **self.stage.cluster,
        }
        settings = dict(self.stage.settings)
        if self.stage.postgres:
            self.postgres = Postgres()
            self.undoing.append(self.postgres.stop)
            self.postgres.start()
            settings["store"] = {"url": self.postgres.database()}
        self.canary = Installation(self.directory / "canary", [cluster], settings)

    def make_topic(self, name: str) -> None:
        """Make a topic of the stage."""
        topic = self.stage.topics[name]
        assignment = [list(replicas) for replicas in topic.replicas]
        least = str(min(2, *map(len, assignment)))
        config = {"min.insync.replicas": least, **topic.config}
        new = NewTopic(name, len(assignment), replica_assignment=assignment, config=config)

        def made() -> bool:
            try:
                self.admin.create_topics([new], request_timeout=_REQUEST_S)[name].result(_REQUEST_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            return True

        self.until(made, _REQUEST_S, f"{name} is made: ZooKeeper's brokers delete one of its name for a while")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels.

        Raises:
            ValueError: the canary shows nothing of its store.
        """
        samples = self.canary.samples(name)
        if not samples:
            raise ValueError("the canary's /metrics are without its store")
        return sum(
            one.value for one in samples if one.name == name and all(one.labels.get(k) == v for k, v in labels.items())
        )
