"""What one producer generation did in one partition, and what is left of that when all of it has expired."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import chain

from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import RunMap
from canary.probe.identity import Identity

SENT_KEPT = 500
"""So many of the latest times of sending are kept one by one, and so many of the others that are still waited for."""


@dataclass(slots=True)
class Stream:
    """What one (producer_id, generation) did in one partition. All sets are of sequences."""

    tag: int
    producer_id: int
    generation: int
    partition: int
    mode: str
    next_sequence: int = 0
    """Every sequence below was handed to the client (or was found in the log, for a dead generation)."""
    live: bool = True
    """False once its process ended: what it wrote after its last durable fact is no phantom."""
    open: IntervalSet = field(default_factory=IntervalSet)
    acked: IntervalSet = field(default_factory=IntervalSet)
    unsure: dict[int, IntervalSet] = field(default_factory=dict)
    """Acknowledged since the known cluster answered a round, by the ordinal of the round that was asked last before."""
    promised: IntervalSet = field(default_factory=IntervalSet)
    """Acknowledged, and its transaction, if any, committed."""
    failed: IntervalSet = field(default_factory=IntervalSet)
    """Definitely not written, or of an aborted transaction: a read_committed consumer must never be given one."""
    zombies: IntervalSet = field(default_factory=IntervalSet)
    """Of those in ``failed``: sent by the mode ``fencing`` after its transactional id was taken over."""
    indeterminate: IntervalSet = field(default_factory=IntervalSet)
    seen: IntervalSet = field(default_factory=IntervalSet)
    """Delivered to any reader. Kept after expiry, because a later read is then a copy."""
    lost: IntervalSet = field(default_factory=IntervalSet)
    resent: IntervalSet = field(default_factory=IntervalSet)
    """Without an outcome when the client took a new producer epoch: copies of these are the client's own."""
    unplaced: IntervalSet = field(default_factory=IntervalSet)
    """Acknowledged without an offset and not yet seen."""
    floor: int = 0
    """The log's start when the first one that waits (open, unplaced, within a transaction) was sent: it stands there
    or above, and so do all that were sent later."""
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
    """When (ns) the sequences in sent_keys were sent: the latest, and some of the older ones that are waited for."""
    written_below: int | None = None
    """The end of the log when it was first listed after the next generation had begun: all that this one wrote stands
    below. None: its generation is the latest, or the log was not listed since."""

    @property
    def end(self) -> int:
        """The highest sequence of which it is known whether it was written, plus one; 0: there is none."""
        return max(known.end() or 0 for known in (self.acked, self.seen, self.failed, self.lost))

    @property
    def waits(self) -> bool:
        """Whether anything of it is retained, or open: a record with a place, an outcome, a promise, a delivery."""
        return bool(self.open or self.unplaced or self.places or self.unsure or any(self.unseen.values()))

    def identity(self, sequence: int) -> Identity:
        """Return the identity of ``sequence``."""
        return Identity(self.producer_id, self.generation, self.partition, sequence)


@dataclass(slots=True)
class ExpiredGeneration:
    """What is left of a generation of a former process in the partitions where all that it wrote has expired.

    Example: a process wrote 3,000 probes to partition 4 and died, and a week later the log's start has passed them.
    ``ends[4] = 3000`` stays: a read of any of these sequences is a copy of an expired record, and no phantom.
    """

    mode: str
    ends: dict[int, int] = field(default_factory=dict)
    """By partition: the end of the sequences that are known to have been written, or not to have been."""
    lost: dict[int, IntervalSet] = field(default_factory=dict)
    """By partition, where any is: sequences below the end that were reported as lost. A read of one is no copy."""
    unknown: dict[int, IntervalSet] = field(default_factory=dict)
    """The same of those whose outcome was never known: above the high watermark one may stay for long, and be read."""
    unread: dict[int, IntervalSet] = field(default_factory=dict)
    """The same of those that were acknowledged and that nobody has read: a read of one is its first."""
    resent: dict[int, IntervalSet] = field(default_factory=dict)
    """By partition, where any is: sequences of which copies are the client's own."""

    def put(self, stream: Stream, end: int) -> None:
        """Keep of a stream that waits for nothing what a later read of its records, below ``end``, is judged by."""
        where = stream.partition
        self.ends[where] = end
        unknown, unread = (
            IntervalSet.of(part for a, b in of for part in stream.seen.without(a, min(b, end)))
            for of in (stream.indeterminate, stream.acked)
        )
        kept = (
            (self.lost, stream.lost),
            (self.unknown, unknown),
            (self.unread, unread),
            (self.resent, stream.resent),
        )
        for by_partition, sequences in kept:
            if sequences:
                by_partition[where] = sequences

    def take(self, partition: int, tag: int, producer_id: int, generation: int) -> Stream:
        """Remove and return the stream in a partition; what it wrote above the end was never recorded."""
        stream = Stream(tag, producer_id, generation, partition, self.mode, live=False, written_below=0)
        stream.next_sequence = end = self.ends.pop(partition)
        kept = (self.lost, self.unknown, self.unread, self.resent)
        stream.lost, stream.indeterminate, unread, stream.resent = (one.pop(partition, IntervalSet()) for one in kept)
        for known, others in (
            (stream.acked, [stream.indeterminate]),
            (stream.promised, [stream.indeterminate]),
            (stream.seen, [stream.indeterminate, unread]),
        ):
            known.add(0, end)
            for a, b in chain(*others):
                known.remove(a, b)
        return stream


def lowest(stream: Stream, sequence: int) -> int:
    """Return the lowest offset at which ``sequence``, acknowledged without an offset, can stand."""
    before = stream.places.before(sequence)
    return stream.floor if before is None or before[0] in stream.lost else before[1] + 1


def sent_time(stream: Stream, sequence: int) -> int | None:
    """Return when (ns) ``sequence`` was sent, None when that is not remembered.

    Where many are waited for, as by a reader that stands still, it is the time of one that was sent just before: sooner
    by a five-hundredth of the wait at most.
    """
    i = bisect_right(stream.sent_keys, sequence) - 1
    if i < 0 or sequence > stream.sent_keys[-1]:
        return None
    return stream.sent_times[i]


def forget_sent_times(stream: Stream) -> None:
    """Keep the sending times from the first probe that is open, unseen or unplaced; those before it are settled."""
    floors = [s.first() for s in (stream.open, stream.unplaced, *stream.unseen.values())]
    floor = min((x for x in floors if x is not None), default=stream.next_sequence)
    keep = bisect_left(stream.sent_keys, floor)
    if keep < len(stream.sent_keys) and stream.sent_keys[keep] > floor:
        keep -= 1  # its time is that of the one before
    if keep > len(stream.sent_keys) // 2:
        del stream.sent_keys[:keep], stream.sent_times[:keep]
    if len(stream.sent_keys) > 3 * SENT_KEPT:
        _thin_out(stream)


def _thin_out(stream: Stream) -> None:
    """Keep one of those that were sent within a five-hundredth of the whole time, of all but the latest."""
    times, older = stream.sent_times, len(stream.sent_times) - SENT_KEPT
    least, kept = (times[-1] - times[0]) // SENT_KEPT, [0]
    for i in range(1, older):
        if times[i] - times[kept[-1]] > least:
            kept.append(i)
    stream.sent_keys[:older] = [stream.sent_keys[i] for i in kept]
    stream.sent_times[:older] = [times[i] for i in kept]
