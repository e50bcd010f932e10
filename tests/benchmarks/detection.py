"""How long after a raw client could know of a fault the canary's store says so: three brokers of the lab, RF 3.

In each round an acknowledged record is destroyed, or written once more, while ``canary run`` probes at its usual rate.
A raw client asks every broker each 20 ms what the log holds at that offset; the store is read as often. The delay is
from the first answer that shows it to the violation's row.

- cut: every broker is killed, and every replica loses its last records.
- fsync: the last in-sync replica loses its page cache, and leads (why-fsync).
- lone leader: one that has acknowledged alone is killed, and another one elected (call-me-maybe).
- copy: a record of the canary's is produced again, byte for byte.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from canary.lab import Lab, NodeProperties
from canary.lab.errors import LabError
from tests.benchmarks.detection_raw import PACE_S, Answer, Watch, asked
from tests.benchmarks.measuring import Figure, command
from tests.support.process import Canary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEDIAN_S, WORST_S = 1.0, 5.0
TOPIC: Final = "probes"
PARTITION: Final = 0
BACK: Final = 200
"""So many records below the end are known before a fault."""
CUT: Final = 15
_ASSIGNMENT: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
_PATIENCE_S: Final = 120.0


class Bench:
    """The lab, the canary, and what is done to them."""

    def __init__(self, directory: Path, lab: Lab) -> None:
        self.lab = lab
        self.ports = {broker: lab.port(broker) for broker in lab.brokers}
        self.admin = AdminClient({"bootstrap.servers": lab.bootstrap})
        new = NewTopic(TOPIC, num_partitions=3, replica_assignment=_ASSIGNMENT, config={"min.insync.replicas": "2"})
        self.admin.create_topics([new])[TOPIC].result(30)
        self.canary = Canary(directory / "canary", lab.bootstrap, TOPIC, parts=("run",))
        self._store = f"file:{directory}/canary/store.db?mode=ro"

    def answer(self, offset: int) -> Answer:
        """Return what the leader says."""
        return asked(self.ports, TOPIC, PARTITION, offset)

    def end(self) -> int:
        """Return the end of the log."""
        return self.answer(0).end or 0

    def before(self) -> dict[int, int]:
        """Return the CRC by offset of the last batches."""
        return self.answer(max(self.end() - BACK, 0)).batches

    def probed(self, more: int = 40) -> None:
        """Wait until so many more probes are written, all replicas are in sync, and nothing waits to be told."""
        self.lab.wait_ready(including=self.lab.brokers)
        for partition in range(len(_ASSIGNMENT)):
            self.lab.wait_isr(TOPIC, partition, set(self.lab.brokers))
        goal = self.end() + more
        _until(lambda: self.end() >= goal)

    def unsafe(self, *, unsafe: bool) -> None:
        """Let one replica alone acknowledge, and one that lacks its records be elected."""
        entries = {"min.insync.replicas": "1" if unsafe else "2", "unclean.leader.election.enable": str(unsafe).lower()}
        changes = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in entries.items()]
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=changes)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def told(self, kind: str, at_or_above: int, since_ns: int) -> bool:
        """Say whether the store has such a violation of the partition; offsets that were cut off are given again."""
        query = (
            "SELECT 1 FROM violations WHERE kind = ? AND partition = ? "
            'AND coalesce(last_offset, "offset") >= ? AND first_seen_ns >= ?'
        )
        connection = sqlite3.connect(self._store, uri=True, timeout=5)
        try:
            return connection.execute(query, (kind, PARTITION, at_or_above, since_ns)).fetchone() is not None
        finally:
            connection.close()

    def delay(
        self, kind: str, offset: int, shows: Callable[[Answer], bool], act: Callable[[], None] = lambda: None
    ) -> float:
        """Return the seconds from when a raw client could know to when the store has it."""
        began_ns = time.time_ns()
        with Watch(self.ports, TOPIC, PARTITION, offset, shows) as watch:
            act()
            _until(lambda: self.told(kind, offset, began_ns))
            told_ns = time.time_ns()
            watch.done.wait(_PATIENCE_S)
        if watch.known_ns is None:
            raise SystemExit(f"a {kind} at {offset} was told, and no raw client could know of it")
        typer.echo(f"{kind} {watch.known_ns / 1e9:.3f} {told_ns / 1e9:.3f}", err=True)
        return (told_ns - watch.known_ns) / 1e9

    def lost(self, offset: int, before: dict[int, int], act: Callable[[], None]) -> float:
        """Return the delay of a loss that begins at an offset, by what the log held there before."""

        def shows(answer: Answer) -> bool:
            if answer.end is None:
                return False
            return answer.end <= offset or answer.out_of_range or answer.batches.get(offset) != before[offset]

        return self.delay("lost-write", offset, shows, act)


def cut(bench: Bench) -> float:
    """Destroy the last records on every replica while all brokers are down."""
    lab, before = bench.lab, bench.before()
    first = max(before) - CUT
    for broker in lab.brokers:
        lab.kill(broker)
    first = min(lab.truncate(broker, TOPIC, PARTITION, to_offset=first).after for broker in lab.brokers)

    def back() -> None:
        for broker in lab.brokers:
            lab.start_broker(broker, timeout=0)

    return bench.lost(first, before, back)


def fsync(bench: Bench) -> float:
    """Let the leader, which is the only one in sync, forget its last records: it leads on without them."""
    lab = bench.lab
    leader, follower, other = _led(lab)
    lab.kill(other)
    lab.wait_isr(TOPIC, PARTITION, {leader, follower})
    time.sleep(CUT / 10)  # more is acknowledged by two
    before = bench.before()
    lab.kill(follower)
    lab.wait_isr(TOPIC, PARTITION, {leader})
    lab.kill(leader)
    first = lab.truncate(leader, TOPIC, PARTITION, to_offset=max(before) - 5).after

    def back() -> None:
        lab.start_broker(leader, timeout=0)
        _until(lambda: _leads(lab, leader))
        lab.start_broker(other, timeout=0)

    delay = bench.lost(first, before, back)
    lab.start_broker(follower)
    return delay


def lone_leader(bench: Bench) -> float:
    """Kill the followers, let the leader acknowledge alone, kill it, and let the followers return."""
    lab = bench.lab
    bench.unsafe(unsafe=True)
    leader, *followers = _led(lab)
    for broker in followers:
        lab.kill(broker)
    lab.wait_isr(TOPIC, PARTITION, {leader})
    first = max(lab.end_offset(broker, TOPIC, PARTITION) for broker in followers)
    _until(lambda: bench.end() > first + 3 * CUT)
    time.sleep(2)  # what was acknowledged is read and listed
    before = bench.before()
    lab.kill(leader)

    def back() -> None:
        for broker in followers:
            lab.start_broker(broker, timeout=0)

    delay = bench.lost(first, before, back)
    lab.start_broker(leader)
    bench.unsafe(unsafe=False)
    return delay


def copied(bench: Bench) -> float:
    """Produce a record of the canary's again."""
    end = bench.end()
    given = {"bootstrap.servers": bench.lab.bootstrap, "group.id": "forger", "enable.auto.commit": False}
    reader = Consumer(given)
    reader.assign([TopicPartition(TOPIC, PARTITION, end - 5)])
    message = reader.poll(30)
    assert message is not None
    value = message.value()
    assert value is not None
    reader.close()
    producer = Producer({"bootstrap.servers": bench.lab.bootstrap, "linger.ms": 0})

    def again() -> None:
        producer.produce(TOPIC, value, message.key(), PARTITION, timestamp=message.timestamp()[1])
        producer.flush(30)

    end = bench.end()
    return bench.delay("duplicate", end, lambda answer: value in answer.data, again)


