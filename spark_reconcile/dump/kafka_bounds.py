"""Asks a cluster what a dump has to cover: offsets, topic id and retention of each partition."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from canary.kafka import membership
from canary.kafka.quiet import quiet_logger
from canary.kafka.responses import describe_settings, renew, text_of, topic_id_of
from spark_reconcile.dump.log_start import verified
from spark_reconcile.errors import UnreachableError
from spark_reconcile.tables.columns import ISOLATIONS

log = structlog.get_logger(__name__)

_LEVELS: Final = {ISOLATIONS[0]: IsolationLevel.READ_COMMITTED, ISOLATIONS[1]: IsolationLevel.READ_UNCOMMITTED}
_TRIES: Final = 5
_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. Retention None: unknown; -1: unlimited. ``compacted`` None: unknown, too.

    ``tiered``: records are in a remote tier, too, so that no broker tells how large the log is.
    """

    name: str
    topic_id: str | None
    partitions: int
    retention_ms: int | None
    retention_bytes: int | None
    compacted: bool | None = None
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [start, end) of a partition at one isolation level, asked ``at`` (us since the epoch)."""

    topic: str
    partition: int
    isolation: str
    start: int
    end: int
    at: int


class Cluster:
    """A cluster, asked through the admin client; ``config`` are librdkafka properties."""

    def __init__(self, name: str, config: Mapping[str, Any], timeout_s: float = 10.0) -> None:
        self.name = name
        self._timeout_s = timeout_s
        self._config = config
        self._admin = AdminClient(dict(config), logger=quiet_logger("dump"))

    def cluster_id(self) -> str:
        """Return the cluster.id, "" if the cluster has none.

        Raises:
            UnreachableError: the cluster does not answer.
        """
        ask = membership.asked(self._admin)
        told = self._answered(lambda: {"it": ask(self._timeout_s)}, "who it is")["it"]
        if isinstance(told, KafkaError):
            raise UnreachableError(f"cluster {self.name} does not answer: {text_of(told)}")
        return told.cluster_id or ""

    def topics(self, names: Sequence[str]) -> list[Topic]:
        """Return those of the topics that exist.

        Raises:
            UnreachableError: the cluster does not answer, or refuses the question.
        """
        described = self._answered(
            lambda: self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s),
            "its topics",
            final={KafkaError.UNKNOWN_TOPIC_OR_PART},
        )
        topics = []
        for name, answer in described.items():
            if isinstance(answer, KafkaError):
                if answer.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise UnreachableError(f"cluster {self.name} does not describe {name}: {text_of(answer)}")
                log.warning("dump_topic_missing", cluster=self.name, topic=name)
                continue
            topics.append(Topic(name, topic_id_of(answer), len(answer.partitions), *self._retention(name)))
        return topics

    def unchanged(self, topics: Sequence[Topic], doing: str) -> None:
        """Make sure that topics are still those that they were while one was ``doing`` something, like "dumped".

        Raises:
            UnreachableError: one was deleted or made anew, or the cluster does not answer.
        """
        for name in self.made_anew(topics):
            raise UnreachableError(f"topic {name} of cluster {self.name} was made anew while it was {doing}")

    def made_anew(self, topics: Sequence[Topic]) -> list[str]:
        """Return the names of topics that are not those that they were: deleted, or made anew.

        Raises:
            UnreachableError: the cluster does not answer; or new connections, like those by which their records were
                read, lead to another one.
        """
        names, anew = [topic.name for topic in topics], self.connected_anew()
        again = {topic.name: topic.topic_id for topic in (anew.topics(names) if names else ())}
        return [
            topic.name
            for topic in topics
            if topic.name not in again
            or len({topic.topic_id, again[topic.name]} - {None}) > 1  # during an upgrade only some brokers tell it
        ]

    def connected_anew(self) -> "Cluster":
        """Return the cluster by connections of now.

        Raises:
            UnreachableError: it does not answer, or they lead to another one.
        """
        anew = Cluster(self.name, self._config, self._timeout_s)
        if (met := anew.cluster_id()) != (known := self.cluster_id()):
            raise UnreachableError(f"cluster {self.name}: new connections lead to cluster {met}, not to {known}")
        return anew

    def names(self) -> list[str]:
        """Return the names of all topics that may be described, in order.

        Raises:
            UnreachableError: the cluster does not answer.
        """
        for turn in range(2):
            try:
                return sorted(self._admin.list_topics(timeout=self._timeout_s).topics)
            except KafkaException as error:
                if turn:
                    raise UnreachableError(f"cluster {self.name} does not answer: {text_of(error.args[0])}") from error
        raise AssertionError  # the last turn returns or raises

    def sizes(self, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
        """Return how many bytes the logs have on their leaders, of topics with a retention.bytes; empty if unknown.

        Needs Describe of the cluster.
        """
        from canary.wire.client import opened  # noqa: PLC0415  # slow, and only for topics with a retention.bytes
        from canary.wire.errors import WireError  # noqa: PLC0415  # the same
        from canary.wire.topics import sizes_at_leaders  # noqa: PLC0415  # the same

        limited = [one.name for one in topics if not one.tiered and one.retention_bytes not in {None, -1}]
        found: dict[tuple[str, int], int] = {}
        errors: list[WireError] = []
        try:
            if limited:
                with opened(self._config) as admin:
                    for sizes in sizes_at_leaders(admin, limited):
                        if isinstance(sizes, WireError):
                            errors.append(sizes)
                        else:
                            found |= sizes
        except WireError as error:
            errors.append(error)
        for one in errors:
            log.warning("dump_sizes_unknown", cluster=self.name, topics=limited, reason=str(one))
        return found

    def _retention(self, topic: str) -> tuple[int | None, int | None, bool | None, bool]:
        config = self._answered(
            lambda: {topic: describe_settings(self._admin, topic)(self._timeout_s)}, "topic settings"
        )[topic]
        if isinstance(config, KafkaError):
            log.warning("dump_retention_unknown", cluster=self.name, topic=topic, reason=text_of(config))
            return None, None, None, False
        size, age = config.get("retention.bytes"), config.get("retention.ms")
        policy = getattr(config.get("cleanup.policy"), "value", "delete")
        compacted = "compact" in policy
        if "delete" not in policy:
            return -1, -1, compacted, False
        tiered = getattr(config.get("remote.storage.enable"), "value", "false") == "true"
        return (int(age.value) if age else None), (int(size.value) if size else None), compacted, tiered

    def spans(self, topics: Sequence[Topic], levels: Sequence[str]) -> list[Span]:
        """Return the spans of now; a partition without a leader has none.

        Raises:
            UnreachableError: no partition answers.
        """
        at = time.time_ns() // 1000
        ends = {level: self._offsets(topics, OffsetSpec.latest, level) for level in levels}
        starts = self.starts(topics)
        spans = [
            Span(topic, partition, level, starts[topic, partition], end, at)
            for level in levels
            for (topic, partition), end in ends[level].items()
            if (topic, partition) in starts
        ]
        if not spans and any(topic.partitions for topic in topics):
            raise UnreachableError(f"cluster {self.name}: no partition of {', '.join(t.name for t in topics)} answers")
        return spans

    def starts(self, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
        """Return the first offset of each partition that has a leader, as a fetch right below it shows."""
        return verified(self._config, self._offsets(topics, OffsetSpec.earliest, ISOLATIONS[1]))

    def _offsets(self, topics: Sequence[Topic], spec: Any, level: str) -> dict[tuple[str, int], int]:
        places = [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]
        answers = self._answered(
            lambda: self._admin.list_offsets(
                {place: spec() for place in places}, isolation_level=_LEVELS[level], request_timeout=self._timeout_s
            ),
            "offsets",
            again=_leaderless,
        )
        result = {}
        for place, answer in answers.items():
            if isinstance(answer, KafkaError) or _leaderless(answer):
                reason = text_of(answer) if isinstance(answer, KafkaError) else "it has no leader"
                log.warning("dump_partition_silent", topic=place.topic, partition=place.partition, reason=reason)
                continue
            result[place.topic, place.partition] = answer.offset
        return result

    def _answered(
        self, ask: Any, what: str, final: Collection[int] = (), again: Callable[[Any], bool] = lambda _: False
    ) -> dict[Any, Any]:
        """Ask until every answer is good, at most _TRIES times; return the answers, the last errors among them.

        ``ask`` returns futures by their subjects. Another try does not change an error with a ``final`` code; an answer
        without error may have to be asked for ``again``.
        """
        answers: dict[Any, Any] = {}
        for turn in range(_TRIES):
            if turn:
                renew(self._admin)
                time.sleep(_PAUSE_S)  # a leader is being elected; no event says when
            try:
                futures = ask()
            except KafkaException as error:
                raise UnreachableError(
                    f"cluster {self.name} cannot be asked for {what}: {text_of(error.args[0])}"
                ) from error
            answers = {key: _answer(future, self._timeout_s + 1) for key, future in futures.items()}
            wrong = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
            good = [answer for answer in answers.values() if not isinstance(answer, KafkaError)]
            if all(answer.code() in final for answer in wrong) and not any(map(again, good)):
                break
            if wrong and len(wrong) == len(answers) and wrong[0].code() in _SILENCE and turn:
                raise UnreachableError(f"cluster {self.name} does not answer: {text_of(wrong[0])}")
        return answers


_SILENCE: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001  # the client's own errors


def _leaderless(answer: Any) -> bool:
    """Return whether the partition has no leader that answers: then the offset is -1001, without an error."""
    return bool(answer.offset < 0)


def _answer(future: Any, timeout_s: float) -> Any:
    """Return what a future holds, or its KafkaError."""
    try:
        return future.result(timeout_s)
    except KafkaException as error:
        return error.args[0]
    except TimeoutError:
        return KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001  # as above
