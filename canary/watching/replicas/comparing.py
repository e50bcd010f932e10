"""One partition's replicas compared, window after window, as far as all in-sync replicas give it.

What is compared lies between the highest log start and the lowest high watermark. A difference is believed when a
second reading shows it again, a moment later, while leader epoch, replicas and settings are the same and every broker
that is compared is in the ISR: one that is not may hold what it will truncate (KIP-101), and lags.

Where a topic has a remote tier (KIP-405), every broker, follower or leader, answers from it for what its own disk does
not have any more, and with nothing at all where the tier takes longer than remote.fetch.max.wait.ms. So what was read
counts only if the broker's own log still begins before it afterwards.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from canary.anomalies.replicas.compaction import Search
from canary.anomalies.replicas.copies import Copy, Difference, Kept, UndecodableError, differences
from canary.anomalies.replicas.divergence import Divergence, confirmed, together
from canary.threads import system
from canary.watching.replicas.beginnings import missing_beginnings
from canary.watching.replicas.outcomes import MOST_FOUND, Outcome, Reason, Step
from canary.wire.errors import WireError

if TYPE_CHECKING:
    from canary.watching.replicas.source import Read, Source
    from canary.wire.replicas import PartitionReplicas

WINDOW_BYTES: Final = 1 << 20
"""Of each replica at once; a larger batch is read whole."""
PAUSE_S: Final = 1.0
_ATTEMPTS: Final = 5
_NEAR: Final = 1000
"""Offsets so near each other are read again together."""
_MOVED: Final = frozenset(
    {"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER", "OFFSET_NOT_AVAILABLE"}
)
_BEGINS_LATER: Final = frozenset({"OFFSET_OUT_OF_RANGE", "OFFSET_MOVED_TO_TIERED_STORAGE"})


@dataclass(frozen=True, slots=True)
class _Window:
    start: int
    end: int
    copies: tuple[Copy, ...]


class Comparison:
    """A pass over one partition: iterate over ``run``, as fast as is wanted; ``outcome`` is what is known so far.

    Args:
        source: the cluster.
        start: the first offset to compare; before the log starts it is that.
        end: the first offset not to compare; None: up to the high watermark that the leader tells first.
        before: what an interrupted pass found below ``start``; this one goes on with it.
    """

    def __init__(
        self,
        source: "Source",
        topic: str,
        partition: int,
        *,
        start: int = 0,
        end: int | None = None,
        before: Outcome | None = None,
    ) -> None:
        self.outcome = before or Outcome(topic, partition)
        self.high_watermark = 0
        """The lowest one that was seen last."""
        self._source = source
        self._at = start
        self._wanted = start
        self._end = end
        self._state: PartitionReplicas | None = None
        self._brokers: list[int] = []
        self._compacted: bool | None = None
        self._tiered: bool | None = None
        self._search = Search()
        self._open: Divergence | None = None
        self._said = len(self.outcome.divergences)
        self._promised: int | None = None  # by the leader: its high watermark when it was read first
        self._lowest: int | None = None  # whose high watermark is lowest
        self._ended = False

    @property
    def at(self) -> int:
        """The offset that is next."""
        return self._at

    @property
    def resume_at(self) -> int:
        """Where a pass that is interrupted has to go on: what is not said yet is found anew."""
        return min(self._at, self._search.first_pending(self._at), self._open.first if self._open else self._at)

    def run(self) -> Iterator[Step]:
        """Compare, a step at a time.

        Raises:
            WireError: the cluster does not answer at all.
        """
        if not self._begin():
            return
        yield from self._beginnings()
        yield from self._to_the_end()
        if self._search.pending:
            yield from self._explain_late()
        if self._search.left_out:
            self._unexplained(self._search.left_out)
        if self._compacted is None and self._search.explained:
            words = "records are missing on a replica, and whether the topic is compacted may not be seen"
            self._unknown("unexplained", None, f"{words} (DescribeConfigs)")
        yield Step(found=self._closed(None))

    def _beginnings(self) -> Generator[Step, None, None]:
        """Look for replicas that lack their beginning, if this pass starts before it; believe what is so twice."""
        found: list[Divergence] | None = None
        for pause_s in (0.0, PAUSE_S):
            if found == [] or self._wanted >= self._at:
                return
            if pause_s:
                yield Step(pause_s=pause_s)
            before = self._told
            try:
                now = missing_beginnings(self._source, before, self._brokers, system.wall_ns() // 10**6)
            except WireError as error:
                self._unknown("unanswered", None, f"the beginnings of its replicas could not be compared: {error}")
                return
            state = self._now()
            if state is None or _led(state) != _led(before):
                return  # the next pass looks again
            found = [one for one in now if found is None or one in found]
        for one in found or ():
            self._keep(one)

    def _to_the_end(self) -> Generator[Step, None, None]:
        """Compare up to what the leader told; a follower that does not give as much after some time is no copy."""
        for _ in range(_ATTEMPTS):
            self._ended = False
            while (window := (yield from self._window(self._end))) is not None:
                yield from self._judge(window)
                self.outcome.offsets += window.end - window.start
                self._at = self.outcome.compared_to = window.end
            end = self._promised if self._end is None else min(self._promised or 0, self._end)
            if not self._ended or end is None or self._at >= end:
                return
            yield Step(pause_s=PAUSE_S)  # a follower learns of the high watermark by its next fetch
        words = f"broker {self._lowest} gives records up to offset {self._at}, and the leader has told {end}"
        self._unknown("not-in-sync", self._lowest, words)

    def _begin(self) -> bool:
        """Learn who has a replica and from where on; False if nothing can be compared."""
        outcome = self.outcome
        self._state = state = self._now()
        if state is None or state.leader is None:
            self._unknown("no-leader", None, "there is no such partition" if state is None else "nobody leads it")
            return False
        if len(state.replicas) == 1:
            outcome.alone = True
            return False
        for broker in state.replicas:
            if broker not in state.isr:
                self._unknown("not-in-sync", broker, f"broker {broker} is not in the ISR")
        self._brokers = sorted(state.isr)
        self._compacted = self._source.compacted(state.topic)
        self._tiered = self._source.tiered(state.topic)
        self._at = outcome.compared_to = max(self._at, self._start())
        if not outcome.bytes:
            outcome.start = self._at
        return True

    def _start(self) -> int:
        """Return the first offset that every replica has on its own disk."""
        found = 0
        for broker in list(self._brokers):
            try:
                first, local = self._source.starts(self._told, broker)
            except WireError as error:
                self._leave_out(broker, error)
                continue
            if local > first and local > self._at:
                self._unknown(
                    "tiered", broker, f"broker {broker} has offsets {first} to {local - 1} in a remote tier only"
                )
            found = max(found, local)
        return found

    def _window(self, limit: int | None) -> Generator[Step, None, _Window | None]:
        """Read the next window from all replicas; None at the end, or if there is nothing to compare any more."""
        for _ in range(_ATTEMPTS):
            if len(self._brokers) < 2:
                return None
            reads: dict[int, Read] = {}
            again = False
            for broker in list(self._brokers):
                try:
                    reads[broker] = self._source.read(self._told, broker, self._at, WINDOW_BYTES)
                except WireError as error:
                    again = self._unread(broker, error)
                    if again:
                        break
            size = sum(one.size for one in reads.values())
            self.outcome.bytes += size
            if not again and self._tiered is not False and (start := self._start()) > self._at:
                self._at, again = start, True  # what was read may be the tier's
            reads = {broker: one for broker, one in reads.items() if broker in self._brokers}
            yield Step(size, PAUSE_S if again else 0.0)
            if not again:
                return self._of_reads(reads, self._at, limit)
        self._unknown("moved", None, "leaders or log starts change all the time")
        self._brokers = []
        return None

    def _of_reads(self, reads: Mapping[int, "Read"], start: int, limit: int | None) -> _Window | None:
        sound = {broker: one for broker, one in reads.items() if one.unreadable != start}
        if len(reads) < 2:
            return None
        if not any(one.reach > start or not one.batches for one in sound.values()):
            self._unknown("unreadable", None, f"no replica can be read at offset {start}")
            self._brokers = []
            return None
        self.high_watermark, self._lowest = min((one.high_watermark, broker) for broker, one in sound.items())
        if self._promised is None and self._told.leader in sound:
            self._promised = sound[self._told.leader].high_watermark
        reaches = (one.reach for one in sound.values() if one.reach > start or not one.batches)
        end = min(self.high_watermark, *reaches)
        end = end if limit is None else min(end, limit)
        if end <= start:
            self._ended = True
            return None
        copies = tuple(
            Copy(broker, one.batches, one.unreadable if one.unreadable == start else None)
            for broker, one in sorted(reads.items())
        )
        return _Window(start, end, copies)

    def _unread(self, broker: int, error: WireError) -> bool:
        """Take that a replica could not be read; return whether all are to be read again."""
        if error.code in _MOVED:
            state = self._now()
            if state is None or state.topic_id != self._told.topic_id:
                self._unknown("moved", None, "the topic was deleted meanwhile")
                self._brokers = []
                return True
            for gone in set(self._brokers) - set(state.isr):
                self._unknown("not-in-sync", gone, f"broker {gone} is not in the ISR")
                self._brokers.remove(gone)
            self._state = state
            return True
        if error.code in _BEGINS_LATER:
            start = self._start()
            if start > self._at:  # retention, or the tier has it
                self._at = start
                return True
        if broker in self._brokers:
            self._leave_out(broker, error)
        return False

    def _judge(self, window: _Window) -> Generator[Step, None, None]:
        found = differences(window.copies, window.start, window.end, compacted=self._compacted)
        if self._compacted is not False:
            found = self._search.add(found)
            self._feed(window)
        if found:
            again = yield from self._read_again(window.start, window.end)
            self._take(confirmed(found, again))
        if closed := self._closed(window.end):
            yield Step(found=closed)

    def _feed(self, window: _Window) -> None:
        if self._search.pending:
            self._search.feed(_records(window))

    def _explain_late(self) -> Generator[Step, None, None]:
        """Look behind the range for what explains that records are missing; what nothing explains was not compacted."""
        for pause_s in (0.0, PAUSE_S):  # a high watermark that lags may hide the newest records
            yield Step(pause_s=pause_s)
            self._ended = False
            while self._search.pending and (window := (yield from self._window(None))) is not None:
                self._feed(window)
                self._at = window.end
        pending = self._search.pending
        if pending and not self._ended:
            self._unexplained(len(pending))
            return
        for start, end, near in _near(pending):
            again = yield from self._read_again(start, end)
            self._take(confirmed(near, again))

    def _read_again(self, start: int, end: int) -> Generator[Step, None, list[Difference]]:
        """Return the differences that a second reading shows; none if it is not a reading of what it was before."""
        yield Step(pause_s=PAUSE_S)
        found: list[Difference] = []
        first = start
        try:
            settled = self._settled(first)
            while settled and start < end:
                reads = {broker: self._source.read(self._told, broker, start, WINDOW_BYTES) for broker in self._brokers}
                size = sum(one.size for one in reads.values())
                self.outcome.bytes += size
                yield Step(size)
                window = self._of_reads(reads, start, end)
                if window is None:
                    settled = False
                    break
                found += differences(window.copies, start, window.end, compacted=self._compacted)
                start = window.end
            if settled and self._settled(first):
                return found
        except WireError as error:
            self._unknown("moved", None, f"a difference could not be looked at again: {error}")
            return []
        self._unknown("moved", None, "the leader, the ISR or the settings changed while a difference was looked at")
        return []

    def _settled(self, start: int) -> bool:
        """Return whether everything is as it was, every broker in the ISR, and ``start`` on each one's own disk."""
        now, before = self._now(), self._told
        if now is None or _led(now) != _led(before) or not set(self._brokers) <= set(now.isr):
            return False
        kept = self._source.compacted(before.topic), self._source.tiered(before.topic)
        own = self._tiered is False or all(self._source.starts(before, one)[1] <= start for one in self._brokers)
        return kept == (self._compacted, self._tiered) and own

    def _take(self, found: Collection[Difference]) -> None:
        state = self._told
        place = (state.topic, state.partition, state.topic_id)
        for one in together(place, (state.leader, state.leader_epoch), sorted(found, key=lambda one: one.first)):
            joined = self._open.joined(one) if self._open is not None else None
            if joined is None and self._open is not None:
                self._keep(self._open)
            self._open = joined or one

    def _keep(self, one: Divergence) -> None:
        if len(self.outcome.divergences) < MOST_FOUND:
            self.outcome.divergences.append(one)
        else:
            self.outcome.left_out += 1

    def _closed(self, end: int | None) -> tuple[Divergence, ...]:
        """Return the divergences that are new and do not go on at ``end``; None: none goes on."""
        if self._open is not None and self._open.last + 1 != end:
            self._keep(self._open)
            self._open = None
        new = tuple(self.outcome.divergences[self._said :])
        self._said = len(self.outcome.divergences)
        return new

    @property
    def _told(self) -> "PartitionReplicas":
        if self._state is None:
            raise RuntimeError("not begun")
        return self._state

    def _now(self) -> "PartitionReplicas | None":
        wanted = self.outcome.partition
        found = (one for one in self._source.partitions(self.outcome.topic) if one.partition == wanted)
        return next(found, None)

    def _leave_out(self, broker: int, error: WireError) -> None:
        self._brokers.remove(broker)
        reason: Reason = "refused" if error.refused else "unanswered"
        self._unknown(reason, broker, f"broker {broker}: {error}")

    def _unexplained(self, number: int) -> None:
        words = f"{number} records are missing on a replica, and whether by compaction is not known"
        self._unknown("unexplained", None, words)

    def _unknown(self, reason: Reason, broker: int | None, words: str) -> None:
        self.outcome.unknown.setdefault((reason, broker), words)


def _records(window: _Window) -> list[Kept]:
    """Return the records of a window, ascending, each of whichever replica has it."""
    found: dict[int, Kept] = {}
    for copy in window.copies:
        for batch in copy.batches:
            if batch.intact and batch.last_offset >= window.start and batch.base_offset < window.end:
                try:
                    found |= {one.offset: one for one in batch.kept()}
                except UndecodableError:
                    continue
    return [found[offset] for offset in sorted(found) if window.start <= offset < window.end]


def _led(state: "PartitionReplicas") -> tuple[object, ...]:
    """Return what stands still while replicas may be compared; the ISR is looked at by itself."""
    return state.topic_id, state.leader, state.leader_epoch, state.replicas


def _near(pending: Iterable[Difference]) -> Iterator[tuple[int, int, list[Difference]]]:
    """Yield differences that are read again together, with the range that has them."""
    near: list[Difference] = []
    for one in pending:
        if near and one.first - near[-1].last > _NEAR:
            yield near[0].first, near[-1].last + 1, near
            near = []
        near.append(one)
    if near:
        yield near[0].first, near[-1].last + 1, near
