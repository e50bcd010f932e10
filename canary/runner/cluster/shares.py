"""Leaves out facts of partitions that other runners of the cluster probe."""

from collections.abc import Callable

from canary.facts import Fact, Listed, PartitionSeen
from canary.settings import ClusterSettings


def keeps(cluster: ClusterSettings) -> Callable[[Fact], bool] | None:
    """Return whether a fact is of this runner's share, as a function; None where it probes the whole cluster.

    Rounds of watching ask for whole topics. Example: with shard 1/2 partition 0 belongs to the other runner, and would
    be judged twice.
    """
    if cluster.share.of == 1:
        return None
    shares = {topic: cluster.share_of(topic) for topic in map(cluster.topic_of, cluster.modes.enabled())}

    def wanted(fact: Fact) -> bool:
        if not isinstance(fact, Listed | PartitionSeen) or fact.topic not in shares:
            return True
        return shares[fact.topic].has(fact.partition)

    return wanted
