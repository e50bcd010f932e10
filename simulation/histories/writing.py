"""Writing in a simulated life: sends with every outcome, and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.probe.identity import Identity
from simulation.histories.clockwork import MS, TOPIC, Clockwork, Process, Producer
from simulation.histories.kafka import Log, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.histories.clockwork import Op


class Writing(Clockwork):
    """What producers do."""

    def new_value(self, producer: Producer, partition: int) -> int:
        """Return a new value, which stands for the producer's next probe in a partition."""
        sequence = producer.sequences.get(partition, 0)
        producer.sequences[partition] = sequence + 1
        value = len(self.identities) + 1
        identity = Identity(producer.producer_id, producer.generation, partition, sequence)
        self.identities[value], self.homes[identity] = identity, self.logs[partition].key
        return value

    def sent(self, producer: Producer, partition: int, value: int, transaction_id: int | None = None) -> None:
        """Note that a probe is sent."""
        identity = self.identities[value]
        self.sent_at[value] = self.now
        self.fact(
            f.Sent,
            TOPIC,
            partition,
            identity.producer_id,
            identity.generation,
            identity.sequence,
            producer.mode,
            transaction_id=transaction_id,
        )

    def outcome(self, kind: type[f.Fact], value: int, *rest: Any) -> None:
        """Say what became of a probe, unless the runner that sent it is gone."""
        identity = self.identities[value]
        producer = next(p for p in self.producers if p.producer_id == identity.producer_id)
        if producer.generation == identity.generation:
            self.fact(
                kind, TOPIC, identity.partition, identity.producer_id, identity.generation, identity.sequence, *rest
            )

    def acked(self, value: int, offset: int | None) -> None:
        """Note that a probe is acknowledged at an offset."""
        self.outcome(f.Acked, value, offset, self.now - self.sent_at[value])

    def append_later(
        self,
        producer: Producer,
        partition: int,
        value: int,
        then: Callable[[int], None],
        transaction: Transaction | None,
        *,
        void: Callable[[], None],
    ) -> None:
        """Append after all earlier ones of this producer to this partition; ``void`` if the topic is deleted before."""
        when = max(self.now + self.ms(1, 30), producer.last_append.get(partition, 0) + 1)
        producer.last_append[partition] = when
        log = self.logs[partition]

        def append() -> None:
            if transaction is not None and partition in transaction.markers:
                return  # fenced meanwhile
            if log is not self.logs[partition]:
                void()
                return
            then(log.append(value, transaction))

        self.at(when - self.now, append)

    def producing(self, thread: int, producer: Producer, process: int) -> None:  # noqa: C901  # closures over one send
        """One process sends one message after the other."""
        if self.stopping:
            return
        if self.gone:
            self.at(self.ms(1, 80), lambda: self.producing(thread, producer, process))
            return
        partition = self.random.randrange(len(self.logs))
        value = self.new_value(producer, partition)
        key = self.logs[partition].key
        fate = self.random.choices(list(self.fates), list(self.fates.values()))[0]
        self.sent(producer, partition, value)
        self.record(process, "invoke", "send", [["send", key, value]])
        life = self.life

        def again(number: int) -> None:
            pause = self.ms(1, 80)
            self.at(pause, lambda: self.producing(thread, producer, number))

        def finish(kind: str, offset: int | None, *, bare: bool = False) -> None:
            crashed = self.life != life and kind == "ok" and offset is None
            self.record(process, kind, "send", [["send", key, value if bare else [offset, value]]])
            again(self.new_process(thread) if kind == "info" or crashed else process)

        def doubt() -> None:
            self.outcome(f.Indeterminate, value, "_MSG_TIMED_OUT")
            finish("info", None, bare=True)

        def appended(offset: int) -> None:
            def tell() -> None:
                if fate == "doubtful-there":
                    self.outcome(f.Indeterminate, value, "_MSG_TIMED_OUT")
                    finish("info", None, bare=True)
                else:
                    known = None if fate == "no-offset" else offset
                    self.acked(value, known)
                    finish("ok", known)

            self.at(self.ms(0.1, 60), tell)

        if fate == "failed":

            def refuse() -> None:
                self.outcome(f.Failed, value, "QUEUE_FULL")
                finish("fail", None, bare=True)

            self.at(self.ms(0.1, 5), refuse)
        elif fate == "doubtful-not-there":
            self.at(self.ms(20, 90), doubt)
        else:
            self.append_later(producer, partition, value, appended, None, void=doubt)

    def transacting(self, thread: int, producer: Producer, process: Process) -> None:
        """One process begins one transaction after the other, polling and sending in each."""
        if self.stopping:
            return
        if self.gone:
            self.at(self.ms(1, 80), lambda: self.transacting(thread, producer, process))
            return
        if process.incarnation != self.incarnation:
            self.replace(process)
        _Run(self, thread, producer, process).step(0)

    def mark(self, transaction: Transaction, partitions: set[int], marker: str, logs: list[Log]) -> None:
        """Write the markers that end a transaction, not all at the same moment."""

        def write(p: int) -> None:
            if p not in transaction.markers:
                transaction.markers[p] = marker
                logs[p].append(None)

        for p in partitions:
            self.at(self.ms(0.1, 20), lambda p=p: write(p))  # type: ignore[misc]

    def replace(self, process: Process) -> None:
        """Let a new process go on in this one's thread, with a consumer that begins at the beginning."""
        process.number = self.new_process(process.thread)
        process.positions = {log.partition: log.start for log in self.logs}
        process.last, process.incarnation = {}, self.incarnation
        self.assign(process)


