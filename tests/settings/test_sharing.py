from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from canary.facts import Listed, PartitionSeen, Polled
from canary.runner.cluster.shares import keeps
from canary.settings import ClusterSettings
from canary.settings.clusters import Share


def cluster(shard: str = "0/1", **more: Any) -> ClusterSettings:
    kafka = {"bootstrap.servers": "a:1"}
    return ClusterSettings.model_validate({"name": "c", "kafka": kafka, "topic": {"name": "t"}, "shard": shard, **more})


def test_every_partition_is_in_exactly_one_share() -> None:
    for of in (1, 2, 3, 7):
        shares = [Share(index, of) for index in range(of)]
        assert sorted(p for share in shares for p in share.mine(10)) == list(range(10))
        for share in shares:
            assert share.mine(10) == tuple(p for p in range(10) if share.has(p))


@pytest.mark.parametrize("text", ["3/3", "1", "a/b", "-1/2", "0/0", "1/2/3", ""])
def test_what_is_no_share_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValidationError, match="no share"):
        cluster(text)


def test_what_needs_all_partitions_is_the_business_of_share_0() -> None:
    modes: dict[str, Any] = {"idempotent": {}, "transactional": {}}
    first, other = cluster("0/2", modes=modes), cluster("1/2", modes=modes)
    assert set(first.modes.enabled()) == {"idempotent", "transactional"}
    assert set(other.modes.enabled()) == {"idempotent"}
    assert first.watch.topics == ("*",)
    assert other.watch.topics == ()
    assert first.share_of("t-transactional") == Share()
    assert first.share_of("t") == Share(0, 2)
    with pytest.raises(ValidationError, match="reads the whole topic"):
        cluster("0/2", modes={"idempotent": {}, "group": {}})
    with pytest.raises(ValidationError, match="no mode whose partitions can be shared"):
        cluster("1/2", modes={"transactional": {}})


def test_a_runner_is_not_told_of_partitions_that_others_judge() -> None:
    assert keeps(cluster()) is None
    wanted = keeps(cluster("1/2"))
    assert wanted is not None
    for partition in range(4):
        seen = PartitionSeen(1, 1, "t", partition, 1, "1", "1")
        listed = Listed(1, 1, "t", partition, 0, 5, 5, 0)
        assert wanted(seen) == wanted(listed) == (partition % 2 == 1)
    assert wanted(PartitionSeen(1, 1, "other", 0, 1, "1", "1"))
    assert wanted(Polled(1, "read_committed", "read_committed", "t", 0, 5, 1, 1, 1))
