"""A violation that the canary said, and what the world knows of the place that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from canary.anomalies.policy import UNORDERED
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.machine.system import EPOCH_NS
from simulation.world.chronicle import Copy

if TYPE_CHECKING:
    from simulation.world.world import World

Check = Callable[["World", "Finding"], str]
"""Returns why a violation is false, "" where the world has what it says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation, and the virtual seconds at which it may have been found: the canary's clock may have been wrong."""

    violation: Violation
    at: tuple[float, ...]
    told: float
    """When the store was given it."""

    def names(self) -> Iterator[tuple[int | None, Identity]]:
        """Yield (offset, identity) of each of its probes."""
        for run in self.violation.runs:
            for step in range(run.size):
                one = run.part(step, 1)
                if one.identity is not None:
                    yield one.offset, one.identity

    def offsets(self) -> Iterator[int]:
        """Yield the offset of each of its records."""
        for run in self.violation.runs:
            yield from range(run.offset or 0, (run.offset or 0) + run.size)

    def copies(self, world: World, who: Identity) -> list[Copy]:
        """Return the copies of a probe in the log that it is about."""
        return self._served(world, partial(world.chronicle.of, key=key(who)))

    def there(self, world: World, offset: int | None) -> list[Copy]:
        """Return everything that was ever at an offset of the log that it is about."""
        return self._served(world, partial(world.chronicle.there, offset=offset))

    def _served(self, world: World, of: Callable[[str, int | None], list[Copy]]) -> list[Copy]:
        """Return the copies that ``of`` has in the log, and those that came into a deleted topic's since it was made.

        A leader that was cut off serves that one under the same name, and may acknowledge what only it has. Where
        brokers told no topic id, the log is that of every topic of the name.
        """
        topic, topic_id, partition = self.violation.topic, self.violation.topic_id, self.violation.partition
        decided = world.chronicle.decisions[topic, -1 if partition is None else partition]
        ids = world.chronicle.ids[topic]
        begun = [
            now.at
            for before, now in pairwise([None, *decided])
            if now is not None and now.topic_id == topic_id and (before is None or before.topic_id != topic_id)
        ]
        made = max((at for at in begun if at <= max(self.at, default=self.told)), default=min(begun, default=0.0))
        others = set(ids[: len(ids) - ids[::-1].index(topic_id)] if topic_id in ids else [] if topic_id else ids)
        copies = (one for x in {topic_id, *others} for one in of(x, partition))
        return [one for one in copies if one.since >= made]


def finding_of(world: World, violation: Violation, told: float) -> Finding:
    """Return a violation with the times at which it may have been found."""
    return Finding(violation, tuple(at for at in times_of(world, violation.at_ns) if -1 <= at <= told + 1), told)


def times_of(world: World, at_ns: int) -> list[float]:
    """Return the virtual seconds that a time by the canary's clock may be."""
    by_clock = (at_ns - EPOCH_NS) / 1e9
    return sorted({by_clock - (offset - slept) / 1e9 for offset in world.clocks for slept in world.slept})


def unordered(world: World, topic: str) -> bool:
    """Whether leaders alone acknowledge what is written to a topic."""
    return topic in {world.settings.clusters[0].topic_of(mode) for mode in world.plan.modes if mode in UNORDERED}
