"""What is watched of elections, as the settings want it: leader epochs of named topics, and the metadata quorum."""

from collections.abc import Iterator

from canary.metrics.metric import Measurement
from canary.runner.context import ClusterContext
from canary.settings import admin_config
from canary.threads.worker import Worker
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.watching.elections.quorum_watcher import QuorumWatcher

_OLD_S = 60.0
"""What was seen so long ago is not known any more."""
_QUORUM_S = 5.0
"""How often the quorum is asked: about as often as its log gets an entry when nothing happens."""


class Elections:
    """The parts that watch them: none where the settings name no topic, and do not ask for the quorum."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._epochs: EpochWatcher | None = None
        self._quorum: QuorumWatcher | None = None
        self.renew()

    @property
    def parts(self) -> list[Worker]:
        """The threads."""
        return [part for part in (self._epochs, self._quorum) if part is not None]

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series of what is known now; none before the first look, and of what is not watched."""
        now_ns = self._context.clock.now_ns()
        for part in (self._epochs, self._quorum):
            if part is not None and part.latest is not None:
                yield from part.latest.aged(now_ns, _OLD_S).measurements()

    def renew(self) -> None:
        """Make the parts anew, not started."""
        cluster, clock, inbox = self._context.cluster, self._context.clock, self._context.inbox
        if cluster.watch.epochs:
            self._epochs = EpochWatcher(
                admin_config(cluster),
                cluster.watch.epochs,
                [cluster.topic_of(mode) for mode in cluster.modes.enabled()],
                inbox,
                clock,
                self._context.settings.runner.watch_interval,
            )
        if cluster.watch.quorum:
            self._quorum = QuorumWatcher(admin_config(cluster), inbox, clock, _QUORUM_S)
