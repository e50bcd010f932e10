"""What a log says about its producers: sequences of idempotent ones, transactions that are open or aborted."""

from bisect import bisect_right, insort
from collections import deque

from simulation.kafka import errors
from simulation.kafka.contract import Batch, Record
from simulation.kafka.log import Log

REMEMBERED = 5
"""So many batches of a producer are recognised when they come again."""
SEQUENCES = 1 << 31


class Producer:
    """One producer id: its epoch, and (first sequence, last, offset, timestamp) of its latest batches."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[tuple[int, int, int, int]] = deque(maxlen=REMEMBERED)


class Producers:
    """The state that follows from the records below ``end``, of which ``last`` is the last."""

    def __init__(self, start: int = 0) -> None:
        self.by_id: dict[int, Producer] = {}
        self.open: dict[int, int] = {}
        """First offset of the open transaction, by producer id."""
        self.closed: list[tuple[int, int]] = []
        """(first offset, offset of its marker) of transactions that ended, until the high watermark passes."""
        self.aborted: dict[int, list[tuple[int, int]]] = {}
        """(first offset, offset of its marker) of the aborted transactions of a producer id."""
        self.transactional = False
        """Whether there is anything that a reader must not see: markers, aborted records."""
        self.floor = 0
        """Below it aborted transactions are forgotten."""
        self.end = start
        self.last: Record | None = None

    def copy(self) -> "Producers":
        """Return the same state, to go on from by itself."""
        other = Producers(self.end)
        for number, known in self.by_id.items():
            other.by_id[number] = Producer(known.epoch)
            other.by_id[number].batches.extend(known.batches)
        other.open = dict(self.open)
        other.closed = list(self.closed)
        other.aborted = {number: list(ranges) for number, ranges in self.aborted.items()}
        other.transactional, other.last, other.floor = self.transactional, self.last, self.floor
        return other

    def holds_for(self, log: Log) -> bool:
        """Whether this state is that of a beginning of ``log``."""
        if self.floor > log.start:
            return False  # a log from which less was deleted
        return self.end == log.base or (self.last is not None and log.record(self.end - 1) is self.last)

    def replay(self, log: Log) -> None:
        """Take in what the log has from ``end`` on."""
        batch: list[Record] = []
        for record in log.slice(self.end, log.end):
            if batch and (record.batch != batch[0].batch or record.control):
                self._replay(batch)
                batch = []
            batch.append(record)
        if batch:
            self._replay(batch)

    def _replay(self, batch: list[Record]) -> None:
        first = batch[0]
        if first.control:
            self.mark(first)
        else:
            self.note(batch)

    def check(self, batch: Batch) -> tuple[int, tuple[int, int] | None]:
        """Return (error, (offset, timestamp) of the copy that is known, if it is one)."""
        known = self.by_id.get(batch.producer_id)
        if known is None:
            return 0, None
        if batch.producer_epoch < known.epoch:
            return errors.INVALID_PRODUCER_EPOCH, None
        first = batch.first_sequence
        if first < 0:
            return 0, None
        if batch.producer_epoch > known.epoch:
            return (0 if first == 0 else errors.OUT_OF_ORDER_SEQUENCE_NUMBER), None
        last = (first + len(batch.records) - 1) % SEQUENCES
        for known_first, known_last, offset, timestamp in known.batches:
            if known_first == first and known_last == last:
                return 0, (offset, timestamp)
        expected = (known.batches[-1][1] + 1) % SEQUENCES if known.batches else 0
        return (0 if first == expected else errors.OUT_OF_ORDER_SEQUENCE_NUMBER), None

    def note(self, batch: list[Record]) -> None:
        """Take in a batch that was appended."""
        first, last = batch[0], batch[-1]
        self.end, self.last = last.offset + 1, last
        number = first.producer_id
        if number < 0:
            return
        self.expect(number, first.producer_epoch, first.sequence, last.sequence, first.offset, first.timestamp_ms)
        if first.transactional:
            self.transactional = True
            self.open.setdefault(number, first.offset)

    def expect(self, number: int, epoch: int, first: int, last: int, offset: int, timestamp_ms: int) -> None:
        """Remember a batch of a producer: its sequences, and where it is."""
        known = self.by_id.get(number)
        if known is None:
            known = self.by_id[number] = Producer(epoch)
        if epoch > known.epoch:
            known.epoch = epoch
            known.batches.clear()
        late = known.batches and known.batches[-1][1] - last in range(SEQUENCES // 2)
        if epoch == known.epoch and first >= 0 and not late:  # late: what is there twice, or in the wrong order
            known.batches.append((first, last, offset, timestamp_ms))

    def mark(self, marker: Record) -> None:
        """Take in the marker of a transaction's end."""
        self.end, self.last = marker.offset + 1, marker
        self.transactional = True
        number = marker.producer_id
        known = self.by_id.get(number)
        if known is None:
            self.by_id[number] = Producer(marker.producer_epoch)
        elif marker.producer_epoch > known.epoch:
            known.epoch = marker.producer_epoch
            known.batches.clear()
        first = self.open.pop(number, None)
        if first is not None:
            self.closed.append((first, marker.offset))
            if marker.control == "abort":
                insort(self.aborted.setdefault(number, []), (first, marker.offset))

    def stable(self, high_watermark: int) -> int:
        """Return the last stable offset: no transaction below it is undecided."""
        low = high_watermark
        if self.closed:
            self.closed = [pair for pair in self.closed if pair[1] >= high_watermark]
            low = min([low, *(first for first, _ in self.closed)])
        return min([low, *self.open.values()]) if self.open else low

    def is_aborted(self, record: Record) -> bool:
        """Whether the record belongs to a transaction that was aborted."""
        if not record.transactional:
            return False
        ranges = self.aborted.get(record.producer_id)
        if not ranges:
            return False
        at = bisect_right(ranges, (record.offset, SEQUENCES << 32)) - 1
        return at >= 0 and ranges[at][1] > record.offset

    def forget_below(self, start: int) -> None:
        """Forget aborted transactions whose records all expired."""
        self.floor = max(self.floor, start)
        for number, ranges in list(self.aborted.items()):
            kept = [pair for pair in ranges if pair[1] >= start]
            if kept:
                self.aborted[number] = kept
            else:
                del self.aborted[number]
