"""A correct Kafka with a busy life: its producers, its consumers, and the canary that watches it."""

from __future__ import annotations

from canary import facts as f
from simulation.histories.clockwork import MS, RC, RETENTION_MS, RU, SECOND, TOPIC, Process, Producer, World
from simulation.histories.kafka import Log
from simulation.histories.reading import Reading
from simulation.histories.writing import Writing


class Simulator(Reading, Writing):
    """The life itself. Injections reach into it through ``at`` and the methods of all parts."""

    def watch(self) -> None:
        """One round of asking the cluster about itself; the answers come one by one."""
        self.sample += 1
        sample = self.sample
        self.fact(f.WatchAsked, sample)

        def topology() -> None:
            self.fact(f.ClusterSeen, sample, "cluster-1", "1,2,3", 1)
            if self.gone:
                self.fact(f.TopicGone, sample, TOPIC)
                return
            if self.seen_incarnation != self.incarnation:
                self.seen_incarnation = self.incarnation
                self.at(self.ms(1, 200), self.renew)
            self.fact(f.TopicSeen, sample, TOPIC, f"incarnation-{self.incarnation}", len(self.logs), True)
            if sample % 3 == 0:
                self.fact(f.TopicConfigured, TOPIC, RETENTION_MS, -1, "delete", 2)
            for log in self.logs:
                self.fact(f.PartitionSeen, sample, TOPIC, log.partition, log.leader, "1,2,3", self.isr)

        def offsets() -> None:
            for log in self.logs if not self.gone else ():
                self.fact(f.Listed, sample, TOPIC, log.partition, log.start, log.end, log.stable, log.epoch)

        self.at(self.ms(1, 20), topology)
        self.at(self.ms(21, 40), offsets)

    def watching(self) -> None:
        """Ask about the cluster again and again."""
        self.watch()
        if not self.stopping:
            self.at(SECOND, self.watching)

    # what happens to a cluster

    def change_leader(self) -> None:
        """Elect another leader of a partition."""
        log = self.random.choice(self.logs)
        log.epoch += 1
        log.leader = self.random.randint(1, 3)

    def restart(self) -> None:
        """The runner is killed and comes back: a new generation; what was in flight has no outcome any more."""
        self.life += 1
        self.known_id = f"incarnation-{self.seen_incarnation}"
        self.fact(f.RunnerStarted, "canary-0", "test")
        for producer in self.producers:
            producer.generation += 1
            producer.sequences.clear()
            self.began(producer)
        for (consumer, p), position in list(self.tails.items()):
            start = max(self.logs[p].start, position - self.random.randint(0, 10))
            self.tails[consumer, p] = start
            self.tail_last.pop(p, None)
            self.fact(f.Positioned, consumer, consumer, TOPIC, p, start, "start", self.known_id)

    def began(self, producer: Producer) -> None:
        """Say that the producer writes under its generation from here on."""
        who = (TOPIC, producer.mode, producer.producer_id, producer.generation)
        self.fact(f.GenerationBegan, *who, self.known_id)

    def delete(self) -> None:
        """The topic is deleted, whatever is in flight; and made again after a while, by somebody else."""
        self.read_from_the_beginning()
        self.gone = True
        self.incarnation += 1
        self.void |= {log.key for log in self.logs}
        self.logs = [Log(log.partition, f"{log.partition}@{self.incarnation}") for log in self.logs]
        self.group = dict.fromkeys(self.group, 0)
        self.at(self.ms(1, 100), self.make_again)

    def make_again(self) -> None:
        """It is there again; nobody has noticed yet, and whoever was writing or reading goes on."""
        self.gone = False
        self.at(self.ms(1, 300), self.watch)

    def renew(self) -> None:
        """The runner has seen another topic id: new generations, and consumers at the beginning."""
        self.known_id = f"incarnation-{self.seen_incarnation}"
        self.first_generation = self.producers[0].generation + 1
        for producer in self.producers:
            producer.generation += 1
            producer.sequences.clear()
            self.began(producer)
        self.tail_last.clear()
        for consumer, p in self.tails:
            self.tails[consumer, p] = self.logs[p].start
            self.fact(f.Positioned, consumer, consumer, TOPIC, p, self.logs[p].start, "recreated", self.known_id)

    def expire(self) -> None:
        """Retention removes what is old and was read by the canary and by a process of the history."""
        for log in self.logs:
            start = log.start
            limit = min(self.tails[RC, log.partition], self.main.positions.get(log.partition, 0), log.stable)
            if self.main.incarnation != self.incarnation:
                continue
            while start < limit:
                entry = log.entries[start]
                value = entry.value if entry is not None else None
                if value is not None and self.sent_at[value] > self.now - RETENTION_MS * MS - SECOND:
                    break
                start += 1
            log.start = max(log.start, start)

    # a life

    def begin(self) -> None:
        """Let everybody begin."""
        self.fact(f.RunnerStarted, "canary-0", "test")
        for producer in self.producers:
            self.began(producer)
        self.fact(f.TopicConfigured, TOPIC, RETENTION_MS, -1, "delete", 2)
        for consumer, p in self.tails:
            self.fact(f.Positioned, consumer, consumer, TOPIC, p, 0, "start", self.known_id)
        self.flush()
        self.watching()
        for consumer in (RC, RU):
            self.tailing(consumer)
        self.main = Process(self.new_process(0), 0, {log.partition: 0 for log in self.logs})
        self.assign(self.main)
        self.polling(self.main)
        for thread, number in ((1, 0), (2, 0), (3, 1)):
            self.producing(thread, self.producers[number], self.new_process(thread))
        for thread, number in ((4, 2), (5, 3)):
            process = Process(self.new_process(thread), thread, {log.partition: 0 for log in self.logs})
            self.assign(process)
            self.transacting(thread, self.producers[number], process)

    def with_group(self) -> None:
        """Two more processes, subscribed."""
        self.sub_via = frozenset({"assign", "subscribe"})
        self.group = {log.partition: 0 for log in self.logs}
        members = []
        for number in (1000, 1001):
            members.append(Process(number, 0))
            self.subscribe(members[-1])
        self.group_owner = {log.partition: self.random.choice(members).number for log in self.logs}
        for member in members:
            self.group_polling(member)

    def end(self) -> None:
        """Stop writing, let everything settle, write once more to each partition, and read all of it."""
        self.stopping = True
        self.at(2 * SECOND, self.closing)

    def closing(self) -> None:
        """Write once more to each partition, and read all of it."""
        producer = self.producers[0]
        process = self.new_process(1)
        for log in self.logs:
            value = self.new_value(producer, log.partition)
            self.sent(producer, log.partition, value)
            self.record(process, "invoke", "send", [["send", log.key, value]])
            offset = log.append(value)
            self.acked(value, offset)
            self.record(process, "ok", "send", [["send", log.key, [offset, value]]])
        for n in range(10):
            self.at(n * SECOND // 2 + 1, self.read_all)
            self.at((n + 1) * SECOND // 2, self.watch)
        self.at(SECOND, self.final_reads)

    def read_all(self) -> None:
        """Let both tail consumers read to the end."""
        for consumer in (RC, RU):
            for log in self.logs:
                self.tail(consumer, log.partition, log.end + 1)

    def final_reads(self) -> None:
        """A fresh process reads every key from its beginning to its end, twice."""
        for _ in range(2):
            self.read_from_the_beginning()

    def read_from_the_beginning(self) -> None:
        """A fresh process reads every key as far as it can."""
        process = Process(self.new_process(0), 0, {log.partition: log.start for log in self.logs})
        self.assign(process)
        for _ in range(2):
            self.record(process.number, "invoke", "poll", [["poll"]], seek_to_beginning=True)
            polled = self.poll_by(process.positions, 1 << 30)
            self.record(process.number, "ok", "poll", [["poll", polled]])

    def world(self) -> World:
        """Return what there is to see of the life."""
        return World(
            self.seed,
            self.sub_via,
            self.injected,
            self.identities,
            self.homes,
            frozenset(self.void),
            self.operations,
            self.facts,
        )
