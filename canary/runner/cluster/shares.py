"""What a runner does not want to know: the partitions that other runners of the cluster probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.facts import Listed, PartitionSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.facts import Fact
    from canary.settings import ClusterSettings


def keeps(cluster: ClusterSettings) -> Callable[[Fact], bool] | None:
    """Return what tells whether a fact is this runner's business; None where it has the cluster to itself.

    Rounds of watching ask for whole topics; a partition in another share would be judged there, and here as well.
    """
    if cluster.share.of == 1:
        return None
    shares = {topic: cluster.share_of(topic) for topic in map(cluster.topic_of, cluster.modes.enabled())}

    def wanted(fact: Fact) -> bool:
        if not isinstance(fact, Listed | PartitionSeen) or fact.topic not in shares:
            return True
        return shares[fact.topic].has(fact.partition)

    return wanted
