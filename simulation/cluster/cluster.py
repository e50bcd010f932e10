"""The simulated Kafka cluster: behaviour of Kafka 4.1 with KRaft, as far as a client can see it."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from simulation.cluster.controller import Controller
from simulation.cluster.faults import Faults
from simulation.cluster.topics import STATE_TOPIC, Topics
from simulation.cluster.transactions import LAST_EPOCH, STATE_PARTITIONS, Transactions
from simulation.kafka import errors
from simulation.kafka.contract import Record
from simulation.kafka.partition import Partition


class Cluster(Faults):
    """Brokers 1 to ``brokers``, a controller, and topics. All times are virtual s; ``dice`` decides what is open.

    Args:
        schedule: virtual time.
        dice: all chance there is.
        brokers: how many.
        racks: of each broker, in order.
        cluster_id: what brokers call their cluster.
        session_s: a broker that the controller does not hear for so long counts as dead.
        lag_max_s: a follower that is behind for so long leaves the ISR.
        latency_s: how late every answer comes.
        ids: whether topics have ids that clients see.
    """

    def __init__(
        self,
        schedule: Any,
        dice: random.Random,
        *,
        brokers: int = 3,
        racks: Sequence[str | None] | None = None,
        cluster_id: str = "simulated-cluster-00001",
        session_s: float = 9.0,
        lag_max_s: float = 10.0,
        latency_s: float = 0.0,
        ids: bool = True,
    ) -> None:
        super().__init__(
            schedule,
            dice,
            brokers=brokers,
            racks=racks,
            cluster_id=cluster_id,
            session_s=session_s,
            lag_max_s=lag_max_s,
            latency_s=latency_s,
            ids=ids,
        )
        self.controller = Controller(self)
        self.topics = Topics(self)
        self.transactions = Transactions(self)
        copies = min(3, brokers)
        config = {"min.insync.replicas": str(min(2, brokers)), "segment.bytes": "20480", "cleanup.policy": "compact"}
        self.topics.create(STATE_TOPIC, self.topics.spread(STATE_PARTITIONS, copies), config)

    # What clients ask, besides what a partition's leader answers.

    def brokers(self) -> Sequence[int]:
        """Return the ids of all brokers there are, dead ones too: a client's bootstrap list."""
        return tuple(self.nodes)

    def _decides(self, broker: int) -> int:
        return 0 if self.nodes[broker].connected else errors.REQUEST_TIMED_OUT

    def create_topic(self, broker: int, name: str, assignments: Sequence[Sequence[int]], config: dict[str, str]) -> int:
        """Make a topic, with the brokers of each partition."""
        return self._decides(broker) or self.topics.create(name, assignments, config)

    def delete_topic(self, broker: int, name: str) -> int:
        """Delete a topic."""
        return self._decides(broker) or self.topics.delete(name)

    def create_partitions(self, broker: int, name: str, assignments: Sequence[Sequence[int]]) -> int:
        """Add partitions."""
        return self._decides(broker) or self.topics.grow(name, assignments)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Remove what is below ``before``, or everything (-1)."""
        return self.topics.delete_records(topic, partition, before)

    def describe_config(self, broker: int, kind: Literal["topic", "broker"], name: str) -> tuple[int, dict[str, str]]:
        """Return (error, every setting in force)."""
        if kind == "topic":
            topic = self.topics.by_name.get(name)
            return (0, self.topics.in_force(topic)) if topic else (errors.UNKNOWN_TOPIC_OR_PART, {})
        if name != str(broker):
            return errors.INVALID_REQUEST, {}
        defaults = self.topics.defaults
        copies = str(min(3, len(self.nodes)))
        return 0, {
            "broker.id": name,
            "node.id": name,
            "broker.rack": self.nodes[broker].rack or "",
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": defaults["min.insync.replicas"],
            "unclean.leader.election.enable": defaults["unclean.leader.election.enable"],
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(min(2, len(self.nodes))),
            "replica.lag.time.max.ms": str(int(self.lag_max_s * 1000)),
            "broker.session.timeout.ms": str(int(self.session_s * 1000)),
        }

    def alter_config(self, broker: int, topic: str, changes: dict[str, str]) -> int:
        """Change some settings of a topic."""
        return self._decides(broker) or self.topics.alter(topic, changes)

    def coordinator(self, transactional_id: str) -> int:
        """Return the broker that leads the partition of __transaction_state for this id; -1: none now."""
        return self.transactions.coordinator(transactional_id)

    def init_producer_id(
        self, broker: int, transactional_id: str | None, transaction_timeout_s: float
    ) -> tuple[int, int, int]:
        """Return (error, producer id, epoch)."""
        if transactional_id is not None:
            return self.transactions.init(broker, transactional_id, transaction_timeout_s)
        if self.refuses:
            return errors.CLUSTER_AUTHORIZATION_FAILED, -1, -1
        number = self.controller.producer_id(self.nodes[broker])
        return (0, number, 0) if number >= 0 else (errors.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)

    def bump_epoch(self, broker: int, producer_id: int, epoch: int) -> tuple[int, int, int]:
        """Return (error, producer id, next epoch) for an idempotent producer."""
        return (0, producer_id, epoch + 1) if epoch < LAST_EPOCH else self.init_producer_id(broker, None, 0)

    def add_partitions(
        self, broker: int, transactional_id: str, producer_id: int, epoch: int, places: Sequence[tuple[str, int]]
    ) -> int:
        """Let partitions belong to the transaction."""
        return self.transactions.add(broker, transactional_id, producer_id, epoch, places)

    def end_transaction(
        self,
        broker: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        reply: Callable[[int], None],
    ) -> None:
        """Decide the transaction durably, reply, and write its markers."""

        def done(error: int) -> None:
            if self.delay(broker) > 0:
                self.schedule.after(self.delay(broker), partial(self._reply, broker, reply, error))
            else:
                self._reply(broker, reply, error)

        if not self.nodes[broker].serving:
            return
        self.transactions.end(broker, transactional_id, producer_id, epoch, commit=commit, done=done)

    def _reply(self, broker: int, reply: Callable[[int], None], error: int) -> None:
        if self.nodes[broker].serving:
            reply(error)

    # What stories and the truth ask.

    def partition(self, topic: str, partition: int) -> Partition:
        """Return a partition of a topic that exists."""
        one = self.topics.get(topic, partition)
        if one is None:
            raise LookupError(f"there is no {topic}-{partition}")
        return one

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads by decision of the controller; -1: none."""
        one = self.topics.get(topic, partition)
        return one.leader if one is not None else -1

    def log(self, topic: str, partition: int) -> list[Record]:
        """Return what is committed in the log of the leader, or in the best copy that is left."""
        one = self.topics.get(topic, partition)
        if one is None:
            return []
        leader = one.leading()
        if leader is not None:
            return leader.log.slice(leader.log.start, leader.hw)
        if not one.copies:
            return []
        best = max(one.copies.values(), key=lambda copy: (copy.log.epochs[-1:], copy.log.end))
        return best.log.slice(best.log.start, min(best.log.end, one.committed))

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        """Return what a story says of a partition."""
        one = self.partition(topic, partition)
        leader = one.leading()
        return {
            "leader": one.leader,
            "epoch": one.epoch,
            "isr": one.isr,
            "elr": one.elr,
            "topic_id": one.topic_id,
            "high_watermark": leader.hw if leader is not None else -1,
            "ends": {broker: copy.log.end for broker, copy in one.copies.items()},
            "start": leader.log.start if leader is not None else -1,
            "believing": [broker for broker, copy in one.copies.items() if copy.lead is not None],
        }
