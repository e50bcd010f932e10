"""The client's side of a consumer group: it joins, beats, gives partitions up and takes others, and commits.

As with librdkafka's eager protocol: when the group rebalances, a member gives up all it has, in its next poll, and then
joins again. A member that the group has dropped has lost its partitions (``on_lost``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from simulation.clients.link import ASK_AGAIN_S, Link
from simulation.clients.values import failure
from simulation.cluster.groups import Groups, Place, Wanted

_FIND_S = 0.5
_LOOK_S = 0.25
_TRIES = 3
_MOVED = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError._TRANSPORT})
_BUSY = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.REQUEST_TIMED_OUT})
_DROPPED = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION})

Callback = Callable[[Any, Sequence[TopicPartition]], object] | None


class GroupMetadata(NamedTuple):
    """Who commits: confluent-kafka hands out something like it, for send_offsets_to_transaction()."""

    group: str
    member: str
    generation: int


class Membership:
    """One consumer in its group. ``assign`` is the consumer's own, for what the group gives it."""

    def __init__(self, link: Link, assign: Callable[[list[TopicPartition]], None]) -> None:
        self.group = str(link.config["group.id"])
        self.member = ""
        self.generation = -1
        self.client: Any = None
        """What callbacks are given."""
        self.assigned_by_callback = False
        self.link = link
        self._assign = assign
        self._topics: tuple[str, ...] = ()
        self._callbacks: dict[str, Callback] = {}
        self._places: list[Place] = []
        self._joining = 0
        """Number of the JoinGroup that is under way: answers to others are out of date."""
        self._beating = False
        self._rebalancing = False
        """Whether the partitions are about to be given up, in the next poll."""
        self._heard_at = 0.0
        self._beat_s = link.seconds("heartbeat.interval.ms")
        self._wanted_s = (link.seconds("session.timeout.ms"), link.seconds("max.poll.interval.ms"))

    @property
    def groups(self) -> Groups:
        """The groups of the cluster that the client is in."""
        return Groups.of(self.link.cluster)

    # ---- joining

    def subscribe(self, topics: Iterable[str], **callbacks: Callback) -> None:
        """Join the group for these topics."""
        self._topics, self._callbacks = tuple(topics), callbacks
        self.link.after(0, self._join)

    def coordinator(self) -> int:
        """Return the coordinator if it answers, else -1."""
        if self.link.ask_any() is None:
            return -1
        found = self.groups.coordinator(self.group)
        return found if self.link.reaches(found) else -1

    def _join(self) -> None:
        self._joining += 1
        number, broker = self._joining, self.coordinator()
        if broker < 0:
            self.link.after(_FIND_S, lambda: self._join() if number == self._joining else None)
            return

        def joined(error: int, member: str, generation: int, places: Sequence[Place]) -> None:
            if number == self._joining and self.link.reaches(broker):
                self._joining += 1
                self._joined(error, member, generation, places)

        def look() -> None:
            if number == self._joining:
                if self.link.gone(broker) or self.groups.coordinator(self.group) != broker:
                    self._join()
                else:
                    self.link.after(_LOOK_S, look)

        wanted = Wanted(self._topics, *self._wanted_s)
        self.groups.join(broker, self.group, self.member, wanted, self.link.guarded(joined))
        if number == self._joining:
            self.link.after(_LOOK_S, look)

    def _joined(self, error: int, member: str, generation: int, places: Sequence[Place]) -> None:
        if error:
            self.member = "" if error == KafkaError.UNKNOWN_MEMBER_ID else self.member
            self.link.after(_FIND_S if error in _MOVED else 0, self._join)
            return
        self.member, self.generation = member, generation
        self._heard_at = self.link.schedule.now
        self.link.emit(self._take, generation, list(places))
        if not self._beating:
            self._beating = True
            self.link.after(self._beat_s, self._beat)

    def _beat(self) -> None:
        """Tell the coordinator that the member lives, and hear whether the group rebalances."""
        self._beating = False
        if self.generation < 0:
            return
        now, broker = self.link.schedule.now, self.coordinator()
        code = self.groups.heartbeat(broker, self.group, self.member, self.generation) if broker >= 0 else -1
        if code in {0, KafkaError.REBALANCE_IN_PROGRESS}:
            self._heard_at = now
        if code in _DROPPED or now - self._heard_at > self._wanted_s[0]:
            if code != KafkaError.ILLEGAL_GENERATION:
                self.member = ""
            self.generation = -1
            self.link.emit(self._give_up, "on_lost")
            return
        if code == KafkaError.REBALANCE_IN_PROGRESS and not self._rebalancing:
            self._rebalancing = True
            self.link.emit(self._give_up, "on_revoke")
        self._beating = True
        self.link.after(self._beat_s, self._beat)

    # ---- in the task that polls

    def _take(self, generation: int, places: list[Place]) -> None:
        if generation != self.generation:
            return
        self._places = places
        given = [TopicPartition(*place) for place in places]
        self._call("on_assign", given)

    def _give_up(self, how: str) -> None:
        """Give all partitions up, and join again."""
        if how == "on_revoke" and self.generation < 0:
            return  # they were lost meanwhile
        self._revoke(how)
        self.generation, self._rebalancing = -1, False
        if self._topics and not self.link.closed:
            self._join()

    def _revoke(self, how: str) -> None:
        """Tell the application, which may still commit what it has not lost."""
        places, self._places = self._places, []
        if places:
            known = self._callbacks.get(how) is not None
            self._call(how if known else "on_revoke", [TopicPartition(*place) for place in places])

    def _call(self, name: str, places: list[TopicPartition]) -> None:
        self.assigned_by_callback = False
        callback = self._callbacks.get(name)
        try:
            if callback is not None:
                callback(self.client, places)
        finally:
            if not self.assigned_by_callback and not self.link.closed:
                self._assign(places if name == "on_assign" else [])

    def unsubscribe(self) -> None:
        """Give the partitions up in the next poll, and leave the group."""
        self._joining += 1
        self.link.emit(self.close)

    def close(self) -> None:
        """Give the partitions up, and leave the group."""
        if not self._topics:
            return
        self._joining += 1
        self._revoke("on_revoke" if self.generation >= 0 else "on_lost")
        self.generation, self._topics = -1, ()
        broker = self.coordinator()
        if self.member and broker >= 0:
            self.groups.leave(broker, self.group, self.member)

    # ---- offsets

    def metadata(self) -> GroupMetadata:
        """Return the group, the member's id and its generation."""
        return GroupMetadata(self.group, self.member if self._topics else "", self.generation)

    def commit(self, offsets: Mapping[Place, int], done: Callable[[int], None]) -> None:
        """Commit as the member that this is; ``done`` is called with the error."""
        who = (self.member, self.generation) if self._topics else ("", -1)
        _Commit(self, offsets, who, done).send()

    def committed(self, places: Sequence[Place]) -> dict[Place, int] | None:
        """Return committed offsets, -1001 where there is none; None: no answer now."""
        broker = self.coordinator()
        if broker < 0:
            return None
        code, found = self.groups.committed(broker, self.group, places)
        return None if code else found

    def wait_committed(self, places: Sequence[Place], deadline: float | None) -> dict[Place, int]:
        """Return committed offsets.

        Raises:
            KafkaException: there is no answer in time.
        """
        schedule = self.link.schedule
        while (found := self.committed(places)) is None:
            again = schedule.now + ASK_AGAIN_S
            if deadline is not None and again > deadline:
                schedule.park(deadline)
                why = f"Failed to get committed offsets: {KafkaError(KafkaError._TIMED_OUT).str()}"
                raise KafkaException(failure(KafkaError._TIMED_OUT, why))
            schedule.park(again)
        return found


