"""The metrics of the metadata quorum."""

from functools import partial
from typing import Final

from canary.metrics.metric import Metric

_NODE: Final = ("cluster", "node")
_gauge = partial(Metric, type="gauge", labels=("cluster",), runners="max", partitions="max")

QUORUM_METRICS: Final = (
    _gauge("canary_quorum_unknown", help="1 while nothing is known of the metadata quorum (watch.quorum)."),
    _gauge("canary_quorum_leader", help="Id of the controller that leads the metadata quorum."),
    _gauge("canary_quorum_epoch", help="Epoch of its election."),
    _gauge(
        "canary_quorum_voter_lag", help="Entries of the metadata log that a controller does not have.", labels=_NODE
    ),
    _gauge(
        "canary_quorum_voter_behind_seconds",
        help="For how long a controller has not had all entries of the metadata log, by the leader's clock.",
        labels=_NODE,
    ),
)
