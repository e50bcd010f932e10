"""What producers and consumers did: the rules about single probes.

Facts of consecutive probes come as runs (equal stream and reader, sequence and offset rising together), and every rule
here works on a run at once; only what is unusual is looked at one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from canary.anomalies.online import generations, liveness, retention, topology, transactions, wrong_cluster
from canary.anomalies.online.claims import claim, hold_copy, hold_order, make_certain
from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.questions import PASSED, SKIPPED, epoch_changed, miss, not_given, want_tail
from canary.anomalies.online.scope import TRANSACTIONAL, Found, always, is_reread, observe, sent_time
from canary.anomalies.online.state import Histogram, Reader, Unplaced
from canary.anomalies.policy import UNORDERED
from canary.anomalies.violation import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log, Meters, Stream, Topic

READ_COMMITTED = "read_committed"
_DOUBTS_KEPT = 1000
_SENT_KEPT = 4096
"""Sent times beyond which those of settled probes are forgotten."""


def sent(scope: Scope, run: Sequence[f.Sent]) -> None:
    """Probes are about to be handed to the client."""
    first, n = run[0], len(run)
    topic = scope.topic(first.topic)
    meters = scope.meters(first.topic, first.partition)
    meters.sent[first.mode] = meters.sent.get(first.mode, 0) + n
    if first.generation < topic.first_generations.get(first.producer_id, 0):
        return
    key = (first.producer_id, first.generation, first.partition)
    tag = topic.index.get(key)
    if tag is None:
        tag = generations.begin(topic, key, first.mode).tag
    log = scope.log(topic, first.partition)
    if not log.tried_ns and first.mode != "fencing":  # whose zombies are never acknowledged
        log.tried_ns = first.at_ns
    stream = topic.streams[tag]
    stream.open.add(first.sequence, first.sequence + n)
    stream.next_sequence = max(stream.next_sequence, first.sequence + n)
    stream.sent_keys.extend(range(first.sequence, first.sequence + n))
    stream.sent_times.extend(fact.at_ns for fact in run)
    if len(stream.sent_keys) > _SENT_KEPT:
        forget_sent_times(stream)
    if transactions.fenced(scope, first.producer_id, first.generation):
        stream.zombies.add(first.sequence, first.sequence + n)
        stream.failed.add(first.sequence, first.sequence + n)
    if first.transaction_id is not None:
        stream.transactions.set(first.sequence, n, first.sequence, first.transaction_id)
        transactions.wrote(scope, topic, stream, first, n)


def forget_sent_times(stream: Stream) -> None:
    """Keep the times of what is open, unseen or unplaced; everything before the first such is settled."""
    floors = [s.first() for s in (stream.open, stream.unplaced, *stream.unseen.values())]
    floor = min((x for x in floors if x is not None), default=stream.next_sequence)
    keep = bisect_left(stream.sent_keys, floor)
    if keep > len(stream.sent_keys) // 2:
        del stream.sent_keys[:keep], stream.sent_times[:keep]


def acked(scope: Scope, run: Sequence[f.Acked]) -> None:
    """The cluster acknowledged probes: outside a transaction, a promise."""
    first, n = run[0], len(run)
    mode = scope.mode(first.producer_id)
    meters = scope.meters(first.topic, first.partition)
    meters.acked[mode] = meters.acked.get(mode, 0) + n
    latency = meters.produce_latency.get(mode)
    if latency is None:
        latency = meters.produce_latency[mode] = Histogram()
    for fact in run:
        if fact.latency_ns is not None:
            observe(latency, fact.latency_ns / 1e9)
    topic = scope.topic(first.topic)
    stream = scope.stream(topic, first.producer_id, first.generation, first.partition)
    if stream is None:
        return  # of an incarnation that is gone: counted, never judged
    wrong_cluster.acknowledged(scope, topic, stream, first.sequence, n, first.offset)
    a, b = first.sequence, first.sequence + n
    stream.open.remove(a, b)
    stream.acked.add(a, b)
    in_transaction = stream.mode in TRANSACTIONAL
    log = scope.log(topic, first.partition)
    log.tried_ns = 0
    if first.offset is None:
        if not in_transaction:
            promise_unplaced(topic, log, stream, a, b)
        return
    place(scope, topic, log, stream, a, n, first.offset, read=False)
    claim(scope, topic, log, stream, a, n, first.offset, promise=not in_transaction)
    if stream.mode in UNORDERED:
        log.alone.add(max(first.offset, log.end or 0), first.offset + n)
    else:
        log.alone.remove(0, first.offset + n)
    retention.remember_sent(topic, log, first.offset, n, lambda i: sent_time(stream, a + i))
    if not in_transaction:
        promise(scope, topic, log, stream, a, n, first.offset)


def promise(scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, n: int, offset: int) -> None:
    """What is at ``offset`` must stay and be delivered: from its acknowledgement, or from its transaction's commit."""
    topic.promises += n
    log.promised.add(offset, offset + n)
    for name, reader in log.readers.items():
        if reader.isolation != READ_COMMITTED or reader.position <= offset:
            continue
        passed = min(reader.position - offset, n)
        delivered = stream.early.get(name)
        a, b = sequence, sequence + passed
        began = sequence + reader.began - offset  # what lies below it was not asked for, and is no less promised
        for x, y in delivered.without(a, b) if delivered is not None else [(a, b)]:
            for first, end, why in ((x, min(y, began), "reread"), (max(x, began), y, "late-ack")):
                if first < end:
                    miss(scope, log, stream, offset + first - sequence, end - first, first, why)
    _promise_unseen(log, stream, sequence, sequence + n)


