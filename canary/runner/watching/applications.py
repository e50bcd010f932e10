"""What is watched of applications, as the settings want it: groups, hanging transactions, replicas of topics."""

from canary.anomalies.groups.rounds import Groups
from canary.anomalies.groups.stable import Stable
from canary.anomalies.violation import reported
from canary.metrics.watched.watched import Watched
from canary.runner.context import ClusterContext
from canary.settings import admin_config
from canary.threads.worker import Worker
from canary.watching.groups.group_watcher import GroupWatcher
from canary.watching.groups.transaction_watcher import TransactionWatcher
from canary.watching.replicas.progress import Progress
from canary.watching.replicas.scrubber import ReplicaScrubber

_OLD_S = 60.0
"""What was seen so long ago, and some intervals more, is not known any more."""
_STANDS_S = 600.0
"""A comparison of replicas that has done no step for so long does none any more."""


class Applications:
    """The parts that watch them: none where the settings name no group and no topic.

    What is known of them outlives the parts, which are renewed with the credentials.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        watch = context.cluster.watch
        self._known = Groups(watch.group_stuck_after, watch.group_partitions)
        self._stable = Stable(context.cluster.bootstrap_servers or "")
        self._groups: GroupWatcher | None = None
        self._transactions: TransactionWatcher | None = None
        self._progress = Progress()
        self._replicas: ReplicaScrubber | None = None
        self.renew()

    @property
    def parts(self) -> list[Worker]:
        """The threads."""
        return [part for part in (self._groups, self._transactions, self._replicas) if part is not None]

    @property
    def latest(self) -> Watched:
        """What is known now; None before the first look, and of what is not watched."""
        now_ns, most_s = self._context.clock.now_ns(), _OLD_S + 4 * self._context.cluster.watch.groups_interval
        groups = self._groups.latest if self._groups is not None else None
        transactions = self._transactions.latest if self._transactions is not None else None
        replicas = self._replicas.latest if self._replicas is not None else None
        return Watched(
            groups and groups.aged(now_ns, most_s),
            transactions and transactions.aged(now_ns, most_s),
            replicas and replicas.aged(now_ns, _STANDS_S),
        )

    def leave(self) -> None:
        """End what holds: the parts are stopped, and whoever comes after them knows nothing of it."""
        held = [*self._known.reported(), *self._stable.reported(self._context.clock.now_ns())]
        self._context.inbox.put(reported("applications", [], held))

    def renew(self) -> None:
        """Make the parts anew, not started."""
        cluster, clock, inbox = self._context.cluster, self._context.clock, self._context.inbox
        watch = cluster.watch
        if watch.groups:
            self._groups = GroupWatcher(
                admin_config(cluster),
                watch.groups,
                cluster.identifier_prefix,
                self._known,
                inbox,
                clock,
                watch.groups_interval,
            )
        if watch.transactions:
            self._transactions = TransactionWatcher(
                admin_config(cluster),
                watch.transactions,
                self._stable,
                inbox,
                clock,
                interval_s=watch.groups_interval,
                after_s=watch.hanging_after,
            )
        if watch.replicas:
            self._replicas = ReplicaScrubber(
                admin_config(cluster),
                watch.replicas,
                self._progress,
                inbox,
                clock,
                bytes_per_second=watch.replicas_bytes_per_second,
            )
