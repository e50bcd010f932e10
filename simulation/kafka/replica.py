"""One broker's copy of a partition: it follows the leader that it believes in, or leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from simulation.kafka import errors
from simulation.kafka.broker import Broker
from simulation.kafka.contract import Record
from simulation.kafka.leadership import Leadership, Waiting
from simulation.kafka.log import Log

if TYPE_CHECKING:
    from simulation.kafka.producers import Producers
    from simulation.kafka.promises import Promises
    from simulation.kafka.topic_settings import TopicSettings

FETCH_S = 0.5
"""A follower hears of a higher high watermark within this time, also where nothing is written."""


class StateKeeper(Protocol):
    """The transaction coordinators, which follow the logs of their own topic."""

    def load(self, replica: Replica) -> None:
        """Go on with what the log of a new leader of a state partition says."""

    def unload(self, replica: Replica) -> None:
        """Forget what a broker knew that leads a state partition no more."""


class IsrKeeper(Protocol):
    """The controller, as leaders see it."""

    def alter_isr(self, leader: Replica, isr: tuple[int, ...]) -> bool:
        """Take over a leader's view of its ISR; return whether it counts."""


class ClusterRole(Protocol):
    """What partitions and their copies ask of the cluster. ``Core`` has it."""

    schedule: Any
    dice: Any
    bugs: set[str]
    strict_min_isr: bool
    lag_max_s: float
    on_append: list[Callable[[str, str, int, Record], None]]
    on_lost: list[Callable[[str, str, int, Sequence[Record], str], None]]
    on_return: list[Callable[[str, str, int, Sequence[Record]], None]]
    on_start: list[Callable[[str, int, int], None]]
    aborts_undone: list[tuple[float, str, int, Record]]

    @property
    def controller(self) -> IsrKeeper:
        """The controller."""

    @property
    def transactions(self) -> StateKeeper:
        """The transaction coordinators."""

    def linked(self, a: int, b: int) -> bool:
        """Return whether two brokers both serve and reach each other."""

    def strikes(self, bug: str, topic: str, partition: int, offset: int) -> bool:
        """Return whether a bug strikes here and now."""

    def wall_ms(self) -> int:
        """Return the wall clock of the brokers."""

    def changed(self, partition: PartitionRole) -> None:
        """Tell watchers now that a fetch of the partition could see something new."""

    def changed_soon(self, partition: PartitionRole) -> None:
        """Tell watchers that a fetch of the partition could see something new."""


class PartitionRole(Protocol):
    """What copies, the controller and coordinators ask of a partition. ``Partition`` has it."""

    topic: str
    topic_id: str
    number: int
    key: tuple[str, int]
    internal: bool
    replicas: tuple[int, ...]
    settings: TopicSettings
    leader: int
    epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_leader: int
    unclean_epoch: int
    copies: dict[int, Replica]
    truth: list[Record]
    committed: int
    hidden: dict[int, Record]
    shown: list[tuple[int, int, int]]
    held: dict[tuple[int, int], tuple[int, Callable[[], None]]]
    expired: list[Record]
    promises: Promises

    @property
    def cluster(self) -> ClusterRole:
        """The cluster."""

    @property
    def min_isr(self) -> int:
        """How large the ISR must be for a write with acks=all."""

    def leading(self) -> Replica | None:
        """Return the copy that leads, if its broker knows that it does."""

    def rewire(self) -> None:
        """Find out who fetches from whom."""

    def keep(self, state: Producers) -> None:
        """Remember producers' state for a later leader."""

    def producers_of(self, log: Log) -> Producers:
        """Return what this log says about producers."""

    def harmed_election(self, leader: Replica) -> str:
        """Say why the new leader's log may lack records."""

    def took_over(self, leader: Replica, how: str) -> None:
        """Take the log of this leader for the log from now on."""

    def stray(self, batch: list[Record]) -> None:
        """Note what a deposed leader appended."""

    def tell_lost(self, records: list[Record], how: str) -> None:
        """Tell of records that the log lacks from now on, and why."""

    def ended(self, marker: Record, first: int) -> None:
        """Tell of records whose transaction ends otherwise than it was decided."""

    def raise_start(self, start: int, how: str) -> None:
        """Remove what is below ``start``."""

    def destroyed(self) -> None:
        """Note that the topic is deleted."""


