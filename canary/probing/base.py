"""What every writer is made from, and how it goes on under another generation.

A generation ends in two ways. The *owner* (the runner) ends it when the topic was created again: it calls ``retarget``
from its own thread, and the writer obeys at its next turn. Or the writer's *client* dies: then the writer asks the
owner for the next generation, and goes on with a new client.

Both may happen at once. The owner reads generation 5 and calls ``retarget(5, ...)``, while the writer, whose client has
died, is given generation 6. That order came too late: what it says is in generation 6 already, and under generation 5
sequences would count from 0 a second time. So an order of an earlier generation than the writer's own is dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import structlog

from canary.metrics.client_meters import ClientMeters
from canary.probing.readers.consumer import Target
from canary.settings import ClusterSettings
from canary.threads import system
from canary.threads.backoff import Pause
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker

log = structlog.get_logger(__name__)

SAFE: Mapping[str, object] = {"enable.idempotence": True, "acks": "all"}
"""What makes the promise that is being watched; an operator's properties do not change it (jepsen-redpanda)."""

LIVED_S = 5.0
"""A client that has lived for so long did not die at once: one that waits in vain for a broker lives for longer. Its
successor begins without a pause, so that a broker that answers again is met at once."""

S_co = TypeVar("S_co", covariant=True)


class Renewal(NamedTuple):
    """What a new client writes under. Its GenerationBegan is in the inbox before the writer is given this."""

    generation: int
    tag: bytes
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Wiring(Generic[S_co]):
    """What a writer is made from.

    Attributes:
        cluster: for the configuration of its clients.
        mode: the workload's name.
        topic: where it writes; for a workload that only reads, what it reads. The topic exists.
        settings: the workload's (canary.workloads).
        first: the producer id of the first start of this runner: the same after a restart, so ids are named after it.
        producer_id: the producer id of this start (ARCHITECTURE decision 1).
        under: the generation that was begun for the writer; its sequences count from 0 in each partition.
        renew: returns the next generation; the argument says why there is one. May block, and raise.
        targets: returns the present incarnation of a topic.
        meters: where it counts what single brokers did.
    """

    cluster: ClusterSettings
    mode: str
    topic: str
    settings: S_co
    first: int
    producer_id: int
    under: Renewal
    renew: Callable[[str], Renewal]
    targets: Callable[[str], Target]
    inbox: Inbox
    clock: Clock
    meters: ClientMeters = field(default_factory=ClientMeters)

    @property
    def own_name(self) -> str:
        """What the writer's transactional ids and groups are called, without the settings' prefix."""
        return f"{self.mode}-{self.first:x}"


class Writer(Worker):
    """The thread of a workload. Nothing is sent before ``start()``."""

    def __init__(self, wiring: Wiring[Any], name: str | None = None) -> None:
        super().__init__(name or f"producer-{wiring.mode}")
        self.pause = Pause(steady_s=LIVED_S)
        self._wiring = wiring
        self._inbox = wiring.inbox
        self._clock = wiring.clock
        self._under = wiring.under
        self._wanted: Renewal | None = None
        self._lock = system.lock()

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values, soon and in the writer's thread: the topic is another one, or has more partitions.

        With another generation, sequences count from 0 again; with another generation or tag there is a new client, and
        what the old one had in flight becomes indeterminate; with neither, client and sequences stay.
        """
        with self._lock:
            self._wanted = Renewal(generation, tag, tuple(partitions))

    def _obey(self) -> None:
        """Carry out the owner's last order, if there is one and it is not out of date."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None and wanted.generation >= self._under.generation:
            before, self._under = self._under, wanted
            self._go_on_after(before)

    def _go_on_after(self, before: Renewal) -> None:
        """Go on under ``_under``, as the owner has ordered."""
        raise NotImplementedError

    def _renew(self, reason: str) -> bool:
        """Begin the next generation as soon as the owner has one; False: the writer was stopped before.

        While the owner's store does not answer it is asked again, at most every ten seconds.
        """
        attempts = 0
        while not self.stopping.is_set():
            try:
                self._under = self._wiring.renew(reason)
            except Exception:  # the owner's store may be away: nothing to do but ask again
                attempts += 1
                log.warning("renewal_refused", worker=self.name, attempts=attempts, exc_info=True)
                self.stopping.wait(min(attempts, 10))
            else:
                return True
        return False

    def _renew_after_death(self, reason: str) -> bool:
        """Like ``_renew``, after a pause that grows with each client that dies soon after the one before.

        What ended a client, a revoked right for example, may end the next one at once, and each generation is
        remembered for long.
        """
        if self.stopping.wait(self.pause.left_s):
            return False
        self.pause.start()
        return self._renew(reason)
