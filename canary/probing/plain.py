"""acks=1 without idempotence, for those whose applications write like that.

The same probes as the main mode's, under a mode of their own: what is lost, doubled or put out of order there is what
these settings cost (call-me-maybe: a lone leader's acknowledgements die with it; jepsen-redpanda 1.1). Copies and
reordering are expected of such a producer and are warnings; a loss stays a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.client.honesty import ACKS_OF_ONE
from canary.probing.idempotent import IdempotentProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canary.client.ports import Clock, Inbox
    from canary.probing.idempotent import Renewal

UNSAFE: Mapping[str, object] = {"enable.idempotence": False, "acks": 1}
"""What makes the mode; an operator's properties do not change it."""


def plain_producer(
    config: Mapping[str, object],
    topic: str,
    under: Renewal,
    *,
    producer_id: int,
    interval_s: float,
    record_length: int,
    inbox: Inbox,
    clock: Clock,
    renew: Callable[[str], Renewal],
) -> IdempotentProducer:
    """Return a producer like the main one, but for UNSAFE. Arguments are those of IdempotentProducer."""
    return IdempotentProducer(
        config,
        topic,
        under.partitions,
        producer_id=producer_id,
        generation=under.generation,
        tag=under.tag,
        mode="plain",
        interval_s=interval_s,
        record_length=record_length,
        inbox=inbox,
        clock=clock,
        renew=renew,
        forced=UNSAFE,
        promised=ACKS_OF_ONE,
    )
