"""What the tracker remembers. Plain values in runs and intervals, so that memory follows breaks and never messages.

Everything here is written into the ledger as the tracker's snapshot (canary.anomalies.online.codec), so every field is
a number, a text, a container of these, or another dataclass of this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.runs import RunMap
from canary.anomalies.online.topology_state import Topology
from canary.anomalies.violation import Violation  # noqa: TC001  # the codec reads the annotations

if TYPE_CHECKING:
    from canary.probe.identity import Identity

LATENCY_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds; +Inf is implied."""


@dataclass(slots=True)
class Histogram:
    """Observations by bucket (LATENCY_BUCKETS and +Inf, not cumulated) and their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    sum: float = 0.0


@dataclass(slots=True)
class Meters:
    """Counters of one (topic, partition). They outlive incarnations, restarts and everything else."""

    sent: dict[str, int] = field(default_factory=dict)
    acked: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    indeterminate: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    unverified: dict[str, int] = field(default_factory=dict)
    produce_latency: dict[str, Histogram] = field(default_factory=dict)
    delivery_latency: dict[str, Histogram] = field(default_factory=dict)
    regressions: int = 0


@dataclass(slots=True)
class Stream:
    """What one (producer_id, generation) did in one partition. All sets are of sequences."""

    tag: int
    producer_id: int
    generation: int
    partition: int
    mode: str
    next_sequence: int = 0
    """Every sequence below was handed to the client (or, of a dead generation, was found in the log)."""
    live: bool = True
    """False once its process ended: what it wrote after its last durable fact is unrecorded, not phantom."""
    open: IntervalSet = field(default_factory=IntervalSet)
    acked: IntervalSet = field(default_factory=IntervalSet)
    promised: IntervalSet = field(default_factory=IntervalSet)
    """Acknowledged, and its transaction, if any, committed."""
    failed: IntervalSet = field(default_factory=IntervalSet)
    """Definitely not written, or of a transaction that definitely aborted: must never be read committed."""
    zombies: IntervalSet = field(default_factory=IntervalSet)
    """Of those in ``failed``: sent by the mode ``fencing`` after its transactional id was taken over."""
    indeterminate: IntervalSet = field(default_factory=IntervalSet)
    seen: IntervalSet = field(default_factory=IntervalSet)
    """Delivered to anyone. Kept when their offsets are forgotten: a copy is a copy however old the first."""
    lost: IntervalSet = field(default_factory=IntervalSet)
    resent: IntervalSet = field(default_factory=IntervalSet)
    """Without outcome when the client took a new producer epoch: a copy of one is the client's, not the brokers'."""
    unplaced: IntervalSet = field(default_factory=IntervalSet)
    """Acknowledged without an offset and not yet seen."""
    places: RunMap = field(default_factory=RunMap)
    """Sequence to offset, by acknowledgement or reading."""
    transactions: RunMap = field(default_factory=RunMap)
    """Sequence to itself, tagged with the transaction id."""
    unseen: dict[str, IntervalSet] = field(default_factory=dict)
    """By consumer: promised and not yet delivered to it."""
    early: dict[str, IntervalSet] = field(default_factory=dict)
    """By consumer: delivered to it before the promise."""
    sent_keys: list[int] = field(default_factory=list)
    sent_times: list[int] = field(default_factory=list)
    """When (ns) the sequences in sent_keys were sent: of those that are open or unseen, at least."""

    def identity(self, sequence: int) -> Identity:
        """Return the identity of ``sequence``."""
        from canary.probe.identity import Identity  # noqa: PLC0415  # the module itself is needed for types only

        return Identity(self.producer_id, self.generation, self.partition, sequence)


@dataclass(slots=True)
class Reader:
    """One tail consumer in one partition."""

    isolation: str
    position: int
    moved_at_ns: int
    """When the position last moved, or there was nothing to move to."""
    began: int = 0
    """Where it was put last: from there to its position it has passed everything."""
    astray: bool = False
    """The log did not hold its position: it stood in another history, and will be put into this one."""


@dataclass(slots=True)
class Missing:
    """Promised identities that somebody did not find where they should be: ``count`` from (``offset``, ``sequence``).

    ``state``: "ask" (wants a fresh re-read), "asked" (``request_id`` is on its way), "beyond" (the log ended before
    it: waits for the log's end to be judged or to come back) and "absent" (a fresh re-read did not find it; waits for
    ``samples`` equal topic ids asked after ``ordinal``).
    ``why``: skipped, late-ack, late-place, displaced, moved, reread, end.
    """

    offset: int
    count: int
    sequence: int
    tag: int
    why: str
    at_ns: int
    ordinal: int
    state: str = "ask"
    request_id: int | None = None
    asked_at_ns: int = 0
    samples: int = 0
    tries: int = 0
    confirmed: bool = True
    given: bool = False
    """Passed for certain, whoever is given them later: all had been given them and read again, or one began anew."""


@dataclass(slots=True)
class Unplaced:
    """A promise without an offset: its neighbours in sequence bracket it within [low, high) of offsets."""

    tag: int
    sequence: int
    low: int
    high: int
    at_ns: int
    ordinal: int
    state: str = "ask"
    request_id: int | None = None
    samples: int = 0


@dataclass(slots=True)
class Held:
    """A violation that waits for ``samples`` equal topic ids asked after ``ordinal`` (decision 7).

    ``check``: "" or what must still hold when it is released: "order" (both places as they were), "copy" (a fresh
    re-read finds the first copy at ``first``), "retained" (its offset has not expired), "late-ack" and "late-place"
    (somebody has gone past it without being given it: no longer so for one that stood in another log). Of a range,
    ``sequence`` and ``first`` are the first record's, and the others' go on from there.
    """

    violation: Violation
    ordinal: int
    samples: int = 0
    check: str = ""
    tag: int = -1
    sequence: int = -1
    other_sequence: int = -1
    first: int = -1


@dataclass(slots=True)
class Reread:
    """A re-read that is on its way, and what it has been given so far (offset to sequence, tagged with the stream)."""

    start: int
    end: int
    reason: str
    ordinal: int
    expected: list[list[int]] = field(default_factory=list)
    """The promised claims [offset, count, sequence, tag] of the range when it was asked for: only these are judged."""
    delivered: RunMap = field(default_factory=RunMap)
    corrupt: IntervalSet = field(default_factory=IntervalSet)


@dataclass(slots=True)
class Regression:
    """A listed end below what was promised when it was asked for: counts only when seen twice in a row.

    ``runs`` are the promised claims [offset, count, sequence, tag] in [end, known_end) at the first sight.
    """

    sample: int
    end: int
    known_end: int
    runs: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Wanted:
    """A range that should be re-read as soon as the partition answers."""

    start: int
    end: int
    reason: str
    not_before_ordinal: int = 0


@dataclass(slots=True)
class Stall:
    """Something that does not move since ``since_ns``, seen so last at ``last_ns``; ``said`` once it was."""

    since_ns: int
    last_ns: int
    said: Violation | None = None
    watched_ns: int = 0
    """For how long it was watched standing."""


@dataclass(slots=True)
class Retired:
    """A stream's successor began at ``ordinal``; ``end`` is the first end of the log that was asked for after that."""

    ordinal: int
    end: int | None = None


