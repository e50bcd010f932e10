"""One round of questions about groups: which there are, what they have committed, and how far the logs go."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
)

from canary.anomalies.groups.sample import Commit, Place, Round, Told
from canary.kafka.responses import GRACE_S, result, text_of, topic_id_of
from canary.threads import system
from canary.watching import offsets
from canary.watching.selection import Selection

MOST_GROUPS: Final = 100
"""Groups that are watched; what they cost grows with it."""
_WITHOUT_MEMBERS: Final = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD, ConsumerGroupState.UNKNOWN})
REFUSALS: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Answers:
    """A round, how many groups it left out, and what the cluster refused, in words; "" if nothing."""

    round: Round
    left_out: int
    refused: str


class Questions:
    """Asks one cluster.

    Args:
        names: names or patterns of groups.
        besides: what the ids of the canary's own groups begin with; they are judged by their probes.
        timeout_s: how long each answer is waited for.
    """

    def __init__(
        self, admin: Any, names: Collection[str], besides: str, now_ns: Callable[[], int], timeout_s: float
    ) -> None:
        self._admin = admin
        self._chosen = Selection(names)
        self._besides = besides
        self._now_ns = now_ns
        self._timeout_s = timeout_s

    def ask(self, known: Iterable[Place]) -> Answers:
        """Return a round; ``known`` are the partitions in which a group has committed before.

        Raises:
            KafkaException: it is not known which groups there are.
        """
        listed = self._answer(self._admin.list_consumer_groups(request_timeout=self._timeout_s))
        rows = {one.group_id: one for one in listed.valid if self._watched(one.group_id)}
        names = sorted(rows.keys() | self._chosen.literal)
        groups, refused = self._groups(names[:MOST_GROUPS], rows)
        places = {place for told in groups.values() for place in told.commits} | set(known)
        topics, more = self._topics({place[0] for place in places})
        logs, _ = offsets.logs(self._admin, sorted(one for one in places if one[0] in topics), self._timeout_s)
        whole = not listed.errors
        done = Round(self._now_ns(), groups, logs, topics, whole=whole)
        return Answers(done, max(0, len(names) - MOST_GROUPS), "; ".join([*refused, *more][:3]))

    def _watched(self, name: str) -> bool:
        return self._chosen.topic(name) and not name.startswith(self._besides)

    def _groups(self, names: list[str], rows: Mapping[str, Any]) -> tuple[dict[str, Told], list[str]]:
        if not names:
            return {}, []
        limit = {"request_timeout": self._timeout_s}
        described = self._admin.describe_consumer_groups(names, **limit)
        committed = {
            name: self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], **limit)[name]
            for name in names
        }
        self._wait([*described.values(), *committed.values()])
        found: dict[str, Told] = {}
        refused = []
        for name in names:
            try:
                found[name] = _told(rows.get(name), self._answer(described[name]), self._answer(committed[name]))
            except KafkaException as error:
                found[name] = Told(error=text_of(error.args[0]))
                if error.args[0].code() in REFUSALS:
                    refused.append(f"group {name}: {text_of(error.args[0])}")
        return found, refused

    def _topics(self, names: Collection[str]) -> tuple[dict[str, str | None], list[str]]:
        """Return the topics that exist, with their ids; one that does not answer may exist."""
        if not names:
            return {}, []
        asked = self._admin.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout_s)
        self._wait(asked.values())
        found: dict[str, str | None] = {}
        refused = []
        for name, future in asked.items():
            try:
                found[name] = topic_id_of(self._answer(future))
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[name] = None
                if code in REFUSALS:
                    refused.append(f"topic {name}: {text_of(error.args[0])}")
        return found, refused

    def _wait(self, futures: Iterable[Future[Any]]) -> None:
        """Wait for answers together."""
        system.done(set(futures), self._timeout_s + GRACE_S)

    def _answer(self, future: Future[Any]) -> Any:
        return result(future, self._timeout_s + GRACE_S)


def _told(row: Any, described: Any, committed: Any) -> Told:
    for one in committed.topic_partitions:
        if one.error is not None:
            raise KafkaException(one.error)
    members = len(described.members)
    if row is not None and row.state not in _WITHOUT_MEMBERS:
        members = max(members, 1)  # of a protocol whose groups the client cannot describe
    return Told(
        members=members,
        commits={
            (one.topic, one.partition): Commit(one.offset, _epoch(one.leader_epoch))
            for one in committed.topic_partitions
            if one.offset >= 0
        },
        simple=bool(row is not None and row.is_simple_consumer_group),
    )


def _epoch(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None