def promise_unplaced(topic: Topic, log: Log, stream: Stream, a: int, b: int) -> None:
    """Sequences [a, b) must be somewhere, and be delivered: the offsets of their neighbours tell where (decision 3)."""
    topic.promises += b - a
    for x, y in stream.seen.without(a, b):
        stream.unplaced.add(x, y)
    _promise_unseen(log, stream, a, b)


def _promise_unseen(log: Log, stream: Stream, a: int, b: int) -> None:
    stream.promised.add(a, b)
    for name in log.readers:
        unseen = stream.unseen.get(name)
        if unseen is None:
            unseen = stream.unseen[name] = IntervalSet()
        early = stream.early.get(name)
        if early is not None and early.overlaps(a, b):
            for x, y in early.without(a, b):
                unseen.add(x, y)
            early.remove(a, b)
        else:
            unseen.add(a, b)


def failed(scope: Scope, fact: f.Failed) -> None:
    """Definitely not written: it must never be read committed."""
    mode = scope.mode(fact.producer_id)
    meters = scope.meters(fact.topic, fact.partition)
    meters.failed[mode] = meters.failed.get(mode, 0) + 1
    topic = scope.topic(fact.topic)
    stream = scope.stream(topic, fact.producer_id, fact.generation, fact.partition)
    if stream is None:
        return
    stream.open.remove(fact.sequence, fact.sequence + 1)
    transactions.refuse(scope, topic, stream, fact.sequence, f"its send failed: {fact.error}")


def indeterminate(scope: Scope, fact: f.Indeterminate) -> None:
    """It may be in the log or not; nothing is concluded from either."""
    mode = scope.mode(fact.producer_id)
    meters = scope.meters(fact.topic, fact.partition)
    meters.indeterminate[mode] = meters.indeterminate.get(mode, 0) + 1
    stream = scope.stream(scope.topic(fact.topic), fact.producer_id, fact.generation, fact.partition)
    if stream is not None:
        stream.open.remove(fact.sequence, fact.sequence + 1)
        stream.indeterminate.add(fact.sequence, fact.sequence + 1)