@dataclass(slots=True)
class Log:
    """One partition of one incarnation of a topic."""

    partition: int
    claims: RunMap = field(default_factory=RunMap)
    """Offset to sequence, tagged with the stream: who is there, by the latest that said so."""
    promised: IntervalSet = field(default_factory=IntervalSet)
    """Offsets whose claim must stay: acknowledged (and committed), or read."""
    corrupt: IntervalSet = field(default_factory=IntervalSet)
    copies: IntervalSet = field(default_factory=IntervalSet)
    """Offsets of copies that were reported as duplicates."""
    phantoms: RunMap = field(default_factory=RunMap)
    """Offset to sequence, tagged with the stream: probes that nobody sent, as they were reported."""
    start: int = 0
    expired: int = 0
    """Where it began at most: what was promised below has expired, though it may be there again (a replica leads that
    has deleted less)."""
    alone: IntervalSet = field(default_factory=IntervalSet)
    """Offsets that the leader acknowledged alone, and the high watermark is not known to have passed."""
    alone_listed: int = 0
    """Where these ended when the leader last listed its end: what lies beyond may be its successor's."""
    end: int | None = None
    stable: int | None = None
    epoch: int | None = None
    leader: int | None = None
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    full_isr_end: int = 0
    """Everything promised below was promised before the ISR was last seen full."""
    readers: dict[str, Reader] = field(default_factory=dict)
    relayed: IntervalSet = field(default_factory=IntervalSet)
    """Offsets taken by committed transactions of the relay."""
    relay_doubt: int = -1
    """The relay may have taken everything below: of that no jump is said."""
    scrub_at: int = 0
    """Where the scrubber stands."""
    scrub_goal: int = 0
    """The end of its present pass; 0 between two passes."""
    scrubbed_ns: int = 0
    """When it last finished one."""
    scrub_began_ns: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    """Consumer group to the offset it was told to have committed."""
    groups_heard_ns: dict[str, int] = field(default_factory=dict)
    """When that, or that it stands there still, was told last."""
    missing: list[Missing] = field(default_factory=list)
    sought: dict[int, IntervalSet] = field(default_factory=dict)
    """By stream: all sequences that came into ``missing`` since that was last empty; who is not here is not there."""
    absent: dict[int, IntervalSet] = field(default_factory=dict)
    """The same of those that came there as absent."""
    unplaced: list[Unplaced] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    held_at: dict[str, RunMap] = field(default_factory=dict)
    """By kind: offset to sequence, tagged with the stream, of the ranges in ``held``."""
    rereads: dict[int, Reread] = field(default_factory=dict)
    wanted: Wanted | None = None
    regression: Regression | None = None
    listed_ordinal: int = 0
    """When the partition last answered."""
    before: int = 0
    """Where it ended when the present process first asked: what is below may be of a start that is forgotten."""
    conflicted: bool = False
    """Whether an offset has been given to two probes since all was settled last."""
    ends_before_epochs: list[int] = field(default_factory=list)
    """What was known of its end at the last changes of leader."""
    low_end: int | None = None
    """The lowest end below what was known that a leader has listed since all was settled last, even once."""
    cut: dict[str, Any] | None = None
    """Evidence that the log was cut, until the truncation is reported."""
    lost_offsets: IntervalSet = field(default_factory=IntervalSet)
    """Offsets lost since ``cut`` was last reported."""
    timeline: list[list[int]] = field(default_factory=list)
    """Sparse [sent_ns, offset], both rising: how old an expired offset was."""
    expiry: dict[str, Any] | None = None
    """An advance of the start that the retention known so far does not explain; waits for the retention in force."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """The last changes of leader, epoch and ISR: evidence."""
    tried_ns: int = 0
    """When the first probe was sent to it since it acknowledged one last; 0 while there is none."""
    retired: dict[int, Retired] = field(default_factory=dict)
    """By stream: those of former generations, to be forgotten if they wrote nothing."""

    @property
    def known_end(self) -> int:
        """The greatest promised offset plus one."""
        return self.promised.end() or 0

    def let_go(self, key: str) -> Held:
        """Take out what is held under ``key``; found again it is held again."""
        held = self.held.pop(key)
        ranges = self.held_at.get(held.violation.kind, RunMap())
        for run in held.violation.runs:
            if run.offset is not None:
                ranges.remove(run.offset, run.offset + run.size)
        return held

    @property
    def replicated_end(self) -> int:
        """The same of what the leader has not acknowledged alone: a listed end below it is a cut."""
        end = self.known_end
        for a, b in reversed(list(self.alone)):
            if b < end:
                break
            end = max((y for _, y in self.promised.within(0, a)), default=0)
        return end

    def goal(self, reader: Reader) -> int | None:
        """How far the reader may read, None where the partition has not answered since the runner's start."""
        if not self.listed_ordinal:
            return None
        return self.stable if reader.isolation == "read_committed" and self.stable is not None else self.end

    @property
    def busy(self) -> bool:
        """Whether a question about this log is still open."""
        return bool(self.missing or self.unplaced or self.rereads or self.wanted or self.regression)


