"""The readers and writers of one topic, as a whole: they begin together, and go on together when the topic changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import structlog

from canary.client.worker import stop_together
from canary.probing.tail import TailConsumer
from canary.runner.readers import BOTH
from canary.settings import UserError
from storage.store import StoreError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox
    from canary.probing.idempotent import Renewal
    from canary.probing.reading import Target
    from canary.runner.modes import Part, Writer
    from canary.runner.readers import Reading
    from canary.runner.topics import Identities
    from canary.settings import ClusterSettings
    from canary.settings.sharing import Share

log = structlog.get_logger(__name__)

_STOP_S = 5.0


class TopicProbes:
    """The tail consumers of a topic, and one writer per mode.

    Args:
        cluster: the cluster's settings.
        topic: the topic.
        identities: by mode, what each of its writers writes under.
        make: returns a mode's writer, not started.
        readings: the tail consumers.
        inbox: where facts go.
        clock: what time it is.
        sending: False to read only.
        may_start: says whether a part that ended, by its name, may be started again now (Supervisor).
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        topic: str,
        identities: Mapping[str, Identities],
        *,
        make: Callable[[str, Identities, Renewal], Writer],
        readings: Sequence[Reading] = BOTH,
        inbox: Inbox,
        clock: Clock,
        sending: bool,
        may_start: Callable[[str, Part], bool],
    ) -> None:
        self.topic = topic
        self.identities = dict(identities)
        self.writers: dict[str, Writer] = {}
        self.tails: dict[str, TailConsumer] = {}
        self._readings = {reading.name: reading for reading in readings}
        self._cluster = cluster
        self._make = make
        self._inbox = inbox
        self._clock = clock
        self._sending = sending
        self._may_start = may_start
        self._behind: set[str] = set()
        """Modes that have no generation yet for the topic's present incarnation: the store was away."""

    @property
    def target(self) -> Target:
        """What everybody here reads and writes under: the topic's present incarnation, once it was heard of."""
        return next(iter(self.identities.values())).target

    def begin(self, view: dict[str, Any], stopping: threading.Event) -> None:
        """Start readers, then writers, of the topic as ``view`` shows it."""
        seen = topic_of(view, self.topic)
        for identities in self.identities.values():
            identities.aim(marked_id(seen), self._mine(seen))
        for reading in self._readings.values():
            self._read(reading, view)
        for name in self._readings:
            while not self.tails[name].ready.wait(0.2) and not stopping.is_set():
                self.look_after(view)
        for mode, identities in self.identities.items():
            if self._sending and not stopping.is_set():
                self._write(mode, identities)

    def _mine(self, seen: dict[str, Any]) -> tuple[int, ...]:
        share = self._cluster.share_of(self.topic)
        mine = share.mine(seen["partitions"])
        if not mine:
            raise UserError(
                f"topic {self.topic} has {seen['partitions']} partitions, which is too few for the share "
                f"{self._cluster.shard} of cluster {self._cluster.name}; give it more, or the cluster fewer runners",
                2,
            )
        return mine

    def _read(self, reading: Reading, view: dict[str, Any]) -> None:
        tail = TailConsumer(
            reading.config(self._cluster),
            reading.name,
            reading.isolation,
            topic=self.topic,
            positions=start_positions(view, self.topic, reading.isolation),
            tag=self.target.tag,
            topic_id=self.target.topic_id,
            inbox=self._inbox,
            clock=self._clock,
        )
        tail.start()
        self.tails[reading.name] = tail

    def _write(self, mode: str, identities: Identities) -> None:
        writer = self._make(mode, identities, identities.begin())
        writer.start()
        self.writers[mode] = writer

    def ask_silence(self) -> bool:
        """Say that the writers should stop for good, without waiting. Returns whether there are any."""
        self._sending = False
        for writer in self.writers.values():
            writer.ask_stop()
        return bool(self.writers)

    def silence(self, deadline: float) -> None:
        """Stop the writers for good, and wait until ``deadline`` (monotonic, s): what is in flight gets its outcome."""
        self.ask_silence()
        writers, self.writers = self.writers, {}
        for writer in writers.values():
            writer.stop(max(deadline - time.monotonic(), 0.1))

    def renew(self, view: dict[str, Any]) -> None:
        """The topic is another one, or has more partitions: everybody goes on there."""
        seen = topic_of(view, self.topic)
        told = False
        for mode, identities in self.identities.items():
            before = identities.target
            target = identities.aim(marked_id(seen), self._mine(seen))
            if target == before:
                continue
            fresh = target.topic_id != before.topic_id
            if not told:
                told = True
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

    def start_anew(self, view: dict[str, Any]) -> None:
        """Everybody goes on with another client: readers where they stood, writers under another generation."""
        stop_together([*self.tails.values(), *self.writers.values()], _STOP_S)
        for reading in self._readings.values():
            self._read(reading, view)
        for mode in self.writers:
            self._write_anew(mode, "its client was made anew")

    def _write_anew(self, mode: str, reason: str) -> None:
        """Start a writer under another generation; while the store has none it is left to the next look."""
        try:
            self.identities[mode].renew(reason)
        except StoreError as error:
            log.warning("renewal_refused", mode=mode, error=str(error))
        else:
            self._write(mode, self.identities[mode])

    def look_after(self, view: dict[str, Any]) -> None:
        """Start again what failed, and let go on what had to wait for the store."""
        for mode in [mode for mode in self._behind if self.identities[mode].stocked]:
            self._go_on(mode)
        for mode, writer in list(self.writers.items()):
            if not writer.alive and self._sending and self._may_start(f"{writer.name} of {self.topic}", writer):
                log.error("producer_started_again", mode=mode, failure=repr(writer.failure))
                self._write_anew(mode, "its thread ended")
        for name, tail in list(self.tails.items()):
            if not tail.alive and self._may_start(f"{tail.name} of {self.topic}", tail):
                log.error("consumer_started_again", consumer=name, failure=repr(tail.failure))
                self._read(self._readings[name], view)


