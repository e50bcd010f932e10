"""The controller: sessions of brokers, elections, in-sync replicas, and what each broker hears of them."""

from collections.abc import Sequence
from functools import partial

from simulation.cluster.core import Core
from simulation.kafka.broker import Broker
from simulation.kafka.contract import Metadata, PartitionMeta, TopicMeta
from simulation.kafka.partition import Partition
from simulation.kafka.replica import PartitionRole, Replica


class Controller:
    """A quorum that is there or not (``up``); what it decides is durable."""

    def __init__(self, cluster: Core) -> None:
        self.cluster = cluster
        self.up = True
        self.version = 0
        """Rises with each decision."""
        self._image: tuple[int, Metadata] | None = None
        self._dirty: list[PartitionRole] = []
        self._settling = False
        self._next_producer_id = 0

    # Sessions.

    def refresh(self, node: Broker) -> None:
        """Find out whether a broker hears from the controller, after any change of either or of the network."""
        connected = self.cluster.hears(node) and (node.registered or node.fenced)
        if connected and not node.connected:
            if node.session is not None:
                node.session.cancel()
                node.session = None
            node.connected = node.registered = True
            node.image = None
            self._told(node)
            self._welcome(node)
        elif node.connected and not connected:
            node.image = self.image()
            node.connected = False
            self._told(node)
            self._begin_session_end(node)
        self.touch(node)

    def _told(self, node: Broker) -> None:
        for call in self.cluster.on_contact:
            call(node.id, node.connected)

    def _begin_session_end(self, node: Broker) -> None:
        if node.session is not None:
            node.session.cancel()
        node.session = self.cluster.schedule.after(self.cluster.session_s, partial(self._expire, node))

    def _expire(self, node: Broker) -> None:
        node.session = None
        if self.up:
            self.fence(node)

    def fence(self, node: Broker) -> None:
        """Count a broker as dead: it leaves every ISR that has another member, and leads nothing."""
        node.fenced = True
        self.version += 1
        for partition in self.partitions():
            if node.id in partition.isr or partition.leader == node.id:
                self._without(partition, node.id)
        self.refresh(node)  # a new process waited for the end of the former one's session

    def _without(self, partition: PartitionRole, broker: int) -> None:
        isr = tuple(one for one in partition.isr if one != broker)
        if self.cluster.elr:
            if len(isr) < partition.min_isr and broker not in partition.elr:
                partition.elr = (*partition.elr, broker)
        elif not isr:
            isr = (broker,)
        partition.isr = isr
        if partition.leader == broker:
            self.elect(partition)
        else:
            self.publish(partition)

    def _welcome(self, node: Broker) -> None:
        node.fenced = False
        self.version += 1
        for partition in self.partitions():
            if self.cluster.elr and node.unclean:
                partition.elr = tuple(one for one in partition.elr if one != node.id)
                partition.isr = tuple(one for one in partition.isr if one != node.id)
        node.unclean = False
        self.tell(node)
        for partition in self.partitions():
            if partition.leader == -1 and node.id in partition.replicas:
                self.elect(partition)

    def tell(self, node: Broker) -> None:
        """Let a broker know everything."""
        live = {id(partition) for partition in self.partitions()}  # asked for membership only
        for key, copy in list(self.cluster.replicas[node.id].items()):
            if id(copy.partition) not in live:
                self._drop(copy)
                del self.cluster.replicas[node.id][key]
        for partition in self.partitions():
            if node.id in partition.replicas:
                self.copy(partition, node).hear(partition.leader, partition.epoch, partition.isr)

    def copy(self, partition: PartitionRole, node: Broker) -> Replica:
        """Return the broker's copy of a partition, which is made where there is none."""
        known = self.cluster.replicas[node.id].get(partition.key)
        if known is None or known.partition is not partition:
            if known is not None:
                self._drop(known)
            known = self.cluster.replicas[node.id][partition.key] = partition.copies[node.id] = Replica(partition, node)
            partition.copies = dict(sorted(partition.copies.items()))
        return known

    def _drop(self, copy: Replica) -> None:
        copy.die()
        copy.partition.destroyed()

    def start(self) -> None:
        """A quorum is there again: the sessions of brokers begin anew."""
        self.up = True
        for node in self.cluster.nodes.values():
            self.refresh(node)
            if not node.connected and not node.fenced:
                self._begin_session_end(node)

    def stop(self) -> None:
        """No quorum: nothing is decided."""
        self.up = False
        for node in self.cluster.nodes.values():
            self.refresh(node)

    # Decisions.

    def partitions(self) -> Sequence[Partition]:
        """Return every partition of every topic there is."""
        return [partition for topic in self.cluster.topics.by_name.values() for partition in topic.partitions]

    def elect(self, partition: PartitionRole, wanted: int | None = None, *, unclean: bool = False) -> bool:
        """Elect a leader, ``wanted`` if it may be; return whether there is one. Its epoch is higher than any before."""
        nodes = self.cluster.nodes
        live = [one for one in partition.replicas if not nodes[one].fenced]
        last = partition.last_leader
        clean = [one for one in live if one in partition.isr] or [one for one in live if one in partition.elr]
        if not clean and self.cluster.elr and not partition.isr and not partition.elr and last in live:
            clean = [last]
        choice = clean
        if unclean or (not clean and partition.settings.unclean):
            choice = live
        if wanted is not None and (wanted not in choice or wanted == partition.leader):
            return wanted == partition.leader
        leader = wanted if wanted is not None else next(iter(choice), -1)
        if leader == partition.leader == -1:
            self.publish(partition)
            return False
        kept = "epoch-kept" in self.cluster.bugs and leader in {-1, last} and partition.leader in {-1, last}
        partition.leader = leader
        if not kept:
            partition.epoch += 1
        if leader != -1:
            partition.last_leader = leader
            if leader not in clean:
                partition.unclean_epoch = partition.epoch
                partition.isr, partition.elr = (leader,), ()
            elif leader not in partition.isr:
                partition.isr = (*partition.isr, leader)
            partition.elr = tuple(one for one in partition.elr if one not in partition.isr)
        self.publish(partition)
        return leader != -1

    def alter_isr(self, leader: Replica, isr: tuple[int, ...]) -> bool:
        """Take over a leader's view of its ISR; not from one that was deposed, nor members that count as dead."""
        partition, nodes = leader.partition, self.cluster.nodes
        if not leader.node.connected or partition.leader != leader.broker:
            return False
        if any(nodes[one].fenced for one in isr if one not in partition.isr):
            return False
        if self.cluster.elr:
            left = tuple(one for one in partition.isr if one not in isr and one not in partition.elr)
            partition.elr = () if len(isr) >= partition.min_isr else (*partition.elr, *left)
            partition.elr = tuple(one for one in partition.elr if one not in isr)
        partition.isr = isr
        self.publish(partition)
        return True

    def publish(self, partition: PartitionRole) -> None:
        """Tell the brokers that are connected what was decided of a partition."""
        self.version += 1
        for call in self.cluster.on_decided:
            call(partition)
        nodes = self.cluster.nodes
        for broker in sorted(partition.replicas, key=lambda one: (one == partition.leader, one)):
            if nodes[broker].connected:
                self.copy(partition, nodes[broker]).hear(partition.leader, partition.epoch, partition.isr)
        self._dirty.append(partition)
        self._settle()

    def touch(self, node: Broker) -> None:
        """Find out anew who fetches from whom, wherever this broker has a copy."""
        self._dirty += [copy.partition for copy in self.cluster.replicas[node.id].values()]
        self._settle()

    def _settle(self) -> None:
        if self._settling:
            return
        self._settling = True
        try:
            while self._dirty:
                self._dirty.pop(0).rewire()
        finally:
            self._settling = False

    def producer_id(self, node: Broker) -> int:
        """Return a new producer id, from the block that the broker has; -1 if it has none and gets none."""
        if not node.producer_ids:
            if not node.connected:
                return -1
            node.producer_ids = list(range(self._next_producer_id + 999, self._next_producer_id - 1, -1))
            self._next_producer_id += 1000
        return node.producer_ids.pop()

    # What is known of it.

    def image(self) -> Metadata:
        """Return everything as it was decided."""
        if self._image is None or self._image[0] != self.version:
            self._image = (self.version, self._build())
        return self._image[1]

    def _build(self) -> Metadata:
        cluster = self.cluster
        live = [node for node in cluster.nodes.values() if not node.fenced]
        topics = {
            topic.name: TopicMeta(
                topic.name,
                topic.id if cluster.ids else None,
                tuple(
                    PartitionMeta(one.number, one.leader, one.epoch, one.replicas, one.isr) for one in topic.partitions
                ),
            )
            for topic in cluster.topics.by_name.values()
        }
        controller = live[0].id if live else -1
        return Metadata(cluster.cluster_id, tuple((node.id, node.rack) for node in live), controller, topics)