FAULTS: Final[dict[str, Callable[[Bench], float]]] = {
    "copy": copied,
    "cut": cut,
    "fsync": fsync,
    "lone leader": lone_leader,
}


def measure(rounds: int = 5, only: str = "") -> Iterator[Figure]:
    """Measure so many rounds of each fault, or of one."""
    faults = {name: fault for name, fault in FAULTS.items() if not only or name == only}
    delays: dict[str, list[float]] = defaultdict(list)
    loads: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="detection-", ignore_cleanup_errors=True) as directory,
        Lab(
            Path(directory) / "lab",
            profile="quick",
            properties=NodeProperties({}, {"unclean.leader.election.interval.ms": "1000"}),
            features={"eligible.leader.replicas.version": 0},
            die_with_parent=True,
        ) as lab,
    ):
        bench = Bench(Path(directory), lab)
        with bench.canary:
            for _ in range(rounds):
                for name, fault in faults.items():
                    bench.probed()
                    loads.append(os.getloadavg()[0])
                    delays[name].append(fault(bench))
    yield Figure.of("machine", "load", loads)
    for name, found in delays.items():
        yield Figure.of(name, "delay", found, "s")
    every = [delay for found in delays.values() for delay in found]
    yield Figure.of("all faults", "delay", every, "s", most=MEDIAN_S)
    yield Figure("all faults", "longest delay", max(every), "s", most=WORST_S)


def _led(lab: Lab) -> tuple[int, int, int]:
    """Return the leader and its followers."""
    leader = lab.leader(TOPIC, PARTITION)
    assert leader is not None
    one, other = (broker for broker in lab.brokers if broker != leader)
    return leader, one, other


def _leads(lab: Lab, broker: int) -> bool:
    with suppress(LabError):  # it does not answer yet
        return lab.leader(TOPIC, PARTITION) == broker
    return False


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit("not in time")
        time.sleep(PACE_S)


if __name__ == "__main__":
    command(measure)
