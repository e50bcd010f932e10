"""What is done to the logs of transactions on the disks of brokers that do not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import Rig
from canary.drills.stage import PROBES
from canary.drills.steps.brokers import lose_unflushed, named
from canary.drills.steps.saying import ends
from canary.drills.steps.step import Step
from canary.probe.record import Probe, decode

REST: Final = "at rest"
"""A place at which no transaction was open."""


@dataclass(frozen=True, slots=True)
class RemoveFiles(Step):
    """Files of partitions are deleted on brokers that do not run: those whose names end so, such as ".txnindex"."""

    nodes: tuple[int, ...]
    ending: str
    topic: str = PROBES
    partitions: tuple[int, ...] = (0,)

    def take(self, rig: Rig) -> None:
        """Delete them."""
        for node in self.nodes:
            for partition in self.partitions:
                log = rig.lab.directory / f"broker-{node}" / "data" / f"{self.topic}-{partition}"
                for file in log.glob(f"*{self.ending}"):
                    rig.note(f"{file.name} of {self.topic}-{partition} on broker {node} had {file.stat().st_size} B")
                    file.unlink()

    def __str__(self) -> str:
        """Say it."""
        where = ", ".join(map(str, self.partitions))
        return f"the {self.ending} files of {self.topic} {where} are deleted on {named(self.nodes)}"


@dataclass(frozen=True, slots=True)
class Read(Step):
    """A direct client reads a topic, and what it is shown counts: another leader may show less of what was aborted."""

    topic: str

    def take(self, rig: Rig) -> None:
        """Read it."""
        rig.shown |= direct.found(rig.lab.bootstrap, self.topic)

    def __str__(self) -> str:
        """Say it."""
        return f"a direct client reads {self.topic}"


@dataclass(frozen=True, slots=True)
class NoteRest(Step):
    """Remember the highest offset of a partition at which no transaction is open; its place is called ``name``.

    Each transaction leaves one marker, an offset without a record: where there were as many transactions as markers,
    each of them has ended.
    """

    topic: str
    partition: int = 0
    name: str = REST

    def take(self, rig: Rig) -> None:
        """Read it."""
        transactions: set[tuple[int, int, int | None]] = set()
        records, rest = 0, 0
        for one in direct.records(rig.kafka, self.topic, "read_uncommitted"):
            probe = decode(one.value, None)
            if one.partition != self.partition or not isinstance(probe, Probe):
                continue
            if one.offset - records == len(transactions):
                rest = one.offset
            records += 1
            transactions.add((probe.identity.producer_id, probe.identity.generation, probe.transaction_id))
        rig.places[self.name] = {Place(self.topic, self.partition, rest)}
        rig.note(f"no transaction is open in {self.topic}-{self.partition} at offset {rest}")

    def __str__(self) -> str:
        """Say it."""
        return f"the last offset of {self.topic}-{self.partition} at which no transaction is open is looked for"


@dataclass(frozen=True, slots=True)
class NoteEnd(Step):
    """Remember the end of a partition, as a client is told it; its place is called ``name``."""

    name: str
    topic: str = PROBES
    partition: int = 0

    def take(self, rig: Rig) -> None:
        """Ask for it."""
        end = ends(rig, self.topic)[self.partition]
        rig.places[self.name] = {Place(self.topic, self.partition, end)}
        rig.note(f"{self.topic}-{self.partition} ends at {end}")

    def __str__(self) -> str:
        """Say it."""
        return f"the end of {self.topic}-{self.partition} is noted"


@dataclass(frozen=True, slots=True)
class CutAt(Step):
    """The logs of dead brokers end at the places called ``name``: what came later was never flushed.

    With flush.messages=1 every batch was flushed before it was acknowledged, and nothing is gone.
    """

    nodes: tuple[int, ...]
    name: str = REST

    def take(self, rig: Rig) -> None:
        """Cut them, unless they were flushed."""
        for place in rig.places[self.name]:
            lose_unflushed(rig, self.nodes, place)

    def __str__(self) -> str:
        """Say it."""
        return f"the machine of {named(self.nodes)} loses power: what was not flushed of a partition is gone"
