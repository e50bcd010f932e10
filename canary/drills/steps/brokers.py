"""Faults of brokers and of what they have on disk."""

from __future__ import annotations

from dataclasses import dataclass

from canary.drills.rig.rig import Rig
from canary.drills.stage import PROBES
from canary.drills.steps.step import Step
from canary.lab import CONTROLLER


def _named(nodes: tuple[int, ...]) -> str:
    words = ["the controller" if node == CONTROLLER else f"broker {node}" for node in nodes]
    return " and ".join(words)


def _are(nodes: tuple[int, ...]) -> str:
    return f"{_named(nodes)} {'is' if len(nodes) == 1 else 'are'}"


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
        return f"{_named(self.nodes)} go{'es' if len(self.nodes) == 1 else ''} on (SIGCONT)"


@dataclass(frozen=True, slots=True)
class Start(Step):
    """Start brokers again, with what they have on disk; with ``wait`` until they are in the cluster."""

    nodes: tuple[int, ...]
    wait: bool = True

    def take(self, rig: Rig) -> None:
        """Start them all, then wait for all."""
        for node in self.nodes:
            rig.lab.start_broker(node, timeout=0)
        if self.wait:
            rig.lab.wait_ready(including=self.nodes)

    def __str__(self) -> str:
        """Say it."""
        return f"{_are(self.nodes)} started again"


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
        if rig.stage.topics[self.topic].config.get("flush.messages") == "1":
            rig.note("nothing is lost with the page cache: every batch was flushed (flush.messages=1)")
            return
        for partition in self.partitions:
            ends = {node: rig.lab.end_offset(node, self.topic, partition) for node in self.nodes}
            to = max(ends.values()) - self.records
            for node in self.nodes:
                cut = rig.lab.truncate(node, self.topic, partition, to_offset=to)
                rig.note(f"{self.topic}-{partition} on broker {node} ends at {cut.after}, no longer at {cut.before}")

    def __str__(self) -> str:
        """Say it."""
        return f"the machine of {_named(self.nodes)} loses power: what was not flushed is gone"