def positioned(scope: Scope, fact: f.Positioned) -> None:
    """A consumer was put somewhere by us."""
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    request_id = is_reread(fact.consumer)
    if request_id is not None:
        reread = log.rereads.get(request_id)
        if reread is not None:  # what lies below is gone from the log: retention, judged by the listed start
            reread.start = max(reread.start, fact.offset)
        return
    if fact.topic_id in topic.dead_ids:
        return  # it takes the records of the incarnation of now for somebody else's, and will be put there soon
    before = log.readers.get(fact.consumer)
    if before is not None and before.position == fact.offset and not before.astray:
        before.moved_at_ns = scope.state.now_ns  # it goes on where it stood
        return
    if fact.isolation == READ_COMMITTED:
        _put_elsewhere(topic, log, fact, SKIPPED if before is not None and before.astray else PASSED)
    log.readers[fact.consumer] = Reader(fact.isolation, fact.offset, scope.state.now_ns, fact.offset)


def _put_elsewhere(topic: Topic, log: Log, fact: f.Positioned, passed: frozenset[str]) -> None:
    """What the consumer passed without delivering it is no less passed when it is given it now, as it begins anew.

    But for one that was astray: what was acknowledged below its position since stands in a log that it did not read.
    """
    for m in log.missing:
        if m.why in passed and _awaited(topic, fact.consumer, m.tag).covers(m.sequence, m.sequence + m.count):
            m.given = True
    for key, held in list(log.held.items()):
        if held.check in passed:
            a = held.sequence
            awaited = _awaited(topic, fact.consumer, held.tag).within(a, a + held.violation.count)
            make_certain(log, key, held, [(x - a, y - a) for x, y in awaited])


def _awaited(topic: Topic, consumer: str, tag: int) -> IntervalSet:
    return topic.streams[tag].unseen.get(consumer) or IntervalSet()


def polled(scope: Scope, run: Sequence[f.Polled]) -> None:  # noqa: C901, PLR0912  # one step after the other
    """A consumer was given probes of ours."""
    first, n = run[0], len(run)
    topic = scope.topic(first.topic)
    stream = scope.stream(topic, first.producer_id, first.generation, first.partition)
    if stream is not None and stream.live and first.sequence < stream.next_sequence < first.sequence + n:
        sent = stream.next_sequence - first.sequence  # the rest are phantoms
        polled(scope, run[:sent])
        run, n = run[sent:], n - sent
        first = run[0]
    log = scope.log(topic, first.partition)
    meters = scope.meters(first.topic, first.partition)
    request_id = is_reread(first.consumer)
    name = "reread" if request_id is not None else first.consumer
    meters.seen[name] = meters.seen.get(name, 0) + n
    epoch = first.leader_epoch
    if epoch is not None and epoch > (log.epoch or 0) and topology.epoch_read(scope, topic.name, log.partition, epoch):
        epoch_changed(scope, log, epoch)
    liveness.clocks(scope, topic, log, first)
    stream = _known(scope, topic, log, stream, first, n)
    if request_id is not None:
        reread = log.rereads.get(request_id)
        if reread is not None and stream is not None:
            reread.delivered.set(first.offset, n, first.sequence, stream.tag)
    else:
        advance(scope, topic, log, first.consumer, first.isolation, first.offset, first.offset + n)
    if stream is None:
        return
    a, b = first.sequence, first.sequence + n
    committed = first.isolation == READ_COMMITTED
    placed_now = _unplaced_within(log, stream, a, b) if log.unplaced or stream.unplaced.starts else []
    place(scope, topic, log, stream, a, n, first.offset, read=True)
    plain = stream.mode not in TRANSACTIONAL
    claim(scope, topic, log, stream, a, n, first.offset, promise=committed or plain)
    log.alone.remove(0, first.offset + n)
    retention.remember_sent(topic, log, first.offset, n, lambda i: _sent_by(run[i]))
    for x, y in placed_now:
        log.promised.add(first.offset + x - a, first.offset + y - a)
        _passed_unplaced(scope, log, stream, x, y, first)
    if (committed or plain) and not stream.promised.covers(a, b):
        _passed_unpromised(scope, log, stream, a, b, first)
    if committed and stream.failed.overlaps(a, b):
        for x, y in stream.failed.within(a, b):
            transactions.aborted_read(scope, topic, log, stream, x, first.offset + x - a, first.consumer, n=y - x)
    if request_id is None:
        _delivered(scope, log, stream, run, meters)
    if committed and not plain:
        transactions.zombie(scope, topic, log, stream, first, n)
    if committed and first.transaction_id is not None:
        transactions.read(scope, topic, log, stream, first, n)


