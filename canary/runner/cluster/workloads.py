"""The readers and writers of one topic: they begin together, and go on together when the topic changes.

A partition is read and written once it has answered this process. One that has no leader at the start, for example,
joins the others when it has one: first every reader is positioned there, then the writers send.
"""

from collections.abc import Callable, Collection, Sequence

import structlog

from canary.facts import Skipped
from canary.metrics.published import Published, TopicView
from canary.probing.base import Renewal, Writer
from canary.probing.readers.consumer import Target
from canary.probing.readers.tail import Start, TailConsumer
from canary.runner.cluster.identities import Identities
from canary.runner.cluster.readers import Reading
from canary.runner.context import ClusterContext
from canary.settings import UserError
from canary.settings.clusters import Share
from canary.threads import system
from canary.threads.worker import Worker, stop_together
from canary.workloads.catalogue import WORKLOADS
from storage.store import StoreError

log = structlog.get_logger(__name__)

_STOP_S = 5.0


class TopicProbes:
    """The tail consumers of a topic, and one writer per mode.

    Args:
        make: returns the writer that writes under some identities, not started.
        readings: the tail consumers.
        sending: False to read only.
        may_start: returns whether a part that ended, by its name, may be started again now (Supervisor).
    """

    def __init__(
        self,
        context: ClusterContext,
        topic: str,
        *,
        make: Callable[[Identities, Renewal], Writer],
        readings: Sequence[Reading],
        sending: bool,
        may_start: Callable[[str, Worker], bool],
    ) -> None:
        self.topic = topic
        self.identities: dict[str, Identities] = {}
        """By mode, what its writer writes under."""
        self.writers: dict[str, Writer] = {}
        self.tails: dict[str, TailConsumer] = {}
        self._readings = {reading.name: reading for reading in readings}
        self._cluster = context.cluster
        self._make = make
        self._inbox = context.inbox
        self._clock = context.clock
        self._sending = sending
        self._may_start = may_start
        self._placed: set[int] = set()
        """The partitions that the readers were sent to; those of ``target`` are written, too."""
        self._looked_at = 0.0
        self._behind: set[str] = set()
        """Modes that have no generation yet for the topic's present incarnation: the store was away."""

    @property
    def target(self) -> Target:
        """The topic's present incarnation, once the watcher has seen it: readers and writers go by it."""
        return next(iter(self.identities.values())).target

    @property
    def begun(self) -> bool:
        """Whether it is read."""
        return bool(self.tails)

    def tag(self, view: Published) -> bytes:
        """Return the tag of our records in the incarnation that ``view`` shows."""
        return next(iter(self.identities.values())).tag(view.topic(self.topic).marked_id)

    def may_begin(self, view: Published, *, whole: bool) -> bool:
        """Say whether a partition of ours has answered; with ``whole`` each of them must have."""
        number = len(self._answered(view))
        return number > 0 and (not whole or number == len(self._mine(view.topic(self.topic))))

    def _answered(self, view: Published) -> tuple[int, ...]:
        return answered(view, self.topic, self._cluster.share_of(self.topic))

    def begin(self, view: Published, stopping: system.Event) -> None:
        """Start readers, then writers, in the partitions that have answered."""
        seen, partitions = view.topic(self.topic), self._answered(view)
        self._placed = set(partitions)
        for identities in self.identities.values():
            identities.aim(seen.marked_id, partitions)
        for reading in self._readings.values():
            self._read(reading, view)
        for name in self._readings:
            while not self.tails[name].ready.wait(0.2) and not stopping.is_set():
                self.look_after(view)
        for mode, identities in self.identities.items():
            if self._sending and not stopping.is_set():
                self._write(mode, identities)

    def _mine(self, seen: TopicView) -> tuple[int, ...]:
        share = self._cluster.share_of(self.topic)
        mine = share.mine(seen.partitions)
        if not mine:
            raise UserError(
                f"topic {self.topic} has {seen.partitions} partitions, which is too few for the share "
                f"{self._cluster.shard} of cluster {self._cluster.name}; give it more, or the cluster fewer runners",
                2,
            )
        return mine

    def _read(self, reading: Reading, view: Published) -> None:
        tail = TailConsumer(
            reading.config(self._cluster),
            reading.name,
            reading.isolation,
            self.topic,
            Start(self._positions(view, reading, self._placed), self.target.tag, self.target.topic_id),
            self._inbox,
            self._clock,
        )
        tail.start()
        self.tails[reading.name] = tail

    def _positions(self, view: Published, reading: Reading, partitions: Collection[int]) -> dict[int, int]:
        known = start_positions(view, self.topic, reading.isolation)
        return {partition: offset for partition, offset in known.items() if partition in partitions}

    def _write(self, mode: str, identities: Identities) -> None:
        writer = self._make(identities, identities.begin())
        writer.start()
        self.writers[mode] = writer

    def silence(self) -> list[Writer]:
        """Start no writer any more, and return those that write, to be stopped."""
        self._sending = False
        writers, self.writers = self.writers, {}
        return list(writers.values())

    def renew(self, view: Published) -> None:
        """Go on with another incarnation of the topic, from its start, or with its new partitions."""
        seen = view.topic(self.topic)
        if not self.begun:
            return
        if seen.marked_id == self.target.topic_id:
            self._join(view)
            return
        mine = self._mine(seen)
        self._placed = set(mine)
        for identities in self.identities.values():
            identities.aim(seen.marked_id, mine)
        target = self.target
        log.info("topic_renewed", topic=self.topic, topic_id=target.topic_id, partitions=len(mine))
        for tail in self.tails.values():
            tail.retarget(dict.fromkeys(mine, 0), target.tag, target.topic_id)
        for mode in self.identities:
            self._go_on(mode)

    def _join(self, view: Published) -> None:
        """Read the partitions that have answered since the last look, and write those where all readers stand."""
        seen, target = view.topic(self.topic), self.target
        if seen.marked_id != target.topic_id or len(self._mine(seen)) == len(target.partitions):
            return
        if new := set(self._answered(view)) - self._placed:
            log.info("partitions_joined", topic=self.topic, partitions=sorted(new))
            self._placed |= new
            for name, tail in self.tails.items():
                tail.retarget(self._positions(view, self._readings[name], new), target.tag, target.topic_id)
        read = {one.partition for one in view.of_topic(self.topic) if self.tails.keys() <= one.consumers.keys()}
        written = tuple(sorted(self._placed & read | set(target.partitions)))
        if written == target.partitions:
            return
        for mode, identities in self.identities.items():
            identities.aim(target.topic_id, written)
            if mode in self.writers and mode not in self._behind:
                self.writers[mode].retarget(identities.generation, target.tag, written)

    def count_skipped(self, view: Published) -> None:
        """Count the probes that were due since the last call in partitions that have not answered yet."""
        before, now = self._looked_at, system.monotonic()
        self._looked_at = now
        seen = view.topic(self.topic)
        if not self._sending or not before or not seen.fresh:
            return
        waiting = [partition for partition in self._mine(seen) if partition not in self._placed]
        for mode in self.identities if waiting else ():
            workload, rate = WORKLOADS[mode], self._cluster.modes.declared()[mode].rate
            due = int(now * rate) - int(before * rate) if workload.every_partition else 0
            if workload.topic != "none":
                self._inbox.put([Skipped(self._clock.now_ns(), self.topic, p, mode, due) for p in waiting])

    def _go_on(self, mode: str) -> None:
        """Let a mode go on in another incarnation; while the store has no generation for it that is left to later."""
        self._behind.add(mode)
        try:
            under = self.identities[mode].renew("another topic id")
        except StoreError as error:
            log.warning("renewal_refused", mode=mode, error=str(error))
            return
        self._behind.remove(mode)
        if mode in self.writers:
            self.writers[mode].retarget(*under)

    def start_anew(self, view: Published) -> None:
        """Replace every client: readers go on at their positions, writers under another generation.

        One that has not ended yet is followed when it has (``look_after``): two at once would seem to the judge to
        read and write out of order.
        """
        stop_together([*self.tails.values(), *self.writers.values()], _STOP_S)
        for reading in self._readings.values() if self.begun else ():
            if not self.tails[reading.name].alive:
                self._read(reading, view)
        for mode, writer in list(self.writers.items()):
            if not writer.alive:
                self._write_anew(mode, "its client was made anew")

    def _write_anew(self, mode: str, reason: str) -> None:
        """Start a writer under another generation; while the store has none it is left to the next look."""
        try:
            self.identities[mode].renew(reason)
        except StoreError as error:
            log.warning("renewal_refused", mode=mode, error=str(error))
        else:
            self._write(mode, self.identities[mode])

    def look_after(self, view: Published) -> None:
        """Take in partitions that answer now; start again what failed, and let go on what had to wait for the store."""
        if self.begun:
            self._join(view)
        for mode in [mode for mode in self._behind if self.identities[mode].spare is not None]:
            self._go_on(mode)
        for mode, writer in list(self.writers.items()):
            if not writer.alive and self._sending and self._may_start(f"{writer.name} of {self.topic}", writer):
                log.error("producer_started_again", mode=mode, failure=repr(writer.failure))
                self._write_anew(mode, "its thread ended")
        for name, tail in list(self.tails.items()):
            if not tail.alive and self._may_start(f"{tail.name} of {self.topic}", tail):
                log.error("consumer_started_again", consumer=name, failure=repr(tail.failure))
                self._read(self._readings[name], view)


def answered(view: Published, topic: str, share: Share) -> tuple[int, ...]:
    """Return the partitions of ours that have told this process their end; none before it knows the topic's id."""
    seen = view.topic(topic)
    if not seen.known or not seen.fresh:
        return ()
    listed = {one.partition for one in view.of_topic(topic) if one.end is not None and one.fresh}
    return tuple(partition for partition in share.mine(seen.partitions) if partition in listed)


def start_positions(view: Published, topic: str, consumer: str) -> dict[int, int]:
    """Return partition to the offset from which a tail consumer goes on.

    That is its own position. A consumer without one begins at the end, before which nothing was promised; at the start
    of the log in a new incarnation of a topic that was watched before, and in a new partition, whose end is not known.
    """
    seen = view.topic(topic)
    positions: dict[int, int] = {}
    for one in view.of_topic(topic):
        reader = one.consumers.get(consumer)
        first = one.start if seen.incarnations > 1 or one.end is None else one.end
        if one.partition < seen.partitions:
            positions[one.partition] = first if reader is None else reader.position
    return positions
