"""The metrics of what is verified of each mode's writes to each topic (canary.metrics.proofs)."""

from functools import partial
from typing import Final

from canary.metrics.metric import Metric

_gauge = partial(Metric, type="gauge", labels=("cluster", "topic", "mode"))

PROOF_METRICS: Final = (
    _gauge(
        "canary_mode_silent",
        help="Partitions in which the mode has had no acknowledged probe (group: commit) for ten of its intervals, "
        "and for 60 s.",
        runners="sum",
    ),
    _gauge(
        "canary_mode_verified_until_timestamp_seconds",
        help="All that was acknowledged until then was read back, or had expired; 0: nothing is known.",
        runners="min",
    ),
)
