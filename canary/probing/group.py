"""A consumer group on the main topic: members join and leave on purpose, read, and commit what they have read.

What is watched is the group's memory: once a commit of offset 545 is acknowledged, neither the member that takes the
partition over nor the one that has it must be answered 526 (jepsen-redpanda 1.2). Whether members are given every
record is not looked at here: tail consumers read the same records.

All members live in one thread, so that a commit and the fetch that follows it have one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.facts import Fact, GroupOffset
from canary.kafka import opening
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.leaving import leave
from canary.kafka.quiet import ErrorReporter, calm, quiet_logger
from canary.probing.base import Renewal, Wiring, Writer
from canary.probing.commits import Commits
from canary.probing.coordinators import OFFSETS_TOPIC, Coordinators
from canary.settings import consumer_config
from canary.threads import system
from canary.workloads.group import GroupSettings

log = structlog.get_logger(__name__)

_PACE_S = 0.05
_ASK_S = 2.0
AGAIN_S = 1.0
"""How long it is waited before a doubtful answer is asked for again."""
_AGAIN = 3
"""How often a doubtful answer is asked for again."""
_READ_BACK_S = 5.0
"""How often members ask for what they have committed; not more often than they commit."""
_GONE = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS})
"""Errors of a commit that a rebalance makes."""


class _Member:
    """One consumer of the group."""

    def __init__(self, number: int, probe: GroupProbe) -> None:
        self.name = f"group-{number}"
        self._probe = probe
        self._positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._inbox = ClientInbox(probe.inbox, probe.clock, self.name, lambda: cluster_of(self.client))
        self._told: list[Fact] = []
        """What callbacks have to say, until the call of the client that they belong to is over."""
        self._report = ErrorReporter(self.name, probe.inbox, probe.clock)
        config = calm({**probe.config, "on_commit": self._on_commit, "error_cb": self._report}, self.name)
        self.client: Any = opening.consumer(config, quiet_logger(self.name))
        self.client.subscribe(
            [probe.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, timeout_s: float) -> int:
        """Take what there is; returns how many records."""
        try:
            first = self.client.poll(timeout_s)
            messages = [first, *self.client.consume(1000, 0)] if first is not None else []
        except KafkaException as raised:
            self._report(raised.args[0])
            messages = []
        self._tell()
        count = 0
        for message in messages:
            error = message.error()
            if error is None:
                self._positions[message.partition()] = message.offset() + 1
                count += 1
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
                self._report(error)
        return count

    def commit(self, *, wait: bool = False) -> None:
        """Commit what was read since the last commit; its outcome comes by ``on_commit``.

        One commit is in flight at a time, beside the one that is waited for when partitions are taken away.
        """
        if not wait and self._probe.commits.waits(self.name):
            return
        due = {p: offset for p, offset in self._positions.items() if self._committed.get(p) != offset}
        if not due:
            return
        places = [TopicPartition(self._probe.topic, p, offset) for p, offset in due.items()]
        self._probe.commits.issue(self.name, due)
        try:
            if wait:
                self._on_commit(None, self.client.commit(offsets=places, asynchronous=False))
            else:
                self.client.commit(offsets=places, asynchronous=True)
        except KafkaException as raised:  # nothing was promised
            self._probe.commits.resolve(self.name, due)
            self._probe.measure(raised.args[0], None)
            log.debug("group_commit_failed", member=self.name, error=str(raised.args[0]))

    def _on_commit(self, error: KafkaError | None, places: Sequence[Any]) -> None:
        asked = {place.partition: place.offset for place in places}
        lowest, took_s = self._probe.commits.resolve(self.name, asked)
        self._probe.measure(error or next((one.error for one in places if one.error is not None), None), took_s)
        if error is not None:
            if error.code() not in _GONE:
                self._report(error)
            return
        done = [place for place in places if place.error is None]
        self._committed |= {place.partition: place.offset for place in done}
        promised = {place.partition: lowest[place.partition] for place in done}
        self._probe.committed |= promised
        self._report_offsets("committed", promised)

    def _on_assign(self, client: Any, places: Sequence[Any]) -> None:
        """Ask for the committed offsets, where the client begins."""
        self._ask(client, places)

    def read_back(self) -> bool:
        """Ask for what was committed; returns False where nothing is."""
        places = [TopicPartition(self._probe.topic, partition) for partition in self._committed]
        if places:
            self._ask(self.client, places)
            self._tell()
        return bool(places)

    def _ask(self, client: Any, places: Sequence[Any]) -> None:
        """Ask for committed offsets, and again when one is below an acknowledged commit.

        A coordinator that was frozen and replaced meanwhile answers with its old offsets until it learns of that: for
        some tenths of a second, longer on a busy machine.
        """
        try:
            found = client.committed(list(places), timeout=_ASK_S)
            for _ in range(_AGAIN):
                if all(place.offset >= self._probe.committed.get(place.partition, 0) for place in found):
                    break
                log.info("group_offset_asked_again", member=self.name)
                self._probe.stopping.wait(AGAIN_S)
                found = client.committed(list(places), timeout=_ASK_S)
        except KafkaException as raised:
            self._report(raised.args[0])
            return  # it is asked again: by the client that begins, or at the next turn
        offsets = {place.partition: place.offset for place in found if place.error is None}
        self._probe.committed |= {p: max(offset, 0) for p, offset in offsets.items()}
        self._report_offsets("fetched", offsets)

    def _on_revoke(self, _client: Any, places: Sequence[Any]) -> None:
        self.commit(wait=True)
        self._forget(places)

    def _on_lost(self, _client: Any, places: Sequence[Any]) -> None:
        log.info("group_partitions_lost", member=self.name, partitions=[place.partition for place in places])
        self._forget(places)

    def _forget(self, places: Sequence[Any]) -> None:
        for place in places:
            self._positions.pop(place.partition, None)
            self._committed.pop(place.partition, None)

    def _report_offsets(self, reason: str, offsets: Mapping[int, int]) -> None:
        at_ns, group = self._probe.clock.now_ns(), str(self._probe.config["group.id"])
        facts: list[Fact] = [
            GroupOffset(at_ns, group, self._probe.topic, p, None if offset < 0 else offset, reason)
            for p, offset in offsets.items()
        ]
        self._told += facts

    def _tell(self) -> None:
        """Put into the inbox what callbacks had to say, and where the client is: elsewhere it may find nothing."""
        told, self._told = self._told, []
        self._inbox.tell(told)

    def leave(self) -> None:
        """Commit, and leave the group."""
        try:
            leave(self.client)
        except (KafkaException, RuntimeError) as error:
            log.info("group_member_not_closed", member=self.name, error=str(error))
        self._tell()
        self._probe.commits.forget(self.name)


class GroupProbe(Writer):
    """The thread that all members live in; ``config`` has the ``group.id``, and the wiring's topic is read."""

    def __init__(self, config: Mapping[str, object], wiring: Wiring[GroupSettings]) -> None:
        super().__init__(wiring, "group")
        self.config = dict(config)
        self.topic = wiring.topic
        self.inbox = wiring.inbox
        self.clock = wiring.clock
        self.seen = 0
        """Records that members were given."""
        self.committed: dict[int, int] = {}
        """By partition: the offset that the group has at least, as members were answered. Used by this thread alone."""
        self.commits = Commits()
        self._settings = wiring.settings
        self._made = 0
        self._members: list[_Member] = []
        self._coordinators = Coordinators(OFFSETS_TOPIC)

    def run(self) -> None:
        """Read and commit until stopped."""
        commit_at = system.monotonic()
        rebalance_at, read_back_at = commit_at + self._settings.rebalance_every, commit_at
        while not self.stopping.is_set():
            self._obey()
            self._coordinators.look(self._members[0].client if self._members else None)
            if len(self._members) < self._settings.members:
                self._members.append(_Member(self._made, self))
                self._made += 1
            for member in self._members:
                self.seen += member.poll(_PACE_S)
            now = system.monotonic()
            if now >= commit_at:
                commit_at = now + self._settings.interval
                for member in self._members:
                    member.commit()
            if now >= read_back_at and self._read_back():
                read_back_at = system.monotonic() + max(self._settings.interval, _READ_BACK_S)
            if now >= rebalance_at:
                rebalance_at = now + self._settings.rebalance_every
                log.debug("group_member_leaves", worker=self.name, member=self._members[0].name)
                self._members.pop(0).leave()

    def _read_back(self) -> bool:
        """Let every member ask for what it has committed; returns False where none has anything."""
        asked = [member.read_back() for member in self._members]
        return any(asked)

    def measure(self, error: KafkaError | None, took_s: float | None) -> None:
        """Count a commit that has its outcome: how long (s) it took, or that it failed.

        That a rebalance came first, or that nothing was new, is not the coordinator's failure.
        """
        if (error is None and took_s is not None) or (error is not None and error.code() not in _GONE):
            coordinator = self._coordinators.of(str(self.config["group.id"]))
            self._wiring.meters.committed("group", coordinator, took_s if error is None else None)

    def _go_on_after(self, before: Renewal) -> None:  # noqa: ARG002  # every member joins anew
        self.end()
        self.committed.clear()

    def end(self) -> None:
        """Let every member leave the group."""
        while self._members:
            self._members.pop().leave()


def make(wiring: Wiring[GroupSettings]) -> GroupProbe:
    """Return the workload's thread."""
    session_ms = int(wiring.settings.session_timeout * 1000)
    return GroupProbe(
        consumer_config(wiring.cluster, "read_committed")
        | {
            "group.id": f"{wiring.cluster.identifier_prefix}-{wiring.own_name}",
            "auto.offset.reset": "latest",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(session_ms // 5, 200),
        },
        wiring,
    )
