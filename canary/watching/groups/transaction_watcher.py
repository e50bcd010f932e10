"""The thread that looks for transactions that hang; canary.wire is asked whose they are, when there are some."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from canary.anomalies.groups.sample import Log, Place
from canary.anomalies.groups.stable import HangingView, Holder, Stable
from canary.anomalies.violation import reported
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.quiet import Gate, calm
from canary.kafka.responses import text_of
from canary.metrics.watched.groups import TransactionsSeen
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.watching import offsets
from canary.watching.groups.asking import REFUSALS
from canary.watching.rounds import in_rounds
from canary.watching.selection import Selection
from canary.wire.errors import NotSupportedError, WireError

log = structlog.get_logger(__name__)

_TIMEOUT_S: Final = 5.0
_MOST_HELD: Final = 20
"""Of so many partitions at once the holder is asked for; the others are named without."""
_AGAIN_S: Final = 300.0
_MAX_TIMEOUT_S: Final = 900.0
"""transaction.max.timeout.ms, where the cluster was not asked to change it."""
_LATE_S: Final = 60.0
"""A coordinator looks for what has timed out every 10 s."""
_SETTING: Final = "transaction.max.timeout.ms"
_NOT_ASKED: Final = Holder(unknown=f"too many: only {_MOST_HELD} are asked for")


def _ns(ms: int) -> int | None:
    return ms * 10**6 if ms > 0 else None


class TransactionWatcher(Worker):
    """Looks until stopped.

    Args:
        config: of an admin client.
        topics: names or patterns.
        stable: what is known of their partitions; it outlives this thread.
        inbox: takes what is found.
        after_s: how long a transaction may last; None: as long as the cluster lets one last.

    ``latest`` is what is known now, None before the first round; ``failing`` is what the cluster refuses, None if it
    refuses nothing.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Sequence[str],
        stable: Stable,
        inbox: Inbox,
        clock: Clock,
        *,
        interval_s: float,
        after_s: float | None,
    ) -> None:
        super().__init__("transaction-watcher")
        self._config = dict(config)
        self._chosen = Selection(topics)
        self._stable = stable
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: cluster_of(self._admin))
        self._admin: Any = None
        self._clock = clock
        self._interval_s = interval_s
        self._after_s = after_s
        self._longest_s: float | None = None
        self._longest_due = 0.0
        self._holders: dict[tuple[str, int, int], tuple[float, Holder]] = {}
        self._gate = Gate()
        self.latest: TransactionsSeen | None = None
        self.failing: str | None = None

    def run(self) -> None:
        """Look until stopped."""
        config = calm(self._config, self.name)
        in_rounds(self, config, lambda error: self._unanswered(text_of(error)), self._look, self._interval_s)

    def _look(self, admin: Any) -> None:
        self._admin = admin
        try:
            self._ask_all(admin)
        except KafkaException as error:
            self._unanswered(text_of(error.args[0]))
        finally:
            self._admin = None  # it is closed by whoever opened it

    def _ask_all(self, admin: Any) -> None:
        metadata = admin.list_topics(timeout=_TIMEOUT_S).topics
        leaders, refused = self._leaders(metadata)
        logs, _ = offsets.logs(admin, leaders, _TIMEOUT_S, ("stable", "end"))
        at_ns = self._clock.now_ns()
        longest_s = self._longest(admin, leaders)
        limit_s = self._after_s if self._after_s is not None else (longest_s or _MAX_TIMEOUT_S) + _LATE_S
        held, ended = self._stable.fold(logs, metadata, at_ns, limit_s)
        self._inbox.tell(reported(self.name, [], ended))
        hanging = list(self._held(held, leaders, logs))
        overdue = {
            view: longest_s is not None and (at_ns - view.since_ns) / 1e9 > longest_s + _LATE_S for view in hanging
        }
        said = [self._stable.said(view, at_ns, overdue=overdue[view]) for view in hanging]
        self._inbox.tell(reported(self.name, [one for one in said if one is not None]))
        self.failing = f"watch.transactions: {refused} (docs/acl.md)" if refused else self._not_told(hanging)
        self.latest = TransactionsSeen(at_ns, tuple(hanging), refused or self._none(leaders, logs))

    def _leaders(self, metadata: Mapping[str, Any]) -> tuple[dict[Place, int], str]:
        """Return the leader of each partition that is looked at, and what the cluster refuses."""
        found: dict[Place, int] = {}
        refused = ""
        for name, topic in metadata.items():
            if not self._chosen.topic(name):
                continue
            if topic.error is not None:
                refused = f"topic {name}: {text_of(topic.error)}" if topic.error.code() in REFUSALS else refused
                continue
            found |= {(name, number): part.leader for number, part in topic.partitions.items() if part.leader >= 0}
        return found, refused

    def _longest(self, admin: Any, leaders: Mapping[Place, int]) -> float | None:
        """Return how long (s) the cluster lets a transaction last; None where it does not tell."""
        if system.monotonic() < self._longest_due or not leaders:
            return self._longest_s
        self._longest_due = system.monotonic() + _AGAIN_S
        broker = ConfigResource(ResourceType.BROKER, str(min(leaders.values())))
        future = admin.describe_configs([broker], request_timeout=_TIMEOUT_S)[broker]
        system.done({future}, _TIMEOUT_S)
        if not future.done() or future.exception() is not None:
            self._longest_due = system.monotonic() + 6 * self._interval_s
            return self._longest_s
        entry = future.result().get(_SETTING)
        self._longest_s = int(entry.value) / 1000 if entry is not None and entry.value else None
        return self._longest_s

    def _held(
        self, held: Sequence[Place], leaders: Mapping[Place, int], logs: Mapping[Place, Log]
    ) -> Iterator[HangingView]:
        for number, place in enumerate(held):
            stable = logs[place].stable
            if stable is None:
                continue
            holder = self._holder(place, stable, leaders[place]) if number < _MOST_HELD else _NOT_ASKED
            if holder is not None:
                yield self._stable.shown(place, logs[place], holder)

    def _holder(self, place: Place, offset: int, leader: int) -> Holder | None:
        """Return who holds a partition's last stable offset; None: nobody does any more."""
        key, now = (*place, offset), system.monotonic()
        if len(self._holders) > 10 * _MOST_HELD:
            self._holders.clear()
        asked_s, known = self._holders.get(key, (float("-inf"), _NOT_ASKED))
        if now - asked_s < _AGAIN_S:
            return known
        try:
            found = self._ask(place, offset, leader)
        except NotSupportedError as error:
            found = Holder(unknown=str(error))
        except WireError as error:
            found = Holder(unknown=str(error) + (" (docs/acl.md)" if error.refused else ""))
            now = now if error.refused else float("-inf")
        if found is not None:
            self._holders[key] = now, found
        return found

    def _ask(self, place: Place, offset: int, leader: int) -> Holder | None:
        from canary.wire import client  # noqa: PLC0415  # 23 MB, for whoever has a transaction that hangs
        from canary.wire.transactions import coordinated, open_in  # noqa: PLC0415  # the same

        with client.opened(self._config, _TIMEOUT_S) as admin:
            holder = next((one for one in open_in(admin, *place, leader) if one.start_offset == offset), None)
            self._same_cluster(client.cluster_of(admin))
            if holder is None:
                return None
            found = coordinated(admin, holder.producer_id)
            if holder not in open_in(admin, *place, leader):
                return None  # it was ended meanwhile: what the coordinator says is of the time after
        known = Holder(holder.producer_id, holder.producer_epoch, started_ns=_ns(holder.last_ms))
        if found is None:
            return replace(known, unknown="none knows the producer, or Describe of its transactional id is missing")
        started_ns = _ns(found.started_ms) or known.started_ns
        return replace(
            known,
            transactional_id=found.transactional_id,
            coordinator=found.coordinator,
            state=found.state,
            timeout_ms=found.timeout_ms,
            started_ns=started_ns,
            known=found.covers(holder, *place),
        )

    def _same_cluster(self, met: str | None) -> None:
        """Say which cluster the second client has met.

        Raises:
            WireError: it is not that of the first one: what it said of holders is of other transactions.
        """
        ClientInbox(self._inbox.beside, self._clock, f"{self.name}-holder", lambda: met).tell([])
        if None not in {met, mine := cluster_of(self._admin)} and met != mine:
            raise WireError(f"a new connection leads to another cluster, {met}")

    @staticmethod
    def _none(leaders: Mapping[Place, int], logs: Mapping[Place, Log]) -> str | None:
        if not leaders:
            return "no topic is matched: there is none, or the right to Describe it is missing"
        lacking = [place for place in leaders if place not in logs or logs[place].stable is None]
        if not lacking:
            return None
        topic, partition = lacking[0]
        return f"{len(lacking)} partitions gave no offsets, for example {topic}-{partition}"

    @staticmethod
    def _not_told(hanging: Sequence[HangingView]) -> str | None:
        """Return why the holder of a transaction that hangs is not known, if that can be mended."""
        words = (view.holder.unknown for view in hanging if view.holder.producer_id is None)
        reason = next((one for one in words if one is not None), None)
        return None if reason is None else f"watch.transactions: {reason}"

    def _unanswered(self, reason: str) -> None:
        if self._gate.admit("unanswered") is not None:
            log.info("transactions_not_seen", reason=reason)
        hanging = self.latest.hanging if self.latest is not None else ()
        self.latest = TransactionsSeen(self._clock.now_ns(), hanging, reason)
