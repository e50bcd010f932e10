"""Two applications with receipts, in Java and in Python, that write to one topic at once."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition

from canary_receipts import Producer
from tests.support.java_receipts import jar, properties
from tests.support.kafka_tools import install
from tests.support.records import PATIENCE_S
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from canary.lab import Lab

TOPIC: Final = "orders"
PARTITIONS: Final = (0, 1, 2)
JAVA: Final = 60
"""Records that the Java application writes each time; PYTHON ones to each partition meanwhile, and then the rest."""
PYTHON: Final = 40


class Applications:
    """The two applications at work; their receipts go to $CANARY_RECEIPTS_DIRECTORY, the last ones when they close."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        config: dict[str, object] = {"canary.receipts.name": "java", "linger.ms": 5}
        options = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"}
        words = [word for name, value in options.items() for word in ("--property", f"{name}={value}")]
        script = install(folder / "bin") / "kafka-console-producer.sh"
        more = "--producer.config", properties(folder, lab, config)
        self.java = subprocess.Popen(
            [script, "--bootstrap-server", lab.bootstrap, "--topic", TOPIC, *words, *more],
            stdin=subprocess.PIPE,
            text=True,
            env=os.environ | {"CLASSPATH": str(jar()), "LC_ALL": "C.UTF-8"},
        )
        self.python = Writer(lab.bootstrap)
        self.asking = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": "x"})
        self.number = 0

    def write(self, *ends: int) -> None:
        """Let both write at once, until the partitions end there."""
        began = self.written()
        self._line()
        until(lambda: self.written() > began, PATIENCE_S, "the first record of the Java application")
        for _ in range(JAVA - 1):
            self._line()
        for partition in PARTITIONS:
            self.python.write(partition, PYTHON)
        all_of_it = began + JAVA + PYTHON * len(PARTITIONS)
        until(lambda: self.written() == all_of_it, PATIENCE_S, "the records of both applications")
        self.python.fill(self.ends(), ends)

    def _line(self) -> None:
        self.number += 1
        key = "NULL" if self.number % 7 == 0 else f"key {self.number % 20}"
        value = "NULL" if self.number % 11 == 0 else f"größe {self.number}"
        assert self.java.stdin is not None
        self.java.stdin.write(f"number:{self.number},by:java\t{key}\t{value}\n")
        self.java.stdin.flush()

    def ends(self) -> list[int]:
        places = [TopicPartition(TOPIC, partition) for partition in PARTITIONS]
        return [self.asking.get_watermark_offsets(place, PATIENCE_S)[1] for place in places]

    def written(self) -> int:
        assert self.java.poll() is None, "the Java application has ended"
        return sum(self.ends())

    def close(self) -> None:
        self.java.communicate(timeout=5 * PATIENCE_S)
        assert self.java.returncode == 0
        self.python.close()
        self.asking.close()


class Writer:
    """The Python application."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5}, receipts={"name": "python"})
        self.number = 0

    def write(self, partition: int, count: int) -> None:
        """Write so many records, in batches of ten; every key comes again, some have no key, value or header."""
        for _ in range(count):
            self.number += 1
            key = None if self.number % 7 == 0 else b"key %d" % (self.number % 20)
            value = None if self.number % 11 == 0 else b"value %d" % self.number
            headers = [("number", b"%d" % self.number), ("none", None)] if self.number % 2 else None
            self.producer.produce(TOPIC, value, key, partition, headers=headers)
            if self.number % 10 == 0:
                in_time(self.producer.flush(PATIENCE_S) == 0, "all acknowledgements")
        in_time(self.producer.flush(PATIENCE_S) == 0, "all acknowledgements")

    def fill(self, ends: Iterable[int], wanted: Iterable[int]) -> None:
        """Write to the partitions, which have these ends, until they have the wanted ones."""
        for partition, (end, reached) in enumerate(zip(ends, wanted, strict=True)):
            assert end <= reached
            self.write(partition, reached - end)

    def close(self) -> None:
        self.producer.close()
