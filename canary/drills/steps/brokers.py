"""Faults of brokers and of what they have on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canary.drills.rig.direct import Place
from canary.drills.rig.rig import Rig
from canary.drills.stage import PROBES
from canary.drills.steps.step import Step
from canary.lab import CONTROLLER, LabError

_BROKER_S: Final = 60.0
_ENDS_S: Final = 30.0
_FAKETIME: Final = ("lib/*/faketime/libfaketimeMT.so.1", "lib*/faketime/libfaketimeMT.so.1")


def named(nodes: tuple[int, ...]) -> str:
    """Return brokers in words."""
    words = [f"broker {node}" if node < CONTROLLER else _controller(node) for node in nodes]
    return " and ".join(words)


def _controller(node: int) -> str:
    return "the controller" if node == CONTROLLER else f"controller {node - CONTROLLER + 1}"


def _are(nodes: tuple[int, ...]) -> str:
    return f"{named(nodes)} {'is' if len(nodes) == 1 else 'are'}"


@dataclass(frozen=True, slots=True)
class Kill(Step):
    """Kill -9."""

    nodes: tuple[int, ...]

    def take(self, rig: Rig) -> None:
        """Kill them."""
        for node in self.nodes:
            rig.lab.kill(node)

    def __str__(self) -> str:
        """Say it."""
        return f"{_are(self.nodes)} killed (-9)"


@dataclass(frozen=True, slots=True)
class Pause(Step):
    """SIGSTOP: connections stay open, nothing answers."""

    nodes: tuple[int, ...]

    def take(self, rig: Rig) -> None:
        """Freeze them."""
        for node in self.nodes:
            rig.lab.pause(node)

    def __str__(self) -> str:
        """Say it."""
        return f"{_are(self.nodes)} frozen (SIGSTOP)"


@dataclass(frozen=True, slots=True)
class Resume(Step):
    """SIGCONT."""

    nodes: tuple[int, ...]

    def take(self, rig: Rig) -> None:
        """Let them go on."""
        for node in self.nodes:
            rig.lab.resume(node)

    def __str__(self) -> str:
        """Say it."""
        return f"{named(self.nodes)} go{'es' if len(self.nodes) == 1 else ''} on (SIGCONT)"


@dataclass(frozen=True, slots=True)
class Start(Step):
    """Start nodes again, with what they have on disk; with ``wait`` until they are in the cluster."""

    nodes: tuple[int, ...]
    wait: bool = True

    def take(self, rig: Rig) -> None:
        """Start them all, then wait for all."""
        for node in self.nodes:
            rig.lab.start_broker(node, timeout=0)
        if self.wait:
            rig.lab.wait_ready(including=[node for node in self.nodes if node < CONTROLLER])

    def __str__(self) -> str:
        """Say it."""
        return f"{_are(self.nodes)} started again"


@dataclass(frozen=True, slots=True)
class StartWithClock(Step):
    """A broker that does not run is started with a clock that is so many seconds ahead."""

    broker: int
    ahead_s: float

    def take(self, rig: Rig) -> None:
        """Start it with libfaketime, which leaves the monotonic clock alone."""
        library = next((str(found) for pattern in _FAKETIME for found in Path("/usr").glob(pattern)), None)
        if library is None:
            raise LabError("a broker's clock cannot be set without libfaketime; try: apt install libfaketime")
        rig.lab.start_broker(
            self.broker,
            environment={
                "LD_PRELOAD": library,
                "FAKETIME": f"{self.ahead_s:+g}",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # or waiting threads of a JVM do not wait, and it never comes up
            },
        )

    def __str__(self) -> str:
        """Say it."""
        return f"{_are((self.broker,))} started with a clock that is {self.ahead_s:g} s ahead"


@dataclass(frozen=True, slots=True)
class Stop(Step):
    """Stop brokers in good order (SIGTERM)."""

    nodes: tuple[int, ...]

    def take(self, rig: Rig) -> None:
        """Stop them, one after the other."""
        for node in self.nodes:
            rig.lab.stop_broker(node)

    def __str__(self) -> str:
        """Say it."""
        return f"{_are(self.nodes)} stopped (SIGTERM)"


@dataclass(frozen=True, slots=True)
class Roll(Step):
    """Nodes are restarted in good order, one after the other, each when all replicas are in sync again.

    Attributes:
        nodes: in their order.
        version: of Kafka, from then on; None: as before.
        topic, partitions: what is to be in sync.
    """

    nodes: tuple[int, ...]
    version: str | None = None
    topic: str = PROBES
    partitions: tuple[int, ...] = (0,)

    def take(self, rig: Rig) -> None:
        """Restart each."""
        for node in self.nodes:
            rig.lab.restart(node, version=self.version)
            rig.note(f"{_are((node,))} back")
            for partition in self.partitions:
                rig.until(lambda p=partition: self._whole(rig, p), _BROKER_S, "all replicas are in sync")  # type: ignore[misc]

    def _whole(self, rig: Rig, partition: int) -> bool:
        found = rig.lab.partition(self.topic, partition)
        return found.isr == frozenset(found.replicas)

    def __str__(self) -> str:
        """Say it."""
        how = f"upgraded to {self.version}" if self.version else "restarted"
        return f"{_are(self.nodes)} {how}, one after the other"


def lose_unflushed(rig: Rig, nodes: tuple[int, ...], place: Place) -> None:
    """Cut the logs of a partition on dead brokers, from a place on; unless every batch of the topic was flushed."""
    topic, partition, offset = place
    staged = rig.stage.topics.get(topic)  # none: one of Kafka's own
    if staged is not None and staged.config.get("flush.messages") == "1":
        rig.note("nothing is lost with the page cache: every batch was flushed (flush.messages=1)")
        return
    for node in nodes:
        cut = rig.lab.truncate(node, topic, partition, to_offset=offset)
        rig.note(f"{topic}-{partition} on broker {node} ends at {cut.after}, no longer at {cut.before}")


@dataclass(frozen=True, slots=True)
class LosePageCache(Step):
    """What dead brokers had not yet flushed is gone, as after a loss of power: the newest records of each log.

    With flush.messages=1 every batch was flushed before it was acknowledged, and nothing is gone. (The operating system
    may have written more of it than Kafka asked for: how much is lost is chance, that it may be lost is not.)
    """

    nodes: tuple[int, ...]
    records: int = 10
    topic: str = PROBES
    partitions: tuple[int, ...] = (0,)

    def take(self, rig: Rig) -> None:
        """Cut the logs, unless they were flushed."""
        for partition in self.partitions:
            end = max(rig.lab.end_offset(node, self.topic, partition) for node in self.nodes)
            lose_unflushed(rig, self.nodes, Place(self.topic, partition, max(0, end - self.records)))

    def __str__(self) -> str:
        """Say it."""
        return f"the machine of {named(self.nodes)} loses power: what was not flushed is gone"


# Their disks


@dataclass(frozen=True, slots=True)
class Wipe(Step):
    """Nodes that do not run have empty disks, formatted for the same cluster: other machines with their ids."""

    nodes: tuple[int, ...]

    def take(self, rig: Rig) -> None:
        """Empty them."""
        for node in self.nodes:
            rig.lab.wipe(node)

    def __str__(self) -> str:
        """Say it."""
        return f"{named(self.nodes)} {'has an empty disk' if len(self.nodes) == 1 else 'have empty disks'}"


@dataclass(frozen=True, slots=True)
class FillDisk(Step):
    """A running broker can write no more to its disk; Kafka ends a broker that has no disk left that works."""

    broker: int

    def take(self, rig: Rig) -> None:
        """Let it write nothing more, and wait until it has ended."""
        rig.lab.limit_file_size(self.broker, 1)
        rig.until(lambda: self.broker not in rig.lab.alive(), _ENDS_S, f"broker {self.broker} ends by itself")

    def __str__(self) -> str:
        """Say it."""
        return f"the disk of broker {self.broker} is full"
