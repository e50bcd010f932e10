"""How sure it is that no acknowledged write was lost: a statement with its confidence, over what was verified only.

"0 lost" says nothing without a number behind it, and that number is not how many writes were acknowledged: one that no
reader was given so far, or that expired before, may be gone. The bound is exact for losses that come one by one. They
come in blocks, when leaders change, so the faults that the probes have lived through count, too (docs/objectives.md).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api.knowledge.views import ClusterView
from canary.anomalies.policy import WRITES_LOST
from canary.metrics.statistics import loss_rate_upper_95
from storage.store.values import ViolationGroup

CONFIDENCE: Final = 0.95
_VERIFIES: Final = "read_committed"
"""The consumer whose deliveries verify: it is in every topic, and is never given what was aborted."""


@dataclass(frozen=True, slots=True)
class Durability:
    """Of ``verified`` acknowledged writes ``lost`` were lost; ``upper_95``: None while none is verified."""

    verified: int
    lost: int
    upper_95: float | None
    sentence: str


def lost_writes(cluster: str, groups: Iterable[ViolationGroup]) -> int:
    """Return how many acknowledged writes of a cluster were ever lost, each counted once, without false alarms."""
    return sum(row.records for row in groups if row.cluster == cluster and row.kind == WRITES_LOST)


def verified_writes(cluster: ClusterView) -> int:
    """Return how many acknowledged writes a reader was certainly given.

    The first deliveries of a partition, without as many as have an unknown outcome (each of them may be a delivery of a
    write that was never acknowledged), and never more than were acknowledged. So it errs on the low side.
    """
    acked = _by_place(cluster, "canary_probes_acked_total")
    unknown = _by_place(cluster, "canary_probes_indeterminate_total")
    given: dict[tuple[str, ...], float] = defaultdict(float)
    for (*place, consumer, _mode), one in cluster.series.get("canary_end_to_end_latency_seconds", {}).items():
        if consumer == _VERIFIES:
            given[tuple(place)] += sum(one.counts)
    return int(sum(max(min(acked[place], count - unknown[place]), 0) for place, count in given.items()))


def durability(cluster: ClusterView, groups: Iterable[ViolationGroup]) -> Durability:
    """Return what is known of the durability of a cluster's acknowledged writes since probing began."""
    lost = lost_writes(cluster.name, groups)
    return stated(cluster.name, max(verified_writes(cluster), lost), lost)


def stated(name: str, verified: int, lost: int) -> Durability:
    """Return the statement about a cluster, or about several."""
    bound = loss_rate_upper_95(lost, verified)
    if bound is None:
        return Durability(0, lost, None, f"No acknowledged write of {name} was verified yet: nothing is known.")
    writes = "1 acknowledged write" if verified == 1 else f"{verified:,} acknowledged writes"
    at_most = f"1 in {int(1 / bound):,}" if bound < 0.1 else f"{bound:.0%}"
    of = f"Of {writes} of {name} that {'was' if verified == 1 else 'were'} verified"
    sentence = f"{of}, {lost:,} {'was' if lost == 1 else 'were'} lost: with 95 % confidence at most {at_most} is lost."
    return Durability(verified, lost, bound, sentence)


def _by_place(cluster: ClusterView, name: str) -> dict[tuple[str, ...], float]:
    """Return the sum of a metric of each partition, over its modes."""
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for labels, one in cluster.series.get(name, {}).items():
        found[labels[:2]] += one.value
    return found