def _sent_by(fact: f.Polled) -> int | None:
    """Return when (ns) it was sent at the latest: a clock that was ahead dates it later than it is read."""
    return None if fact.sent_at_ns is None else min(fact.sent_at_ns, fact.at_ns)


def _unplaced_within(log: Log, stream: Stream, a: int, b: int) -> list[tuple[int, int]]:
    """Return what of [a, b) was acknowledged without an offset and has no place yet, be it looked for or not."""
    asked = [(u.sequence, u.sequence + 1) for u in log.unplaced if u.tag == stream.tag and a <= u.sequence < b]
    return [*stream.unplaced.within(a, b), *asked]


def _passed_unplaced(scope: Scope, log: Log, stream: Stream, a: int, b: int, first: f.Polled) -> None:
    """Others see where sequences stand that were acknowledged without an offset: who has passed them, skipped them."""
    shift = first.offset - first.sequence
    for name, reader in log.readers.items():
        unseen = stream.unseen.get(name)
        if reader.isolation != READ_COMMITTED or name == first.consumer or unseen is None:
            continue
        for x, y in unseen.within(a, min(b, reader.position - shift)):
            miss(scope, log, stream, x + shift, y - x, x, "late-place")


def _passed_unpromised(scope: Scope, log: Log, stream: Stream, a: int, b: int, first: f.Polled) -> None:
    """Others see what nobody acknowledged, so it is there for all: who has passed it since it began, skipped it."""
    shift = first.offset - first.sequence
    for name, reader in log.readers.items():
        if reader.isolation != READ_COMMITTED or name == first.consumer:
            continue
        low, high = max(a, reader.began - shift), min(b, reader.position - shift)
        if low >= high:
            continue
        given = stream.early.get(name)
        if given is not None and given.covers(low, high):
            continue  # the usual case: it was there first
        for x, y in stream.promised.without(low, high):
            for p, q in given.without(x, y) if given is not None else [(x, y)]:
                for c, d in stream.failed.without(p, q):
                    miss(scope, log, stream, c + shift, d - c, c, "late-place")


def _known(scope: Scope, topic: Topic, log: Log, stream: Stream | None, first: f.Polled, n: int) -> Stream | None:
    """Return the stream that the identities belong to; unknown ones are looked up, impossible ones are phantoms."""
    if stream is not None:
        end = first.sequence + n
        if end > stream.next_sequence:
            if stream.live:
                _phantom(scope, topic, log, stream, first, n)
                return None
            said = log.phantoms.within(first.offset, first.offset + n)
            if any(run.tag == stream.tag and run.value - run.key == first.sequence - first.offset for run in said):
                return None  # said when its generation lived, and no more a probe now
            # a dead generation's unrecorded tail: it was sent, and nobody could write it down
            stream.next_sequence = end
        return stream
    state = scope.state
    producer = state.producers.get(first.producer_id)
    if producer is None or (producer.live and first.generation > producer.generation):
        known = state.siblings.get(first.producer_id)
        if known is None or first.generation > known:  # ask the store: another runner's, a successor's, or nobody's?
            scope.unknown_producers.add(first.producer_id)
            doubts = state.doubts.setdefault(first.producer_id, [])
            doubts.extend(
                [topic.name, log.partition, first.offset + i, first.generation, first.sequence + i, first.consumer]
                for i in range(min(n, _DOUBTS_KEPT - len(doubts)))
            )
        return None
    if (
        first.generation == producer.generation
        and producer.live
        and first.generation >= topic.first_generations.get(first.producer_id, 0)
    ):
        stream = generations.begin(topic, (first.producer_id, first.generation, first.partition), producer.mode)
        _phantom(scope, topic, log, stream, first, n)
        return None
    if first.generation <= topic.forgotten.get(first.producer_id, 0) and first.isolation == READ_COMMITTED:
        transactions.from_the_grave(scope, topic, log, first, n)
    return None  # a generation before our memory


