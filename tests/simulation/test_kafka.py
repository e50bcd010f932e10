"""The simulated cluster keeps what Kafka keeps, loses what Kafka loses, and shows each bug that is switched on."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from simulation.cluster.cluster import Cluster
from simulation.cluster.coordinators import Transaction, write_marker
from simulation.kafka import errors
from simulation.kafka.contract import Batch, Fetched, Isolation, Produced, Record
from simulation.kafka.log import Log, LogSettings
from simulation.machine.schedule import Schedule

pytestmark = pytest.mark.simulator

TOPIC = "probes"


@dataclass
class World:
    """A cluster with one topic of one partition on three brokers, and a client."""

    seed: int = 1
    config: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.time = Schedule()
        self.cluster = Cluster(self.time, random.Random(self.seed))
        self.lost: list[tuple[str, bytes]] = []
        self.appended: list[bytes] = []
        self.cluster.on_lost.append(self._lost)
        self.cluster.on_append.append(self._appended)
        self.cluster.on_return.append(self._returned)
        self.records: list[Record] = []
        self.there: dict[int, int] = {}
        config = {"min.insync.replicas": "2", **self.config}
        assert self.cluster.create_topic(1, TOPIC, [[1, 2, 3]], config) == 0
        self.names: Iterator[int] = count()

    def _appended(self, _topic: str, _id: str, _partition: int, record: Record) -> None:
        self.appended.append(record.value or b"")
        self.records.append(record)
        self.there[id(record)] = 1

    def _lost(self, _topic: str, _id: str, _partition: int, records: Any, how: str) -> None:
        self.lost += [(how, record.value) for record in records]
        for record in records:
            self.there[id(record)] = self.there.get(id(record), 0) - 1

    def _returned(self, _topic: str, _id: str, _partition: int, records: Any) -> None:
        for record in records:
            self.there[id(record)] += 1

    def wait(self, seconds: float) -> None:
        self.time.run(self.time.now + seconds)

    def send(self, batch: Batch, broker: int | None = None, acks: int = -1) -> list[Produced]:
        answers: list[Produced] = []
        to = self.cluster.partition(TOPIC, 0).leader if broker is None else broker
        self.cluster.produce("canary", to, TOPIC, 0, batch, acks, 30.0, answers.append)
        return answers

    def write(self, so_many: int = 1, broker: int | None = None, acks: int = -1) -> list[bytes]:
        """Write values one by one; return those that are acked at once."""
        values = [b"%d" % next(self.names) for _ in range(so_many)]
        return [
            value
            for value in values
            if [one.error for one in self.send(Batch([(None, value, 0)]), broker, acks)] == [0]
        ]

    def read(self, offset: int = 0, isolation: Isolation = "read_committed") -> list[bytes]:
        return [record.value or b"" for record in self.fetch(offset, isolation).records]

    def fetch(self, offset: int = 0, isolation: Isolation = "read_committed", **more: int) -> Fetched:
        leader = self.cluster.partition(TOPIC, 0).leader
        return self.cluster.fetch("canary", leader, TOPIC, 0, offset, isolation=isolation, **more)

    @property
    def state(self) -> dict[str, Any]:
        return self.cluster.state(TOPIC, 0)


def idempotent(sequence: int, *values: bytes, epoch: int = 0, tid: str | None = None, pid: int = 7) -> Batch:
    return Batch([(None, value, 0) for value in values], pid, epoch, sequence, tid)


def test_a_clean_failover_keeps_everything_and_raises_the_epoch() -> None:
    world = World()
    acked = world.write(10)
    world.cluster.kill(1)
    assert world.write(1) == []  # nobody knows yet that the leader is dead
    world.wait(10)
    assert (world.state["leader"], world.state["epoch"], world.state["isr"]) == (2, 1, (2, 3))
    acked += world.write(5)
    world.cluster.start(1)
    world.wait(1)
    assert sorted(world.state["isr"]) == [1, 2, 3]
    assert world.read() == acked == [b"%d" % number for number in (*range(10), *range(11, 16))]
    assert world.lost == []
    logs = [copy.log.records for copy in world.cluster.partition(TOPIC, 0).copies.values()]
    assert logs[0] == logs[1] == logs[2]


def test_a_write_waits_for_a_dead_follower_until_it_has_left_the_isr() -> None:
    world = World()
    world.cluster.kill(3)
    answers = world.send(Batch([(None, b"x", 0)]))
    assert answers == [], "the dead follower is in the ISR still"
    assert world.read() == []
    world.wait(10)
    assert [one.error for one in answers] == [0]
    assert world.read() == [b"x"]
    world.cluster.kill(2)
    late = world.send(Batch([(None, b"y", 0)]))
    world.wait(10)
    assert world.state["isr"] == (1,)
    assert late == [], "below min.insync.replicas the high watermark stands still"
    assert [one.error for one in world.send(Batch([(None, b"z", 0)]))] == [errors.NOT_ENOUGH_REPLICAS]
    world.wait(30)
    assert [one.error for one in late] == [errors.REQUEST_TIMED_OUT]
    world.cluster.start(2)
    world.wait(1)
    assert world.read() == [b"x", b"y"], "a write that timed out stays in the log"


def test_an_isr_of_one_that_loses_power_loses_acked_records() -> None:
    world = World(config={"min.insync.replicas": "1"})
    world.cluster.kill(2)
    world.cluster.kill(3)
    world.wait(10)
    acked = world.write(50)
    assert len(acked) == 50
    world.cluster.power_off(1)
    world.wait(10)
    assert world.state["leader"] == -1
    for broker in (1, 2, 3):
        world.cluster.start(broker)
    world.wait(1)
    kept = world.read()
    assert (world.state["leader"], kept) == (1, acked[: len(kept)])
    assert world.lost == [("power cut", value) for value in acked[len(kept) :]] != []


def test_eligible_leader_replicas_do_not_trust_who_lost_power() -> None:
    def lost(*, elr: bool) -> list[tuple[str, bytes]]:
        world = World()
        world.cluster.elr = elr
        world.cluster.kill(3)
        world.wait(10)
        world.write(10)
        world.cluster.freeze(2)
        world.wait(10)
        world.cluster.power_off(1)
        world.wait(10)
        world.cluster.start(1)
        world.wait(1)
        world.cluster.resume(2)
        world.wait(1)
        assert world.state["leader"] == (2 if elr else 1)
        return world.lost

    assert lost(elr=False) != []
    assert lost(elr=True) == []


def test_flushed_records_survive_a_power_cut() -> None:
    def left(config: dict[str, str], wait_s: float) -> int:
        world = World(config=config)
        assert len(world.write(50)) == 50
        world.wait(wait_s)
        world.cluster.power_off(1, 2, 3)
        world.wait(10)
        for broker in (1, 2, 3):
            world.cluster.start(broker)
        world.wait(10)
        return len(world.read())

    assert left({}, 0.0) < 50
    assert left({}, 31.0) == 50
    assert left({"flush.messages": "1"}, 0.0) == 50


def test_an_unclean_election_loses_what_the_new_leader_lacks() -> None:
    world = World(config={"min.insync.replicas": "1"})
    kept = world.write(3)
    world.cluster.kill(3)
    world.wait(10)
    acked = world.write(4)
    world.cluster.kill(1)
    world.cluster.kill(2)
    world.wait(10)
    world.cluster.start(3)
    world.wait(1)
    assert world.state["leader"] == -1, "it is not in the ISR"
    assert world.lost == []
    world.cluster.unclean(allowed=True, topic=TOPIC)
    world.wait(1)
    assert world.lost == [("unclean election", value) for value in acked]
    world.cluster.start(1)
    world.wait(1)
    assert world.read() == kept


def test_a_stale_leader_acks_what_it_truncates_later() -> None:
    world = World()
    acked = world.write(3)
    world.cluster.isolate(1)
    hanging = world.send(Batch([(None, b"hangs", 0)]), broker=1)
    world.wait(10)
    assert world.state["leader"] == 2
    assert world.state["believing"] == [1, 2]
    assert world.cluster.metadata(1).topics[TOPIC].partitions[0].leader == 1
    stale = world.write(2, broker=1, acks=1)
    assert len(stale) == 2
    acked += world.write(3, broker=2)
    world.cluster.heal()
    world.wait(1)
    assert [one.error for one in hanging] == [errors.NOT_LEADER_FOR_PARTITION]
    assert world.read() == acked
    assert world.lost == [("uncommitted", value) for value in (b"hangs", *stale)]
    assert world.fetch(5, last_epoch=0).diverging == (0, 3)
    assert world.fetch(3, current_epoch=0).error == errors.FENCED_LEADER_EPOCH


def test_a_frozen_leader_goes_on_with_what_it_believed() -> None:
    world = World()
    world.write(1)
    world.cluster.freeze(1)
    queued = world.send(Batch([(None, b"queued", 0)]), broker=1, acks=1)
    world.wait(10)
    assert world.state["leader"] == 2
    world.cluster.resume(1, late_s=0.1)
    assert [one.error for one in queued] == [0], "it does not know that it was deposed"
    world.wait(1)
    assert world.read() == [b"0"]
    assert world.lost == [("uncommitted", b"queued")]


def test_a_process_that_restarts_at_once_is_heard_when_its_former_session_has_ended() -> None:
    world = World()
    acked = world.write(2)
    world.cluster.kill(1)
    world.cluster.start(1)
    world.wait(5)
    assert (world.state["leader"], world.state["epoch"], world.cluster.reaches("canary", 1)) == (1, 0, False)
    world.wait(5)
    assert (world.state["leader"], world.state["epoch"], world.cluster.reaches("canary", 1)) == (2, 1, True)
    assert world.read() == acked


def test_a_follower_that_the_controller_does_not_hear_stays_out_of_the_isr() -> None:
    world = World()
    world.cluster.cut(3, "controller")
    world.wait(10)
    world.write(1)
    assert (world.state["isr"], world.state["ends"][3]) == ((1, 2), 1)
    world.cluster.elect(TOPIC, 0, 2)
    world.wait(30)
    assert world.state["isr"] == (1, 2)


def test_a_new_leader_lists_no_end_before_it_knows_what_is_committed() -> None:
    world = World()
    world.write(10)
    world.cluster.kill(1)
    world.wait(8.5)
    world.cluster.cut(2, 3)
    world.cluster.replicas[2][TOPIC, 0].hw = 7
    world.wait(1)
    assert world.state["leader"] == 2
    listing = world.cluster.list_offset("canary", 2, TOPIC, 0, "latest", "read_uncommitted")
    assert listing.error == errors.OFFSET_NOT_AVAILABLE
    assert world.fetch().end == 7
    world.cluster.heal()
    listing = world.cluster.list_offset("canary", 2, TOPIC, 0, "latest", "read_uncommitted")
    assert (listing.error, listing.offset, listing.epoch) == (0, 10, 1)


def test_a_producer_learns_of_a_loss_by_its_sequence_and_what_is_gone_is_no_copy() -> None:
    world = World()
    world.write(1)
    world.cluster.isolate(1)
    assert world.send(idempotent(0, b"gone"), broker=1, acks=1) == [Produced(0, 1, 0)]
    world.wait(10)
    world.write(3)
    world.cluster.heal()
    world.wait(1)
    assert world.send(idempotent(1, b"next"))[0].error == 0, "no producer state: any sequence will do"
    world.cluster.elect(TOPIC, 0, 1)
    assert world.send(idempotent(0, b"gone"))[0].error == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.send(idempotent(1, b"next")) == [Produced(0, 4, 0)]


def test_what_a_log_flushed_counts_again_after_truncation() -> None:
    log = Log(LogSettings(segment_records=10))

    def write(at: float, epoch: int) -> None:
        log.append([Record(log.end, epoch, None, b"", 0)], at)

    for _ in range(25):
        write(0.0, 0)
    assert (log.synced(0.0), log.segments) == (20, [0, 10, 20])
    log.truncate(5)
    for _ in range(5):
        write(1.0, 1)
    assert (log.synced(1.0), log.epochs) == (5, [(0, 0), (1, 5)])
    assert (log.synced(31.0), log.end_of_epoch(0)) == (10, (0, 5))


def test_an_idempotent_producer_is_written_once_and_in_order() -> None:
    world = World()
    assert world.send(idempotent(0, b"a", b"b")) == [Produced(0, 0, 0)]
    assert world.send(idempotent(2, b"c")) == [Produced(0, 2, 0)]
    assert world.send(idempotent(0, b"a", b"b")) == [Produced(0, 0, 0)], "the copy is known"
    assert world.send(idempotent(4, b"e"))[0].error == errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    world.cluster.kill(1)
    world.wait(10)
    assert world.send(idempotent(2, b"c")) == [Produced(0, 2, 0)], "the next leader knows it too"
    assert world.send(idempotent(0, b"f", epoch=1))[0].error == 0
    assert world.send(idempotent(3, b"d"))[0].error == errors.INVALID_PRODUCER_EPOCH
    assert world.read() == [b"a", b"b", b"c", b"f"]


def test_what_a_coordinator_writes_is_a_copy_of_nothing() -> None:
    world = harmed("mistaken-duplicate")
    assert world.send(idempotent(0, b"a"))[0].error == errors.DUPLICATE_SEQUENCE_NUMBER
    assert world.send(idempotent(-1, b"offsets", epoch=1)) == [Produced(0, 0, 0)]
    assert world.send(idempotent(-1, b"offsets", epoch=1)) == [Produced(0, 1, 0)]
    assert world.send(idempotent(-1, b"late"))[0].error == errors.INVALID_PRODUCER_EPOCH


def begin(world: World, tid: str = "t", timeout_s: float = 60.0) -> tuple[int, int, int]:
    """Return (coordinator, producer id, epoch), once what was open is ended."""
    for _ in range(20):
        broker = world.cluster.coordinator(tid)
        error, pid, epoch = world.cluster.init_producer_id(broker, tid, timeout_s)
        if error == 0:
            return broker, pid, epoch
        world.wait(1)
    raise AssertionError(error)


def end(world: World, who: tuple[int, int, int], *, commit: bool, tid: str = "t") -> int:
    answers: list[int] = []
    world.cluster.end_transaction(who[0], tid, who[1], who[2], commit=commit, reply=answers.append)
    return answers[0]


def transact(world: World, who: tuple[int, int, int], sequence: int, value: bytes, tid: str = "t") -> int:
    broker, pid, epoch = who
    error = world.cluster.add_partitions(broker, tid, pid, epoch, [(TOPIC, 0)])
    return error or world.send(idempotent(sequence, value, epoch=epoch, tid=tid, pid=pid))[0].error


def test_an_aborted_transaction_is_hidden_and_an_open_one_holds_readers() -> None:
    world = World()
    who = begin(world)
    assert transact(world, who, 0, b"aborted") == 0
    world.write(1)
    fetched = world.fetch()
    assert (list(fetched.records), fetched.end) == ([], 0)
    assert world.read(isolation="read_uncommitted") == [b"aborted", b"0"]
    assert world.cluster.list_offset("canary", 1, TOPIC, 0, "latest", "read_committed").offset == 0
    assert end(world, who, commit=False) == 0
    assert world.read() == [b"0"]
    assert transact(world, who, 1, b"committed") == 0
    assert end(world, who, commit=True) == 0
    assert end(world, who, commit=True) == 0, "asked again, it answers the same"
    assert end(world, who, commit=False) == errors.INVALID_TXN_STATE
    assert world.read() == [b"0", b"committed"]
    assert world.fetch(4).next_offset == 5, "a marker is passed"
    world.cluster.kill(1)
    world.wait(12)
    assert world.read() == [b"0", b"committed"]


def test_a_new_client_of_a_transactional_id_fences_the_former_one() -> None:
    world = World()
    old = begin(world)
    assert transact(world, old, 0, b"open") == 0
    new = begin(world)
    assert (new[1], new[2]) == (old[1], old[2] + 2)
    assert end(world, old, commit=True) == errors.PRODUCER_FENCED
    assert world.send(idempotent(1, b"zombie", epoch=old[2], tid="t", pid=old[1]))[0].error == 47
    assert transact(world, new, 0, b"new") == 0
    assert end(world, new, commit=True) == 0
    assert world.read() == [b"new"]


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    world = World()
    who = begin(world, timeout_s=15.0)
    assert transact(world, who, 0, b"slow") == 0
    world.wait(30)
    assert world.fetch().end == 2
    assert world.read() == []
    assert end(world, who, commit=True) == errors.PRODUCER_FENCED
    world.cluster.verify_transactions = False
    world.send(idempotent(0, b"hangs", epoch=who[2] + 1, tid="t", pid=who[1]))
    world.wait(600)
    assert world.fetch(2).end == 2, "without verification a transaction hangs"


@pytest.mark.parametrize("coordinator_dies", [False, True])
def test_a_decision_outlives_the_coordinator_and_an_absent_leader(*, coordinator_dies: bool) -> None:
    world = World()
    tid = next(f"id-{number}" for number in range(50) if world.cluster.coordinator(f"id-{number}") == 2)
    who = begin(world, tid)
    assert transact(world, who, 0, b"kept", tid) == 0
    world.cluster.cut(1, 2)  # the coordinator does not reach the leader of the partition
    answers: list[int] = []
    world.cluster.end_transaction(*who[:1], tid, *who[1:], commit=True, reply=answers.append)
    world.wait(1)
    assert world.read() == []
    if coordinator_dies:
        world.cluster.kill(2)
        world.wait(15)
        assert world.cluster.coordinator(tid) != 2
    world.cluster.heal()
    world.wait(1)
    assert world.read() == [b"kept"]


def test_a_marker_that_went_with_its_leader_is_written_again() -> None:
    world = World()
    tid = next(f"id-{number}" for number in range(50) if world.cluster.coordinator(f"id-{number}") == 2)
    who = begin(world, tid)
    assert transact(world, who, 0, b"kept", tid) == 0
    world.cluster.cut(1, 3)
    world.cluster.lag(2, 5.0)  # so that only broker 1 has the marker
    assert end(world, who, commit=True, tid=tid) == 0
    world.cluster.kill(1)
    world.wait(1)
    assert world.cluster.init_producer_id(2, tid, 60.0)[0] == errors.CONCURRENT_TRANSACTIONS
    world.cluster.lag(2, 0.0)
    world.wait(15)
    assert world.read() == [b"kept"]


def test_a_commit_is_undone_where_its_marker_is_lost() -> None:
    world = World(config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    tid = next(f"id-{number}" for number in range(50) if world.cluster.coordinator(f"id-{number}") == 2)
    who = begin(world, tid)
    assert transact(world, who, 0, b"kept", tid) == 0
    world.cluster.kill(2)
    world.cluster.kill(3)
    world.wait(10)
    leader = world.cluster.partition(TOPIC, 0).leading()
    assert leader is not None
    write_marker(leader, Transaction(who[1], who[2], 60.0), "commit", lambda _: None)
    assert world.read() == [b"kept"]
    world.cluster.kill(1)
    world.wait(10)
    world.cluster.start(2)
    world.cluster.start(3)
    world.cluster.unclean(allowed=True, topic="__transaction_state")
    world.wait(90)  # no coordinator decided a commit: it aborts what is open for too long
    assert world.read() == []
    assert world.lost == [("commit undone", b"kept")]
    world.cluster.delete_topic(2, TOPIC)
    assert world.lost == [("commit undone", b"kept")], "a record is lost once"


def test_a_commit_is_undone_where_the_decision_is_lost() -> None:
    world = World()
    tid = next(f"id-{number}" for number in range(50) if world.cluster.coordinator(f"id-{number}") == 2)
    world.cluster.create_topic(1, "other", [[1]], {})
    who = begin(world, tid, timeout_s=30.0)
    world.cluster.add_partitions(who[0], tid, *who[1:], [("other", 0)])
    batch = idempotent(0, b"kept", epoch=who[2], tid=tid, pid=who[1])
    world.cluster.produce("canary", 1, "other", 0, batch, -1, 30.0, lambda _: None)
    world.cluster.kill(1)
    world.wait(10)
    assert end(world, who, commit=True, tid=tid) == 0
    state = world.cluster.partition("__transaction_state", world.cluster.transactions.place(tid))
    world.cluster.kill(2)
    for copy in state.copies.values():
        copy.log.truncate(copy.log.end - 1)
    world.wait(60)
    world.cluster.start(1)
    world.wait(10)
    assert world.cluster.log("other", 0)[-1].control == "abort"
    assert world.lost == [("commit undone", b"kept")]


def test_a_marker_counts_when_it_is_committed() -> None:
    world = World()
    tid = next(f"id-{number}" for number in range(50) if world.cluster.coordinator(f"id-{number}") == 2)
    who = begin(world, tid)
    assert transact(world, who, 0, b"a", tid) == 0
    world.cluster.cut(1, 3)
    assert end(world, who, commit=False, tid=tid) == 0
    assert (world.fetch().end, world.read(isolation="read_uncommitted")) == (0, [b"a"])
    world.cluster.heal()
    world.wait(1)
    assert (world.fetch().end, world.read()) == (2, [])


def test_a_leader_verifies_that_a_transaction_has_its_partition() -> None:
    world = World()
    _, pid, epoch = begin(world)
    answers = world.send(idempotent(0, b"x", epoch=epoch, tid="t", pid=pid))
    assert [one.error for one in answers] == [errors.INVALID_TXN_STATE]


def test_retention_removes_whole_old_segments() -> None:
    world = World(config={"retention.ms": "600000", "segment.ms": "100000"})
    for _ in range(10):
        world.write(3)
        world.wait(100)
    start = world.state["start"]
    assert 0 < start <= 12
    assert start % 3 == 0
    assert [how for how, _ in world.lost] == ["expired"] * start
    assert world.fetch(0).error == errors.OFFSET_OUT_OF_RANGE
    assert world.cluster.delete_records(TOPIC, 0, 31) == errors.OFFSET_OUT_OF_RANGE
    assert world.cluster.delete_records(TOPIC, 0, 20) == 0
    assert (world.fetch(20).start, world.read(20)) == (20, [b"%d" % one for one in range(20, 30)])
    world.cluster.kill(1)
    world.wait(10)
    assert world.state["start"] == 20


def test_a_follower_that_missed_what_expired_begins_where_the_leader_begins() -> None:
    world = World(config={"retention.ms": "60000", "segment.ms": "10000"})
    world.write(3)
    world.cluster.kill(3)
    for _ in range(20):
        world.write(1)
        world.wait(20)
    world.cluster.start(3)
    world.wait(1)
    logs = [copy.log for copy in world.cluster.partition(TOPIC, 0).copies.values()]
    assert logs[2].records[0] in logs[0].records
    assert (logs[2].start, logs[2].end, logs[2].epochs) == (logs[0].start, logs[0].end, [(0, logs[0].start)])


def test_a_topic_that_is_created_again_is_another_one() -> None:
    world = World()
    world.write(5)
    before = world.cluster.metadata(1).topics[TOPIC]
    world.cluster.isolate(1)
    world.cluster.recreate_topic(TOPIC)
    assert [how for how, _ in world.lost] == ["topic deleted"] * 5
    world.wait(10)
    after = world.cluster.metadata(2).topics[TOPIC]
    assert (before.topic_id != after.topic_id, after.partitions[0].leader) == (True, 2)
    assert len(world.cluster.fetch("canary", 1, TOPIC, 0, 0, isolation="read_committed").records) == 5
    world.write(2, broker=1, acks=1)  # nobody has deleted them
    world.cluster.heal()
    world.wait(1)
    assert [how for how, _ in world.lost] == ["topic deleted"] * 5 + ["uncommitted"] * 2
    assert world.read() == []


def test_a_late_follower_leaves_the_isr_and_comes_back() -> None:
    world = World()
    world.cluster.lag(3, 2.0)
    answers = world.send(Batch([(None, b"x", 0)]))
    assert answers == []
    world.wait(3)
    assert [one.error for one in answers] == [0]
    assert len(world.state["isr"]) == 3
    world.cluster.lag(3, 60.0)
    world.write(1)
    world.wait(20)
    assert sorted(world.state["isr"]) == [1, 2]
    world.cluster.lag(3, 0.0)
    world.wait(1)
    assert sorted(world.state["isr"]) == [1, 2, 3]


def test_a_broker_that_hears_no_controller_cannot_shrink_its_isr() -> None:
    world = World()
    world.cluster.stop_controller()
    world.cluster.kill(3)
    answers = world.send(Batch([(None, b"x", 0)]))
    world.wait(18)
    assert answers == []
    assert world.cluster.create_topic(1, "other", [[1]], {}) == errors.REQUEST_TIMED_OUT
    world.cluster.start_controller()
    world.wait(10)
    assert [one.error for one in answers] == [0]


def harmed(bug: str, *, seed: int = 1) -> World:
    world = World(seed)
    world.cluster.bugs.add(bug)
    world.cluster.chance[bug] = 1.0
    return world


def test_each_bug_of_a_write_shows() -> None:
    world = harmed("duplicated")
    world.send(idempotent(0, b"a", b"b"))
    assert world.read() == [b"a", b"b", b"a", b"b"]
    world = harmed("ack-before-write")
    assert world.send(idempotent(0, b"a")) == [Produced(0, 0, 0)]
    world.cluster.bugs.clear()
    assert world.send(idempotent(1, b"b")) == [Produced(0, 0, 0)]
    assert (world.read(), world.lost) == ([b"b"], [("never written", b"a")])
    world = harmed("corrupt")
    world.send(idempotent(0, b"value"))
    assert (len(world.read()[0]), world.appended) == (5, [b"value"])
    assert world.read() != [b"value"]
    world = harmed("hidden-record")
    world.send(idempotent(0, b"a"))
    assert (world.read(), world.fetch().next_offset) == ([], 1)
    world = harmed("reordered")
    first = world.send(idempotent(0, b"a"))
    assert first == []
    assert world.send(idempotent(1, b"b")) == [Produced(0, 0, 0)]
    assert first == [Produced(0, 1, 0)]
    world.cluster.bugs.clear()
    assert world.send(idempotent(2, b"c"))[0].error == 0
    assert world.read() == [b"b", b"a", b"c"]


def test_what_was_deleted_may_be_appended_again() -> None:
    world = harmed("copied-late")
    world.send(idempotent(0, b"a", b"b"))
    world.cluster.delete_records(TOPIC, 0, -1)
    assert world.send(idempotent(2, b"c")) == [Produced(0, 2, 0)]
    assert world.read(2) == [b"c", b"a", b"b"]
    assert world.send(idempotent(3, b"d")) == [Produced(0, 5, 0)]


def test_an_election_may_reuse_offsets() -> None:
    world = harmed("offsets-reused")
    acked = world.write(20)
    world.cluster.kill(1)
    world.wait(10)
    kept = world.read()
    assert 15 <= len(kept) < 20
    assert world.lost == [("offsets reused", value) for value in acked[len(kept) :]]
    world.write(1)
    assert world.read()[len(kept)] == b"20"


def test_each_bug_of_transactions_shows() -> None:
    world = harmed("aborted-read")
    who = begin(world)
    assert transact(world, who, 0, b"aborted") == 0
    assert end(world, who, commit=False) == 0
    assert world.read() == [b"aborted"]
    world = harmed("retried-commit-is-abort")
    who = begin(world)
    assert transact(world, who, 0, b"x") == 0
    assert end(world, who, commit=True) == 0
    assert end(world, who, commit=True) == errors.INVALID_TXN_STATE
    world = harmed("zombie-let-in")
    old = begin(world)
    new = begin(world)
    assert old != new
    assert transact(world, old, 0, b"zombie") == 0
    assert end(world, old, commit=True) == 0
    assert world.read() == [b"zombie"]


@pytest.mark.parametrize(("bugs", "epoch"), [((), 2), (("epoch-kept",), 0)])
def test_a_leader_that_restarts_has_a_new_epoch(bugs: tuple[str, ...], epoch: int) -> None:
    world = World()
    world.cluster.bugs.update(bugs)
    world.cluster.kill(2)
    world.cluster.kill(3)
    world.wait(10)
    world.cluster.kill(1)
    world.wait(10)
    world.cluster.start(1)
    world.wait(1)
    assert (world.state["leader"], world.state["epoch"]) == (1, epoch)


def test_lost_records_that_come_back_are_told() -> None:
    world = World(config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    world.cluster.kill(3)
    world.wait(10)
    acked = world.write(4)
    back: list[bytes] = []
    world.cluster.on_return.append(lambda *place: back.extend(record.value or b"" for record in place[-1]))
    world.cluster.kill(1)
    world.cluster.kill(2)
    world.wait(10)
    world.cluster.start(3)
    world.wait(1)
    assert [value for _, value in world.lost] == acked
    world.cluster.kill(3)
    world.wait(10)
    world.cluster.start(2)
    world.cluster.unclean(allowed=True, topic=TOPIC)
    world.wait(1)
    assert (back, world.read()) == (acked, acked)


def test_what_a_deposed_leader_took_is_lost_at_once_and_back_when_it_is_elected_again() -> None:
    world = World(config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    world.cluster.isolate(1)
    world.wait(10)
    stale = world.write(2, broker=1, acks=1)
    assert world.lost == [("uncommitted", value) for value in stale]
    world.cluster.power_off(2, 3)
    world.cluster.heal()
    world.wait(10)
    assert world.state["leader"] == 1
    assert world.read() == stale
    assert all(world.there[id(record)] == 1 for record in world.records)


def storm(seed: int, *, gentle: bool = False) -> tuple[World, set[bytes]]:
    """Let everything happen that may (``gentle``: nothing that loses data); return what is left and what was acked."""
    config = {"min.insync.replicas": "2" if gentle else "1"}
    world = World(seed, config | {"unclean.leader.election.enable": str(not gentle and seed % 2 == 0).lower()})
    dice = random.Random(seed)
    cluster = world.cluster
    acked: set[bytes] = set()
    faults: list[Callable[[int], object]] = [
        cluster.kill,
        cluster.start,
        cluster.start,
        cluster.freeze,
        cluster.resume,
        cluster.isolate,
        *[lambda _: cluster.heal()] * 3,
        lambda broker: cluster.cut(broker, "controller"),
        lambda broker: cluster.cut(broker, broker % 3 + 1),
        lambda broker: cluster.lag(broker, dice.choice([0.0, 3.0, 30.0])),
        lambda broker: cluster.elect(TOPIC, 0, broker),
        cluster.stop,
    ]
    if not gentle:
        faults += [
            cluster.power_off,
            cluster.wipe,
            lambda _: cluster.power_off(1, 2, 3),
            lambda broker: cluster.elect(TOPIC, 0, broker, unclean=True),
            lambda _: cluster.delete_records(TOPIC, 0, -1),
            lambda _: cluster.recreate_topic(TOPIC),
        ]

    def send(value: bytes, broker: int, acks: int) -> None:
        def reply(answer: Produced) -> None:
            if answer.error == 0 and acks == -1:
                acked.add(value)

        cluster.produce("canary", broker, TOPIC, 0, Batch([(None, value, 0)]), acks, 30.0, reply)

    for turn in range(300):
        dice.choice(faults)(dice.randint(1, 3))
        for broker in cluster.state(TOPIC, 0)["believing"]:
            send(b"one %d %d" % (turn, broker), broker, 1)
            send(b"all %d %d" % (turn, broker), broker, -1)
        world.wait(dice.choice([0.0, 0.3, 4.0, 15.0]))
    cluster.heal()
    for broker in (1, 2, 3):
        cluster.resume(broker)
        cluster.start(broker)
        cluster.lag(broker, 0.0)
    world.wait(60)
    return world, acked


@pytest.mark.parametrize("gentle", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_after_a_storm_all_copies_agree_and_each_record_is_there_or_told_lost(seed: int, *, gentle: bool) -> None:
    world, acked = storm(seed, gentle=gentle)
    log, partition = world.cluster.log(TOPIC, 0), world.cluster.partition(TOPIC, 0)
    start, end = world.state["start"], world.state["high_watermark"]
    assert sorted(partition.isr) == [1, 2, 3]
    assert all(copy.log.slice(start, end + 1) == log for copy in partition.copies.values())
    assert [record.offset for record in log] == list(range(start, end))
    assert partition.truth == log
    assert partition.committed == end
    held = {id(record) for record in log}
    assert all(world.there[id(record)] == (id(record) in held) for record in world.records)
    assert len(world.records) > 100
    there = {record.value for record in log}
    if gentle:
        assert {how for how, _ in world.lost} <= {"uncommitted"}
        assert acked <= there
    again, _ = storm(seed, gentle=gentle)
    assert [(r.epoch, r.value, r.at) for r in again.cluster.log(TOPIC, 0)] == [(r.epoch, r.value, r.at) for r in log]


class Client:
    """A producer that asks again until it knows: in the topic's partition, one batch or transaction after another."""

    def __init__(self, world: World, dice: random.Random, tid: str | None) -> None:
        self.world, self.dice, self.tid = world, dice, tid
        self.who: tuple[int, int] | None = None
        self.sequence = self.number = 0
        self.acked: list[bytes] = []
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.errors: set[int] = set()
        self.stage = "begin"
        self.answer: int | None = None

    def step(self) -> None:
        """Do what is next, or again what was not answered; several brokers may have to do with it."""
        cluster = self.world.cluster
        to = cluster.coordinator(self.tid) if self.tid is not None else 1
        if self.who is None:
            if to < 0 or not cluster.reaches("canary", to):
                return
            error, *who = cluster.init_producer_id(to, self.tid, 20.0)
            self.who, self.sequence, self.stage = ((who[0], who[1]) if error == 0 else None), 0, "begin"
        elif self.tid is None or self.stage == "write":
            self._write()
        elif to >= 0 and cluster.reaches("canary", to):
            self._decide(to)

    @property
    def value(self) -> bytes:
        return f"{self.tid} {self.number}".encode()

    def _write(self) -> None:
        assert self.who is not None
        cluster = self.world.cluster
        values = (self.value, self.value + b"+")
        batch = idempotent(self.sequence, *values, epoch=self.who[1], tid=self.tid, pid=self.who[0])
        number = self.number

        def reply(answer: Produced) -> None:
            if number != self.number or self.stage == "end":
                return
            self.errors.add(answer.error)
            if answer.error == 0:
                self.acked += values
                self.sequence += 2
                self.stage, self.answer = "end", None
                if self.tid is None:
                    self.number, self.stage = self.number + 1, "begin"
            elif answer.error in {errors.INVALID_PRODUCER_EPOCH, errors.INVALID_TXN_STATE}:
                self.who, self.number = None, self.number + 1

        for broker in cluster.state(TOPIC, 0)["believing"]:
            if cluster.reaches("canary", broker) and self.who is not None:
                cluster.produce("canary", broker, TOPIC, 0, batch, -1, 5.0, reply)
                return

    def _decide(self, to: int) -> None:
        assert self.who is not None
        assert self.tid is not None
        cluster = self.world.cluster
        if self.stage == "begin":
            error = cluster.add_partitions(to, self.tid, *self.who, [(TOPIC, 0)])
            self.errors.add(error)
            if error == 0:
                self.stage, self.commits = "write", self.dice.random() < 0.6
            elif error == errors.PRODUCER_FENCED:
                self.who = None
            return
        number = self.number

        def reply(error: int) -> None:
            if number != self.number:
                return
            self.errors.add(error)
            if error == 0:
                (self.committed if self.commits else self.aborted).update({self.value, self.value + b"+"})
                self.number, self.stage = self.number + 1, "begin"
            elif error in {errors.PRODUCER_FENCED, errors.INVALID_TXN_STATE}:
                self.who, self.number = None, self.number + 1

        cluster.end_transaction(to, self.tid, *self.who, commit=self.commits, reply=reply)


