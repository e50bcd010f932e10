"""What readers are given: intact probes, by tail consumers and by re-reads."""

from collections.abc import Sequence

from canary import facts as f
from canary.anomalies.online.log import READ_COMMITTED, READ_UNCOMMITTED, Log
from canary.anomalies.online.losses.questions import Reread, Unplaced
from canary.anomalies.online.meters import Histogram, Meters, count, observe
from canary.anomalies.online.missing import miss
from canary.anomalies.online.rules import phantoms, retention, transactions
from canary.anomalies.online.rules.claims import claim, place
from canary.anomalies.online.rules.positions import advance
from canary.anomalies.online.scope import TRANSACTIONAL, Probes, Scope, is_reread
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import Stream, lowest, sent_time
from canary.anomalies.online.topology import liveness, timeline
from canary.anomalies.online.wanted import epoch_changed
from canary.anomalies.policy import UNORDERED
from canary.facts.batch import column


def polled(scope: Scope, run: Sequence[f.Polled]) -> None:  # noqa: C901, PLR0912  # one step after the other
    """A consumer was given probes of ours."""
    first, n = run[0], len(run)
    topic = scope.topic(first.topic)
    stream = scope.stream(topic, first.producer_id, first.generation, first.partition)
    if stream is not None and stream.live and first.sequence < stream.next_sequence < first.sequence + n:
        sent = stream.next_sequence - first.sequence  # the rest was never sent: phantoms
        polled(scope, run[:sent])
        run, n = run[sent:], n - sent
        first = run[0]
    log = scope.log(topic, first.partition)
    meters = scope.meters(first.topic, first.partition)
    request_id = is_reread(first.consumer)
    name = "reread" if request_id is not None else first.consumer
    count(meters.seen, name, n)
    epoch = first.leader_epoch
    if epoch is not None and epoch > (log.epoch or 0) and timeline.epoch_read(scope, topic.name, log.partition, epoch):
        epoch_changed(scope, log, epoch)
    liveness.clocks(scope, topic, log, first)
    stream = phantoms.sender(scope, topic, log, stream, first, n)
    reread = log.rereads.get(request_id) if request_id is not None else None
    if reread is not None:
        reread.former |= _of_former_leader(log, run[-1])
        reread.present |= epoch is not None and epoch == log.epoch
        if stream is not None:
            reread.delivered.set(first.offset, n, first.sequence, stream.tag)
    elif request_id is None:
        advance(scope, topic, log, first.consumer, first.isolation, first.offset, first.offset + n)
    if stream is None:
        return
    a, b = first.sequence, first.sequence + n
    committed = first.isolation == READ_COMMITTED
    placed_now = _unplaced_within(log, stream, a, b) if log.unplaced or stream.unplaced else []
    probes = Probes(topic, log, stream, a, n, first.offset)
    if not stream.places.matches(a, n, first.offset, stream.tag):  # else its age is known by our own clock
        retention.remember_sent(topic, log, first.offset, n, lambda i: _sent_by(run[i]))
    place(scope, probes, read=True)
    _not_alone_beyond(log, probes, epoch)
    plain = stream.mode not in TRANSACTIONAL
    _claim(scope, probes, promise=committed or plain)
    for x, y in placed_now:
        log.promised.add(first.offset + x - a, first.offset + y - a)
        _passed_unplaced(scope, probes.part(x, y), first)
    if (committed or plain) and not stream.promised.covers(a, b):
        _passed_unpromised(scope, probes, first, reread)
    if committed and stream.failed.overlaps(a, b):
        for x, y in stream.failed.within(a, b):
            transactions.aborted_read(scope, probes.part(x, y), first.consumer)
    if request_id is None:
        _delivered(scope, topic, log, stream, run, meters)
    if committed and not plain:
        transactions.zombie(scope, probes, first.consumer)
    if committed and first.transaction_id is not None:
        transactions.read(scope, probes, run, first.transaction_id)


def _claim(scope: Scope, probes: Probes, *, promise: bool) -> None:
    """Claim places; what contradicts another identity there is of the epoch that was read, or of a later one."""
    before = probes.log.conflicted
    claim(scope, probes, promise=promise)
    if probes.log.conflicted and not before:
        probes.log.note_sign()


def _not_alone_beyond(log: Log, probes: Probes, epoch: int | None) -> None:
    """What is read is not the leader's alone, and shows what it lacks: a log ended at what it acknowledged then.

    Offsets beyond the latest acknowledgements were acknowledged before them, by another leader: one that was cut off
    goes on for long after its successor is known. A record of an older leader epoch may be a former leader's.
    """
    _, _, stream, sequence, n, offset = probes
    log.alone.remove(0, offset + n)
    if log.newest_from is not None and epoch is not None and epoch == log.epoch:
        a, b = max(offset, log.newest_from), min(offset + n, log.acked_end)
        if any(log.claims.aligned(a, b, sequence - offset, stream.tag)):
            log.alone.remove(log.acked_end, log.alone.end() or 0)
            log.newest_from = None


