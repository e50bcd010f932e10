"""The brokers' side of consumer groups: members, generations, assignments, and committed offsets.

Offsets are records of a topic of the cluster, so they are as durable as any other record; the leader of a partition of
that topic is the coordinator of its groups. Membership is in a coordinator's memory and ends with its leadership. A
coordinator that was frozen and has a successor goes on with what it knew, until it hears of that.

The topic has another name than Kafka's ``__consumer_offsets``, because the simulated brokers take every topic with that
beginning for transaction state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from simulation.kafka.contract import Batch, Produced, Record

OFFSETS_TOPIC = "_consumer_offsets"
_PARTITIONS = 3
_WRITE_S = 5.0
_LOOK_S = 1.0

_NOT_COORDINATOR: int = KafkaError.NOT_COORDINATOR
_UNKNOWN_MEMBER: int = KafkaError.UNKNOWN_MEMBER_ID
_OLD_GENERATION: int = KafkaError.ILLEGAL_GENERATION
_REBALANCING: int = KafkaError.REBALANCE_IN_PROGRESS

Place = tuple[str, int]
Reply = Callable[[int], None]
Joined = Callable[[int, str, int, Sequence[Place]], None]
"""Called with (error, member id, generation, assigned partitions)."""

_WRITE_ERRORS = {
    KafkaError.NOT_LEADER_FOR_PARTITION: KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART: KafkaError.COORDINATOR_NOT_AVAILABLE,
}


@dataclass
class Wanted:
    """What a member asks for when it joins."""

    topics: tuple[str, ...]
    session_s: float
    rebalance_s: float


@dataclass
class _Member:
    wanted: Wanted
    seen_at: float
    joined: Joined | None = None
    """Answers its JoinGroup, once all have joined."""
    assigned: tuple[Place, ...] = ()


@dataclass
class _Group:
    """What a coordinator remembers of one group."""

    lead: Any
    members: dict[str, _Member] = field(default_factory=dict)
    generation: int = 0
    joining: bool = False
    complete_by: float = 0.0
    looking: bool = False


class _Offsets:
    """What the log of one copy says was committed: a fold that goes on where it was."""

    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.position = 0
        self.committed: dict[tuple[str, str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, str, int], int]] = {}
        """Of transactions that are open, by producer id."""

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            self.position = record.offset + 1
            if record.control is not None:
                found = self.pending.pop(record.producer_id, {})
                if record.control == "commit":
                    self.committed |= found
            elif record.key is not None and record.value is not None:
                group, topic, number = record.key.decode().split("\0")
                target = self.pending.setdefault(record.producer_id, {}) if record.transactional else self.committed
                target[group, topic, int(number)] = int(record.value)


class Groups:
    """All groups of a cluster."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._groups: dict[tuple[int, str], _Group] = {}
        self._offsets: dict[tuple[int, int], _Offsets] = {}
        self._made = 0

    @staticmethod
    def of(cluster: Any) -> "Groups":
        """Return the groups of a cluster, which the cluster keeps."""
        found: Groups | None = cluster.__dict__.get("_groups_of_clients")
        if found is None:
            found = cluster.__dict__["_groups_of_clients"] = Groups(cluster)
        return found

    # ---- who coordinates

    def partition(self, group: str) -> int:
        """Return the partition of the offsets' topic that a group belongs to."""
        return sum(map(ord, group)) % _PARTITIONS

    def place(self, group: str) -> Place:
        """Return the partition that a group's offsets are in, which exists then."""
        topics = self._cluster.topics
        if OFFSETS_TOPIC not in topics.by_name:
            copies = min(3, len(self._cluster.nodes))
            config = {"min.insync.replicas": str(min(2, copies)), "retention.ms": "-1"}
            topics.create(OFFSETS_TOPIC, topics.spread(_PARTITIONS, copies), config)
        return OFFSETS_TOPIC, self.partition(group)

    def coordinator(self, group: str) -> int:
        """Return the broker that coordinates a group; -1: none now."""
        found = self._cluster.topics.get(*self.place(group))
        return found.leader if found is not None else -1

    def _replica(self, broker: int, group: str) -> Any:
        """Return the broker's copy of the group's partition, if the broker takes itself for its leader."""
        copy = self._cluster.replicas[broker].get((OFFSETS_TOPIC, self.partition(group)))
        return copy if copy is not None and copy.lead is not None else None

    def _group(self, broker: int, group: str) -> _Group | None:
        copy = self._replica(broker, group)
        if copy is None:
            return None
        found = self._groups.get((broker, group))
        if found is None or found.lead is not copy.lead:
            found = self._groups[broker, group] = _Group(copy.lead)
        return found

    # ---- membership

    def join(self, broker: int, group: str, member: str, wanted: Wanted, joined: Joined) -> None:
        """Let a member join, or join again; it is answered when all have joined."""
        one = self._group(broker, group)
        if one is None:
            joined(_NOT_COORDINATOR, member, -1, ())
            return
        if member and member not in one.members:
            joined(_UNKNOWN_MEMBER, "", -1, ())
            return
        if not member:
            self._made += 1
            member = f"member-{self._made}"
        now = self._cluster.schedule.now
        one.members[member] = _Member(wanted, now, joined)
        if not one.joining:
            one.joining = True
            one.complete_by = now + max(each.wanted.rebalance_s for each in one.members.values())
        self._look_later(broker, group, one)
        self._complete(one)

    def _complete(self, one: _Group) -> None:
        """Begin the next generation once every member has joined."""
        if not one.joining or any(member.joined is None for member in one.members.values()):
            return
        one.joining = False
        one.generation += 1
        self._assign(one)
        for name, member in list(one.members.items()):
            joined, member.joined = member.joined, None
            if joined is not None:
                joined(0, name, one.generation, member.assigned)

    def _assign(self, one: _Group) -> None:
        """Give each member a range of each topic's partitions."""
        places: dict[str, list[Place]] = {name: [] for name in one.members}
        for topic in sorted({topic for member in one.members.values() for topic in member.wanted.topics}):
            known = self._cluster.topics.by_name.get(topic)
            readers = sorted(name for name, member in one.members.items() if topic in member.wanted.topics)
            count = len(known.partitions) if known is not None else 0
            each, more = divmod(count, len(readers))
            first = 0
            for turn, name in enumerate(readers):
                size = each + (turn < more)
                places[name] += [(topic, number) for number in range(first, first + size)]
                first += size
        for name, member in one.members.items():
            member.assigned = tuple(places[name])

    def heartbeat(self, broker: int, group: str, member: str, generation: int) -> int:
        """Return an error; REBALANCE_IN_PROGRESS: the member is to join again."""
        one = self._group(broker, group)
        if one is None:
            return _NOT_COORDINATOR
        error = self._check(one, member, generation)
        if not error:
            one.members[member].seen_at = self._cluster.schedule.now
            if one.joining:
                return _REBALANCING
        return error

    def _check(self, one: _Group, member: str, generation: int) -> int:
        if member not in one.members:
            return _UNKNOWN_MEMBER
        return _OLD_GENERATION if generation != one.generation else 0

    def leave(self, broker: int, group: str, member: str) -> None:
        """Let a member go; the others join again."""
        one = self._group(broker, group)
        if one is not None and one.members.pop(member, None) is not None:
            self._rebalance(one)

    def _rebalance(self, one: _Group) -> None:
        if one.members and not one.joining:
            one.joining = True
            longest = max(member.wanted.rebalance_s for member in one.members.values())
            one.complete_by = self._cluster.schedule.now + longest
        self._complete(one)

    def _look_later(self, broker: int, group: str, one: _Group) -> None:
        if not one.looking:
            one.looking = True
            self._cluster.schedule.after(_LOOK_S, partial(self._look, broker, group, one))

    def _look(self, broker: int, group: str, one: _Group) -> None:
        """Drop members that are silent for too long, or do not join again in time."""
        one.looking = False
        if self._groups.get((broker, group)) is not one or self._group(broker, group) is not one:
            return
        now = self._cluster.schedule.now
        if self._cluster.nodes[broker].serving:
            gone = [
                name
                for name, member in one.members.items()
                if (member.joined is None and now - member.seen_at > member.wanted.session_s)
                or (one.joining and member.joined is None and now > one.complete_by)
            ]
            for name in gone:
                del one.members[name]
            if gone:
                self._rebalance(one)
        if one.members:
            self._look_later(broker, group, one)

    # ---- offsets

    def commit(
        self, broker: int, group: str, who: tuple[str, int], offsets: Mapping[Place, int], reply: Reply,
        transaction: tuple[str, int, int] | None = None,
    ) -> None:  # fmt: skip
        """Commit offsets of a group as the member and generation ``who``; ("", -1) is for readers without a group.

        With a transaction (its id, producer id and epoch), they count once that is committed.
        """
        node = self._cluster.nodes[broker]
        if node.frozen and node.up:
            node.queue.append(partial(self.commit, broker, group, who, offsets, reply, transaction))
            return
        one = self._group(broker, group)
        if one is None:
            reply(_NOT_COORDINATOR)
            return
        error = self._check(one, *who) if who != ("", -1) else 0
        if who == ("", -1) and one.members and transaction is None:
            error = _UNKNOWN_MEMBER
        if error:
            reply(error)
            return
        number = self.partition(group)
        stamp = self._cluster.wall_ms()
        records = [
            (f"{group}\0{topic}\0{at}".encode(), b"%d" % offset, stamp) for (topic, at), offset in offsets.items()
        ]
        batch = Batch(records)
        if transaction is not None:
            tid, pid, epoch = transaction
            batch = Batch(records, pid, epoch, transactional_id=tid)

        def written(produced: Produced) -> None:
            reply(_WRITE_ERRORS.get(produced.error, produced.error))

        self._cluster.produce(broker, broker, OFFSETS_TOPIC, number, batch, -1, _WRITE_S, written)

    def committed(self, broker: int, group: str, places: Sequence[Place]) -> tuple[int, dict[Place, int]]:
        """Return (error, offsets); -1001 where there is none. UNSTABLE_OFFSET_COMMIT while a transaction is open."""
        copy = self._replica(broker, group)
        if copy is None:
            return _NOT_COORDINATOR, {}
        number = self.partition(group)
        known = self._offsets.get((broker, number))
        if known is None or known.lead is not copy.lead:
            known = self._offsets[broker, number] = _Offsets(copy.lead)
        known.fold(copy.log.slice(max(known.position, copy.log.start), copy.hw))
        keys = {place: (group, *place) for place in places}
        if any(key in pending for pending in known.pending.values() for key in keys.values()):
            return KafkaError.UNSTABLE_OFFSET_COMMIT, {}
        return 0, {place: known.committed.get(key, -1001) for place, key in keys.items()}