class Replica:
    """A copy of ``partition`` on the broker ``node``."""

    def __init__(self, partition: PartitionRole, node: Broker) -> None:
        self.partition = partition
        self.cluster = partition.cluster
        self.node = node
        self.broker = node.id
        self.log = Log(partition.settings.log)
        self.hw = 0
        self.leader = -1
        self.epoch = -1
        self.lead: Leadership[Replica] | None = None
        self.damage = ""
        """Why the log may lack what it had: "power cut", "wiped disk"; until it has followed a leader."""

    def hear(self, leader: int, epoch: int, isr: tuple[int, ...]) -> None:
        """Take over what the controller says of the partition."""
        self.leader, self.epoch = leader, epoch
        if leader == self.broker:
            if self.lead is not None and self.lead.epoch != epoch:
                self._resign()
            if self.lead is None:
                self._begin(epoch, isr)
            elif self.lead.isr != isr:
                self.lead.isr = isr
                self.steps()
        elif self.lead is not None:
            self._resign()

    def _begin(self, epoch: int, isr: tuple[int, ...]) -> None:
        self.stop_following()
        how = self.partition.harmed_election(self)
        self.hw = min(self.hw, self.log.end)
        self.log.begin_epoch(epoch)
        self.lead = lead = Leadership[Replica](epoch, self.log.end, isr, self.partition.producers_of(self.log))
        lead.since = dict.fromkeys(self.partition.replicas, self.cluster.schedule.now)
        self.partition.took_over(self, how)
        self.steps()
        if self.partition.internal:
            self.cluster.transactions.load(self)
        self.cluster.changed_soon(self.partition)

    def _resign(self) -> None:
        lead = self.forget()
        if lead is not None:
            for one in lead.waiting:
                self._answer(one, errors.NOT_LEADER_FOR_PARTITION)
        self.cluster.changed_soon(self.partition)

    def forget(self) -> Leadership[Replica] | None:
        """Lose what is in memory about leading."""
        lead, self.lead = self.lead, None
        if lead is not None:
            for follower in [*lead.followers, *lead.late]:
                self.detach(follower, lead)
            for timer in (lead.timer, *(one.timer for one in lead.waiting)):
                if timer is not None:
                    timer.cancel()
            self.partition.keep(lead.producers)
            if self.partition.internal:
                self.cluster.transactions.unload(self)
        return lead

    def die(self) -> None:
        """The process ends: only the log remains, and what the checkpoint says of the high watermark."""
        self.forget()
        self.stop_following()
        self.leader = self.epoch = -1

    def stop_following(self) -> None:
        """Be no follower of any replica that leads, or believes it."""
        for other in self.partition.copies.values():
            if other.lead is not None and (self in other.lead.followers or self in other.lead.late):
                other.detach(self, other.lead)

    # What a leader does.

    def leadership(self) -> Leadership[Replica]:
        """Return what it holds in memory as a leader.

        Raises:
            RuntimeError: it does not lead.
        """
        if self.lead is None:
            raise RuntimeError(f"broker {self.broker} does not lead {self.partition.key}")
        return self.lead

    def append(self, batch: list[Record]) -> None:
        """Append at the end of the log, and in the logs of all that are in step."""
        lead, now, hw = self.leadership(), self.cluster.schedule.now, self.hw
        for follower in lead.followers:
            follower.hw = hw
            follower.log.append(batch, now)
        if lead.late:
            self._fetch_late(lead)
        self.log.append(batch, now)
        partition = self.partition
        if lead.real:
            partition.truth += batch
        if self.cluster.on_append and batch[0].control is None and not partition.internal:
            for record in batch:
                for call in self.cluster.on_append:
                    call(partition.topic, partition.topic_id, partition.number, record)
        if not lead.real:
            partition.stray(batch)

    def await_commit(self, needed: int, timeout_s: float, done: Callable[[int], None]) -> None:
        """Call ``done(error)`` when everything below ``needed`` is committed, or that it takes too long."""
        lead = self.leadership()
        if self.hw >= needed:
            enough = len(lead.isr) >= self.partition.min_isr
            done(0 if enough else errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            return
        one = Waiting(needed, done)
        one.timer = self.cluster.schedule.after(timeout_s, partial(self._expire, one))
        lead.waiting.append(one)

    def _expire(self, one: Waiting) -> None:
        lead = self.lead
        if lead is None or one not in lead.waiting:
            return
        if not self.node.serving:
            one.timer = self.cluster.schedule.after(FETCH_S, partial(self._expire, one))
            return
        lead.waiting.remove(one)
        one.done(errors.REQUEST_TIMED_OUT)

    def _answer(self, one: Waiting, error: int) -> None:
        if one.timer is not None:
            one.timer.cancel()
        self.cluster.schedule.at(self.cluster.schedule.now, partial(one.done, error))

    def steps(self) -> None:
        """Find out anew whether an append is committed at once."""
        lead = self.leadership()
        steady = {self.broker, *(one.broker for one in lead.followers)}
        enough = len(lead.isr) >= self.partition.min_isr or not self.cluster.strict_min_isr
        lead.in_step = enough and all(broker in steady for broker in lead.isr)

    def advance(self) -> bool:
        """Raise the high watermark to what the whole ISR has; return whether it rose."""
        lead = self.leadership()
        hw = self.log.base + len(self.log.records)
        if not lead.in_step:
            if len(lead.isr) < self.partition.min_isr and self.cluster.strict_min_isr:
                return False
            steady = {one.broker for one in lead.followers} | {self.broker}
            hw = min([hw, *(lead.ends.get(broker, -1) for broker in lead.isr if broker not in steady)])
        if hw <= self.hw:
            return False
        self.hw = hw
        if lead.real:
            self.partition.committed = max(self.partition.committed, hw)
        if lead.waiting:
            enough = len(lead.isr) >= self.partition.min_isr
            ready = [one for one in lead.waiting if one.needed <= hw]
            lead.waiting = [one for one in lead.waiting if one.needed > hw]
            for one in ready:
                self._answer(one, 0 if enough else errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def attach(self, follower: Replica) -> None:
        """Let a follower fetch from now on."""
        lead = self.leadership()
        if follower.node.lag_s > 0:
            lead.late.append(follower)
            lead.late.sort(key=lambda one: one.broker)
            lead.ends.setdefault(follower.broker, -1)
            self._fetch_late(lead)
            return
        self._catch_up(follower)
        lead.followers.append(follower)
        lead.followers.sort(key=lambda one: one.broker)
        self.steps()

    def detach(self, follower: Replica, lead: Leadership[Replica]) -> None:
        """Let a follower fetch no more."""
        now = self.cluster.schedule.now
        if follower in lead.followers:
            lead.followers.remove(follower)
            lead.ends[follower.broker] = follower.log.end
            lead.since[follower.broker] = now
            if now - self.log.written_at > FETCH_S:
                follower.hw = self.hw
        else:
            lead.late.remove(follower)
        if self.lead is lead:
            self.steps()

    def _catch_up(self, follower: Replica) -> None:
        lead = self.leadership()
        follower.log.follow(self.log, self.cluster.schedule.now)
        follower.damage = ""
        follower.hw = min(self.hw, follower.log.end)
        lead.ends[follower.broker] = follower.log.end
        lead.since[follower.broker] = self.cluster.schedule.now

    def _fetch_late(self, lead: Leadership[Replica]) -> None:
        for follower in lead.late:
            if follower.broker not in lead.fetching:
                lead.fetching.append(follower.broker)
                if lead.ends.get(follower.broker) == self.log.end:
                    lead.since[follower.broker] = self.cluster.schedule.now
                self.cluster.schedule.after(follower.node.lag_s, partial(self._late, lead, follower))

    def _late(self, lead: Leadership[Replica], follower: Replica) -> None:
        lead.fetching.remove(follower.broker)
        if self.lead is lead and follower in lead.late:
            self._catch_up(follower)
            self.maintain()

    def maintain(self) -> None:
        """Propose who belongs to the ISR, and commit what can be: after each change of who follows."""
        lead = self.lead
        if lead is None or not self.node.serving:
            return
        if self.advance():
            self.cluster.changed_soon(self.partition)
        least = max(self.hw, lead.start)
        ready = [one for one in (*lead.followers, *lead.late) if one.broker not in lead.isr]
        for follower in sorted(ready, key=lambda one: one.broker):
            if lead.ends.get(follower.broker, -1) >= least or follower in lead.followers:
                self.cluster.controller.alter_isr(self, (*lead.isr, follower.broker))
        self._check_later()

    def _check_later(self) -> None:
        lead = self.lead
        if lead is not None and lead.timer is None and not lead.in_step:
            lead.timer = self.cluster.schedule.after(self.cluster.lag_max_s / 2, partial(self._check, lead))

    def _check(self, lead: Leadership[Replica]) -> None:
        lead.timer = None
        if self.lead is not lead:
            return
        steady = {self.broker, *(one.broker for one in lead.followers)}
        old = self.cluster.schedule.now - self.cluster.lag_max_s
        end = self.log.end
        out = [
            broker
            for broker in lead.isr
            if broker not in steady and lead.since[broker] < old and lead.ends.get(broker) != end
        ]
        if out and self.node.serving:
            self.cluster.controller.alter_isr(self, tuple(broker for broker in lead.isr if broker not in out))
        self._check_later()
