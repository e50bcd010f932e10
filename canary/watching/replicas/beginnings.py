"""Replicas that begin later than their leader's log though what they lack has not expired: a segment is gone.

Every broker applies retention for itself, so beginnings may differ for some minutes. What was removed by it is old, and
DeleteRecords moves the leader's beginning first. So records that the leader still gives, and whose time retention.ms
has not passed yet, are missing where another replica begins behind them. Left out, for something else may be the
reason: topics that are compacted, have a retention.bytes, or a remote tier, and those whose settings may not be read.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from canary.anomalies.replicas.divergence import Divergence

if TYPE_CHECKING:
    from canary.watching.replicas.source import Source
    from canary.wire.replicas import PartitionReplicas

_MARGIN_MS: Final = 600_000
"""By how much less than retention.ms a record may be old: clocks of brokers differ."""
_BYTES: Final = 1 << 20


def missing_beginnings(
    source: "Source", state: "PartitionReplicas", brokers: Collection[int], now_ms: int
) -> list[Divergence]:
    """Return what the leader has of a partition before another replica begins, one for each such replica.

    Args:
        source: the cluster.
        state: of the partition.
        brokers: whose replicas are looked at.
        now_ms: the present time, since the epoch.

    Raises:
        WireError: a broker does not answer.
    """
    if state.leader is None or state.leader not in brokers:
        return []
    starts = {broker: source.starts(state, broker)[0] for broker in brokers}
    first = starts[state.leader]
    later = {broker: start for broker, start in starts.items() if start > first}
    kept_ms = source.kept_ms(state.topic) if later else None
    if kept_ms is None:
        return []
    found = []
    for broker, start in sorted(later.items()):
        last = next(iter(source.read(state, state.leader, start - 1, _BYTES).batches), None)
        if last is None or not last.base_offset < start <= last.last_offset + 1:
            continue
        written_ms = last.batch.max_timestamp_ms
        if written_ms >= 0 and (kept_ms < 0 or now_ms - written_ms < kept_ms - _MARGIN_MS):
            found.append(
                Divergence(
                    topic=state.topic,
                    partition=state.partition,
                    topic_id=state.topic_id,
                    first=first,
                    last=start - 1,
                    count=start - first,
                    brokers=(broker,),
                    known=True,
                    how="missing",
                    found={},
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                )
            )
    return found
