"""The thread that asks which controller leads, and how far the other ones are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.facts import QuorumSeen
from canary.metrics.watched.elections import QuorumWatched, VoterSeen
from canary.watching.elections.asking import WireWatcher
from canary.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.threads.ports import Clock, Inbox
    from canary.wire.quorum import Quorum


class QuorumWatcher(WireWatcher):
    """Asks until stopped, through one broker after the other: one that is cut off may lead to a former controller.

    Each answer becomes a QuorumSeen fact in ``inbox``, of the cluster that the broker said it belongs to.

    ``latest`` is what is known now, None before the first round.
    """

    def __init__(self, config: Mapping[str, object], inbox: Inbox, clock: Clock, interval_s: float) -> None:
        super().__init__("quorum-watcher", config, inbox, clock, interval_s)
        self._cluster_id: str | None = None
        self._brokers: list[int] = []
        self._turn = 0
        self._silent_ns: dict[int, int] = {}
        self.latest: QuorumWatched | None = None

    def look(self, admin: Any) -> None:
        """Ask once."""
        self._turn += 1
        through = self._brokers[self._turn % len(self._brokers)] if self._brokers else None
        try:
            found = self._through(admin, through)
        except WireError as error:
            if through is None or error.code:
                raise
            through, found = None, self._through(admin, None)
        now_ns, ids = self._clock.now_ns(), ",".join(str(one.node) for one in found.voters)
        self._inbox.tell([QuorumSeen(now_ns, found.leader, found.epoch, ids, found.high_watermark, through)])
        newest_ms = max((one.caught_up_ms or 0 for one in found.voters), default=0)  # by the leader's clock: its own
        voters = tuple(
            VoterSeen(one.node, one.lag, self._behind_s(one.node, one.caught_up_ms, newest_ms, now_ns))
            for one in found.voters
        )
        self.failing = None
        self.latest = QuorumWatched(now_ns, found.leader, found.epoch, voters)

    def _through(self, admin: Any, broker: int | None) -> Quorum:
        from canary.wire.quorum import quorum  # noqa: PLC0415  # 23 MB, for whoever has this in the settings
        from canary.wire.replicas import members  # noqa: PLC0415  # the same

        found = quorum(admin, broker)
        self._brokers, _, self._cluster_id = members(admin, broker)
        return found

    def _met(self) -> str | None:
        """Return which cluster the last answer is of."""
        return self._cluster_id

    def _behind_s(self, node: int, caught_up_ms: int | None, newest_ms: int, now_ns: int) -> float:
        """Return for how long a voter has been behind; of one that never had all, since that was seen first."""
        if caught_up_ms is not None:
            self._silent_ns.pop(node, None)
            return (newest_ms - caught_up_ms) / 1000
        return (now_ns - self._silent_ns.setdefault(node, now_ns)) / 1e9

    def unanswered(self, error: WireError) -> None:
        """Nothing is known now."""
        reason = str(error)
        if error.code == "UNSUPPORTED_VERSION":
            reason = "no KRaft cluster of Kafka 3.3 or later: leave watch.quorum out"
        mendable = error.refused or error.code == "UNSUPPORTED_VERSION"
        self.failing = f"watch.quorum: {reason}{' (docs/acl.md)' if error.refused else ''}" if mendable else None
        self.latest = QuorumWatched(self._clock.now_ns(), unknown=reason)
