"""How a member leaves its consumer group."""

from __future__ import annotations

from typing import Any, Final

from canary.threads import system

_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.05
_CALM_POLLS: Final = 3
"""A rebalance that was on its way when the member left is served by the first polls."""


def leave(client: Any) -> None:
    """Leave the group, give all partitions up, and close.

    If close() itself has a rebalance to serve, librdkafka may wait for its own answer for ever (its issues 4041 and
    4884), and confluent-kafka holds the interpreter's lock meanwhile: the whole process stands still.

    Raises:
        KafkaException: the client refuses.
        RuntimeError: it is closed.
    """
    client.unsubscribe()
    deadline, calm = system.monotonic() + _WITHIN_S, 0
    while calm < _CALM_POLLS and system.monotonic() < deadline:
        client.poll(_POLL_S)
        calm = 0 if client.assignment() else calm + 1
    client.close()
