"""Two applications whose transactions overlap, recorded as Jepsen records them, for ``canary check``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.offline import Options, check
from canary.drills.rig import direct
from canary.drills.rig.rig import Finding
from canary.history.operation import Operation, Type
from canary.history.reading import load
from canary.history.writing import write_jsonl
from canary.lab import LabError

_REQUEST_S: Final = 60.0
_POLL_S: Final = 5.0
"""A record that is acknowledged and not given within that is taken as hidden."""
_READER: Final = 2


def overlapping(kafka: Mapping[str, Any], topic: str, isolation: str) -> list[Operation]:
    """Run two transactions at once, each of which reads what the other wrote, if it is shown; return the history.

    Both write to partition 0, the first one first, and then to partition 1, the second one first; the first reads the
    record of the second in partition 0, the second that of the first in partition 1. Both commit. In the end everything
    is read.

    Args:
        kafka: properties of a client that reaches the cluster.
        topic: an empty one of two partitions.
        isolation: of the reads inside transactions.

    Raises:
        LabError: a record is not acknowledged.
        KafkaException: a transaction does not begin or commit.
    """
    history = _History()
    first, second = (_Application(number, kafka, topic, isolation, history) for number in range(2))
    try:
        first.begin()
        second.begin()
        first.send(0)
        theirs = second.send(0)
        second.send(1)
        ours = first.send(1)
        first.poll(0, theirs)
        second.poll(1, ours)
        first.commit()
        second.commit()
    finally:
        first.consumer.close()
        second.consumer.close()
    partitions = ["0", "1"]
    history.add(_READER, "invoke", "assign", partitions)
    history.add(_READER, "ok", "assign", partitions)
    history.add(_READER, "invoke", "poll", [["poll"]])
    read: dict[str, list[Any]] = {one: [] for one in partitions}
    for record in direct.records({**kafka, "group.id": topic}, topic):
        read[f"{record.partition}"].append([record.offset, int(record.value or b"")])
    history.add(_READER, "ok", "poll", [["poll", read]])
    return history.operations


def judged(history: list[Operation], file: Path) -> Iterator[Finding]:
    """Write a history, and yield what ``canary check`` finds in it: with ``--no-ww-deps``, and what it adds without."""
    with file.open("wb") as written:
        write_jsonl(history, written)
    said = set[str]()
    for ww_deps in (False, True):
        with file.open("rb") as read:
            verdict = check(load(read, str(file)), Options(ww_deps=ww_deps))
        for kind, cases in verdict.anomalies.items():
            if kind not in said:
                said.add(kind)
                severity = "info" if kind in verdict.allowed else CATALOGUE[kind].severities[0]
                yield Finding(kind, severity, time.time(), f"{CATALOGUE[kind].title}: {cases[0]}", {})


class _History:
    """Operations in the order in which they began and ended."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._began_ns = time.monotonic_ns()

    def add(self, process: int, type_: Type, function: str, value: Any) -> None:
        """Add one that begins or ends now."""
        index, at_ns = len(self.operations), time.monotonic_ns() - self._began_ns
        self.operations.append(Operation(index, at_ns, process, type_, function, value))


class _Application:
    """Writes its number to partitions, and reads, in one transaction."""

    def __init__(self, number: int, kafka: Mapping[str, Any], topic: str, isolation: str, history: _History) -> None:
        self.number = number
        self.consumer = direct.client({**kafka, "group.id": f"{topic}-{number}"}, isolation)
        self._producer = Producer({**kafka, "transactional.id": f"{topic}-{number}", "log_level": 0})
        self._topic = topic
        self._history = history
        self._done: list[list[Any]] = []

    def begin(self) -> None:
        """Begin the transaction."""
        self._producer.init_transactions(_REQUEST_S)
        self._producer.begin_transaction()
        sends = [["send", f"{one}", self.number] for one in ((0, 1), (1, 0))[self.number]]
        self._history.add(self.number, "invoke", "txn", [*sends, ["poll"]])

    def send(self, partition: int) -> int:
        """Write, and return the offset."""
        offsets: list[int] = []
        self._producer.produce(
            self._topic,
            f"{self.number}",
            partition=partition,
            on_delivery=lambda error, record: offsets.append(record.offset()) if error is None else None,
        )
        self._producer.flush(_REQUEST_S)
        if not offsets:
            raise LabError(f"{self._topic}-{partition} does not take a record")
        self._done.append(["send", f"{partition}", [offsets[0], self.number]])
        return offsets[0]

    def poll(self, partition: int, offset: int) -> None:
        """Read one record from there on, if it is shown."""
        self.consumer.assign([TopicPartition(self._topic, partition, offset)])
        deadline = time.monotonic() + _POLL_S
        while (left := deadline - time.monotonic()) > 0:
            record = self.consumer.poll(left)
            if record is not None and record.error() is None:
                self._done.append(["poll", {f"{partition}": [[record.offset(), int(record.value())]]}])
                return
        self._done.append(["poll", {}])

    def commit(self) -> None:
        """Commit."""
        self._producer.commit_transaction(_REQUEST_S)
        self._history.add(self.number, "ok", "txn", self._done)
