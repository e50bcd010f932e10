"""Transaction coordinators: each leads a partition of __transaction_state, whose log holds what it decided."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from simulation.cluster.coordinators import Coordinator, Coordinators, Done, Place, Transaction
from simulation.cluster.core import Core
from simulation.cluster.topics import STATE_TOPIC
from simulation.kafka import errors
from simulation.kafka.promises import Outcome
from simulation.kafka.replica import Replica

STATE_PARTITIONS = 6
SWEEP_S = 10.0
"""How often a coordinator aborts what has been open for too long."""
LAST_EPOCH = 32766
"""A producer id is replaced when its epoch is as high as this."""


class Transactions(Coordinators):
    """What transactional clients ask of coordinators."""

    def __init__(self, cluster: Core) -> None:
        super().__init__(cluster)
        self.forgets = False
        """The state that has the next transaction to be ended is lost before."""
        self.on_end: list[Callable[[int, Transaction], bool]] = []
        """Called with the coordinator when an open transaction is to be ended; True: the request never arrives."""
        self._zombies: dict[tuple[str, int], bool] = {}

    def place(self, tid: str) -> int:
        """Return the state partition of a transactional id."""
        value = 0
        for letter in tid:
            value = (31 * value + ord(letter)) & 0xFFFFFFFF
        return (value & 0x7FFFFFFF) % STATE_PARTITIONS

    def coordinator(self, tid: str) -> int:
        """Return the broker that leads the state partition of this id; -1: none."""
        partition = self.cluster.topics.get(STATE_TOPIC, self.place(tid))
        return partition.leader if partition is not None else -1

    # The state follows the log of its partition.

    def load(self, replica: Replica) -> None:
        """A broker leads a state partition: it goes on with what the log says."""
        last = replica.log.records[-1] if replica.log.records else None
        value: Any = last.value if last is not None else None
        one = Coordinator(replica, dict(value or {}))
        self.coordinators[replica.partition.number, replica.broker] = one
        for tid, known in one.states.items():
            if known.state.startswith("prepare"):
                self.cluster.schedule.at(self.cluster.schedule.now, partial(self._mark, one, tid))
            elif known.state == "ongoing":
                self._sweep_later(one)

    def unload(self, replica: Replica) -> None:
        """It leads no more."""
        self.coordinators.pop((replica.partition.number, replica.broker), None)

    def lose(self, tid: str) -> None:
        """Lose the state of the partition of this id, on every broker."""
        number = self.place(tid)
        partition = self.cluster.topics.get(STATE_TOPIC, number)
        if partition is not None:
            end = max(copy.log.end for copy in partition.copies.values())
            for copy in partition.copies.values():
                copy.log.reset(end)
                copy.log.begin_epoch(partition.epoch)
                copy.hw = end
            partition.truth, partition.truth_base = [], end
            leader = partition.leading()
            if leader is not None:
                self.load(leader)

    # Requests.

    def _at(self, broker: int, tid: str) -> tuple[int, Coordinator | None]:
        one = self.coordinators.get((self.place(tid), broker))
        if one is None or not one.replica.node.serving:
            return errors.NOT_COORDINATOR, None
        return (errors.CONCURRENT_TRANSACTIONS if tid in one.pending else 0), one

    def lets_in(self, tid: str, epoch: int) -> bool:
        """Whether the bug "zombie-let-in" lets this fenced producer work: the same for all that it asks."""
        if "zombie-let-in" not in self.cluster.bugs:
            return False
        if (tid, epoch) not in self._zombies:
            self._zombies[tid, epoch] = self.cluster.strikes("zombie-let-in", tid, -1, epoch)
        return self._zombies[tid, epoch]

    def init(self, broker: int, tid: str, timeout_s: float) -> tuple[int, int, int]:
        """Return (error, producer id, epoch) for a client that begins; a former one of this id is fenced."""
        error, one = self._at(broker, tid)
        if one is None or error:
            return error, -1, -1
        known = one.states.get(tid)
        if known is not None and known.state.startswith("prepare"):
            return errors.CONCURRENT_TRANSACTIONS, -1, -1
        if known is not None and known.state == "ongoing":
            self._end(one, tid, replace(known, epoch=known.epoch + 1), commit=False, done=lambda _: None)
            return errors.CONCURRENT_TRANSACTIONS, -1, -1
        if known is None or known.epoch >= LAST_EPOCH:
            number = self.cluster.controller.producer_id(self.cluster.nodes[broker])
            if number < 0:
                return errors.COORDINATOR_LOAD_IN_PROGRESS, -1, -1
            new = Transaction(number, 0, timeout_s)
        else:
            self._decide(known, "abort")
            new = Transaction(known.producer_id, known.epoch + 1, timeout_s)
        error = self._now(one, tid, new)
        return (error, -1, -1) if error else (0, new.producer_id, new.epoch)

    def _now(self, one: Coordinator, tid: str, new: Transaction) -> int:
        answers: list[int] = []
        self._write(one, tid, new, answers.append)
        return answers[0] if answers else errors.COORDINATOR_NOT_AVAILABLE

    def _known(self, broker: int, tid: str, producer_id: int, epoch: int) -> tuple[int, Coordinator | None]:
        error, one = self._at(broker, tid)
        if one is None:
            return error, None
        known = one.states.get(tid)
        if known is None or known.producer_id != producer_id:
            return errors.INVALID_PRODUCER_ID_MAPPING, None
        if known.epoch != epoch and not self.lets_in(tid, epoch):
            return errors.PRODUCER_FENCED, None
        return error, one

    def add(self, broker: int, tid: str, producer_id: int, epoch: int, places: Sequence[Place]) -> int:
        """Let partitions belong to the transaction, which begins with the first."""
        error, one = self._known(broker, tid, producer_id, epoch)
        if one is None or error:
            return error
        known = one.states[tid]
        if known.state.startswith("prepare"):
            return errors.CONCURRENT_TRANSACTIONS
        if any(self.cluster.topics.get(*place) is None for place in places):
            return errors.UNKNOWN_TOPIC_OR_PART
        before = known.places if known.state == "ongoing" else ()
        after = before + tuple(place for place in dict.fromkeys(places) if place not in before)
        if known.state == "ongoing" and after == before:
            return 0
        began = known.began if known.state == "ongoing" else self.cluster.schedule.now
        self._sweep_later(one)
        return self._now(one, tid, replace(known, state="ongoing", places=after, began=began))

    def verify(self, leader: Replica, tid: str, producer_id: int, epoch: int) -> int:
        """Answer a partition's leader that asks whether this transaction has the partition."""
        broker = self.coordinator(tid)
        if broker < 0 or not self.cluster.linked(leader.broker, broker):
            return errors.NOT_ENOUGH_REPLICAS
        error, one = self._known(broker, tid, producer_id, epoch)
        if error in {errors.NOT_COORDINATOR, errors.CONCURRENT_TRANSACTIONS}:
            return errors.NOT_ENOUGH_REPLICAS
        if one is None:
            return errors.INVALID_PRODUCER_EPOCH if error == errors.PRODUCER_FENCED else error
        known = one.states[tid]
        if known.state.startswith("prepare"):
            return errors.NOT_ENOUGH_REPLICAS
        has = known.state == "ongoing" and leader.partition.key in known.places
        return 0 if has else errors.INVALID_TXN_STATE

    def end(self, broker: int, tid: str, producer_id: int, epoch: int, *, commit: bool, done: Done) -> None:
        """Decide a transaction."""
        if self.forgets and self._known(broker, tid, producer_id, epoch)[0] == 0:
            self.forgets = False
            self.lose(tid)
        error, one = self._known(broker, tid, producer_id, epoch)
        if one is None or error:
            done(error)
            return
        known = one.states[tid]
        if known.state == "ongoing" and any(call(broker, known) for call in tuple(self.on_end)):
            return
        if known.state == "ongoing":
            self._end(one, tid, known, commit=commit, done=done)
        elif known.state in {"commit", "prepare-commit"} and commit:
            again = known.state == "commit"
            if self.cluster.strikes("retried-commit-is-abort", tid, -1, epoch):
                done(errors.INVALID_TXN_STATE)
            else:
                done(0 if again else errors.CONCURRENT_TRANSACTIONS)
        elif known.state in {"abort", "prepare-abort"} and not commit:
            self._decide(known, "abort")
            done(0 if known.state == "abort" else errors.CONCURRENT_TRANSACTIONS)
        else:
            done(errors.INVALID_TXN_STATE)

    def _end(self, one: Coordinator, tid: str, known: Transaction, *, commit: bool, done: Done) -> None:
        def decided(error: int) -> None:
            if error == 0:
                self._decide(known, "commit" if commit else "abort")
                self._mark(one, tid)
            done(error)

        self._write(one, tid, replace(known, state="prepare-commit" if commit else "prepare-abort"), decided)

    def _decide(self, known: Transaction, outcome: Outcome) -> None:
        """The client is told so of all that it wrote, also where a coordinator that lost its state does not know it."""
        for partition in self.cluster.controller.partitions():
            leader = partition.leading()
            opened = leader is not None and leader.lead is not None and known.producer_id in leader.lead.producers.open
            if opened or partition.key in known.places:
                partition.promises.decided(partition.truth, known.producer_id, outcome)

    # Transactions that stay open for too long.

    def _sweep_later(self, one: Coordinator) -> None:
        if not one.sweeping:
            one.sweeping = True
            self.cluster.schedule.after(SWEEP_S, partial(self._sweep, one))

    def _sweep(self, one: Coordinator) -> None:
        one.sweeping = False
        if not self._runs(one):
            return
        now = self.cluster.schedule.now
        for tid, known in list(one.states.items()):
            if known.state == "ongoing":
                self._sweep_later(one)
                if one.replica.node.serving and tid not in one.pending and now - known.began > known.timeout_s:
                    self._end(one, tid, replace(known, epoch=known.epoch + 1), commit=False, done=lambda _: None)