class _Commit:
    """One commit. What gets no answer is sent again, also after a newer commit (canary.probing.commits)."""

    def __init__(
        self, membership: Membership, offsets: Mapping[Place, int], who: tuple[str, int], done: Callable[[int], None]
    ) -> None:
        self._membership = membership
        self._offsets = offsets
        self._who = who
        self._done = done
        self._link = membership.link
        self._request_s = self._link.seconds("socket.timeout.ms")
        self._left = _TRIES
        self._until = self._link.schedule.now + self._request_s
        self._sent = 0
        """Number of the request that is under way: answers to others are out of date."""

    def send(self) -> None:
        self._sent += 1
        number, link, membership = self._sent, self._link, self._membership
        broker = membership.coordinator()
        if broker < 0:
            self._again(KafkaError._WAIT_COORD)
            return
        reply = link.guarded(partial(self._answered, number, broker))
        membership.groups.commit(broker, membership.group, self._who, self._offsets, reply)
        if number == self._sent:
            link.after(_LOOK_S, partial(self._look, number, broker, link.schedule.now + self._request_s))

    def _again(self, code: int) -> None:
        """Send it to the coordinator that there is soon; give up after some time."""
        if self._link.schedule.now < self._until:
            self._link.after(_FIND_S, self.send)
        else:
            self._done(code)

    def _answered(self, number: int, broker: int, code: int) -> None:
        if number != self._sent or not self._link.reaches(broker):
            return
        self._sent += 1
        if code in _MOVED:
            self._again(code)
        elif code in _BUSY and self._left:
            self._left -= 1
            self._link.after(self._link.seconds("retry.backoff.ms"), self.send)
        else:
            self._done(code)

    def _look(self, number: int, broker: int, silent_at: float) -> None:
        """See whether the connection broke, or the answer is late."""
        if number != self._sent:
            return
        if not self._link.gone(broker) and self._link.schedule.now < silent_at:
            self._link.after(_LOOK_S, partial(self._look, number, broker, silent_at))
        elif self._left:
            self._left -= 1
            self._until = self._link.schedule.now + self._request_s
            self.send()
        else:
            self._sent += 1
            self._done(KafkaError._TIMED_OUT)