def _of_former_leader(log: Log, fact: f.Polled) -> bool:
    """Whether the record is of an older leader epoch than everything that the present leader has from there on."""
    if fact.leader_epoch is None or log.epoch is None or log.epoch_start is None:
        return False
    return fact.leader_epoch < log.epoch and fact.offset >= log.epoch_start


def _sent_by(fact: f.Polled) -> int | None:
    """Return when (ns) a probe was sent, None if its sender's clock was ahead: it was read before that time."""
    return None if fact.sent_at_ns is None or fact.sent_at_ns > fact.at_ns else fact.sent_at_ns


def _unplaced_within(log: Log, stream: Stream, a: int, b: int) -> list[tuple[int, int]]:
    """Return the sequences of [a, b) that were acknowledged without an offset and have no place yet."""
    asked = [(u.sequence, u.sequence + 1) for u in log.unplaced if u.tag == stream.tag and a <= u.sequence < b]
    return [*stream.unplaced.within(a, b), *asked]


def _passed_unplaced(scope: Scope, probes: Probes, first: f.Polled) -> None:
    """Other consumers beyond the place read now skipped these probes, which were acknowledged without an offset."""
    _, log, stream, a, _, offset = probes
    b, shift = probes.end, offset - a
    for name, reader in log.readers.items():
        unseen = stream.unseen.get(name)
        if reader.isolation != READ_COMMITTED or name == first.consumer or unseen is None:
            continue
        for x, y in unseen.within(a, min(b, reader.position - shift)):
            miss(scope, probes.part(x, y), "late-place")


def _passed_unpromised(scope: Scope, probes: Probes, first: f.Polled, reread: Reread | None) -> None:
    """Other consumers skipped an unacknowledged record if they started below it and their position is beyond it.

    A re-read that confirms something else shows nothing here: its neighbours would be asked for, and theirs, for ever.
    """
    _, log, stream, a, _, offset = probes
    if reread is not None and reread.reason == "confirm":
        return
    b, shift = probes.end, offset - a
    for name, reader in log.readers.items():
        if reader.isolation != READ_COMMITTED or name == first.consumer:
            continue
        low, high = max(a, reader.began - shift), min(b, reader.position - shift)
        if low >= high:
            continue
        given = stream.early.get(name)
        if given is not None and given.covers(low, high):
            continue  # the usual case: that consumer was given it before
        for x, y in stream.promised.without(low, high):
            for p, q in given.without(x, y) if given is not None else [(x, y)]:
                for c, d in stream.failed.without(p, q):
                    miss(scope, probes.part(c, d), "late-place")


def _delivered(scope: Scope, topic: Topic, log: Log, stream: Stream, run: Sequence[f.Polled], meters: Meters) -> None:
    """A tail consumer was given the run: it is no longer unseen, and its latency is observed."""
    first, n = run[0], len(run)
    name = first.consumer
    meters.given_ns[stream.mode] = scope.state.now_ns
    meters.unread_ns.pop(stream.mode, None)
    a, b = first.sequence, first.sequence + n
    early = stream.early.setdefault(name, IntervalSet())
    unseen = stream.unseen.get(name)
    waiting = unseen is not None and unseen.overlaps(a, b)
    if unseen is not None and waiting:
        unseen.remove(a, b)
    if not stream.promised.overlaps(a, b):
        early.add(a, b)
    elif not stream.promised.covers(a, b):
        for x, y in stream.promised.without(a, b):
            early.add(x, y)
    if stream.unplaced:
        _unplaced_passed(scope, topic, log, stream, run)
    if stream.live and (waiting or stream.open.overlaps(a, b)):
        _time_taken(scope, log, stream, run, meters)


def _time_taken(scope: Scope, log: Log, stream: Stream, run: Sequence[f.Polled], meters: Meters) -> None:
    name = run[0].consumer
    latency = meters.delivery_latency.setdefault(name, Histogram())
    leader = scope.led_by(log) if name == READ_UNCOMMITTED else None  # who reads from its leader, and waits for no end
    for sequence, at_ns in enumerate(column(run, "at_ns"), run[0].sequence):
        sent_ns = sent_time(stream, sequence)
        if sent_ns is not None:
            observe(latency, max(at_ns - sent_ns, 0) / 1e9)
            if leader is not None and sent_ns >= log.led_ns:
                observe(leader.delivery_latency, max(at_ns - sent_ns, 0) / 1e9)


def _unplaced_passed(scope: Scope, topic: Topic, log: Log, stream: Stream, run: Sequence[f.Polled]) -> None:
    """A later sequence was delivered: earlier ones that were acknowledged without an offset should have come first.

    A read_committed consumer shows that; above a last stable offset that stands it is given nothing, and
    read_uncommitted does.
    """
    first = run[0]
    a, offset = first.sequence, first.offset
    stream.unplaced.remove(a, a + len(run))
    hidden = liveness.hidden_from(scope, topic, log) if first.isolation != READ_COMMITTED else offset
    if hidden is None or offset < hidden or stream.mode in UNORDERED:
        return
    for x, y in stream.unplaced.within(0, a):
        known = (lowest(stream, x), offset, scope.state.now_ns, scope.state.ordinal)
        log.unplaced.extend(Unplaced(stream.tag, sequence, *known) for sequence in range(x, y))
        stream.unplaced.remove(x, y)