def _phantom(scope: Scope, topic: Topic, log: Log, stream: Stream, first: f.Polled, n: int) -> None:
    """Say each, and remember them: read again when their generation is over, they are no unrecorded tail of it."""
    run = Records(first.offset, n, stream.identity(first.sequence))
    say_phantom(scope, topic, log, run, first.consumer)
    log.phantoms.set(first.offset, n, first.sequence, stream.tag)


def say_phantom(scope: Scope, topic: Topic, log: Log, run: Records, consumer: str) -> None:
    """Intact probes that nobody sent."""
    found = Found(
        "phantom",
        scope.mode(run.identity.producer_id) if run.identity is not None else None,
        always(f"{consumer} was given an intact probe that was never sent", {"consumer": consumer}),
        f"{consumer} was given intact probes that were never sent",
    )
    scope.emit_run(topic, log, run, found)


def place(
    scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, n: int, offset: int, *, read: bool
) -> None:
    """Note where identities stand; find copies and reordering."""
    end = sequence + n
    if stream.places.matches(sequence, n, offset, stream.tag):  # known to stand just there
        if read:
            stream.seen.add(sequence, end)
        return
    if not stream.places.touches(sequence, end) and not stream.seen.overlaps(sequence, end):
        hold_order(scope, topic, log, stream, sequence, n, offset, read=read)
        stream.places.set(sequence, n, offset, stream.tag)
        if read:
            stream.seen.add(sequence, end)
        return
    for x, y, known, before in _alike(stream, sequence, end):
        _place_again(scope, topic, log, stream, x, y - x, offset + x - sequence, known, read=read, before=before)


def _alike(stream: Stream, a: int, b: int) -> list[tuple[int, int, int | None, bool]]:
    """Return [a, b) in ranges of sequences that are known alike: where the first stands, and whether they were read."""
    placed = stream.places.within(a, b)
    known = [(run.key, run.key + run.length, run.value) for run in placed]
    ends = [a, *(end for run in known for end in run[:2]), b]
    nowhere = [(x, y, None) for x, y in zip(ends[::2], ends[1::2], strict=True) if x < y]
    ranges: list[tuple[int, int, int | None, bool]] = []
    for first, end, at in (*known, *nowhere):
        for ones, before in ((stream.seen.within(first, end), True), (stream.seen.without(first, end), False)):
            ranges += [(x, y, None if at is None else at + x - first, before) for x, y in ones]
    return sorted(ranges, key=itemgetter(0))


def _place_again(
    scope: Scope,
    topic: Topic,
    log: Log,
    stream: Stream,
    sequence: int,
    n: int,
    offset: int,
    known: int | None,
    *,
    read: bool,
    before: bool,
) -> None:
    end = sequence + n
    if known == offset:  # acknowledged here, or delivered here before: no news
        if read:
            stream.seen.add(sequence, end)
        return
    if known is None and not before:
        hold_order(scope, topic, log, stream, sequence, n, offset, read=read)
        stream.places.set(sequence, n, offset, stream.tag)
        if read:
            stream.seen.add(sequence, end)
        return
    if read and known is None:  # what had expired is there again below its end, as it was
        again = min(max(log.expired - offset, 0), n)
        stream.places.set(sequence, again, offset, stream.tag)
        hold_copy(scope, topic, log, stream, sequence + again, n - again, offset + again, None)
        return
    if read and before:
        hold_copy(scope, topic, log, stream, sequence, n, offset, known)
        return
    if read and known is not None:  # acknowledged elsewhere, and here it is: is it there, too?
        miss(scope, log, stream, known, n, sequence, "moved")
        stream.seen.add(sequence, end)
        stream.places.set(sequence, n, offset, stream.tag)
    elif not read and before:
        miss(scope, log, stream, offset, n, sequence, "moved")


