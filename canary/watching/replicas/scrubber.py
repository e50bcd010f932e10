"""The thread that compares the replicas of chosen topics, partition after partition, without end and slowly."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from canary.anomalies.replicas.divergence import Divergence
from canary.anomalies.violation import reported
from canary.kafka.client_inbox import ClientInbox
from canary.kafka.quiet import Gate
from canary.metrics.watched.replicas import ReplicasSeen
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.watching.replicas.comparing import Comparison
from canary.watching.replicas.progress import Progress
from canary.watching.selection import Selection
from canary.wire.errors import WireError

if TYPE_CHECKING:
    from canary.watching.replicas.source import Source

log = structlog.get_logger(__name__)

_TIMEOUT_S: Final = 10.0
_REST_S: Final = 60.0
"""Between two passes, so that topics of little content are not read all the time."""
_RETRY_S: Final = 10.0
_NONE: Final = "no topic is matched: there is none, or the right to Describe it is missing"


class ReplicaScrubber(Worker):
    """Compares until stopped.

    Args:
        config: of an admin client.
        topics: names or patterns.
        progress: how far it is; it outlives this thread.
        inbox: takes what is found.
        bytes_per_second: what may be read in a second, from all replicas together.

    ``latest`` is what is known now, None before the first look; ``failing`` is what the cluster refuses, None if it
    refuses nothing.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Sequence[str],
        progress: Progress,
        inbox: Inbox,
        clock: Clock,
        *,
        bytes_per_second: int,
        rest_s: float = _REST_S,
    ) -> None:
        super().__init__("replica-scrubber")
        self._config = dict(config)
        self._chosen = Selection(topics)
        self._progress = progress
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: self._met)
        self._met: str | None = None
        self._clock = clock
        self._rate = bytes_per_second
        self._rest_s = rest_s
        self._gate = Gate()
        self.latest: ReplicasSeen | None = None
        self.failing: str | None = None

    def run(self) -> None:
        """Compare until stopped."""
        from canary.watching.replicas.source import Source  # noqa: PLC0415  # 23 MB, for whoever compares replicas
        from canary.wire.client import opened  # noqa: PLC0415  # the same

        while not self.stopping.is_set():
            try:
                with opened(self._config, _TIMEOUT_S) as admin:
                    self._pass(Source(admin))
                self._rest()
            except WireError as error:
                self._unanswered(error)
                self.wait(_RETRY_S)

    def _rest(self) -> None:
        """Wait between two passes, and say meanwhile that it is well."""
        left = self._rest_s
        while left > 0 and self.wait(min(left, _RETRY_S)):
            left -= _RETRY_S
            self._show(self.latest.unknown if self.latest else None)

    def _pass(self, source: "Source") -> None:
        """Compare each partition once, those first that the last pass did not come to."""
        chosen = filter(self._chosen.topic, source.names())
        places = [(one.topic, one.partition) for one in source.partitions(*chosen)]
        self._progress.begin(places, self._clock.now_ns())
        self._show(None if places else _NONE)
        while (place := self._progress.next()) is not None:
            if not self._compare(source, *place):
                return
        self.failing = self._progress.refused

    def _compare(self, source: "Source", topic: str, partition: int) -> bool:
        """Compare one partition; False when stopped."""
        start, before = self._progress.interrupted_at(topic, partition)
        comparison = Comparison(source, topic, partition, start=start, before=before)
        try:
            for step in comparison.run():
                self._progress.read(comparison.outcome, comparison.resume_at, step.bytes)
                self._say(source, step.found)
                self._show(None)
                if not self._pace(max(step.pause_s, step.bytes / self._rate)):
                    return False
        except WireError:
            self._progress.interrupted(topic, partition)
            raise
        self._progress.done(comparison.outcome, self._clock.now_ns())
        self._show(None)
        return True

    def _pace(self, seconds: float) -> bool:
        until = system.monotonic() + seconds
        while (left := until - system.monotonic()) > 0:
            if not self.wait(left):
                return False
        return not self.stopping.is_set()

    def _say(self, source: "Source", found: Sequence[Divergence]) -> None:
        """Report what differs, where all brokers that differ are of one cluster: each was asked on its own connection.

        Raises:
            WireError: they are not, or one of them does not answer.
        """
        if not found:
            return
        met = {source.cluster_at(broker) for one in found for kept in one.found.values() for broker in kept}
        for self._met in sorted(one for one in met if one is not None):
            self._inbox.tell([])
        if len(met) > 1:
            raise WireError("new connections to some brokers lead to another cluster")
        now_ns = self._clock.now_ns()
        self._inbox.tell(
            reported(self.name, [one.violation(now_ns, command(one.topic, one.partition)) for one in found])
        )

    def _show(self, unknown: str | None) -> None:
        self.latest = ReplicasSeen(self._clock.now_ns(), self._progress.topics(), unknown)

    def _unanswered(self, error: WireError) -> None:
        if self._gate.admit("unanswered") is not None:
            log.info("replicas_not_compared", reason=str(error))
        self.failing = f"watch.replicas: {error} (docs/acl.md)" if error.refused else self.failing
        self._show(str(error))


def command(topic: str, partition: int) -> str:
    """Return the command that shows where replicas differ."""
    return f"canary replicas compare {topic} --partition {partition}"