@dataclass(slots=True)
class Transaction:
    """One transaction until it is settled.

    ``writes``: [topic, tag, sequence]; ``reads``: [topic, tag, sequence, offset, consumer].
    """

    mode: str
    asked_at_ns: int | None = None
    outcome: str = "open"
    writes: list[list[Any]] = field(default_factory=list)
    reads: list[list[Any]] = field(default_factory=list)
    relayed: list[list[Any]] = field(default_factory=list)
    """[input topic, its id, partition, start, end]: what it takes."""


@dataclass(slots=True)
class Topic:
    """One topic in its present incarnation."""

    name: str
    topic_id: str | None = None
    known: bool = False
    """Whether any sample told the topic id (or that there is none)."""
    unmarked: bool = False
    """Its id was not known when it was first seen, so the tag of our records in this incarnation is made without it."""
    fresh: bool = False
    """Whether the present process has seen it."""
    dead_ids: list[str] = field(default_factory=list)
    first_generations: dict[int, int] = field(default_factory=dict)
    """producer_id to the first generation that belongs to this incarnation: of older ones nothing is judged."""
    logs: dict[int, Log] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    index: dict[tuple[int, int, int], int] = field(default_factory=dict)
    free_tags: list[int] = field(default_factory=list)
    """Places in ``streams`` of forgotten ones, which the next new ones take."""
    forgotten: dict[int, int] = field(default_factory=dict)
    """producer_id to its highest forgotten generation."""
    partitions: int = 0
    gone_since_ns: int | None = None
    retention_ms: int | None = None
    former_retentions: list[list[int]] = field(default_factory=list)
    """[until_ns, ms]: the last that were in force before, until they were seen no more."""
    retention_bytes: int | None = None
    min_insync_replicas: int | None = None
    compacted: bool = False
    promises: int = 0
    """Promises made in this incarnation."""


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

    ``ends`` is topic to partition to [known end], ``positions`` topic to partition to consumer to its position.
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