def _delivered(scope: Scope, log: Log, stream: Stream, run: Sequence[f.Polled], meters: Meters) -> None:
    """A tail consumer has them: no longer unseen; the time it took."""
    first, n = run[0], len(run)
    name = first.consumer
    a, b = first.sequence, first.sequence + n
    early = stream.early.get(name)
    if early is None:
        early = stream.early[name] = IntervalSet()
    unseen = stream.unseen.get(name)
    waiting = unseen is not None and unseen.overlaps(a, b)
    if unseen is not None and waiting:
        unseen.remove(a, b)
    if not stream.promised.overlaps(a, b):
        early.add(a, b)
    elif not stream.promised.covers(a, b):
        for x, y in stream.promised.without(a, b):
            early.add(x, y)
    if stream.unplaced.starts:
        _unplaced_passed(scope, log, stream, a, b, first.offset, first.isolation)
    if stream.live and (waiting or stream.open.overlaps(a, b)):
        _time_taken(meters, stream, run)


def _time_taken(meters: Meters, stream: Stream, run: Sequence[f.Polled]) -> None:
    name = run[0].consumer
    latency = meters.delivery_latency.get(name)
    if latency is None:
        latency = meters.delivery_latency[name] = Histogram()
    for fact in run:
        at_ns = sent_time(stream, fact.sequence)
        if at_ns is not None:
            observe(latency, max(fact.at_ns - at_ns, 0) / 1e9)


def _unplaced_passed(scope: Scope, log: Log, stream: Stream, a: int, b: int, offset: int, isolation: str) -> None:
    """A later sequence was delivered: what was acknowledged without an offset before it should have come first."""
    stream.unplaced.remove(a, b)
    if isolation != READ_COMMITTED or stream.mode in UNORDERED:
        return
    for x, y in stream.unplaced.within(0, a):
        low = stream.places.before(x)
        for sequence in range(x, y):
            log.unplaced.append(
                Unplaced(
                    stream.tag,
                    sequence,
                    low[1] + 1 if low else 0,
                    offset,
                    scope.state.now_ns,
                    scope.state.ordinal,
                )
            )
        stream.unplaced.remove(x, y)


def advance(scope: Scope, topic: Topic, log: Log, consumer: str, isolation: str, offset: int, end: int) -> None:
    """A tail consumer's contiguous position moves to ``end``; what is promised in between is missing.

    ``offset`` is where the delivery begins (equal to ``end`` at an end of partition).
    """
    reader = log.readers.get(consumer)
    if reader is None:
        return  # nobody has put it into this incarnation of the topic yet
    if offset < reader.position:
        if end > offset:
            scope.hold(
                log,
                scope.violation(
                    "nonmonotonic-poll",
                    topic,
                    log.partition,
                    offset,
                    None,
                    f"{consumer} stood at {reader.position} and was given offset {offset} without having been moved",
                    evidence={"consumer": consumer, "position": reader.position},
                ),
            )
        if end > reader.position:  # a run: it goes on beyond where the reader stood
            reader.position, reader.moved_at_ns = end, scope.state.now_ns
        return
    if isolation == READ_COMMITTED and offset > reader.position:
        _skipped(scope, topic, log, reader.position, offset)
    if end > reader.position:
        reader.position = end
        reader.moved_at_ns = scope.state.now_ns


