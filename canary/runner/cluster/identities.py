"""What the parts of one mode write and read under: changes as a whole when its topic does."""

import structlog

from canary.facts import GenerationBegan
from canary.probe.record import tag as tag_of
from canary.probing.base import Renewal
from canary.probing.readers.consumer import Target
from canary.runner.context import ClusterContext
from canary.threads import system
from storage.store import StoreError

log = structlog.get_logger(__name__)


class Identities:
    """Takes generations for the producer of one (topic, mode), and remembers its target.

    The producer id is a random one of this start alone, so whatever store, ledger or both were put back, wiped or
    cloned, no identity is written twice; ``first`` is the one that the first start had, which transactional ids and
    groups are named after. A spare generation is kept, so that a producer can be renewed while the store is away; each
    was taken by compare-and-set before anything is sent under it (ARCHITECTURE decision 1).
    """

    def __init__(
        self, context: ClusterContext, home: tuple[str, str], topic: str, mode: str, known: tuple[int, int] | None
    ) -> None:
        """Take a producer id (63 bits) and a generation.

        ``home`` is the store's installation and the cluster's own id, which are in the tag of our records;
        ``known`` is the first producer id and the highest generation that the ledger knows, None for a new ledger.

        Raises:
            StoreError: the store does not answer.
        """
        self.topic = topic
        self.mode = mode
        self._store = context.store.identities
        self._inbox = context.inbox
        self._clock = context.clock
        self._cluster = context.cluster.name
        self._taken = context.generations
        self._home = home
        self.first, self.producer_id = self._store.producer(
            self._cluster, context.runner, topic, mode, known[0] if known else None
        )
        self._least = known[1] + 1 if known is not None else 1
        self.spare: int | None = None
        """A generation that can be taken though the store be away."""
        self._lock = system.lock()
        self.generation = self._take()
        self.target = Target(None, b"", ())

    def _take(self) -> int:
        generation = self._store.next_generation(self.first, self._least, self._cluster)
        if self.producer_id != self.first:  # for others, who look it up
            self._store.next_generation(self.producer_id, generation, self._cluster)
        self._least = generation + 1
        self._taken.update({self.first: generation, self.producer_id: generation})
        return generation

    def tag(self, topic_id: str | None) -> bytes:
        """Return the tag of our records in the incarnation ``topic_id``."""
        return tag_of(*self._home, self.topic, topic_id)

    def aim(self, topic_id: str | None, partitions: tuple[int, ...]) -> Target:
        """Set and return the target of an incarnation: those of its partitions that are ours."""
        self.target = Target(topic_id, self.tag(topic_id), partitions)
        return self.target

    def begin(self) -> Renewal:
        """Say that the present generation begins, and return what to write under."""
        target = self.target
        who = (self.topic, self.mode, self.producer_id, self.generation)
        self._inbox.put([GenerationBegan(self._clock.now_ns(), *who, target.topic_id)])
        return Renewal(self.generation, target.tag, target.partitions)

    def renew(self, reason: str) -> Renewal:
        """Begin another generation: the spare one when the store is away.

        Raises:
            StoreError: the store is away and there is no spare one left.
        """
        with self._lock:
            if self.spare is not None:
                self.generation, self.spare = self.spare, None
            else:
                self.generation = self._take()
            log.info("generation_began", mode=self.mode, generation=self.generation, reason=reason)
            return self.begin()

    def stock(self) -> None:
        """Take a spare generation if there is none; a store that is away is asked again next time."""
        with self._lock:
            if self.spare is None:
                try:
                    self.spare = self._take()
                except StoreError as error:
                    log.debug("no_spare_generation", mode=self.mode, error=str(error))
