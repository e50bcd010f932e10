"""Objectives of a cluster: which share of what kind of events has to be good, over which time.

Adding one is adding an entry to OBJECTIVES: its settings, its metrics, rules, panels and documents are made from it.
Good and bad events are counted by Prometheus (dashboards.rules.objectives), which remembers for as long as it takes.
"""

from dataclasses import dataclass
from typing import Final

_DAY_S: Final = 86_400.0

WINDOWS: Final = (7 * _DAY_S, 30 * _DAY_S)
"""Times (s) over which an objective may hold: the rules know these two."""
LEAST_TARGET: Final = 0.95
"""Below, nothing could be so bad that it used up 2 % of what 30 days allow in an hour: no alert could fire early."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of one cluster: of the events of its kind within ``window_s``, at least ``target`` are good.

    ``bound_s``: within which an event must be over to be good; None: it has no such bound.
    """

    name: str
    target: float
    bound_s: float | None = None
    window_s: float = WINDOWS[-1]


@dataclass(frozen=True, slots=True)
class Kind:
    """What an objective may be about.

    Attributes:
        title: of a panel.
        good: what the share is of, to follow "share of ".
        target: the share, if the settings say nothing.
        histogram: the metric of which a bucket is the bound; "": there is no bound.
        bound_s: the bound in seconds, if the settings say nothing.
    """

    name: str
    title: str
    good: str
    target: float
    histogram: str = ""
    bound_s: float | None = None


OBJECTIVES: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("availability", "Writes acknowledged", "writes that were due and are acknowledged", 0.999),
        Kind(
            "freshness",
            "Writes read",
            "acknowledged writes that a reader is given within the bound; those that it still waits for count as late",
            0.999,
            "canary_end_to_end_latency_seconds",
            30.0,
        ),
        Kind(
            "produce",
            "Acknowledged in time",
            "acknowledgements that come within the bound",
            0.99,
            "canary_produce_latency_seconds",
            0.5,
        ),
        Kind(
            "end_to_end",
            "Readable in time",
            "deliveries to a reader within the bound, counted from produce()",
            0.99,
            "canary_end_to_end_latency_seconds",
            1.0,
        ),
        Kind(
            "commit",
            "Committed in time",
            "commits of transactions that return within the bound",
            0.99,
            "canary_transaction_latency_seconds",
            1.0,
        ),
    )
}
"""By name, which is also the key in the settings and the label ``objective``."""