def _skipped(scope: Scope, topic: Topic, log: Log, a: int, b: int) -> None:
    for m in log.missing:  # what another has displaced may stand there all the same
        if m.why == "displaced" and a <= m.offset and m.offset + m.count <= b:
            m.why = "skipped"
    for x, y in log.promised.within(a, b):
        for gap_start, gap_end in log.corrupt.without(x, y):
            for run in log.claims.within(gap_start, gap_end):
                stream, shift = topic.streams[run.tag], run.key - run.value
                waiting = not_given(log, stream, run.value, run.value + run.length)
                for first, end in waiting:
                    miss(scope, log, stream, first + shift, end - first, first, "skipped")
                for first, end in waiting.without(run.value, run.value + run.length):
                    miss(scope, log, stream, first + shift, end - first, first, "skipped", given=True)


def refused(scope: Scope, fact: f.Refused) -> None:
    """A consumer was given a record that is no intact probe of ours."""
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    request_id = is_reread(fact.consumer)
    if fact.refusal == "corrupt":
        _corrupt(scope, topic, log, fact)
        reread = log.rereads.get(request_id) if request_id is not None else None
        if reread is not None:
            reread.corrupt.add(fact.offset, fact.offset + 1)
    else:
        meters = scope.meters(fact.topic, fact.partition)
        name = "reread" if request_id is not None else fact.consumer
        meters.foreign[name] = meters.foreign.get(name, 0) + 1
    if request_id is None:  # the record itself is passed, too: a promise may have stood there
        advance(scope, topic, log, fact.consumer, fact.isolation, fact.offset, fact.offset)
        reader = log.readers.get(fact.consumer)
        if reader is not None and fact.offset == reader.position:
            if fact.isolation == READ_COMMITTED:  # where it is damaged, nothing is missing
                _skipped(scope, topic, log, fact.offset, fact.offset + 1)
            reader.position = fact.offset + 1
            reader.moved_at_ns = scope.state.now_ns


def _corrupt(scope: Scope, topic: Topic, log: Log, fact: f.Refused) -> None:
    if fact.offset in log.corrupt:
        return
    log.corrupt.add(fact.offset, fact.offset + 1)
    evidence: dict[str, Any] = {"consumer": fact.consumer, "isolation": fact.isolation, "error": fact.error}
    known = log.claims.get(fact.offset)
    if known is not None:
        stream = topic.streams[known[1]]
        evidence["promised_here"] = list(stream.identity(known[0]))
        for unseen in stream.unseen.values():
            unseen.remove(known[0], known[0] + 1)
    words = "a record that bears our magic and tag is damaged", "records that bear our magic and tag are damaged"
    one, several = (f"{what}: {fact.error}" for what in words)
    scope.emit_run(topic, log, Records(fact.offset, 1, None), Found("corrupt", None, always(one, evidence), several))


def end_of_partition(scope: Scope, fact: f.EndOfPartition) -> None:
    """A consumer stands at the end of what it may read."""
    if is_reread(fact.consumer) is not None:
        return
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    reader = log.readers.get(fact.consumer)
    if reader is not None and fact.offset < reader.position:
        return  # said by somebody who is behind: the listed end decides
    if reader is not None:
        advance(scope, topic, log, fact.consumer, fact.isolation, fact.offset, fact.offset)
        reader.moved_at_ns = scope.state.now_ns


def out_of_range(scope: Scope, fact: f.OutOfRange) -> None:
    """A consumer's position is not in the log: retention, recreation, or the log was cut. Look again."""
    if is_reread(fact.consumer) is not None:
        return
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    reader = log.readers.get(fact.consumer)
    if reader is not None:
        reader.astray = True
    if fact.offset > log.start:
        log.cut = {"consumer": fact.consumer, "position": fact.offset, "error": fact.error, "at_ns": fact.at_ns}
        want_tail(scope, log, "out-of-range", fact.offset)
