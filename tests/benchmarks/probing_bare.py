"""The least that verifies probes: one process, one thread, one idempotent producer, one read_committed consumer.

    python -m tests.benchmarks.probing_bare BOOTSTRAP TOPIC PARTITIONS RATE

Sends one numbered record to every partition a beat (acks=all, linger 0, a callback for each delivery), polls records
one by one and checks that the sequences of each partition go up by one. All other properties are librdkafka's own. It
remembers nothing beside the next sequences. ``RATE`` 0: as fast as it goes. Says at once and on SIGUSR1, as a line of
JSON, how many were acknowledged and read; ends on SIGTERM, and when a sequence is wrong.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from canary.probe.record import DEFAULT_LENGTH

AHEAD = 20_000
"""Records that may be sent and not yet read, where it goes as fast as it can."""


def main(bootstrap: str, topic: str, partitions: int, rate: float) -> None:  # noqa: C901  # one loop
    """Send and read until told to stop."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    sent, read = [0] * partitions, [0] * partitions
    acked = ahead = 0
    stopped = False

    def delivered(error: Any, _: Any) -> None:
        nonlocal acked
        if error is not None:
            raise KafkaException(error)
        acked += 1

    def stop(*_: Any) -> None:
        nonlocal stopped
        stopped = True

    def tell(*_: Any) -> None:
        sys.stdout.write(json.dumps({"at": time.monotonic(), "acked": acked, "seen": sum(read)}) + "\n")
        sys.stdout.flush()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, tell)
    tell()  # who waits for a line knows that it may ask for the next
    pack, poll, serve = struct.Struct(f">q{DEFAULT_LENGTH - 8}x").pack, consumer.poll, producer.poll
    interval = partitions / rate if rate else 0.0
    due = time.monotonic()
    while not stopped:
        for partition in range(partitions):
            producer.produce(topic, pack(sent[partition]), partition=partition, on_delivery=delivered)
            sent[partition] += 1
        ahead += partitions
        due = max(due + interval, time.monotonic())
        while not stopped:
            serve(0)
            left = due - time.monotonic()
            message = poll(max(left, 0) if ahead < AHEAD else 0.1)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                partition = message.partition()
                (sequence,) = struct.unpack_from(">q", message.value())
                if sequence != read[partition]:
                    raise SystemExit(f"{sequence} came instead of {read[partition]}")
                read[partition] += 1
                ahead -= 1
            if left <= 0 and ahead < AHEAD:
                break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