class _Run:
    """One transaction from its beginning to its end."""

    def __init__(self, life: Writing, thread: int, producer: Producer, process: Process) -> None:
        self.life, self.thread, self.producer, self.process = life, thread, producer, process
        producer.transaction_id += 1
        self.transaction = Transaction(producer.transaction_id)
        self.ids = (producer.producer_id, producer.generation, producer.transaction_id)
        self.logs = life.logs
        self.twist = life.twists.pop() if life.twists else None
        self.positions = dict(process.positions)
        self.touched: set[int] = set()
        self.done: list[Any] = []
        life.fact(f.TransactionBegan, producer.mode, *self.ids)
        self.plan = self._plan()
        self.values = [life.new_value(producer, p) if kind == "send" else None for kind, p in self.plan]
        self.op: Op = life.record(
            process.number,
            "invoke",
            "txn",
            [
                ["poll"] if value is None else ["send", self.logs[p].key, value]
                for (_, p), value in zip(self.plan, self.values, strict=True)
            ],
        )

    def _plan(self) -> list[tuple[str, int]]:
        life = self.life
        plan = []
        for _ in range(life.random.randint(1, 4)):
            kind = "poll" if life.random.random() < 0.4 else "send"
            plan.append((kind, life.random.randrange(len(self.logs))))
        if self.twist is not None:
            plan += [("send", p) for p in range(len(self.logs))]
        return plan

    @property
    def alive(self) -> bool:
        """The runner that began it still runs."""
        return self.producer.generation == self.ids[1]

    def step(self, place: int) -> None:
        """Do one micro-operation after the other, then commit."""
        life = self.life
        if not self.alive:
            self.complete("info")
        elif self.logs is not life.logs:
            self.told("doubtful-abort")
        elif place == len(self.plan):
            life.at(life.ms(0.1, 10), self.commit)
        elif (value := self.values[place]) is None:
            self.done.append(["poll", life.poll_by(self.positions, life.random.randint(1, 8))])
            life.at(life.ms(0.1, 10), lambda: self.step(place + 1))
        else:
            p = self.plan[place][1]
            life.sent(self.producer, p, value, self.transaction.transaction_id)
            self.touched.add(p)
            life.append_later(
                self.producer,
                p,
                value,
                lambda offset: self.appended(place, value, offset),
                self.transaction,
                void=lambda: self.step(place),
            )

    def appended(self, place: int, value: int, offset: int) -> None:
        """Its write is in the log: let it be told, and go on."""
        life, log = self.life, self.logs[self.plan[place][1]]
        sent = ["send", log.key, [offset, value]]
        if self.twist is not None and place == len(self.plan) - 1 and self.alive and self.logs is life.logs:
            polled = self.twist.appended(life, log, offset, value, self.positions)
            if polled is not None:
                life.acked(value, offset)
                self.done += [sent, ["poll", polled]]
                self.step(place + 1)
                return

        def tell() -> None:
            if self.alive:
                life.acked(value, offset)
                self.done.append(sent)
            self.step(place + 1)

        life.at(life.ms(0.1, 20), tell)

    def commit(self) -> None:
        """End it, one way or another."""
        life = self.life
        if not self.alive:
            self.complete("info")
            return
        fate = life.random.choices(list(life.commits), list(life.commits.values()))[0]
        if self.twist is not None:
            fate = self.twist.fate
        if fate != "abort":
            life.fact(f.CommitAsked, *self.ids)
        marker = "abort" if fate in ("abort", "doubtful-abort") else "commit"
        life.at(life.ms(0.5, 15), lambda: life.mark(self.transaction, self.touched, marker, self.logs))
        if self.twist is not None:
            self.twist.ending(life, self.transaction, self.logs)
        life.at(life.ms(1, 80) + 60 * MS, lambda: self.told(fate))

    def told(self, fate: str) -> None:
        """The producer learns, or does not learn, how it ended."""
        if not self.alive:
            self.complete("info")
        elif fate == "commit":
            self.life.fact(f.Committed, *self.ids)
            self.complete("ok")
        elif fate == "abort":
            self.life.fact(f.Aborted, *self.ids)
            self.complete("fail")
        else:
            self.life.fact(f.TransactionIndeterminate, *self.ids, "_TIMED_OUT")
            self.complete("info")

    def complete(self, kind: str) -> None:
        """Note the completion, and let the process go on with its next transaction."""
        life, process = self.life, self.process
        life.record(process.number, kind, "txn", [*self.done, *self.op["value"][len(self.done) :]])
        if self.twist is not None:
            self.twist.ended(life, kind)
        if kind == "ok":
            process.positions = self.positions
        if kind == "info":
            if not self.alive:
                life.mark(self.transaction, self.touched, "abort", self.logs)
            life.replace(process)
        life.at(life.ms(1, 60), lambda: life.transacting(self.thread, self.producer, process))
