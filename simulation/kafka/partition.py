"""A partition: what the controller decided of it, its copies, and the truth about which records are gone."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import pairwise

from simulation.kafka.contract import Record
from simulation.kafka.log import Log
from simulation.kafka.producers import Producers
from simulation.kafka.promises import Promises
from simulation.kafka.replica import ClusterRole, Replica
from simulation.kafka.topic_settings import RECORD_BYTES, TopicSettings


class Partition:
    """One partition of one incarnation of a topic."""

    def __init__(
        self,
        cluster: ClusterRole,
        topic: str,
        topic_id: str,
        number: int,
        replicas: tuple[int, ...],
        settings: TopicSettings,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.key = (topic, number)
        self.internal = topic.startswith("__")
        self.replicas = replicas
        self.settings = settings
        self.leader = -1
        self.epoch = -1
        self.isr: tuple[int, ...] = ()
        self.elr: tuple[int, ...] = ()
        self.last_leader = -1
        self.unclean_epoch = -1
        """The latest epoch of an unclean election."""
        self.copies: dict[int, Replica] = {}
        """By broker."""
        self.truth: list[Record] = []
        """What the log of the present leader holds from ``truth_base`` on, or held before it broke down."""
        self.truth_base = 0
        self.committed = 0
        """The highest high watermark of leaders in this line."""
        self.hidden: dict[int, Record] = {}
        """Records that a bug never shows, by id()."""
        self.shown: list[tuple[int, int, int]] = []
        """Aborted transactions that a bug shows: producer id, first offset, offset of the marker."""
        self.held: dict[tuple[int, int], tuple[int, Callable[[], None]]] = {}
        """By (broker, producer id), a batch that a bug holds back: its first sequence, and what appends it."""
        self.expired: list[Record] = []
        """What retention or DeleteRecords removed."""
        self.promises = Promises()
        self._states: list[Producers] = []
        self._lost: dict[int, Record] = {}
        """By id(): what was told to be lost; some copy may hold it yet."""

    @property
    def min_isr(self) -> int:
        """How large the ISR must be for a write with acks=all."""
        return min(self.settings.min_isr, len(self.replicas))

    def leading(self) -> Replica | None:
        """Return the copy that leads, if its broker knows that it does."""
        copy = self.copies.get(self.leader)
        return copy if copy is not None and copy.lead is not None else None

    def rewire(self) -> None:
        """Find out who fetches from whom, after any change of brokers, network or leaders."""
        for leader in self.copies.values():
            for follower in self.copies.values():
                lead = leader.lead
                if lead is None or follower is leader:
                    continue
                follows = (
                    follower.lead is None
                    and follower.leader == leader.broker
                    and follower.epoch == lead.epoch
                    and self.cluster.linked(follower.broker, leader.broker)
                )
                steady = follower in lead.followers
                if (steady or follower in lead.late) and (not follows or steady == (follower.node.lag_s > 0)):
                    leader.detach(follower, lead)
                    steady = False
                if follows and not steady and follower not in lead.late:
                    leader.attach(follower)
            leader.maintain()

    # Producer state follows the log.

    def keep(self, state: Producers) -> None:
        """Remember a state, for a leader whose log begins like that."""
        self._states = [*self._states[-15:], state]

    def producers_of(self, log: Log) -> Producers:
        """Return what this log says about producers."""
        believing = [copy.lead.producers for copy in self.copies.values() if copy.lead is not None]
        known = [one for one in (*self._states, *believing) if one.end <= log.end and one.holds_for(log)]
        state = max(known, key=lambda one: one.end).copy() if known else Producers(log.base)
        state.replay(log)
        return state

    # The truth.

    def harmed_election(self, leader: Replica) -> str:
        """Say why the new leader's log may lack records; a bug may make it lack some."""
        if leader.log.end > leader.log.start and self.cluster.strikes(
            "offsets-reused", self.topic, self.number, leader.log.end
        ):
            back = self.cluster.dice.randint(1, 5)
            leader.log.truncate(max(leader.log.base, leader.log.end - back))
            return "offsets reused"
        return leader.damage

    def took_over(self, leader: Replica, how: str) -> None:
        """The log of this leader is the log now: what of the former one it lacks is lost."""
        for other in self.copies.values():
            if other.lead is not None and other is not leader:
                other.lead.real = False
        log, base = leader.log, self.truth_base
        self._report_expired(max(base, min(log.start, base + len(self.truth), log.end)), "expired")
        base = self.truth_base
        same = self._agrees_until(log)
        before = self.truth[same - base :]
        after = log.slice(log.start, min(base, log.end)) + log.slice(max(same, log.start), log.end)
        had, has = {id(one) for one in before}, {id(one) for one in after}  # asked for membership only
        lost = [one for one in before if id(one) not in has]
        if leader.epoch == self.unclean_epoch:
            how = "unclean election"
        if lost:
            committed = [record for record in lost if record.offset < self.committed]
            self._report(committed, how or "truncated")
            self._report([record for record in lost if record.offset >= self.committed], "uncommitted")
            self.committed = min(self.committed, lost[0].offset)
        self.committed = max(min(self.committed, log.end), leader.hw)
        self._found([one for one in after if id(one) not in had])
        self.truth, self.truth_base = log.slice(log.start, log.end), log.start
        self.promises.markers_lost(self.truth, lost)

    def _agrees_until(self, log: Log) -> int:
        """Return the offset from which on a log differs from the truth."""
        base = self.truth_base
        low, high = max(base, log.base), min(base + len(self.truth), log.end)
        if low >= high or "epoch-kept" in self.cluster.bugs:  # with that, logs may differ in their middle
            return low

        def differs(offset: int) -> bool:
            return self.truth[offset - base] is not log.records[offset - log.base]

        return low + bisect_left(range(low, high), 1, key=differs)

    def _found(self, records: list[Record]) -> None:
        """Take over records that were told to be gone."""
        records = [record for record in records if id(record) not in self.hidden]
        for record in records:
            self._lost.pop(id(record), None)
        back = [record for record in records if record.control is None]
        if back and not self.internal:
            for call in self.cluster.on_return:
                call(self.topic, self.topic_id, self.number, back)

    def _report(self, records: list[Record], how: str) -> None:
        data = [record for record in records if record.control is None and id(record) not in self._lost]
        if not data or self.internal:
            return
        for record in data:
            self._lost[id(record)] = record
        self.tell_lost(data, how)

    def tell_lost(self, records: list[Record], how: str) -> None:
        """Tell of records that the log lacks from now on, or never had, and why."""
        for call in self.cluster.on_lost:
            call(self.topic, self.topic_id, self.number, records, how)

    def stray(self, batch: list[Record]) -> None:
        """A deposed leader appended this: the log lacks it, unless that leader is elected again.

        So does a leader that has not heard that the topic was deleted: what it acknowledges then is lost, not deleted.
        """
        self._report(batch, "uncommitted")

    def ended(self, marker: Record, first: int) -> None:
        """Tell of records whose transaction ends otherwise than it was decided."""
        undone = self.promises.undone(marker, first)
        if marker.control == "abort":
            self._report(undone, "commit undone")
        else:
            self.cluster.aborts_undone += [(self.cluster.schedule.now, *self.key, record) for record in undone]

    def raise_start(self, start: int, how: str) -> None:
        """Remove what is below ``start`` from the leader's log and from those in step."""
        leader = self.leading()
        if leader is None or leader.lead is None or start <= leader.log.start:
            return
        for copy in (leader, *leader.lead.followers):
            copy.log.drop_prefix(start)
        leader.lead.producers.forget_below(start)
        self._report_expired(start, how)
        self.cluster.changed_soon(self)

    def _report_expired(self, start: int, how: str) -> None:
        removed = self.truth[: max(start - self.truth_base, 0)]
        del self.truth[: len(removed)]
        self.truth_base = max(self.truth_base, start)
        data = [record for record in removed if record.control is None and self._lost.pop(id(record), None) is None]
        self.expired += data
        for record in data:
            self.hidden.pop(id(record), None)
        if data and not self.internal:
            self.tell_lost(data, how)
        for told in self.cluster.on_start:
            told(self.topic_id, self.number, start)

    def readable(self) -> range:
        """Return the offsets below the leader's high watermark; none where nobody leads."""
        leader = self.leading()
        return range(0) if leader is None else range(leader.log.start, leader.hw)

    def hollow(self, offsets: Iterable[int]) -> None:
        """Show no record at these offsets any more; they stay in the logs, and in the truth as lost."""
        places = (offset - self.truth_base for offset in offsets)
        records = [self.truth[place] for place in places if 0 <= place < len(self.truth)]
        self.hidden |= {id(one): one for one in records if one.control is None}
        self._report(records, "hollow")

    def destroyed(self) -> None:
        """The topic is deleted; again when a broker hears of it later, and drops what it went on to append."""
        for copy in self.copies.values():
            if copy.lead is not None:
                copy.lead.real = False
        self._report_expired(self.truth_base + len(self.truth), "topic deleted")

    def expired_below(self, now: float) -> int:
        """Return the offset below which retention removes whole segments."""
        leader = self.leading()
        if leader is None:
            return 0
        log, settings = leader.log, self.settings
        bounds = [*log.segments, log.end]
        start = log.start
        size = 0
        if settings.retention_bytes >= 0:
            size = sum(len(one.value or b"") + len(one.key or b"") + RECORD_BYTES for one in log.records)
        for begin, end in pairwise(bounds):
            if end == begin or end > leader.hw:
                break
            part = log.slice(begin, end)
            aged = 0 <= settings.retention_s < now - part[-1].at
            if not aged and (settings.retention_bytes < 0 or end == log.end):
                break
            size -= sum(len(one.value or b"") + len(one.key or b"") + RECORD_BYTES for one in part)
            if not aged and size < settings.retention_bytes:
                break
            start = end
        return start


class Topic:
    """One incarnation of a topic."""

    def __init__(self, name: str, topic_id: str, config: dict[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        """What was set of it, in Kafka's names."""
        self.settings = TopicSettings()
        self.partitions: list[Partition] = []
