"""What the tracker remembers: plain values in runs and intervals, so that memory grows with breaks, not with messages.

Everything here is written into the ledger as the tracker's snapshot (canary.anomalies.online.codec), so every field is
a number, a text, a container of these, or another such dataclass. Field names are names on disk: never rename one.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

from canary.anomalies.online.log import Log
from canary.anomalies.online.meters import Histogram, LeaderMeters, Meters, RandomReads
from canary.anomalies.online.sets import ages
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.stream import ExpiredGeneration, Stream, sent_time
from canary.anomalies.online.topology.state import Topology
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity

_RECENT_NS = 10 * 60 * 10**9
_FREE = -1
"""The generation of what stands in the place of a forgotten stream."""
ASKS_KEPT = 8
"""The last rounds of asking whose answers may still come."""


class FormerLimit(NamedTuple):
    """A retention, of bytes or of ms, that was in force until then."""

    until_ns: int
    value: int


class ClockStep(NamedTuple):
    """The machine's clock was set.

    ``back_ns``: by how much it was set back (less than 0: forward). ``ahead_ns``: how far it was ahead of the runner's
    before.
    """

    at_ns: int
    back_ns: int
    ahead_ns: int = 0


class Lookup(NamedTuple):
    """A question to the store: since when it answers that it does not know (0: not yet), and when it is asked again."""

    unknown_ns: int = 0
    again_ns: int = 0


@dataclass(slots=True)
class Stall:
    """Something that has not moved since ``since_ns``, last checked at ``last_ns``; ``said``: its violation."""

    since_ns: int
    last_ns: int
    said: Violation | None = None
    watched_ns: int = 0
    """For how long it was watched standing."""
    readers: list[str] = field(default_factory=list)
    """The consumers that have stood there."""
    again_ns: int = 0
    """When the violation was last reported again."""
    over_ns: int = 0
    """Since when there is progress again, and it waits for the log to be known to be whole; 0: there is none."""


@dataclass(slots=True)
class Transaction:
    """One transaction until it is settled.

    ``writes``: [topic, tag, sequence]; ``reads``: [topic, tag, sequence, offset, consumer].
    """

    mode: str
    outcome: str = "open"
    writes: list[list[Any]] = field(default_factory=list)
    reads: list[list[Any]] = field(default_factory=list)
    relayed: list[list[Any]] = field(default_factory=list)
    """[input topic, its id, partition, start, end]: what it takes."""


class LastPromised(NamedTuple):
    """``number`` promises of one stream, one behind the other; ``sent_ns``: the last one (0: not known).

    The stream is named by its writer: a tag is given to another one when all that a stream wrote has expired.
    """

    offset: int
    number: int
    sequence: int
    producer_id: int
    sent_ns: int
    noted_ns: int
    generation: int = -1


@dataclass(slots=True)
class OtherId:
    """An id that brokers give in place of a topic's own, and no other one since ``since_ns``."""

    topic_id: str
    partitions: int
    since_ns: int
    stands: int = 0
    """In how many logs a fetch gave the last promises, less those in which it did not; of the fetches under way."""


