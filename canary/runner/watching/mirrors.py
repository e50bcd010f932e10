"""The topics that are mirrored from other clusters, as the settings want them watched."""

from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.metrics.mirrors import MirrorsSeen
from canary.runner.context import ClusterContext
from canary.settings import ClusterSettings, consumer_config
from canary.watching.groups.group_watcher import Report
from canary.watching.mirrormaker.mirror_watcher import MirrorProgress, MirrorWatcher

_OLD_S = 60.0
"""What was seen so long ago is not known any more."""


class Mirrors:
    """The parts that watch them, one for each topic: none where the settings say nothing of other clusters.

    What is known of them outlives the parts, which are renewed with the credentials.
    """

    def __init__(self, context: ClusterContext, report: Report) -> None:
        self._context = context
        self._report = report
        self._known: list[tuple[ClusterSettings, str, Mirror, MirrorProgress]] = []
        clusters = {one.name: one for one in context.settings.clusters}
        for origin in context.cluster.replicated_from:
            source = clusters[origin.cluster]
            for topic in origin.topics or (source.topic.name,):
                mirror = Mirror(Link(source.name, topic, origin.mirrored(topic), origin.recovery_point))
                self._known.append((source, origin.checkpoints_topic, mirror, MirrorProgress()))
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
        self._report([], [one for _, _, mirror, _ in self._known for one in mirror.reported()])

    def renew(self) -> None:
        """Make the parts anew, not started."""
        self.parts = [
            MirrorWatcher(
                consumer_config(source, "read_committed"),
                consumer_config(self._context.cluster, "read_committed"),
                mirror,
                progress,
                checkpoints,
                self._report,
                self._context.clock,
            )
            for source, checkpoints, mirror, progress in self._known
        ]
