"""Topics: how they are made, changed and deleted, and what retention removes."""

import base64
from collections.abc import Sequence

from simulation.cluster.core import Core
from simulation.kafka import errors
from simulation.kafka.partition import Partition, Topic
from simulation.kafka.topic_settings import DEFAULTS, TopicSettings

RETENTION_CHECK_S = 60.0
STATE_TOPIC = "__transaction_state"
Assignments = Sequence[Sequence[int]]
"""The brokers of each new partition; the first is the preferred leader."""


class Topics:
    """All topics, as the controller knows them."""

    def __init__(self, cluster: Core) -> None:
        self.cluster = cluster
        self.by_name: dict[str, Topic] = {}
        self.defaults = dict(DEFAULTS)
        """What is in force where a topic says nothing."""
        self.segment_records = 2000
        """No segment has more records."""
        cluster.schedule.after(RETENTION_CHECK_S, self._retention)

    def spread(self, partitions: int, replicas: int, first: int = 0) -> list[list[int]]:
        """Return brokers for so many partitions, leaders and copies evenly."""
        numbers = list(self.cluster.nodes)
        return [[numbers[(first + at + more) % len(numbers)] for more in range(replicas)] for at in range(partitions)]

    def create(self, name: str, assignments: Assignments, config: dict[str, str], topic_id: str | None = None) -> int:
        """Make a topic, with an id that was never given where none is said."""
        if name in self.by_name:
            return errors.TOPIC_ALREADY_EXISTS
        if not assignments:
            return errors.INVALID_PARTITIONS
        number = self.cluster.dice.getrandbits(128)
        fresh_id = base64.b64encode(number.to_bytes(16)).decode().rstrip("=")  # in librdkafka's alphabet
        topic = Topic(name, topic_id or fresh_id, dict(config))
        error = self._configure(topic, topic.config) or self.check(assignments)
        if not error:
            self.by_name[name] = topic
            self._add(topic, assignments)
        return error

    def check(self, assignments: Assignments) -> int:
        """Return an error if a partition cannot be placed like this: each needs a live broker."""
        known = self.cluster.nodes
        sound = all(
            len(set(one)) == len(one) and all(b in known for b in one) and not all(known[b].fenced for b in one)
            for one in assignments
        )
        return 0 if sound else errors.INVALID_REPLICA_ASSIGNMENT

    def _add(self, topic: Topic, assignments: Assignments) -> None:
        cluster = self.cluster
        for replicas in assignments:
            place = len(topic.partitions)
            partition = Partition(cluster, topic.name, topic.id, place, tuple(replicas), topic.settings)
            live = tuple(one for one in replicas if not cluster.nodes[one].fenced)
            partition.isr = live
            partition.leader = partition.last_leader = live[0]
            partition.epoch = 0
            topic.partitions.append(partition)
            cluster.controller.publish(partition)

    def grow(self, name: str, assignments: Assignments) -> int:
        """Add partitions to a topic."""
        topic = self.by_name.get(name)
        if topic is None:
            return errors.UNKNOWN_TOPIC_OR_PART
        error = self.check(assignments)
        if not error:
            self._add(topic, assignments)
        return error

    def delete(self, name: str) -> int:
        """Delete a topic; a broker that does not hear of it goes on with its copies."""
        topic = self.by_name.pop(name, None)
        if topic is None:
            return errors.UNKNOWN_TOPIC_OR_PART
        self.cluster.controller.version += 1
        for partition in topic.partitions:
            partition.destroyed()
        for node in self.cluster.nodes.values():
            if node.connected:
                self.cluster.controller.tell(node)
        for partition in topic.partitions:
            self.cluster.changed_soon(partition)
        return 0

    def in_force(self, topic: Topic) -> dict[str, str]:
        """Return every setting of a topic."""
        return {**self.defaults, **topic.config}

    def alter(self, name: str, changes: dict[str, str]) -> int:
        """Change some settings of a topic."""
        topic = self.by_name.get(name)
        if topic is None:
            return errors.UNKNOWN_TOPIC_OR_PART
        error = self._configure(topic, {**topic.config, **changes})
        for partition in topic.partitions:
            self.cluster.controller.publish(partition)
            leader = partition.leading()
            if leader is not None:
                leader.steps()
                leader.maintain()
        return error

    def _configure(self, topic: Topic, config: dict[str, str]) -> int:
        try:
            TopicSettings().read({**self.defaults, **config}, self.segment_records)
        except ValueError:
            return errors.INVALID_CONFIG
        topic.config = config
        topic.settings.read(self.in_force(topic), self.segment_records)
        return 0

    def get(self, name: str, number: int) -> Partition | None:
        """Return a partition, None where the topic does not have it."""
        topic = self.by_name.get(name)
        return topic.partitions[number] if topic is not None and 0 <= number < len(topic.partitions) else None

    def delete_records(self, name: str, number: int, before: int) -> int:
        """Remove what is below ``before``, or all that is committed (-1)."""
        partition = self.get(name, number)
        leader = partition.leading() if partition is not None else None
        if partition is None:
            return errors.UNKNOWN_TOPIC_OR_PART
        if leader is None or not leader.node.serving:
            return errors.LEADER_NOT_AVAILABLE
        if before > leader.hw:
            return errors.OFFSET_OUT_OF_RANGE
        partition.raise_start(leader.hw if before < 0 else before, "deleted")
        return 0

    def expire(self) -> None:
        """Let retention remove now what it may."""
        for partition in self.cluster.controller.partitions():
            settings = partition.settings
            if not partition.internal and (settings.retention_s >= 0 or settings.retention_bytes >= 0):
                leader = partition.leading()
                if leader is not None and leader.node.serving:
                    partition.raise_start(partition.expired_below(self.cluster.schedule.now), "expired")

    def _retention(self) -> None:
        self.expire()
        self.cluster.schedule.after(RETENTION_CHECK_S, self._retention)
