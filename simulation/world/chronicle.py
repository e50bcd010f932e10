"""What the simulated cluster really did, as a whole: copies of records, decisions of the controller, and quiet times.

``truth.py`` keeps what became of each probe. This keeps the rest, for verdicts on what else the canary says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.world.truth import EXPIRED

if TYPE_CHECKING:
    from simulation.cluster.cluster import Cluster
    from simulation.kafka.contract import Record
    from simulation.kafka.replica import PartitionRole

NEVER_WRITTEN = "never written"
"""Why a record is gone that was acknowledged and is in no log."""
Place = tuple[str, int]
"""(topic id, partition): one log."""


@dataclass(slots=True)
class Copy:
    """A record in a log. ``until`` is when the log lost it, None while it has it, and ``how`` says why it did."""

    record: Record
    offset: int
    since: float
    until: float | None = None
    how: str = ""
    committed: bool = True
    """The in-sync replicas had it, or a broker lied that they have; not so what a deposed leader had alone."""

    def beside(self, other: Copy) -> bool:
        """Whether both were there at the same time, or one began after the other had expired."""
        first, then = sorted((self, other), key=lambda one: one.since)
        return first.until is None or first.until > then.since or first.how in EXPIRED


@dataclass(frozen=True, slots=True)
class Decision:
    """What the controller decided of a partition, from ``at`` on. ``unclean``: its leader was elected uncleanly."""

    at: float
    topic_id: str
    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    min_isr: int
    unclean: bool


@dataclass(slots=True)
class Chronicle:
    """Listens to a cluster; ``now`` returns virtual seconds."""

    now: Callable[[], float]
    copies: dict[Place, dict[bytes, list[Copy]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    at: dict[Place, dict[int, list[Copy]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    decisions: dict[Place, list[Decision]] = field(default_factory=lambda: defaultdict(list))
    """By (topic, partition), those of each topic of that name one after the other."""
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By topic, the ids it had, in order; one that came back stands there again."""
    apart: dict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    """By broker, [since, until] of when it did not hear from the controller; the last one may have no end."""
    looks: list[tuple[float, bool]] = field(default_factory=list)
    """When it was looked whether all is well, and whether it was."""

    def listen(self, cluster: Cluster) -> None:
        """Note what the cluster does from now on."""
        cluster.on_append.append(self._appended)
        cluster.on_lost.append(self._lost)
        cluster.on_return.append(self._returned)
        cluster.on_decided.append(self._decided)
        cluster.on_contact.append(self._contact)

    def _appended(self, _topic: str, topic_id: str, partition: int, record: Record) -> None:
        if record.key is not None and record.control is None:
            self._add((topic_id, partition), Copy(record, record.offset, self.now()))

    def _add(self, place: Place, copy: Copy) -> None:
        self.copies[place][copy.record.key or b""].append(copy)
        self.at[place][copy.offset].append(copy)

    def _copy(self, place: Place, record: Record) -> Copy | None:
        return next((one for one in reversed(self.at[place][record.offset]) if one.record is record), None)

    def _lost(self, _topic: str, topic_id: str, partition: int, records: Sequence[Any], how: str) -> None:
        place = (topic_id, partition)
        for record in records:
            copy = self._copy(place, record)
            if copy is None:
                if how == NEVER_WRITTEN:
                    self._add(place, Copy(record, record.offset, self.now(), self.now(), how))
                continue
            copy.until, copy.how, copy.committed = self.now(), how, how != "uncommitted"

    def _returned(self, _topic: str, topic_id: str, partition: int, records: Sequence[Record]) -> None:
        for record in records:  # it was gone meanwhile
            self._add((topic_id, partition), Copy(record, record.offset, self.now()))

    def _decided(self, partition: PartitionRole) -> None:
        if self.ids[partition.topic][-1:] != [partition.topic_id]:
            self.ids[partition.topic].append(partition.topic_id)
        self.decisions[partition.key].append(
            Decision(
                self.now(),
                partition.topic_id,
                partition.leader,
                partition.epoch,
                partition.isr,
                partition.replicas,
                partition.min_isr,
                partition.leader != -1 and partition.unclean_epoch == partition.epoch,
            )
        )

    def _contact(self, broker: int, connected: bool) -> None:  # noqa: FBT001  # a hook's shape
        if not connected:
            self.apart[broker].append([self.now(), float("inf")])
        elif self.apart[broker]:
            self.apart[broker][-1][1] = self.now()

    # what is asked

    def of(self, topic_id: str, partition: int | None, key: bytes) -> list[Copy]:
        """Return the copies of a probe in a log."""
        return self.copies[topic_id, -1 if partition is None else partition].get(key, [])

    def there(self, topic_id: str, partition: int | None, offset: int | None) -> list[Copy]:
        """Return everything that was ever at an offset of a log."""
        return self.at[topic_id, -1 if partition is None else partition].get(-1 if offset is None else offset, [])

    def made_at(self, topic: str) -> float:
        """Return since when a topic has the id that it has now."""
        (*_, topic_id), decided = self.ids[topic], self.decisions[topic, 0]
        former = [number for number, one in enumerate(decided) if one.topic_id != topic_id]
        return decided[former[-1] + 1 if former else 0].at

    def told(self, topic: str, partition: int, begin: float, end: float) -> Iterator[Decision]:
        """Yield what brokers said of a partition within a time.

        That is what held then, and what held when a broker that did not hear from the controller then last did.
        """
        decided = self.decisions[topic, partition]
        times = [one.at for one in decided]

        def held(at: float) -> int:
            return max(bisect_right(times, at) - 1, 0)

        yield from decided[held(begin) : held(end) + 1]
        for apart in self.apart.values():
            for since, until in apart:
                if since <= end and until >= begin:
                    yield from decided[held(since) : held(since) + 1]

    def ill(self, begin: float, end: float) -> bool:
        """Whether something was not well within a time."""
        return any(begin <= at <= end and not well for at, well in self.looks)

    def longest_quiet(self, begin: float, end: float) -> float:
        """Return for how many seconds without a break all was well within a time, at most."""
        longest, since = 0.0, None
        for at, well in self.looks:
            if begin <= at <= end and well:
                since = at if since is None else since
                longest = max(longest, at - since)
            else:
                since = None
        return longest
