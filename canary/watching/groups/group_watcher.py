"""The thread that looks at the groups of applications."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaException

from canary.anomalies.groups.rounds import Groups
from canary.anomalies.violation import reported
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.quiet import Gate, calm
from canary.kafka.responses import text_of
from canary.metrics.watched.groups import GroupsSeen
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.watching.groups.asking import REFUSALS, Questions
from canary.watching.rounds import in_rounds

log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
_NONE = "no group is matched: there is none, or the right to Describe groups is missing"


class GroupWatcher(Worker):
    """Asks round after round, until stopped.

    Args:
        config: of an admin client.
        names: names or patterns of groups.
        besides: what the ids of the canary's own groups begin with.
        groups: what is known of them; it outlives this thread.
        inbox: takes what is found.

    ``latest`` is what is known now, None before the first round; ``failing`` is what the cluster refuses, None if it
    refuses nothing.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        names: Sequence[str],
        besides: str,
        groups: Groups,
        inbox: Inbox,
        clock: Clock,
        interval_s: float,
    ) -> None:
        super().__init__("group-watcher")
        self._config = dict(config)
        self._names = names
        self._besides = besides
        self._groups = groups
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: cluster_of(self._admin))
        self._admin: Any = None
        self._clock = clock
        self._interval_s = interval_s
        self._gate = Gate()
        self.latest: GroupsSeen | None = None
        self.failing: str | None = None

    def run(self) -> None:
        """Look until stopped."""
        config = calm(self._config, self.name)
        in_rounds(self, config, lambda error: self._unanswered(text_of(error)), self._look, self._interval_s)

    def _look(self, admin: Any) -> None:
        self._admin = admin
        try:
            self._round(admin)
        finally:
            self._admin = None  # it is closed by whoever opened it

    def _round(self, admin: Any) -> None:
        questions = Questions(admin, self._names, self._besides, self._clock.now_ns, _TIMEOUT_S)
        try:
            answers = questions.ask(self._groups.places())
        except KafkaException as error:
            refused = error.args[0].code() in REFUSALS
            self.failing = f"watch.groups: {text_of(error.args[0])} (docs/acl.md)" if refused else self.failing
            self._unanswered(text_of(error.args[0]))
            return
        self.failing = f"watch.groups: {answers.refused} (docs/acl.md)" if answers.refused else None
        self._inbox.tell(reported(self.name, *self._groups.fold(answers.round)))
        views = self._groups.views()
        unknown = None if answers.round.groups else _NONE
        self.latest = GroupsSeen(answers.round.at_ns, views, answers.left_out, unknown)

    def _unanswered(self, reason: str) -> None:
        if self._gate.admit("unanswered") is not None:
            log.info("groups_not_seen", reason=reason)
        self._groups.unanswered(reason)
        left_out = self.latest.left_out if self.latest is not None else 0
        self.latest = GroupsSeen(self._clock.now_ns(), self._groups.views(), left_out, reason)
