"""An application that does nothing but send: ``python -m tests.benchmarks.receipts_producing BOOTSTRAP WHAT …``.

    … BOOTSTRAP bare|callback|receipts|hundred|all RATE SECONDS DIRECTORY

``bare``: confluent-kafka without a word about deliveries. ``callback``: with one for each record that counts, as an
application has that wants to know. ``receipts``: canary_receipts as it is by default, but for a file every 5 s;
``hundred``: with 100 receipts a second; ``all``: with one for each record. Sends ``RATE`` records of 100 bytes a
second, and prints as a line of JSON what it took in all threads after the first second: CPU-seconds, records, seconds.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import confluent_kafka

from canary_receipts import Producer

TOPIC = "receipts-bench"
BEAT_S = 0.01
OPTIONS: dict[str, dict[str, Any]] = {"receipts": {}, "hundred": {"per_second": 100}, "all": {"per_second": None}}


def main(bootstrap: str, what: str, rate: int, seconds: float, directory: str) -> None:
    """Send for so long."""
    config = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
    }
    if what in OPTIONS:
        producer: Any = Producer(config, receipts={"directory": directory, "every_s": 5, **OPTIONS[what]})
    else:
        producer = confluent_kafka.Producer(config)
    acked = 0

    def delivered(error: Any, _: Any) -> None:
        nonlocal acked
        acked += error is None

    counted = {"on_delivery": delivered} if what == "callback" else {}
    value, key = b"v" * 100, b"key-123"
    each = int(rate * BEAT_S)
    began = due = time.monotonic()
    cpu, first, sent = 0.0, 0.0, 0
    while (now := time.monotonic()) < began + 1 + seconds:
        if not first and now >= began + 1:
            cpu, first, sent = time.process_time(), now, 0
        if counted:
            for _ in range(each):
                producer.produce(TOPIC, value, key, on_delivery=delivered)
        else:
            for _ in range(each):
                producer.produce(TOPIC, value, key)
        sent += each
        producer.poll(0)
        due += BEAT_S
        time.sleep(max(0.0, due - time.monotonic()))
    took = {"cpu": time.process_time() - cpu, "sent": sent, "seconds": time.monotonic() - first}
    producer.flush()
    if what in OPTIONS:
        producer.close()
    sys.stdout.write(json.dumps(took) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
