"""What every part of the simulated cluster shares: time, dice, brokers, hooks, and the harms that are switched on."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from simulation.kafka.broker import Broker
from simulation.kafka.contract import Record
from simulation.kafka.network import CONTROLLER, Network
from simulation.kafka.partition import Partition, Topic
from simulation.kafka.replica import PartitionRole, Replica

AppendHook = Callable[[str, str, int, Record], None]
LostHook = Callable[[str, str, int, Sequence[Record], str], None]
EPOCH_MS = 1_750_000_000_000
"""Wall clock of the brokers when the world begins."""


class ControllerRole(Protocol):
    """What the other parts ask of the controller."""

    up: bool
    version: int

    def partitions(self) -> Sequence[Partition]:
        """Return every partition of every topic there is."""

    def publish(self, partition: PartitionRole) -> None:
        """Tell the brokers that are connected what was decided of a partition."""

    def tell(self, node: Broker) -> None:
        """Let a broker know everything."""

    def alter_isr(self, leader: Replica, isr: tuple[int, ...]) -> bool:
        """Take over a leader's view of its ISR; return whether it counts."""

    def producer_id(self, node: Broker) -> int:
        """Return a new producer id; -1 if there is none."""


class TopicsRole(Protocol):
    """What the other parts ask of the topics."""

    by_name: dict[str, Topic]

    def get(self, name: str, number: int) -> Partition | None:
        """Return a partition, None where the topic does not have it."""


class TransactionsRole(Protocol):
    """What the other parts ask of the transaction coordinators."""

    def load(self, replica: Replica) -> None:
        """Go on with what the log of a new leader of a state partition says."""

    def unload(self, replica: Replica) -> None:
        """Forget what a broker knew that leads a state partition no more."""


