"""An ordinary application with a consumer group, one member of which is killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Literal

from confluent_kafka import Message, Producer
from confluent_kafka.admin import NewTopic

from canary.drills.rig import member
from canary.drills.rig.rig import Rig, StoppedError
from canary.drills.steps.step import Step
from canary.lab import LabError

_HEAD: Final = ("group", "written", "twice", "never", "longest pause")
_PARTITIONS: Final = 6
_MEMBERS_S: Final = 30.0
_CALM_S: Final = 4.0
"""The group is done when it has processed nothing for so long, and nothing is written any more."""
_REQUEST_S: Final = 60.0
_CLASSIC: Final = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


@dataclass(frozen=True, slots=True)
class GroupReads(Step):
    """An application writes, the members of its group process; one of them is killed, and another one joins.

    Attributes:
        name: of these settings, in the table.
        consumer: what the members set besides bootstrap.servers and group.id.
        commits, batch, work_s: see canary.drills.rig.member.
        loses: True: records have to be left out, or the drill shows nothing; False: none may be.
        repeats: False: none may be processed twice.
        returns: the one that joins has the instance id of the killed one (static membership).
        rate, seconds: of records that are written in each second, and for how long.
        kill_s: of these, before the kill.
    """

    name: str
    consumer: Mapping[str, Any] = field(default_factory=dict)
    commits: Literal["client", "stored", "after"] = "client"
    batch: int = 100
    work_s: float = 0.002
    loses: bool = False
    repeats: bool = True
    returns: bool = False
    rate: int = 200
    seconds: float = 10.0
    kill_s: float = 3.5

    def take(self, rig: Rig) -> None:
        """Do it, and add a row to the table."""
        group = _Group(rig, self)
        try:
            group.play()
        finally:
            group.end()
        if not rig.table:
            rig.table.append(_HEAD)
        rig.table.append((self.name, f"{group.written}", f"{group.twice}", f"{group.never}", f"{group.pause_s:.1f} s"))
        rig.note(
            f"{self.name}: of {group.written} records {group.twice} were processed twice and {group.never} never; "
            f"no partition stood still for more than {group.pause_s:.1f} s"
        )
        if self.loses and not group.never:
            rig.complain(f"{self.name}: every record was processed: the drill did not do what it should")
        if not self.loses and group.never:
            rig.complain(f"{self.name}: {group.never} records were never processed")
        if not self.repeats and group.twice:
            rig.complain(f"{self.name}: {group.twice} records were processed twice")

    def __str__(self) -> str:
        """Say it."""
        return f"an application's group, {self.name}: a member is killed (-9), and another one joins"


class _Group:
    """One group, while it lasts."""

    def __init__(self, rig: Rig, settings: GroupReads) -> None:
        self.rig = rig
        self.settings = settings
        self.topic = "-".join("".join(c if c.isalnum() else " " for c in settings.name).split())
        self.directory = rig.directory / "groups" / self.topic
        self.directory.mkdir(parents=True)
        self.members: list[subprocess.Popen[bytes]] = []
        self.acked: set[tuple[int, int]] = set()
        self.processed: dict[tuple[int, int], list[float]] = {}
        self.killed_at = 0.0
        self._ended = Event()
        self._unsent = 0

    def play(self) -> None:
        """Make the topic, start two members, write, kill, replace, and wait for the end."""
        new = NewTopic(self.topic, _PARTITIONS, len(self.rig.lab.brokers), config={"min.insync.replicas": "2"})
        self.rig.admin.create_topics([new], request_timeout=_REQUEST_S)[self.topic].result(_REQUEST_S)
        for number in range(2):
            self._join(number)
        self.rig.until(lambda: self._ready() >= 2, _MEMBERS_S, "both members have been assigned partitions")
        self._pass(1.0)  # what is assigned is fetched from a moment later
        writing = Thread(target=self._write, daemon=True)
        writing.start()
        self._pass(self.settings.kill_s)
        self.members[0].kill()
        self.killed_at = time.time()
        self._join(0 if self.settings.returns else 2)
        while writing.is_alive():
            self._pass(0.1)
        if self._unsent:
            raise LabError(f"{self._unsent} records of {self.topic} were not acknowledged")
        self.rig.until(self._done, _MEMBERS_S, "the group is done")
        for one in self.members:
            one.terminate()
            one.wait(30)
        self._read()

    def _join(self, number: int) -> None:
        config = {
            "bootstrap.servers": self.rig.lab.bootstrap,
            "group.id": self.topic,
            "auto.offset.reset": "earliest",
            "client.id": f"member-{number}",
            "log_level": 0,
            **({} if self.settings.consumer.get("group.protocol") == "consumer" else _CLASSIC),
            **self.settings.consumer,
        }
        if self.settings.commits == "after":
            config["enable.auto.commit"] = False
        if self.settings.commits != "client":
            config["enable.auto.offset.store"] = False
        if "group.instance.id" in config:
            config["group.instance.id"] += f"-{number}"
        given = json.dumps(
            {
                "topic": self.topic,
                "consumer": config,
                "batch": self.settings.batch,
                "work_s": self.settings.work_s,
                "commits": self.settings.commits,
            }
        )
        output = self.directory / f"{len(self.members)}.txt"
        command = [sys.executable, "-m", member.__name__, given, str(output)]
        with (self.directory / "log").open("ab") as log:
            self.members.append(subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ)))  # noqa: S603

    def _ready(self) -> int:
        return sum(re.search(r"^ready [1-9]", path.read_text(), re.MULTILINE) is not None for path in self._outputs())

    def _outputs(self) -> list[Path]:
        return sorted(self.directory.glob("*.txt"))

    def _pass(self, seconds: float) -> None:
        if self.rig.stopping.wait(seconds):
            raise StoppedError

    def _write(self) -> None:
        def delivered(error: object, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                self.acked.add((partition, offset))

        producer = Producer(
            {"bootstrap.servers": self.rig.lab.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        began = time.monotonic()
        for number in range(int(self.settings.rate * self.settings.seconds)):
            if self._ended.wait(max(began + number / self.settings.rate - time.monotonic(), 0)):
                break
            producer.produce(self.topic, f"{number}".encode(), partition=number % _PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        self._unsent = producer.flush(_REQUEST_S)

    def _done(self) -> bool:
        """Say whether all is processed, or nothing has been for a while, longer than a session lasts."""
        self._read()
        if self.acked <= self.processed.keys():
            return True
        last = max((at[-1] for at in self.processed.values()), default=0.0)
        return time.time() > last + _CALM_S and time.time() > self.killed_at + 20

    def _read(self) -> None:
        self.processed = {}
        for path in self._outputs():
            for line in path.read_text().splitlines():
                words = line.split()
                if words[0] != "ready":
                    self.processed.setdefault((int(words[0]), int(words[1])), []).append(float(words[2]))

    @property
    def written(self) -> int:
        """How many records were acknowledged."""
        return len(self.acked)

    @property
    def twice(self) -> int:
        """How many of them were processed more than once."""
        counts = Counter({place: len(at) for place, at in self.processed.items()})
        return sum(counts[place] > 1 for place in self.acked)

    @property
    def never(self) -> int:
        """How many of them were not processed."""
        return len(self.acked - self.processed.keys())

    @property
    def pause_s(self) -> float:
        """How long a partition stood still at most."""
        longest = 0.0
        for partition in range(_PARTITIONS):
            times = sorted(at for place, found in self.processed.items() if place[0] == partition for at in found)
            longest = max([longest, *(after - before for before, after in pairwise(times))])
        return longest

    def end(self) -> None:
        """Kill what still runs."""
        self._ended.set()
        for one in self.members:
            one.kill()
            one.wait()
