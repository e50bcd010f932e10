"""The identity of a probe."""

from typing import NamedTuple


class Identity(NamedTuple):
    """The four numbers that no two probes of any canary ever share (ARCHITECTURE decision 1; idempotent-producer).

    ``producer_id`` is a random 63-bit number minted at each start of a runner for (cluster, topic, mode), so that no
    restored, wiped or cloned disk produces it again; ``generation`` is above all that store and ledger know of that
    runner's; ``sequence`` counts from 0 in each (producer_id, generation, partition).
    """

    producer_id: int
    generation: int
    partition: int
    sequence: int
