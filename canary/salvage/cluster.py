"""What the cluster has of a partition now: the topic's id, the bounds and leader epochs of its log, and its batches.

Needs Describe and DescribeConfigs of the topic, and Read where its log is read: for newer records of the same keys, and
to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from canary.errors import UserError
from canary.kafka import membership
from canary.kafka.responses import answer, describe_settings, describe_topic, renew, text_of, topic_id_of
from canary.salvage.divergence import Holdings, spans
from canary.threads import system
from canary.wire.epochs import Boundaries, Led, boundaries
from canary.wire.errors import WireError
from canary.wire.fetch import fetch
from canary.wire.records import Batch, batches
from canary.wire.replicas import cluster_at

T = TypeVar("T")

UNREACHABLE: Final = 3
NOTHING: Final = Holdings(0, 0, ())
"""What a cluster holds of a topic that it does not have."""
_ALL: Final = 1 << 30
_PATIENCE_S: Final = 30.0
_AGAIN_S: Final = 0.25
_NO_LEADER: Final = "LEADER_NOT_AVAILABLE"
_FINAL: Final = frozenset({_NO_LEADER, "OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"})
"""Answers that stay the same for now: of a partition without a leader others have to decide what becomes of it."""


class UnknownError(UserError):
    """The cluster answers, but not for this partition: what it has of it is unknown."""

    exit_status = UNREACHABLE


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster; ``topic_id`` is None where the cluster has none. ``settings``: all of them, by name."""

    name: str
    topic_id: str | None
    partitions: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def compacted(self) -> bool:
        """Whether records of it are removed because their keys have newer ones."""
        return "compact" in self.settings.get("cleanup.policy", "")

    @property
    def tiered(self) -> bool:
        """Whether brokers read old records of it from a remote tier (KIP-405), in whose time they may give nothing."""
        return self.settings.get("remote.storage.enable") == "true"


