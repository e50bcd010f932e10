"""Who a probe is."""

from __future__ import annotations

from typing import NamedTuple


class Identity(NamedTuple):
    """The four numbers that no two probes of any canary ever share (ARCHITECTURE decision 1; idempotent-producer).

    ``producer_id`` is a random 63-bit number minted once for (runner, cluster, topic, mode); ``generation`` grows with
    each start of that producer; ``sequence`` counts from 0 in each (producer_id, generation, partition).
    """

    producer_id: int
    generation: int
    partition: int
    sequence: int
