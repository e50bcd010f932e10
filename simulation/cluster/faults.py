"""What can be done to the cluster: each method is one fault, or its end."""

import random
from functools import partial
from typing import Self

from simulation.cluster.requests import Requests
from simulation.kafka import errors
from simulation.kafka.broker import Broker
from simulation.kafka.log import Log
from simulation.kafka.network import Site


class Faults(Requests):
    """Faults; brokers are named by their ids."""

    def _refresh(self, *brokers: int) -> None:
        for broker in brokers or self.nodes:
            self.controller.refresh(self.nodes[broker])

    def _end(self, node: Broker) -> None:
        node.up = node.registered = node.frozen = node.deaf = False
        node.queue.clear()
        node.producer_ids.clear()
        for copy in self.replicas[node.id].values():
            copy.die()

    def kill(self, broker: int) -> None:
        """End the process with SIGKILL: the page cache stays."""
        node = self.nodes[broker]
        if node.up:
            node.unclean = True
            self._end(node)
            self._refresh(broker)

    def stop(self, broker: int) -> None:
        """End the process in order: others lead before, and everything is flushed."""
        node = self.nodes[broker]
        if not node.serving:
            return
        if node.connected:
            self.controller.fence(node)
        self._end(node)
        for copy in self.replicas[node.id].values():
            copy.log.sync()
        self._refresh(broker)

    def power_off(self, *brokers: int) -> None:
        """Cut the power of machines at once: what was not flushed may be lost, from some record on."""
        for broker in brokers:
            node = self.nodes[broker]
            node.unclean = True
            self._end(node)
            for copy in self.replicas[node.id].values():
                if copy.log.lose_tail(self.dice, self.schedule.now):
                    copy.damage = "power cut"
                copy.hw = min(copy.hw, copy.log.end)
        self._refresh(*brokers)

    def wipe(self, broker: int) -> None:
        """Replace the disk of a broker, which ends for that: it comes back with nothing."""
        self.kill(broker)
        for copy in self.replicas[broker].values():
            copy.log = Log(copy.partition.settings.log)
            copy.hw = 0
            copy.damage = "wiped disk"

    def start(self, broker: int) -> None:
        """Start the process again: it serves once the controller has ended the session of the former one."""
        node = self.nodes[broker]
        if not node.up:
            node.up = True
            self._refresh(broker)

    def freeze(self, broker: int) -> None:
        """Stop the process with SIGSTOP."""
        node = self.nodes[broker]
        if node.up:
            node.frozen = True
            self._refresh(broker)

    def resume(self, broker: int, late_s: float = 0.1) -> None:
        """Let it go on: it serves what waits in its sockets, and hears the controller's news ``late_s`` later."""
        node = self.nodes[broker]
        if not node.up or not node.frozen:
            return
        node.frozen = False
        node.deaf = True
        self._refresh(broker)
        queue, node.queue = node.queue, []
        for request in queue:
            request()
        self.schedule.after(late_s, partial(self._hear, node))

    def _hear(self, node: Broker) -> None:
        node.deaf = False
        self._refresh(node.id)

    def cut(self, a: Site, b: Site) -> None:
        """Part two sites: brokers by id, "controller", sites of clients."""
        self.network.cut(a, b)
        self._refresh()

    def isolate(self, site: Site) -> None:
        """Part a broker from all other brokers and the controller, or a client's site from all brokers."""
        others: list[Site] = [broker for broker in self.nodes if broker != site]
        for other in [*others, "controller"] if isinstance(site, int) else others:
            self.network.cut(site, other)
        self._refresh()

    def heal(self, a: Site | None = None, b: Site | None = None) -> None:
        """Mend the way between two sites, every way of ``a``, or all."""
        self.network.heal(a, b)
        self._refresh()

    def stop_controller(self) -> None:
        """The quorum is lost: no elections, no changes of the ISR, no topics."""
        self.controller.stop()

    def start_controller(self) -> None:
        """The quorum is back."""
        self.controller.start()

    def tell_ids(self, *, told: bool) -> None:
        """Let brokers tell topic ids, or not, as before Kafka 2.8."""
        self.ids = told
        self.controller.version += 1

    def epochs(self) -> dict[tuple[str, str, int], int]:
        """Return (topic, its id, partition) to leader epoch: a backup of them for :meth:`restore_epochs`."""
        return {(one.topic, one.topic_id, one.number): one.epoch for one in self.controller.partitions()}

    def restore_epochs(self, backup: dict[tuple[str, str, int], int]) -> None:
        """Put leader epochs back, as with the quorum's metadata from a backup: every broker starts again with them.

        Logs, leaders and in-sync replicas stay as they are.
        """
        for node in self.nodes.values():
            if node.up:
                node.unclean = True
                self._end(node)
                if node.connected:
                    node.up = node.registered = True
                else:
                    self.start(node.id)
        for one in self.controller.partitions():
            one.epoch = min(one.epoch, backup.get((one.topic, one.topic_id, one.number), one.epoch))
            one.unclean_epoch = min(one.unclean_epoch, one.epoch - 1)
            self.controller.publish(one)

    def elect(self, topic: str, partition: int, broker: int | None = None, *, unclean: bool = False) -> bool:
        """Elect a leader of the ISR, or any live copy if ``unclean``; return whether that one leads."""
        one = self.topics.get(topic, partition)
        return one is not None and self.controller.up and self.controller.elect(one, broker, unclean=unclean)

    def rebalance(self) -> None:
        """Let the preferred leaders lead, where they are in the ISR."""
        for one in self.controller.partitions():
            if one.leader != one.replicas[0] and one.replicas[0] in one.isr and self.controller.up:
                self.controller.elect(one, one.replicas[0])

    def lead_elsewhere(self, another: Self) -> None:
        """Let new connections reach another cluster; those that are open stay."""
        self.another = self.leads_to = another
        self.answered_as.add(another.cluster_id)

    def lead_home(self) -> None:
        """Let new connections reach this cluster again; clients in another one stay there."""
        self.leads_to = None

    def end_another(self) -> None:
        """Let the other cluster end, if there is one: clients that are in it connect again, to this one."""
        another, self.another, self.leads_to = self.another, None, None
        if another is not None:
            for broker in another.nodes:
                another.kill(broker)

    def unclean(self, *, allowed: bool, topic: str | None = None) -> None:
        """Allow unclean elections or not, of a topic or by default; partitions without a leader get one."""
        text = "true" if allowed else "false"
        if topic is None:
            self.topics.defaults["unclean.leader.election.enable"] = text
        for name in [topic] if topic is not None else list(self.topics.by_name):
            self.topics.alter(name, {} if topic is None else {"unclean.leader.election.enable": text})
        for one in self.controller.partitions():
            if one.leader == -1 and self.controller.up:
                self.controller.elect(one)

    def lag(self, broker: int, seconds: float) -> None:
        """Let the followers of a broker fetch so late; 0 ends it."""
        self.nodes[broker].lag_s = seconds
        self._refresh(broker)

    def slow(self, broker: int, seconds: float) -> None:
        """Let the answers of a broker come so late; 0 ends it."""
        self.nodes[broker].slow_s = seconds

    def lose_fsync(self, broker: int, *, lost: bool = True) -> None:
        """Let the disk of a broker say that it flushed when it did not."""
        for copy in self.replicas[broker].values():
            copy.log.lies = lost

    def is_well(self) -> bool:
        """Whether no fault is at work, and every replica is in sync."""
        nodes = self.nodes.values()
        brokers = all(one.connected and one.serving and not one.slow_s and not one.lag_s for one in nodes)
        told = self.controller.up and self.ids and not self.refuses
        home = self.answers_as is None and self.another is None
        harmless = home and not self.bugs and not self.transactions.forgets and self.network.whole
        partitions = self.controller.partitions()
        return brokers and told and harmless and all(len(one.isr) == len(one.replicas) for one in partitions)

    def hung(self, for_s: float) -> set[tuple[str, int]]:
        """Return (topic, partition) where a transaction has been open for so long: it will never be ended."""
        now = self.schedule.now
        return {
            one.key
            for one in self.controller.partitions()
            if (leader := one.leading()) is not None and leader.lead is not None
            for first in leader.lead.producers.open.values()
            if (record := leader.log.record(first)) is None or record.at < now - for_s
        }

    def hollow(self, topic: str, partition: int, at: float, length: int) -> None:
        """Show ``length`` committed records no more: ``at`` is where, from 0 (the log's start) to 1 (its end)."""
        one = self.topics.get(topic, partition)
        if one is not None:
            shown = one.readable()
            first = int(at * len(shown))
            one.hollow(shown[first : first + length])

    def riddle(self, topic: str, partition: int, share: float, dice: random.Random) -> None:
        """Show no more of the committed records: the first one, and each other one with this probability."""
        one = self.topics.get(topic, partition)
        if one is not None:
            shown = one.readable()
            one.hollow(offset for offset in shown if offset == shown[0] or dice.random() < share)

    def recreate_topic(self, name: str, topic_id: str | None = None) -> int:
        """Delete a topic and create it again with the same partitions and settings; return an error if it stays.

        With ``topic_id`` it has that id then, as from metadata that are put back; the logs of that id are empty.
        """
        topic = self.topics.by_name.get(name)
        if topic is None:
            return errors.UNKNOWN_TOPIC_OR_PART
        assignments = [partition.replicas for partition in topic.partitions]
        error = self.topics.check(assignments) if self.controller.up else errors.REQUEST_TIMED_OUT
        if not error:
            self.topics.delete(name)
            self.topics.create(name, assignments, topic.config, topic_id)
        return error
