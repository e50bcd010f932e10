"""What a transaction coordinator knows, and how its decisions become durable and reach the partitions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from simulation.cluster.core import Core
from simulation.kafka import errors
from simulation.kafka.contract import Record
from simulation.kafka.replica import Replica

WRITE_S = 5.0
"""A coordinator waits so long for its decision to be replicated."""
RETRY_S = 0.2
KEPT_RECORDS = 512

State = Literal["empty", "ongoing", "prepare-commit", "prepare-abort", "commit", "abort"]
Place = tuple[str, int]
Done = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is durable about one transactional id."""

    producer_id: int
    epoch: int
    timeout_s: float
    state: State = "empty"
    places: tuple[Place, ...] = ()
    began: float = 0.0


class Coordinator:
    """What the leader of a state partition holds in memory."""

    def __init__(self, replica: Replica, logged: dict[str, Transaction]) -> None:
        self.replica = replica
        self.logged = logged
        """By transactional id, as its log says, committed or not yet."""
        self.states = dict(logged)
        """Those that count."""
        self.pending: dict[str, bool] = {}
        """Ids of which a decision is being written."""
        self.left: dict[str, list[Place]] = {}
        """Partitions that still need a marker."""
        self.sweeping = False


class Coordinators:
    """All of them, by state partition and broker."""

    def __init__(self, cluster: Core) -> None:
        self.cluster = cluster
        self.coordinators: dict[tuple[int, int], Coordinator] = {}

    def _runs(self, one: Coordinator) -> bool:
        return self.coordinators.get((one.replica.partition.number, one.replica.broker)) is one

    def _write(self, one: Coordinator, tid: str, new: Transaction, done: Done) -> None:
        replica, cluster = one.replica, self.cluster
        lead = replica.lead
        if lead is None or len(lead.isr) < replica.partition.min_isr:
            done(errors.NOT_COORDINATOR if lead is None else errors.COORDINATOR_NOT_AVAILABLE)
            return
        one.logged = {**one.logged, tid: new}
        one.pending[tid] = True
        value: Any = one.logged
        record = Record(replica.log.end, lead.epoch, None, value, cluster.wall_ms(), at=cluster.schedule.now)
        record.batch = record.offset
        replica.append([record])
        lead.producers.note([record])
        replica.advance()
        self._trim(replica)

        def written(error: int) -> None:
            one.pending.pop(tid, None)
            if not self._runs(one):
                error = errors.NOT_COORDINATOR
            if error == 0:
                one.states[tid] = new
            elif error != errors.NOT_COORDINATOR:
                error = errors.COORDINATOR_NOT_AVAILABLE
            done(error)

        replica.await_commit(record.offset + 1, WRITE_S, written)

    def _trim(self, replica: Replica) -> None:
        log = replica.log
        if log.end - log.start > KEPT_RECORDS:
            now = self.cluster.schedule.now
            safe = min(copy.log.synced(now) for copy in replica.partition.copies.values())
            replica.partition.raise_start(min(safe - 1, log.end - KEPT_RECORDS // 2), "compacted")

    # Markers.

    def _mark(self, one: Coordinator, tid: str) -> None:
        if not self._runs(one):
            return
        one.left[tid] = list(one.states[tid].places)
        for place in tuple(one.left[tid]):
            self._send(one, tid, place)
        self._complete(one, tid)

    def _complete(self, one: Coordinator, tid: str) -> None:
        if one.left.get(tid) == [] and self._runs(one):
            del one.left[tid]
            known = one.states[tid]
            ended: State = "commit" if known.state == "prepare-commit" else "abort"
            self._write(one, tid, replace(known, state=ended, places=()), partial(self._completed, one, tid))

    def _completed(self, one: Coordinator, tid: str, error: int) -> None:
        if error and self._runs(one):
            one.left[tid] = []
            self.cluster.schedule.after(RETRY_S, partial(self._complete, one, tid))

    def _send(self, one: Coordinator, tid: str, place: Place) -> None:
        """Write a marker, and see to it that it is written again where it may be lost with its leader."""
        if not self._runs(one) or place not in one.left.get(tid, ()):
            return
        known = one.states[tid]
        partition = self.cluster.topics.get(*place)
        leader = partition.leading() if partition is not None else None
        node = one.replica.node
        again = partial(self._send, one, tid, place)
        if partition is None and node.connected:
            self._sent(one, tid, place)
        elif leader is None or not node.connected or not self.cluster.linked(node.id, leader.broker):
            self.cluster.schedule.after(RETRY_S, again)
        else:
            asked: list[int] = []
            lead = leader.lead

            def done(error: int) -> None:
                asked.append(error)
                if error == 0:
                    self._sent(one, tid, place)

            def look() -> None:
                linked = leader.lead is lead and self.cluster.linked(node.id, leader.broker)
                if linked and not asked:
                    self.cluster.schedule.after(RETRY_S, look)
                elif 0 not in asked:
                    again()

            write_marker(leader, known, "commit" if known.state == "prepare-commit" else "abort", done)
            if not asked:
                self.cluster.schedule.after(RETRY_S, look)

    def _sent(self, one: Coordinator, tid: str, place: Place) -> None:
        if place in one.left.get(tid, ()):
            one.left[tid].remove(place)
            self._complete(one, tid)


def write_marker(leader: Replica, known: Transaction, control: Literal["commit", "abort"], done: Done) -> None:
    """Append a marker to a partition; ``done(error)`` when it is committed."""
    lead, cluster = leader.leadership(), leader.cluster
    state = lead.producers.by_id.get(known.producer_id)
    if state is not None and known.epoch < state.epoch:
        done(0)  # a later one ended it
        return
    end = leader.log.end
    record = Record(
        end, lead.epoch, None, None, cluster.wall_ms(), known.producer_id, known.epoch, -1, True, control,
        cluster.schedule.now, end,
    )  # fmt: skip
    leader.append([record])
    first = lead.producers.open.get(known.producer_id)
    lead.producers.mark(record)
    if first is not None:
        leader.partition.ended(record, first)
        if control == "abort" and cluster.strikes("aborted-read", *leader.partition.key, first):
            leader.partition.shown.append((known.producer_id, first, end))
    leader.advance()
    cluster.changed(leader.partition)
    leader.await_commit(end + 1, WRITE_S, done)