def topic_of(view: dict[str, Any], topic: str) -> dict[str, Any]:
    """Return what a view knows of a topic; KeyError-free only once it was seen."""
    found: dict[str, Any] = next(t for t in view["topics"] if t["topic"] == topic)
    return found


def marked_id(seen: dict[str, Any]) -> str | None:
    """Return the topic id that marks our records: none where it was not known when the topic was first seen."""
    return None if seen.get("unmarked") else seen["topic_id"]


def is_known(view: dict[str, Any], topic: str, share: Share) -> bool:
    """Say whether the topic's id and the end of every partition of ours are known, by this process's own asking."""
    seen = next((t for t in view.get("topics", []) if t["topic"] == topic), None)
    if seen is None or not seen["known"] or not seen["partitions"] or not seen["fresh"]:
        return False
    listed = [p for p in view["partitions"] if p["topic"] == topic and p["end"] is not None and p["fresh"]]
    return len(listed) >= len(share.mine(int(seen["partitions"])))


def start_positions(view: dict[str, Any], topic: str, consumer: str) -> dict[int, int]:
    """Return partition to the offset from which a tail consumer goes on.

    Where it stood; at 0 in a new incarnation of a topic that was watched before; else at the end, before which nothing
    was promised by us.
    """
    seen = topic_of(view, topic)
    positions: dict[int, int] = {}
    for p in view["partitions"]:
        if p["topic"] != topic or p["partition"] >= seen["partitions"]:
            continue
        reader = p["consumers"].get(consumer)
        if reader is not None:
            positions[p["partition"]] = reader["position"]
        elif seen["incarnations"] > 1:
            positions[p["partition"]] = p["start"]
        else:
            positions[p["partition"]] = p["end"]
    return positions
