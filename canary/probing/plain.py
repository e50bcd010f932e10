"""acks=1 without idempotence, as many applications write.

The main workload's probes under a mode of their own: what is lost, doubled or put out of order there is what these
settings cost (call-me-maybe: a lone leader's acknowledgements die with it; jepsen-redpanda 1.1). Copies, reordering
and losses are expected of such a producer, and are warnings.
"""

from collections.abc import Mapping

from canary.kafka.effective_config import ACKS_OF_ONE
from canary.probing.base import Wiring
from canary.probing.idempotent import IdempotentProducer
from canary.settings import producer_config
from canary.workloads.descriptor import Settings

UNSAFE: Mapping[str, object] = {"enable.idempotence": False, "acks": 1}
"""What makes the workload; an operator's properties do not change it."""


def make(wiring: Wiring[Settings]) -> IdempotentProducer:
    """Return the workload's writer: the main one's, but for UNSAFE."""
    return IdempotentProducer(producer_config(wiring.cluster), wiring, forced=UNSAFE, promised=ACKS_OF_ONE)