@dataclass(slots=True)
class State:
    """All of it."""

    version: int = 1
    now_ns: int = 0
    since_ns: int = 0
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
    sure: Ask | None = None
    """The last round, of this process, that the known cluster answered."""
    unsure: list[list[Any]] = field(default_factory=list)
    """Acknowledgements since that round began: [ordinal, topic, stream, sequence, count, offset or -1]."""
    silent_ns: int = 0
    """For how long questions were asked since the cluster has answered one."""
    looked_ns: int = 0
    """When a question was last answered, or given up."""
    probed: dict[str, Probed] = field(default_factory=dict)
    """By topic: what this process is to probe. Its series exist from the start."""
    brokers: list[int] = field(default_factory=list)
    unprobed: dict[str, list[int]] = field(default_factory=dict)
    """By mode: transaction coordinators that it does not meet."""
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[int, Producer] = field(default_factory=dict)
    siblings: dict[int, int] = field(default_factory=dict)
    """Producers of others on this store: producer_id to the highest generation the store knows (silent; -1: none)."""
    doubts: dict[int, list[list[Any]]] = field(default_factory=dict)
    """By unknown producer: [topic, partition, offset, generation, sequence, consumer] until looked up."""
    torn: dict[tuple[int, int], IntervalSet] = field(default_factory=dict)
    """(producer_id, generation) to its transactions that were reported as seen only in part."""
    transactions: dict[tuple[int, int, int], Transaction] = field(default_factory=dict)
    stalls: dict[str, Stall] = field(default_factory=dict)
    """By what does not move (canary.anomalies.online.liveness)."""
    meters: dict[tuple[str, int], Meters] = field(default_factory=dict)
    commit_latency: dict[str, Histogram] = field(default_factory=dict)
    asks: dict[int, Ask] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    """The last client errors: evidence."""
    topology: Topology = field(default_factory=Topology)
    watch_error: str | None = None
