"""The readers and writers of one topic, as a whole: they begin together, and go on together when the topic changes."""

from collections.abc import Callable, Sequence

import structlog

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
        self._behind: set[str] = set()
        """Modes that have no generation yet for the topic's present incarnation: the store was away."""

    @property
    def target(self) -> Target:
        """The topic's present incarnation, once the watcher has seen it: readers and writers go by it."""
        return next(iter(self.identities.values())).target

    def begin(self, view: Published, stopping: system.Event) -> None:
        """Start readers, then writers, of the topic as ``view`` shows it."""
        seen = view.topic(self.topic)
        for identities in self.identities.values():
            identities.aim(seen.marked_id, self._mine(seen))
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
            Start(start_positions(view, self.topic, reading.isolation), self.target.tag, self.target.topic_id),
            self._inbox,
            self._clock,
        )
        tail.start()
        self.tails[reading.name] = tail

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
        """Go on with another incarnation of the topic, or with its new partitions."""
        seen = view.topic(self.topic)
        logged = False
        for mode, identities in self.identities.items():
            before = identities.target
            target = identities.aim(seen.marked_id, self._mine(seen))
            if target == before:
                continue
            fresh = target.topic_id != before.topic_id
            if not logged:
                logged = True
                log.info("topic_renewed", topic=self.topic, topic_id=target.topic_id, partitions=len(target.partitions))
                new = [p for p in target.partitions if fresh or p not in before.partitions]
                for tail in self.tails.values():
                    tail.retarget(dict.fromkeys(new, 0), target.tag, target.topic_id)
            if fresh:
                self._go_on(mode)
            elif mode in self.writers and mode not in self._behind:
                self.writers[mode].retarget(identities.generation, target.tag, target.partitions)

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
        for reading in self._readings.values():
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
        """Start again what failed, and let go on what had to wait for the store."""
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


def is_known(view: Published, topic: str, share: Share) -> bool:
    """Say whether the topic's id and the end of every partition of ours are known, by this process's own asking."""
    seen = view.topic(topic)
    if not seen.known or not seen.partitions or not seen.fresh:
        return False
    listed = [one for one in view.of_topic(topic) if one.end is not None and one.fresh]
    return len(listed) >= len(share.mine(seen.partitions))


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
