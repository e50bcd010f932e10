"""What operators do: to topics and leaders by the Kafka protocol, and what they tell the canary beforehand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import httpx
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import CLUSTER, Rig
from canary.drills.stage import KNOWABLE, PROBES
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import Mark
from canary.lab import LabError

_REQUEST_S: Final = 60.0
_WINDOW_S: Final = 3600
_SEGMENT_BYTES: Final = 1 << 29


def _done(asked: Future[Any], what: str) -> None:
    try:
        asked.result(_REQUEST_S)
    except KafkaException as error:
        raise LabError(f"{what}: {error.args[0]}") from error


@dataclass(frozen=True, slots=True)
class Elect(Step):
    """An operator has a partition led by its first replica ("preferred"), or by whatever replica lives ("unclean")."""

    how: Literal["preferred", "unclean"]
    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Ask for it."""
        place = TopicPartition(self.topic, self.partition)
        kind = ElectionType[self.how.upper()]
        asked = rig.admin.elect_leaders(kind, [place])  # confluent-kafka 2.16 fails with a timeout here
        if (error := asked.result(_REQUEST_S)[place]) is not None:
            raise LabError(f"nobody is elected for {self.topic}-{self.partition}: {error}")

    def __str__(self) -> str:
        """Say it."""
        return f"an operator elects a leader of {self.topic}-{self.partition}: {self.how}"


@dataclass(frozen=True, slots=True)
class DeleteTopic(Step):
    """A topic is deleted."""

    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Delete it."""
        _done(rig.admin.delete_topics([self.topic], request_timeout=_REQUEST_S)[self.topic], str(self))

    def __str__(self) -> str:
        """Say it."""
        return f"somebody deletes {self.topic}"


@dataclass(frozen=True, slots=True)
class MakeTopic(Step):
    """A topic of the stage is made again, as it was."""

    topic: str = PROBES
    mark: str = KNOWABLE

    def take(self, rig: Rig) -> None:
        """Make it."""
        rig.make_topic(self.topic)
        Mark(self.mark).take(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"somebody makes {self.topic} again"


@dataclass(frozen=True, slots=True)
class Configure(Step):
    """Settings of a topic are changed."""

    config: Mapping[str, str] = field(default_factory=dict)
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Change them."""
        _done(self.asked(rig), str(self))

    def asked(self, rig: Rig) -> Future[Any]:
        """Ask for it, and do not wait."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in self.config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=entries)
        asked: Future[Any] = rig.admin.incremental_alter_configs([resource])[resource]
        return asked

    def __str__(self) -> str:
        """Say it."""
        return f"somebody sets {', '.join('='.join(one) for one in self.config.items())} on {self.topic}"


@dataclass(frozen=True, slots=True)
class ConfigureAgain(Step):
    """A setting of a topic is changed so many times: the metadata log has as many more entries."""

    times: int
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Change it."""
        changes = [Configure({"segment.bytes": str(_SEGMENT_BYTES + n)}, self.topic) for n in range(self.times)]
        for asked in [one.asked(rig) for one in changes]:
            _done(asked, str(self))

    def __str__(self) -> str:
        """Say it."""
        return f"a tool changes a setting of {self.topic} {self.times} times"


@dataclass(frozen=True, slots=True)
class DeleteRecords(Step):
    """All that a partition holds now is deleted by DeleteRecords; ``called``: the places that held anything."""

    partition: int = 0
    topic: str = PROBES
    called: str = "deleted"
    mark: str = KNOWABLE

    def take(self, rig: Rig) -> None:
        """Delete up to the end."""
        held = {place for place in direct.found(rig.lab.bootstrap, self.topic) if place.partition == self.partition}
        before = TopicPartition(self.topic, self.partition, max(held, key=_offset).offset + 1)
        _done(rig.admin.delete_records([before], request_timeout=_REQUEST_S)[before], str(self))
        rig.places.setdefault(self.called, set()).update(held)
        Mark(self.mark).take(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"somebody deletes all records of {self.topic}-{self.partition} (DeleteRecords)"


def _offset(place: Place) -> int:
    return place.offset


@dataclass(frozen=True, slots=True)
class Announce(Step):
    """An operator plans a window of an hour, from now on, through the canary's API."""

    reason: str

    def take(self, rig: Rig) -> None:
        """Plan it."""
        ends = datetime.fromtimestamp(time.time() + _WINDOW_S, UTC).isoformat()
        body = {"cluster": CLUSTER, "ends_at": ends, "reason": self.reason}
        answer = httpx.post(f"{rig.canary.base}/api/v1/maintenance", json=body, timeout=_REQUEST_S)
        if answer.is_error:
            raise LabError(f"the canary takes no planned window: {answer.text}")

    def __str__(self) -> str:
        """Say it."""
        return f"an operator plans a window of maintenance in the canary: {self.reason}"


@dataclass(frozen=True, slots=True)
class ResolveAll(Step):
    """An operator resolves every incident that is not resolved, for this reason: "lost", "planned" or "false".

    ``mark``: what that moment is called.
    """

    reason: str
    mark: str = "the resolution"

    def take(self, rig: Rig) -> None:
        """Ask the canary's API."""
        body = {"filter": {"cluster": CLUSTER}, "reason": self.reason, "note": "the drill goes on"}
        answer = httpx.post(f"{rig.canary.base}/api/v1/incidents/resolve", json=body, timeout=_REQUEST_S)
        if answer.is_error or not answer.json()["ids"]:
            raise LabError(f"the canary resolves no incident: {answer.text}")
        rig.marks[self.mark] = time.time()

    def __str__(self) -> str:
        """Say it."""
        return f"an operator resolves all incidents: {self.reason}"