class Core:
    """The parts, and what they share."""

    controller: ControllerRole
    topics: TopicsRole
    transactions: TransactionsRole

    another: Self | None = None
    """Another cluster, as long as clients of this one may be in it."""
    leads_to: Self | None = None
    """The cluster that new connections to the addresses of this one reach, None: this one."""
    ends_too_low: int | None = None
    """By so many offsets the ends that brokers list are too low."""
    starts_too_high: int | None = None
    """And the starts too high."""
    other_id: str | None = None
    """The id that brokers give of each topic, in place of its own."""

    def __init__(
        self,
        schedule: Any,
        dice: random.Random,
        *,
        brokers: int,
        racks: Sequence[str | None] | None,
        cluster_id: str,
        session_s: float,
        lag_max_s: float,
        latency_s: float,
        ids: bool,
    ) -> None:
        self.schedule, self.dice = schedule, dice
        self.cluster_id = cluster_id
        self.session_s = session_s
        self.lag_max_s = lag_max_s
        self.latency_s = latency_s
        self.ids = ids
        self.nodes = {number: Broker(number, racks[number - 1] if racks else None) for number in range(1, brokers + 1)}
        self.replicas: dict[int, dict[tuple[str, int], Replica]] = {number: {} for number in self.nodes}
        """By broker and (topic, partition); also of topics of whose end the broker has not heard."""
        self.network = Network()
        self.elr = False
        """Eligible leader replicas: a broker that ended uncleanly is not trusted to hold what was committed."""
        self.strict_min_isr = True
        """The high watermark stands still below min.insync.replicas, as since Kafka 3.7."""
        self.verify_transactions = True
        """A leader asks the coordinator whether a transaction has its partition; without, transactions can hang."""
        self.answers_as: str | None = None
        """The id of another cluster that brokers tell in place of their own, None: they tell their own."""
        self.answered_as = {cluster_id}
        """The ids that brokers ever told as their cluster's."""
        self.refuses = False
        """Clients may not have a producer id without a transactional one."""
        self.bugs: set[str] = set()
        self.chance: dict[str, float] = {}
        """How probable each of ``bugs`` is each time it could strike; 0.01 if it is not named."""
        self.aim: Callable[[str, str, int], bool] | None = None
        """Whether a bug may strike at (bug, topic, partition); anywhere if None. Coordinators: (bug, id, -1)."""
        self.struck: list[tuple[float, str, str, int, int]] = []
        """(when, bug, topic, partition, first offset) of what the bugs did."""
        self.on_append: list[AppendHook] = []
        """Called with each data record that a leader appended, before the answer."""
        self.on_lost: list[LostHook] = []
        """Called with records that the log lacks from now on, or never had, and why; copies may hold them yet."""
        self.on_return: list[Callable[[str, str, int, Sequence[Record]], None]] = []
        """Called with lost (or expired) records that the log of a new leader has after all."""
        self.on_start: list[Callable[[str, int, int], None]] = []
        """Called with (topic id, partition, start) when a log's start has risen."""
        self.on_decided: list[Callable[[PartitionRole], None]] = []
        """Called with a partition of which the controller has decided something: leader, epoch or in-sync replicas."""
        self.on_contact: list[Callable[[int, bool], None]] = []
        """Called with a broker that hears from the controller from now on (True), or no more (False)."""
        self.shown: list[tuple[str, int, Record]] = []
        """(topic id, partition, record) of each aborted record that a read_committed reader was given."""
        self.aborts_undone: list[tuple[float, str, int, Record]] = []
        """(when, topic, partition, record) of records whose transaction was aborted, and committed after a loss."""
        self.changed_at: dict[tuple[str, int], int] = {}
        self.watchers: dict[tuple[str, int], list[Callable[[], None]]] = {}

    def wall_ms(self) -> int:
        """Return the wall clock of the brokers."""
        return EPOCH_MS + int(self.schedule.now * 1000)

    def linked(self, a: int, b: int) -> bool:
        """Whether two brokers both serve and reach each other."""
        return self.nodes[a].serving and self.nodes[b].serving and self.network.passes(a, b)

    def hears(self, node: Broker) -> bool:
        """Whether this broker and the controller reach each other, apart from the session of a former process."""
        alive = node.up and not node.frozen and not node.deaf and self.controller.up
        return alive and self.network.passes(node.id, CONTROLLER)

    def delay(self, broker: int) -> float:
        """Return how late this broker's answers come, in s."""
        return self.latency_s + self.nodes[broker].slow_s

    def strikes(self, bug: str, topic: str, partition: int, offset: int) -> bool:
        """Whether a bug strikes here and now."""
        if bug not in self.bugs or topic.startswith("__") or (self.aim and not self.aim(bug, topic, partition)):
            return False
        if self.dice.random() >= self.chance.get(bug, 0.01):
            return False
        self.struck.append((self.schedule.now, bug, topic, partition, offset))
        return True

    def overtaken(self, topic: str, partition: int) -> bool:
        """Whether a request to a partition is held up on its way until the next has passed ("swapped")."""
        return bool(self.bugs) and self.strikes("swapped", topic, partition, -1)

    def changed(self, partition: PartitionRole) -> None:
        """Tell watchers that a fetch of the partition could see something new."""
        key = partition.key
        self.changed_at[key] = self.changed_at.get(key, 0) + 1
        for call in tuple(self.watchers.get(key, ())):
            call()

    def changed_soon(self, partition: PartitionRole) -> None:
        """Tell them too, but from a timer: whoever is told may ask the cluster, which is in the middle of a change."""
        key = partition.key
        self.changed_at[key] = self.changed_at.get(key, 0) + 1
        if self.watchers.get(key):
            self.schedule.at(self.schedule.now, lambda: [call() for call in tuple(self.watchers[key])])

    def watch(self, topic: str, partition: int, call: Callable[[], None]) -> Callable[[], None]:
        """Call ``call`` after each change that a fetch of the partition could see; returns what ends that."""
        calls = self.watchers.setdefault((topic, partition), [])
        calls.append(call)

        def end() -> None:
            if call in calls:
                calls.remove(call)

        return end