@pytest.mark.parametrize("seed", range(12))
def test_in_a_storm_producers_write_once_and_transactions_keep_their_word(seed: int) -> None:
    world = World(seed)
    dice = random.Random(seed)
    cluster = world.cluster
    clients = [Client(world, dice, None), Client(world, dice, "a"), Client(world, dice, "b")]
    faults: list[Callable[[int], object]] = [
        cluster.kill,
        cluster.start,
        cluster.freeze,
        cluster.resume,
        cluster.isolate,
        *[lambda _: cluster.heal()] * 2,
        lambda broker: cluster.elect(TOPIC, 0, broker),
        lambda broker: cluster.cut(broker, "canary"),
    ]
    for _ in range(150):
        dice.choice(faults)(dice.randint(1, 3))
        for _ in range(dice.randint(1, 12)):
            for client in clients:
                client.step()
            world.wait(dice.choice([0.0, 0.3, 2.0]))
        world.wait(dice.choice([0.0, 10.0]))
    cluster.heal()
    for broker in (1, 2, 3):
        cluster.resume(broker)
        cluster.start(broker)
    world.wait(120)
    fetched = world.fetch(most=100_000)
    assert fetched.end == world.state["high_watermark"]
    seen = [record.value for record in fetched.records]
    assert len(seen) == len(set(seen)) > 50
    plain = [value for value in seen if value is not None and value.startswith(b"None")]
    assert set(clients[0].acked) <= set(plain)
    assert plain == sorted(plain, key=lambda value: (int(value.split()[1].rstrip(b"+")), value))
    for client in clients[1:]:
        assert len(client.committed) > 10
        assert len(client.aborted) > 10
        assert client.committed <= set(seen)
        assert not client.aborted & set(seen)
    assert all(value + b"+" in seen for value in seen if value is not None and not value.endswith(b"+"))
    assert {how for how, _ in world.lost} <= {"uncommitted"}
