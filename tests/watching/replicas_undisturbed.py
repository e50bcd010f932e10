"""Replicas are compared without end while a healthy cluster is restarted, reassigned, compacted and expires: silence.

    python -m tests.watching.replicas_undisturbed --seconds 300

Writers fill a plain topic that expires, a compacted one with tombstones and transactions of which some are aborted,
one that is both, and one whose segments go to a remote tier. Meanwhile brokers are restarted one after the other, in
good order and by kill -9, replicas are moved, leaders elected and records deleted. At the end one replica of the
compacted topic is harmed, which has to be found: then the silence before was not that of a blind one. Ends with status
1 if it was not silent, or blind.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.replicas.compaction import Search
from canary.anomalies.violation import violation_of
from canary.facts import Reported
from canary.lab import LabError
from canary.threads.ports import SteadyClock
from canary.watching.replicas.progress import Progress
from canary.watching.replicas.scrubber import ReplicaScrubber
from tests.support.harm import change_byte
from tests.support.labs import Watched
from tests.support.reassign import reassign
from tests.support.tiers import TIERED, properties
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.anomalies.replicas.copies import Difference
    from canary.anomalies.violation import Violation
    from canary.facts import Facts
    from canary.watching.replicas.outcomes import Outcome

PARTITIONS = 2
SMALL = {"segment.ms": "3000", "segment.bytes": "1048576", "file.delete.delay.ms": "1000"}
COMPACTED = {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "60000", "max.compaction.lag.ms": "3000"}
"""A broker that is down for longer than delete.retention.ms keeps what was deleted meanwhile: that is not healthy."""
TOPICS = {
    "plain": SMALL | {"retention.ms": "20000"},
    "compacted": SMALL | COMPACTED | {"cleanup.policy": "compact"},
    "both": SMALL | COMPACTED | {"cleanup.policy": "compact,delete", "retention.ms": "30000"},
    "tiered": TIERED | {"internal.segment.bytes": "200000", "local.retention.bytes": "600000", "retention.ms": "60000"},
}


def say(words: str) -> None:
    """Tell whoever ran this program."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