class ClusterView:
    """Asks one cluster.

    Args:
        name: of the cluster in the settings, for messages.
        admin: an AdminClient of confluent-kafka.
        wire: a client (``canary.wire.client.opened``).
    """

    def __init__(self, name: str, admin: Any, wire: Any) -> None:
        self.name = name
        self.admin = admin
        self._wire = wire
        self._known: str | None = None
        """The cluster's id, once it was asked for."""

    def cluster_id(self) -> str:
        """Return the cluster's id.

        Raises:
            UserError: no answer. So do all others.
        """
        self._known = str(self._answer(membership.asked(self.admin), "its id").cluster_id)
        return self._known

    def topic(self, name: str, *, made: bool = False) -> Topic | None:
        """Return a topic; None: there is none, or the cluster does not tell us that there is.

        ``made``: there was one just now, so a broker that knows of none has not learned of it yet, and is asked again.
        """
        final = lambda code: code >= 0 and not (made and code == KafkaError.UNKNOWN_TOPIC_OR_PART)  # noqa: E731  # of both
        try:
            described: Any = answer(self.admin, describe_topic(self.admin, name), final=final)
            settings: Any = answer(self.admin, describe_settings(self.admin, name), final=final)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._explained(error, f"topic {name} and its settings") from error
        values = {one.name: str(one.value) for one in settings.values()}
        return Topic(name, topic_id_of(described), len(described.partitions), values)

    def log(self, topic: Topic, partition: int, *, same: bool = True) -> PartitionLog:
        """Return the log of a partition as it is now; not the ``same`` topic: it holds nothing of what is asked for."""
        place = TopicPartition(topic.name, partition)
        self._again(lambda: self._leader(topic.name, partition), f"leader of {topic.name}:{partition}")
        if not same:
            return PartitionLog(self, topic, partition, NOTHING, self._start(place))
        held = self._again(lambda: self._boundaries(place), f"leader epochs of {topic.name}:{partition}")
        start = self._start(place)  # last: what retention removes meanwhile is expired, not gone
        starts = [(one.epoch, max(one.start_offset, start)) for one in held.epochs]
        begins = start if held.whole or not starts else max(start, starts[0][1])
        holdings = Holdings(begins, held.end_offset, spans(starts, held.end_offset))
        return PartitionLog(self, topic, partition, holdings, begins)

    def fetched(self, topic: str, partition: int, offset: int, *, tiered: bool) -> tuple[bytes, int]:
        """Return batches from an offset on, of the leader, and its high watermark.

        ``tiered``: below the high watermark there are some, though the leader may have to wait for a remote tier.
        """

        def ask() -> tuple[bytes, int]:
            leader = self._leader(topic, partition)
            found = fetch(self._wire, topic, partition, leader, offset)
            self._same_cluster(leader)
            if tiered and not found.batches and offset < found.high_watermark:
                raise WireError("the remote tier does not give them in time (remote.fetch.max.wait.ms)")
            return found.batches, found.high_watermark

        return self._again(ask, f"records of {topic}:{partition} from offset {offset} on")

    def _start(self, place: TopicPartition) -> int:
        what = f"the bounds of {place.topic}:{place.partition}"
        return int(self._again(lambda: self._offset(place, OffsetSpec.earliest()), what).offset)

    def _boundaries(self, place: TopicPartition) -> Boundaries:
        epoch = self._offset(place, OffsetSpec.latest()).leader_epoch
        led = Led(self._leader(place.topic, place.partition), -1 if epoch is None else epoch)
        found = boundaries(self._wire, {(place.topic, place.partition): led}, most=_ALL)[place.topic, place.partition]
        if isinstance(found, WireError):
            raise found
        self._same_cluster(led.leader)
        return found

    def _same_cluster(self, broker: int) -> None:
        """Make sure that what answers as this broker is of the cluster: a new connection to it may lead elsewhere.

        Raises:
            WireError: it is of another one, or does not answer.
        """
        if self._known is not None and (met := cluster_at(self._wire, broker)) not in {None, self._known}:
            raise WireError(f"what answers as broker {broker} is of cluster {met}")

    def _leader(self, topic: str, partition: int) -> int:
        described: Any = self._answer(describe_topic(self.admin, topic), f"topic {topic}")
        leader = next((one.leader for one in described.partitions if one.id == partition), None)
        if leader is None or leader.id < 0:
            raise WireError(f"{topic}:{partition} has no leader", code=_NO_LEADER)
        return int(leader.id)

    def _offset(self, place: TopicPartition, spec: OffsetSpec) -> Any:
        ask = lambda most_s: self.admin.list_offsets({place: spec}, request_timeout=most_s)[place]  # noqa: E731
        found: Any = self._answer(ask, f"the bounds of {place.topic}:{place.partition}")
        if found.offset < 0:  # librdkafka's answer where a leader that it knew is dead, without an error
            renew(self.admin)
            raise WireError("its leader does not answer")
        return found

    def _answer(self, ask: Callable[[float], Any], what: str) -> Any:
        try:
            return answer(self.admin, ask)
        except KafkaException as error:
            raise self._explained(error, what) from error

    def _again(self, ask: Callable[[], T], what: str) -> T:
        """Return an answer; what may pass, such as an election, is waited for."""
        deadline = system.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except WireError as error:
                if error.refused or error.code in _FINAL:
                    raise UnknownError(f"cluster {self.name}: {what}: {error}") from error
                if system.monotonic() >= deadline:
                    raise UserError(f"cluster {self.name}: {what}: {error}", UNREACHABLE) from error
            system.sleep(_AGAIN_S)

    def _explained(self, error: KafkaException, what: str) -> UserError:
        return UserError(f"cluster {self.name}: {what}: {text_of(error.args[0])}", UNREACHABLE)


class PartitionLog:
    """The cluster's log of one partition; ``view`` None: there is none."""

    def __init__(
        self, view: ClusterView | None, topic: Topic, partition: int, holdings: Holdings = NOTHING, start: int = 0
    ) -> None:
        self.holdings = holdings
        self.compacted = topic.compacted
        self._tiered = topic.tiered
        self._view = view
        self._place = (topic.name, partition)
        self._start = start

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield the batches from an offset on, up to the high watermark as it is when the reading begins.

        Raises:
            UserError: the cluster gives no answer, or no longer has the offset.
        """
        at, end = max(start, self._start), -1
        while self._view is not None and (end < 0 or at < end):
            data, high_watermark = self._view.fetched(*self._place, at, tiered=self._tiered)
            end = high_watermark if end < 0 else end
            behind = at
            for batch in batches(data):
                behind = batch.last_offset + 1
                yield batch
            if behind == at:
                return  # nothing more is readable
            at = behind