@dataclass(slots=True)
class Topic:
    """One topic in its present incarnation."""

    name: str
    topic_id: str | None = None
    known: bool = False
    """Whether any sample gave the topic id (or that there is none)."""
    unmarked: bool = False
    """Its id was not known at first sight, so the tag of its records is made without the id."""
    fresh: bool = False
    """Whether the present process has seen it."""
    dead_ids: list[str] = field(default_factory=list)
    first_generations: dict[int, int] = field(default_factory=dict)
    """producer_id to the first generation that belongs to this incarnation: of older ones nothing is judged."""
    logs: dict[int, Log] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    index: dict[tuple[int, int, int], int] = field(default_factory=dict)
    free_tags: list[int] = field(default_factory=list)
    """Places in ``streams`` of forgotten ones, a heap: the next new one takes the first, so that the last get free."""
    expired: dict[tuple[int, int], ExpiredGeneration] = field(default_factory=dict)
    """(producer_id, generation) to what is left of its streams of which all has expired. A stream is either here, or in
    ``streams`` and ``index``."""
    forgotten_in: dict[tuple[int, int], int] = field(default_factory=dict)
    """(producer_id, partition) to the highest generation that is forgotten there."""
    partitions: int = 0
    gone_since_ns: int | None = None
    other: OtherId | None = None
    id_asked_ns: int = 0
    """When the logs were last asked whether another id may be this topic's."""
    last_promised: dict[int, list[LastPromised]] = field(default_factory=dict)
    """By partition: what was promised last when brokers gave this id, some time ago and lately."""
    over_ns: int | None = None
    """When it had been gone for so long that its promises are void."""
    voided: int = 0
    """How many promises are void since it is over, or gone."""
    retention_ms: int | None = None
    former_retentions: list[FormerLimit] = field(default_factory=list)
    """In ms: the last ones before the present one."""
    retention_bytes: int | None = None
    former_retention_bytes: list[FormerLimit] = field(default_factory=list)
    min_insync_replicas: int | None = None
    configured_ns: int = 0
    """When these settings were last read."""
    compacted: bool = False
    promises: int = 0
    """Promises made in this incarnation."""

    def begin(self, producer_id: int, generation: int, partition: int, mode: str) -> Stream:
        """Return a new stream."""
        return self._add(Stream(self._free_tag(), producer_id, generation, partition, mode))

    def stream(self, producer_id: int, generation: int, partition: int) -> Stream | None:
        """Return a stream, None when nothing was ever sent by it in this incarnation.

        One of which all has expired is made whole again: its identities are about to be judged.
        """
        tag = self.index.get((producer_id, generation, partition))
        if tag is not None:
            return self.streams[tag]
        left = self.expired.get((producer_id, generation))
        if left is None or partition not in left.ends:
            return None
        stream = left.take(partition, self._free_tag(), producer_id, generation)
        if not left.ends:
            del self.expired[producer_id, generation]
        return self._add(stream)

    def reduce(self, stream: Stream) -> None:
        """Keep of a stream only the row that later copies of its expired records are told by, if it wrote any."""
        if end := stream.end:
            who = stream.producer_id, stream.generation
            self.expired.setdefault(who, ExpiredGeneration(stream.mode)).put(stream, end)
        self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Forget a stream, which nothing may refer to any more."""
        del self.index[stream.producer_id, stream.generation, stream.partition]
        log = self.logs[stream.partition]
        for by_tag in (log.cut_sent, log.sought, log.absent, log.retired):
            by_tag.pop(stream.tag, None)
        self.streams[stream.tag] = Stream(stream.tag, stream.producer_id, _FREE, stream.partition, stream.mode)
        heappush(self.free_tags, stream.tag)
        n = len(self.streams)
        while n and self.streams[n - 1].generation == _FREE:
            n -= 1
        if n < len(self.streams):
            del self.streams[n:]
            self.free_tags = sorted(tag for tag in self.free_tags if tag < n)

    def modes(self, partition: int | None = None) -> set[str]:
        """Return the modes that ever wrote (to a partition), in this incarnation."""
        live = {one.mode for one in self.streams if partition in (None, one.partition)}
        return live | {one.mode for one in self.expired.values() if partition is None or partition in one.ends}

    def _free_tag(self) -> int:
        return heappop(self.free_tags) if self.free_tags else len(self.streams)

    def _add(self, stream: Stream) -> Stream:
        self.streams[stream.tag : stream.tag + 1] = [stream]
        self.index[stream.producer_id, stream.generation, stream.partition] = stream.tag
        return stream

    def sent_ns(self, who: Identity | None, partition: int | None, offset: int | None) -> int | None:
        """Return when a record was sent, or somewhat before that; None where it is not remembered."""
        tag = None if who is None else self.index.get((who.producer_id, who.generation, who.partition))
        known = None if who is None or tag is None else sent_time(self.streams[tag], who.sequence)
        log = None if partition is None else self.logs.get(partition)
        return ages.sent_at(log.timeline, offset) if known is None and log is not None and offset is not None else known

    @property
    def is_in_question(self) -> bool:
        """Whether brokers give an id that was never seen: what else they say may be of another topic."""
        return self.other is not None and self.other.topic_id not in self.dead_ids

    def is_former(self, marked_id: str | None) -> bool:
        """Say whether whoever writes or reads under the tag of ``marked_id`` does so for a former incarnation.

        None is in the tag where no id was known at first sight. Of a topic that was made again one is known, always.
        """
        return bool(self.dead_ids) and marked_id in {None, *self.dead_ids}


@dataclass(slots=True)
class Producer:
    """A producer of ours: its present generation, and where it writes."""

    topic: str
    mode: str
    generation: int
    live: bool = True


@dataclass(slots=True)
class Ask:
    """What was known when a round of asking began.

    ``ends`` is topic to partition to [replicated end, known end], ``positions`` topic to partition to consumer to its
    position.
    """

    ordinal: int
    at_ns: int
    ends: dict[str, dict[int, list[int | None]]] = field(default_factory=dict)
    positions: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class Probed:
    """A topic that is to be probed, as it is set: by which modes, and in which partitions if it is made."""

    modes: list[str]
    partitions: list[int]
    readers: list[str] = field(default_factory=list)
    """Its consumers that the settings add to those of both isolation levels."""
    share: list[int] = field(default_factory=lambda: [0, 1])
    """[index, of]: the runner's partitions are those whose number leaves this rest."""
    intervals: dict[str, float] = field(default_factory=dict)
    """By mode: the time between two probes to a partition, or two commits of a group, in s."""
    committing: list[str] = field(default_factory=list)
    """Modes that read it and commit offsets, and write nothing."""