class Writer(threading.Thread):
    """Writes transactions and plain records, until stopped; what fails is aborted, or forgotten."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(name=f"writer-{topic}", daemon=True)
        self.stopping = threading.Event()
        self.written = 0
        self._servers = bootstrap
        self._topic = topic
        self._rng = random.Random(seed)  # noqa: S311  # a case

    def run(self) -> None:
        """Write."""
        while not self.stopping.is_set():
            with contextlib.suppress(KafkaException):
                self._write()

    def _write(self) -> None:
        shared = {"bootstrap.servers": self._servers, "log_level": 0, "linger.ms": 20, "compression.type": "lz4"}
        plain = Producer(shared)
        producer = Producer({**shared, "transactional.id": self._topic, "transaction.timeout.ms": 10_000})
        producer.init_transactions(30)
        while not self.stopping.wait(0.05):
            self._some(plain)
            plain.poll(0)
            producer.begin_transaction()
            self._some(producer)
            if self._rng.random() < 0.3:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    def _some(self, producer: Any) -> None:
        for _ in range(self._rng.randint(1, 30)):
            key = b"key %d" % (self._rng.randrange(40) if self._rng.random() < 0.7 else self.written)
            value = None if self._rng.random() < 0.1 else self._rng.randbytes(self._rng.randint(0, 600))
            producer.produce(self._topic, value, key, partition=self._rng.randrange(PARTITIONS))
            self.written += 1


class Watch:
    """What the scrubber did: passes, what was unknown, and what compaction explained."""

    def __init__(self, bootstrap: str) -> None:
        self.said: list[Violation] = []
        self.paused = False
        self.passes = self.bytes = 0
        self.unknown: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        config = {"bootstrap.servers": bootstrap}
        self.scrubber = ReplicaScrubber(
            config, list(TOPICS), Progress(), self, SteadyClock(), bytes_per_second=20_000_000, rest_s=0.5
        )

    def put(self, facts: Facts, /) -> None:
        """Take what the scrubber reports."""
        for one in (violation_of(fact) for fact in facts if isinstance(fact, Reported)):
            self.said.append(one)
            say(f"SAID {one.summary} {dict(one.evidence)}")

    @contextlib.contextmanager
    def counting(self) -> Any:
        """Count what is done while the context lasts."""
        done, add = Progress.done, Search.add

        def counted(progress: Progress, outcome: Outcome, now_ns: int) -> None:
            self.passes += 1
            self.bytes += outcome.bytes
            self.unknown.update(f"{outcome.topic}: {reason}" for reason, _ in outcome.unknown)
            done(progress, outcome, now_ns)

        def added(search: Search, differences: Iterable[Difference]) -> list[Difference]:
            found = list(differences)
            self.missing.update("record missing somewhere" if one.only_missing else "other" for one in found)
            return add(search, found)

        with patch.object(Progress, "done", counted), patch.object(Search, "add", added):
            yield


def disturb(lab: Watched, admin: AdminClient, rng: random.Random) -> str:
    """Do one of the things that a healthy cluster goes through."""
    topic, partition = rng.choice(list(TOPICS)), rng.randrange(PARTITIONS)
    broker = rng.choice(lab.brokers)
    kind = rng.choice(["restart", "restart", "kill", "move", "move", "elect", "delete"])
    if kind in {"restart", "kill"}:
        (lab.kill if kind == "kill" else lab.stop_broker)(broker)
        lab.start_broker(broker)
        return f"{kind} broker {broker}"
    if kind == "move":
        brokers = rng.sample(list(lab.brokers), rng.choice([2, 3]))
        reassign(lab, topic, {partition: brokers}, timeout=120)
        reassign(lab, topic, {partition: rng.sample(list(lab.brokers), 3)}, timeout=120)
        return f"move {topic}-{partition} to {brokers} and back"
    place = TopicPartition(topic, partition)
    if kind == "elect":
        admin.elect_leaders(ElectionType.PREFERRED, [place]).result(60)
        return f"elect the preferred leader of {topic}-{partition}"
    if topic not in {"plain", "tiered"}:
        return "nothing"
    end = lab.end_offset(broker, topic, partition)
    admin.delete_records([TopicPartition(topic, partition, max(0, end - rng.randrange(1000)))])[place].result(60)
    return f"delete records of {topic}-{partition}"


def harm(lab: Watched) -> tuple[int, int]:
    """Change a byte of a compacted replica, of a record that all have; return its broker and offset."""
    broker = next(one for one in lab.brokers if one != lab.leader("compacted", 0))
    lab.stop_broker(broker)
    _, offset = change_byte(lab, broker, "compacted", 0, lab.end_offset(broker, "compacted", 0) - 1)
    lab.start_broker(broker)
    return broker, offset


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311  # a case
    brokers = {
        "min.insync.replicas": 2,
        "log.retention.check.interval.ms": 1000,
        "log.cleaner.backoff.ms": 500,
        "log.initial.task.delay.ms": 500,
    }
    with tempfile.TemporaryDirectory() as folder:
        tiered = properties(Path(folder) / "tier")
        both = replace(tiered, brokers={**tiered.brokers, **brokers})
        lab = Watched(Path(folder) / "lab", profile="quick", properties=both, die_with_parent=True)
        with lab:
            return run(lab, rng, options.seconds)


def run(lab: Watched, rng: random.Random, seconds: float) -> int:
    """Disturb for so long, then harm a replica; return the exit status."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    for name, config in TOPICS.items():
        admin.create_topics([NewTopic(name, PARTITIONS, 3, config=config)])[name].result(60)
    writers = [Writer(lab.bootstrap, name, rng.randrange(1000)) for name in TOPICS]
    watch = Watch(lab.bootstrap)
    done: Counter[str] = Counter()
    with watch.counting():
        for writer in writers:
            writer.start()
        watch.scrubber.start()
        ends = time.monotonic() + seconds
        for number in itertools.count():
            if time.monotonic() > ends or watch.said:
                break
            try:
                what = disturb(lab, admin, rng)
            except (LabError, KafkaException, AssertionError) as error:  # a machine that stalls: the next one is tried
                what = f"not done: {error}"
            done[what.split()[0]] += 1
            say(f"{number} {what}; passes {watch.passes} {dict(watch.unknown)} {dict(watch.missing)}")
        for writer in writers:
            writer.stopping.set()
        for name in TOPICS:
            for partition in range(PARTITIONS):
                lab.wait_isr(name, partition, set(lab.brokers), timeout=180)
        before = watch.passes
        until(
            lambda: watch.said or watch.passes > before + 2 * PARTITIONS * len(TOPICS), 180, "all is compared once more"
        )
        silent = not watch.said
        found = False
        if silent:
            broker, offset = harm(lab)
            say(f"broker {broker} is harmed at offset {offset}")
            until(lambda: watch.said, 180, "the harm is found")
            said = watch.said[0]
            found = (said.topic, said.partition, said.last_offset, said.evidence["brokers"]) == (
                "compacted",
                0,
                offset,
                [broker],
            )
        watch.scrubber.stop(30)
    say(
        f"disturbed {dict(done)}; {sum(one.written for one in writers)} records written, {watch.passes} passes over a "
        f"partition, {watch.bytes / 1e6:.0f} MB compared, differences that compaction has to explain: "
        f"{dict(watch.missing)}, unknown: {dict(watch.unknown)}, silent: {silent}, the harm found: {found}"
    )
    return 0 if silent and found else 1


if __name__ == "__main__":
    sys.exit(main())
