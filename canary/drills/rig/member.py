"""A member of an ordinary consumer group, a process of its own: ``python -m canary.drills.rig.member JSON OUTPUT``.

To process a record is to append a line to OUTPUT, so that what was processed is known however the member ends. It says
``ready`` there when it has been assigned partitions for the first time. SIGTERM ends it in good order.

JSON has ``topic``, ``consumer`` (properties of librdkafka), ``batch`` (how many records are taken at once), ``work_s``
(how long one takes) and ``commits``: "client" (it stores and commits as it likes), "stored" (a record's offset is
stored once the record is processed, and the client commits what is stored), or "after" (a commit after each batch).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message


def main(settings: dict[str, Any], output: str) -> None:
    """Process until SIGTERM."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def emit(words: str) -> None:
        os.write(descriptor, f"{words}\n".encode())

    consumer = Consumer(settings["consumer"])
    consumer.subscribe([settings["topic"]], on_assign=lambda _consumer, places: emit(f"ready {len(places)}"))
    while not stopping:
        messages = [one for one in consumer.consume(settings["batch"], 0.1) if one.error() is None]
        for message in messages:
            _process(consumer, message, settings, emit)
            if stopping:
                break
        if messages and settings["commits"] == "after":
            _commit(consumer)
    consumer.close()


def _process(consumer: Consumer, message: Message, settings: dict[str, Any], emit: Any) -> None:
    time.sleep(settings["work_s"])
    emit(f"{message.partition()} {message.offset()} {time.time():.3f}")
    if settings["commits"] != "client":
        try:
            consumer.store_offsets(message)
        except KafkaException:  # the partition is another member's by now
            return


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)  # what is stored
    except KafkaException:  # nothing to commit, or another generation of the group has begun
        return


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