@dataclass(slots=True)
class State:
    """All of it."""

    version: int = 1
    now_ns: int = 0
    since_ns: int = 0
    clock_ns: int = 0
    """What the machine's clock said when a process or a round began last."""
    clock_ahead_ns: int = 0
    """How far the machine's clock is ahead of the runner's, which does not follow when it is set."""
    clock_steps: list[ClockStep] = field(default_factory=list)
    """The oldest one first."""
    ordinal: int = 0
    """Number of facts folded."""
    next_request: int = 1
    installation: str | None = None
    """What the store calls itself: part of the tag of all that was written."""
    started: list[int] = field(default_factory=lambda: [0, 0])
    """[time of the last fact before the present process began (0: none), when that began]."""
    cluster_id: str | None = None
    stopped: str | None = None
    """Why this cluster is not judged until the next start (another cluster behind the address)."""
    relay_unrecorded: bool = False
    """Whether outputs of the relay were read since the start whose sending a former process had not recorded."""
    sure: Ask | None = None
    """The last round, of this process, that the known cluster answered."""
    unsure: list[list[Any]] = field(default_factory=list)
    """Of a snapshot of a former version, until a process begins: [ordinal, topic, stream, sequence, count, offset]."""
    silent_ns: int = 0
    """For how long questions have had no answer."""
    looked_ns: int = 0
    """When a question was last answered or timed out."""
    answered_ns: int = 0
    """When this process was last given an answer."""
    probed: dict[str, Probed] = field(default_factory=dict)
    """By topic: what this process probes. Its metrics' series exist from the start."""
    brokers: list[int] = field(default_factory=list)
    unprobed: dict[str, list[int]] = field(default_factory=dict)
    """By mode: transaction coordinators without any of its transactional ids."""
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[int, Producer] = field(default_factory=dict)
    siblings: dict[int, int] = field(default_factory=dict)
    """Other runners' producers: producer_id to the highest generation that the store knows (-1: none)."""
    doubts: dict[int, list[list[Any]]] = field(default_factory=dict)
    """By unknown producer: [topic, partition, offset, generation, sequence, consumer] until it is known whose."""
    lookups: dict[int, Lookup] = field(default_factory=dict)
    """By producer of ``doubts``."""
    torn: dict[tuple[int, int], IntervalSet] = field(default_factory=dict)
    """(producer_id, generation) to its transactions that were reported as seen only in part."""
    transactions: dict[tuple[int, int, int], Transaction] = field(default_factory=dict)
    asked: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """When (ns) a transaction was asked to commit: while it is open, and until readers have told what came before."""
    stalls: dict[str, Stall] = field(default_factory=dict)
    """By what does not move (canary.anomalies.online.topology.liveness)."""
    meters: dict[tuple[str, int], Meters] = field(default_factory=dict)
    leaders: dict[int, LeaderMeters] = field(default_factory=dict)
    """By broker id; one that has left the cluster for long is forgotten."""
    commit_latency: dict[str, Histogram] = field(default_factory=dict)
    random_reads: dict[str, RandomReads] = field(default_factory=dict)
    """By topic."""
    asks: dict[int, Ask] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    """The last client errors: evidence."""
    topology: Topology = field(default_factory=Topology)
    unanswered: dict[str, list[Any]] = field(default_factory=dict)
    """By question that had no answer in this round of watching or the last: [since (ns), ordinal of the last failure,
    the client's words]."""
    round_ordinal: int = 0
    """The ordinal at which the present round of watching began."""

    def probes(self, topic: str, partition: int) -> bool:
        """Say whether the settings want a partition probed, by this runner."""
        probed = self.probed.get(topic)
        return probed is not None and partition % probed.share[1] == probed.share[0]

    def log(self, topic: str, partition: int) -> Log | None:
        """Return the log of a partition that is probed, None of any other."""
        known = self.topics.get(topic)
        return known.logs.get(partition) if known is not None else None

    def recent_events(self) -> list[dict[str, Any]]:
        """Return what brokers and controller did in the last ten minutes, oldest first."""
        return [event for event in self.topology.events if event["at_ns"] >= self.now_ns - _RECENT_NS]

    def recent_errors(self) -> list[dict[str, Any]]:
        """Return the errors that clients reported in the last ten minutes, oldest first."""
        return [error for error in self.errors if error["at_ns"] >= self.now_ns - _RECENT_NS]
