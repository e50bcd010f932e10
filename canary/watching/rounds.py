"""Asking a cluster round after round with an admin client of one's own."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from canary.kafka import opening
from canary.kafka.opening import opened_in_time
from canary.kafka.quiet import quiet_logger
from canary.threads import system
from canary.threads.worker import Worker, in_background


def in_rounds(
    worker: Worker,
    config: dict[str, Any],
    report: Callable[[KafkaError], None],
    look: Callable[[Any], None],
    interval_s: float,
) -> None:
    """Call ``look`` with a client every ``interval_s``, until ``worker`` is to stop.

    ``config`` is that of the client; each refusal of its credentials goes to ``report``.
    """
    admin: Any = opened_in_time(lambda: opening.admin(config, quiet_logger(worker.name)), report, worker.stopping)
    going = admin is not None
    while going:
        began = system.monotonic()
        look(admin)
        admin.poll(0)  # lets it call the logger and error_cb
        going = worker.wait(max(0.0, interval_s - (system.monotonic() - began)))
    holder = [admin]
    del admin
    in_background(holder.clear, f"{worker.name}-closing")  # its end may wait for answers
