"""The topics that are mirrored from other clusters, as the settings want them watched."""

from collections.abc import Sequence
from functools import partial

from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.anomalies.mirrormaker.partition import MOST_HOLES
from canary.anomalies.violation import Violation, reported
from canary.metrics.watched.mirrors import MirrorsSeen
from canary.runner.context import ClusterContext
from canary.settings import ClusterSettings, consumer_config
from canary.watching.mirrormaker.mirror_watcher import MirrorProgress, MirrorWatcher
from storage.store import StoreError
from storage.store.values import StoredViolation

_OLD_S = 60.0
"""What was seen so long ago is not known any more."""


class Mirrors:
    """The parts that watch them, one for each topic: none where the settings say nothing of other clusters.

    What is known of them outlives the parts, which are renewed with the credentials.

    Args:
        gaps: which the ledger has found again and the store may not have yet.
    """

    def __init__(self, context: ClusterContext, gaps: Sequence[Violation] = ()) -> None:
        self._context = context
        self._gaps = gaps
        self._known: list[tuple[ClusterSettings, str, Mirror, MirrorProgress]] = []
        clusters = {one.name: one for one in context.settings.clusters}
        for origin in context.cluster.replicated_from:
            source = clusters[origin.cluster]
            for topic in origin.topics or (source.topic.name,):
                mirror = Mirror(Link(source.name, topic, origin.mirrored(topic), origin.recovery_point))
                progress = MirrorProgress(earlier=partial(self._open_gaps, mirror))
                self._known.append((source, origin.checkpoints_topic, mirror, progress))
        self.parts: list[MirrorWatcher] = []
        self.renew()

    @property
    def latest(self) -> MirrorsSeen | None:
        """What is known now; None if none is watched."""
        if not self.parts:
            return None
        return MirrorsSeen(tuple(one.latest for one in self.parts)).aged(self._context.clock.now_ns(), _OLD_S)

    def leave(self) -> None:
        """End what holds: the parts are stopped, and whoever comes after them knows nothing of it."""
        now_ns = self._context.clock.now_ns()
        held = [one for _, _, mirror, _ in self._known for one in mirror.reported(now_ns)]
        self._context.inbox.put(reported("mirrors", [], held))

    def renew(self) -> None:
        """Make the parts anew, not started."""
        self.parts = [
            MirrorWatcher(
                consumer_config(source, "read_committed"),
                consumer_config(self._context.cluster, "read_committed"),
                mirror,
                progress,
                checkpoints,
                self._context.inbox,
                self._context.clock,
            )
            for source, checkpoints, mirror, progress in self._known
        ]

    def _open_gaps(self, mirror: Mirror) -> list[Violation] | None:
        """Return the gaps of a mirrored topic that are open in the store, or come to it; None: it does not answer."""
        store, cluster = self._context.store.violations, self._context.cluster.name
        own = [one for one in self._gaps if mirror.is_about(one.topic, one.topic_id)]
        try:
            rows = [row for row in store.unended(cluster, ["mirror-gap"]) if mirror.is_about(row.topic, row.topic_id)]
            stored = [store.get(row.id) for row in rows[-MOST_HOLES:]]
            coming = [one for one in own if store.get(one.key(cluster)) is None]
        except StoreError:
            return None
        found = [_violation(row) for row in stored if row is not None]
        return [one for one in (*found, *coming) if one.evidence.get("why") == "missing"]


def _violation(row: StoredViolation) -> Violation:
    return Violation(
        kind=row.kind,
        severity="critical",
        topic=row.topic,
        topic_id=row.topic_id,
        partition=row.partition,
        offset=row.offset,
        identity=row.identity,
        at_ns=row.first_seen_ns,
        by="watch",
        summary=row.summary,
        evidence=row.evidence,
        records=tuple(row.records),
    )
