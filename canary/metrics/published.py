"""What a runner publishes of its cluster: one frozen value, made once by the judge and read by everything else.

The judge makes it of the tracker's state (`canary.metrics.measuring`). The runner's own threads read it in memory. The
flusher adds what the runner knows of itself and stores it as JSON, and the API reads that JSON into the same type.

A runner and the API may be of different releases: a field that the JSON lacks has its default, a field that this
release does not know is ignored, and JSON of another ``version`` is refused, so that the cluster counts as unknown.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence  # pydantic reads the annotations
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload

import orjson
from pydantic import TypeAdapter, ValidationError

from canary.metrics.findings import Audit  # pydantic reads the annotations
from canary.metrics.metric import Column, Measurement
from canary.metrics.objectives import Objective  # the same
from canary.metrics.proofs import Proof  # the same
from canary.metrics.watched.groups import GroupsSeen, TransactionsSeen  # pydantic reads the annotations
from canary.metrics.watched.mirrors import MirrorsSeen  # the same
from canary.metrics.watched.replicas import ReplicasSeen  # the same

VERSION: Final = 2
"""Version 1 had no columns: every series was a measurement. It is read, too."""


_DOUBT_NS = 10 * 10**9
"""Another id that is answered for so long is in doubt: a broker that was resumed gives a former one for moments."""


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """How far a tail consumer is in one partition."""

    isolation: str
    position: int = 0
    seen: int = 0
    unseen: int = 0
    """Probes that it must be given and has not been given yet."""
    oldest_unseen_s: float = 0.0
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One probed partition, in its topic's present incarnation; counters outlive incarnations."""

    topic: str
    partition: int
    topic_id: str | None = None
    fresh: bool = False
    """Whether it has answered this process."""
    scrubbed_ns: int = 0
    """When everything retained was last read again; 0: never."""
    rereading: bool = False
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    start: int = 0
    end: int | None = None
    stable: int | None = None
    sent: int = 0
    acked: int = 0
    failed: int = 0
    indeterminate: int = 0
    consumers: Mapping[str, ConsumerView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows(Sequence[PartitionView]):
    """Partitions in columns: a row is made when it is asked for, which in a runner is seldom.

    Attributes:
        columns: By field of PartitionView, but for ``consumers``: the values of all partitions.
        consumers: By consumer, and by field of ConsumerView: the same; None for partitions that it does not read.
    """

    columns: Mapping[str, Sequence[Any]]
    consumers: Mapping[str, Mapping[str, Sequence[Any]]]

    def __len__(self) -> int:
        """Return the number of partitions."""
        return len(self.columns["partition"])

    @overload
    def __getitem__(self, at: int) -> PartitionView: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[PartitionView]: ...
    def __getitem__(self, at: int | slice) -> PartitionView | Sequence[PartitionView]:
        """Return a partition, or some."""
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        row = self.plain(at)
        return PartitionView(**row | {"consumers": {name: ConsumerView(**of) for name, of in row["consumers"].items()}})

    def plain(self, at: int) -> dict[str, Any]:
        """Return a partition as dictionaries."""
        consumers = {name: _row(of, at) for name, of in self.consumers.items() if of["isolation"][at] is not None}
        return {**_row(self.columns, at), "consumers": consumers}


def _row(columns: Mapping[str, Sequence[Any]], at: int) -> dict[str, Any]:
    return {name: column[at] for name, column in columns.items()}


@dataclass(frozen=True, slots=True)
class TopicView:
    """One probed topic."""

    topic: str
    topic_id: str | None = None
    unmarked: bool = False
    """The tag of our records is made without the topic id, which was unknown when the topic was first seen."""
    known: bool = False
    fresh: bool = False
    """Whether this process has seen it."""
    partitions: int = 0
    incarnations: int = 1
    promises: int = 0
    gone_since_ns: int | None = None
    other_id: str | None = None
    """The id that brokers answer with in place of ``topic_id``; that of a former incarnation if ``other_is_former``."""
    other_since_ns: int | None = None
    other_is_former: bool = False
    over_ns: int | None = None
    """When it had been gone for so long that its promises are void, and how many those are: ``voided``."""
    voided: int = 0
    modes: tuple[str, ...] = ()

    def doubted_id(self, now_ns: int) -> str | None:
        """Return the other id that is answered, and no other one, for so long that no resumed broker explains it."""
        doubted = self.other_since_ns is not None and now_ns - self.other_since_ns > _DOUBT_NS
        return self.other_id if doubted else None

    @property
    def marked_id(self) -> str | None:
        """The topic id that marks our records: None where it was not known when the topic was first seen."""
        return None if self.unmarked else self.topic_id


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question to the cluster that has had no answer since then (ns), and the client's words for why."""

    question: str
    since_ns: int
    error: str


@dataclass(frozen=True, slots=True)
class Published:
    """One cluster as one runner knows it. Times are ns since the epoch.

    Attributes:
        ordinal: How many facts it is made of.
        stopped: Why the cluster is not judged until the next start; None: it is.
        waiting_for: What keeps the runner from judging, in the client's words; None: nothing does.
        unanswered: The questions to the cluster that have no answer now.
        proofs: What is known of the writes of each mode to each topic; empty before this release.
        suspects: How many suspicions wait for confirmation.
        doubted: The topics that are watched and not probed, of which brokers give two ids.
        places: The (topic, partition) that ``columns`` are about.
        columns: The series of partitions, of which there are many.
        measurements: All others.
        judged_ns: When facts were last made durable and judged; the store keeps it beside the JSON.
        told_ns: When the flusher stored it.
        troubles: What the runner cannot do now, in words, and whether losses may go unnoticed meanwhile.
        shard: Which share of the cluster's partitions the runner probes, of how many.
        night_s: The longest time between two reconciliations by the schedule; None: there are none.
        night_asked: Whether the settings ask for them, and not only the default schedule does.
        objectives: What the settings ask of the cluster.
        groups: The groups of applications that are watched, and ``transactions`` those that hang, and
            ``replicas`` how far those are compared; None: not watched, or not looked at yet.
        mirrors: The topics that are mirrored from other clusters; None: none is watched.
    """

    cluster_id: str | None = None
    since_ns: int | None = None
    now_ns: int = 0
    ordinal: int = 0
    brokers: tuple[int, ...] = ()
    topics: tuple[TopicView, ...] = ()
    partitions: Sequence[PartitionView] = ()
    stopped: str | None = None
    waiting_for: str | None = None
    unanswered: tuple[Unanswered, ...] = ()
    proofs: tuple[Proof, ...] = ()
    watched_ns: int = 0
    """When the cluster was asked about itself last; 0: it is not to be asked now, or that is not known."""
    suspects: int = 0
    doubted: tuple[TopicView, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    columns: tuple[Column, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    judged_ns: int = 0
    told_ns: int | None = None
    troubles: tuple[tuple[str, bool], ...] = ()
    shard: tuple[int, int] = (0, 1)
    night_s: float | None = None
    night_asked: bool = False
    objectives: tuple[Objective, ...] = ()
    audit: Audit | None = None
    groups: GroupsSeen | None = None
    transactions: TransactionsSeen | None = None
    replicas: ReplicasSeen | None = None
    mirrors: MirrorsSeen | None = None

    def topic(self, name: str) -> TopicView:
        """Return what is known of a topic; of one that was not seen yet, that it is not ``known``."""
        return next((topic for topic in self.topics if topic.topic == name), TopicView(name))

    def of_topic(self, name: str) -> list[PartitionView]:
        """Return the partitions of a topic."""
        return [one for one in self.partitions if one.topic == name]

    def series(self) -> Iterator[Measurement]:
        """Yield every series."""
        yield from self.measurements
        places = [(topic, str(partition)) for topic, partition in self.places]
        for column in self.columns:
            yield from column.measurements(places)

    @property
    def all_seen(self) -> bool:
        """Whether every consumer has been given every probe that it must be given."""
        return all(consumer.unseen == 0 for one in self.partitions for consumer in one.consumers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored(Published):
    partitions: tuple[PartitionView, ...] = ()
    version: Literal[1, 2]


_ADAPTER = TypeAdapter(_Stored)
_FIELDS = tuple(one.name for one in dataclasses.fields(Published) if one.name != "judged_ns")


def dumps(published: Published) -> bytes:
    """Return the JSON that the store keeps: a measurement is [name, labels, value] and, of a histogram, its counts."""
    content = {name: getattr(published, name) for name in _FIELDS}
    return orjson.dumps({"version": VERSION, **content}, default=_array)


def _array(measurement: Any) -> tuple[Any, ...]:
    if not isinstance(measurement, Measurement):
        raise TypeError(f"a view cannot hold a {type(measurement).__name__}")
    return tuple(measurement) if measurement.counts else measurement[:3]


def loads(stored: bytes, judged_ns: int) -> Published:
    """Return what :func:`dumps` wrote, as it was judged at ``judged_ns``.

    Raises:
        ValueError: these bytes are not a view, or one of another version.
    """
    try:
        content = orjson.loads(stored)
        if isinstance(content, dict) and isinstance(rows := content.get("partitions"), dict):
            partitions = Rows(rows["columns"], rows["consumers"])
            content["partitions"] = list(map(partitions.plain, range(len(partitions))))
        found = _ADAPTER.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"not a view of version {VERSION}: {place}: {first['msg']}") from None
    except (orjson.JSONDecodeError, TypeError, KeyError, IndexError) as error:
        raise ValueError(f"not a view of version {VERSION}: {error}") from None
    return Published(**{name: getattr(found, name) for name in _FIELDS}, judged_ns=judged_ns)
