"""What an advance of the log's start means: expired is not lost, and gone is not expired (decision 8).

Example: retention is an hour and the start passes a promised record that was sent 20 minutes ago: early-expiry. Had it
been sent 61 minutes ago, it would have expired; if the read_committed consumer had not read it, it is unverified.
"""

from collections.abc import Callable
from itertools import chain

from canary import facts as f
from canary.anomalies.online import generations
from canary.anomalies.online.log import READ_COMMITTED, Log
from canary.anomalies.online.meters import Reading, count
from canary.anomalies.online.rules.held import settle_held
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.sets import ages
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import FormerLimit, State, Topic
from canary.anomalies.online.stream import Stream
from canary.anomalies.online.topology import clock
from canary.anomalies.policy import explains_by_size, least_age_ms

_TIMELINE_STEP_NS = 30 * 10**9
_TIMELINE_STEPS = 100
"""A retention is divided into so many steps at least."""
_NOTHING = IntervalSet()
_HEARD_NS = 60 * 10**9
"""For so long after a change, deletions by the former retention may still be noticed."""
_SIZED_NS = 10 * 60 * 10**9
"""A size that was measured longer ago tells nothing of the log."""
_SIZE_AWAITED_NS = 2 * _HEARD_NS
"""For so long the size of a log is waited for: it is asked for each minute."""
_UNSEEN_NS = 60 * 10**9
"""While a log is not listed for longer its start may rise unseen; brokers look every five minutes what has expired."""


def sending_step_ns(retention_ms: int | None) -> int:
    """Return how far apart times of sending are remembered: what is sent sooner after one is taken to be as old."""
    if retention_ms is None or retention_ms < 0:
        return _TIMELINE_STEP_NS
    return min(_TIMELINE_STEP_NS, retention_ms * 1_000_000 // _TIMELINE_STEPS)


def remember_sent(topic: Topic, log: Log, offset: int, n: int, sent_ns: Callable[[int], int | None]) -> None:
    """Note when ``n`` probes from ``offset`` on were sent, so that the age of expired records is known.

    A broker counts a record's age from there, not from its acknowledgement, which may have taken an outage longer.
    ``sent_ns`` returns when the i-th was sent (rising with i), None if that is not known.
    """
    ages.remember(log.timeline, offset, n, sent_ns, sending_step_ns(topic.retention_ms))


def clock_seen(log: Log, now_ns: int) -> None:
    """A process begins: sending times later than now came from a clock that was ahead, and are forgotten."""
    ages.forget_after(log.timeline, now_ns)


def explains(scope: Scope, topic: Topic, log: Log, start: int) -> bool:
    """Whether all promises below a listed ``start`` are known to be so old that retention lets them expire."""
    sent_ns = sent_by(log, start)
    return (sent_ns > 0 and is_over(scope, topic, sent_ns)) or not log.promised.overlaps(0, start)


def is_over(scope: Scope, topic: Topic, sent_ns: int) -> bool:
    """Whether retention.ms lets expire what was sent then."""
    age_ms = (scope.state.now_ns - sent_ns) / 1e6
    return not topic.compacted and bool(_by_age(scope.state, topic.retention_ms, age_ms, sent_ns))


def start_advanced(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    """The log begins at ``start`` now. Promises below are expired if retention explains it."""
    gone = log.promised.within(log.start, start)
    expired = sum(b - a for a, b in gone)
    _expire_missing(scope, topic, log, start)
    settle_held(topic, log, start)  # while claims and unseen sequences are still known
    passed: dict[int, IntervalSet] = {}
    for run in log.claims.within(0, start):  # neighbours go together: markers between them part offsets, not sequences
        passed.setdefault(run.tag, IntervalSet()).add(run.value, run.value + run.length)
    for tag, sequences in passed.items():
        for a, b in sequences:
            _expire(scope, topic, topic.streams[tag], a, b)
    for offsets in (log.claims, log.promised, log.corrupt, log.copies, log.phantoms):
        offsets.remove(0, start)
    log.start, log.expired = start, max(start, log.expired)
    _expire_unplaced(scope, topic, log)
    generations.forget(scope, topic, log)
    _settle_sequences(topic, log)
    if expired:
        before = log.expiry or {"first": gone[0][0], "count": 0, "youngest_ns": 0}
        log.expiry = {
            "first": before["first"],
            "count": before["count"] + expired,
            "start": start,
            "youngest_ns": max(before["youngest_ns"], sent_by(log, start)),
            "at_ns": scope.state.now_ns,
            "leader_epoch": before.get("leader_epoch", log.epoch),
            "after_ns": before.get("after_ns", log.begun_ns),
            "size": before.get("size", _size(log, scope.state.now_ns - _SIZED_NS)),
        }
    ages.forget_below(log.timeline, start)


def emptied(scope: Scope, topic: Topic, log: Log, fact: f.Listed, known_end: int) -> None:
    """Where all of a log is gone that nobody looked at for a while, what retention explains may have expired before.

    Example: retention is an hour, the canary is cut off for two, and meanwhile all disks are wiped. What was sent in
    the last hour is certainly lost; where the log began before that nobody can tell. If it was looked at all the while,
    its start is known, and what stood above is lost, however old it is. So it is if something still stands there: then
    the log itself tells how far retention went. What was sent less than a step (`sending_step_ns`) after something that
    may have expired counts as being as old.
    """
    at_ns, kept_ms = fact.at_ns, topic.retention_ms
    is_first_sight = fact.end < known_end and fact.end <= log.start and log.low_end is None
    if not is_first_sight or at_ns - log.listed_ns <= _UNSEEN_NS or log.promised.overlaps(0, fact.end):
        return  # or it was filled again, and what was acknowledged meanwhile stands there
    if topic.compacted or kept_ms is None or kept_ms < 0:
        return
    aged_ns = at_ns - least_age_ms(kept_ms) * 1e6
    sent_ns = aged_ns + clock.doubt_ms(scope.state, kept_ms, aged_ns) * 1e6
    later, has_earlier = ages.first_after(log.timeline, int(sent_ns))
    start = log.known_end if later is None else later
    if has_earlier and start > log.start:
        start_advanced(scope, topic, log, start)


def _expire(scope: Scope, topic: Topic, stream: Stream, a: int, b: int) -> None:
    """The sequences [a, b) were claimed below the log's start: they have no place any more."""
    for x, y in unread(stream).within(a, b):
        expired_unread(scope, topic, stream, x, y)
    for unseen in stream.unseen.values():  # a consumer that lags will not be given it
        unseen.remove(a, b)
    stream.places.remove(a, b)
    stream.transactions.remove(a, b)


def _expire_missing(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    """Drop what is missing below the start and can no longer be found; what is known as absent was lost before."""
    for m in log.missing:
        below = min(max(start - m.offset, 0), m.count)
        if below and m.state != "absent":
            stream = topic.streams[m.tag]
            for x, y in unread(stream).within(m.sequence, m.sequence + below):
                expired_unread(scope, topic, stream, x, y)
            m.offset, m.sequence, m.count = m.offset + below, m.sequence + below, m.count - below
    log.missing = [m for m in log.missing if m.count]
    for u in log.unplaced:
        if u.low < start:
            expired_unread(scope, topic, topic.streams[u.tag], u.sequence, u.sequence + 1)
    log.unplaced = [u for u in log.unplaced if u.low >= start]


def _expire_unplaced(scope: Scope, topic: Topic, log: Log) -> None:
    """Promises without an offset of former processes have expired once all that those processes wrote has."""
    dead = [one for one in topic.streams if one.partition == log.partition and not one.live]
    for stream in dead:
        below = log.before if stream.written_below is None else min(log.before, stream.written_below)
        if log.start < below:
            continue
        for a, b in list(stream.unplaced):
            expired_unread(scope, topic, stream, a, b)
            stream.unplaced.remove(a, b)


def _size(log: Log, since_ns: int) -> int | None:
    """Return how many bytes the log had when it was measured last; None where it was not since then."""
    return None if log.size is None or log.size.known_ns < since_ns else log.size.value


def sent_by(log: Log, start: int) -> int:
    """Return when (ns) about the last record below ``start`` was sent, 0 if that is not known."""
    return ages.sent_at(log.timeline, start - 1) or 0


def unread(stream: Stream) -> IntervalSet:
    """Return the promises that the read_committed consumer, which is in every topic, was not given."""
    return stream.unseen.get(READ_COMMITTED, _NOTHING)


def expired_unread(scope: Scope, topic: Topic, stream: Stream, a: int, b: int) -> None:
    """No consumer will read the promises [a, b), most often because they expired: counted as unverified, no loss."""
    count_unverified(scope, topic, stream, b - a)
    for unseen in stream.unseen.values():
        unseen.remove(a, b)


def count_unverified(scope: Scope, topic: Topic, stream: Stream, n: int) -> None:
    """Count promises that no consumer can be given any more, so that nobody will know whether they were kept."""
    if n:
        meters = scope.meters(topic.name, stream.partition)
        count(meters.unverified, stream.mode, n)
        meters.unverified_ns[stream.mode] = scope.state.now_ns


def no_longer_probed(scope: Scope, topic: Topic) -> None:
    """Close what waits in partitions that the settings no longer want probed: it is unverified, and nothing ages there.

    No reader will read it and no question about it will be answered. Promises stay, should it be probed again.

    Example: 40 acknowledged probes are unread when the canary is killed, and the next start has another topic.name. The
    former topic has 40 unverified probes, and none that waits.
    """
    closed = [log for log in topic.logs.values() if not scope.state.probes(topic.name, log.partition)]
    for log in closed:
        missing = [(m.tag, m.sequence, m.sequence + m.count) for m in log.missing if m.why != "moved"]
        sought = [*missing, *((u.tag, u.sequence, u.sequence + 1) for u in log.unplaced)]
        for stream in (one for one in topic.streams if one.partition == log.partition):
            mine = ((a, b) for tag, a, b in sought if tag == stream.tag)
            waiting = IntervalSet.of(chain(unread(stream), stream.unplaced, mine))
            for a, b in waiting:
                expired_unread(scope, topic, stream, a, b)
            stream.unseen.clear()
            stream.unplaced = IntervalSet()
        for key in list(log.held):
            log.let_go(key)
        log.missing, log.unplaced, log.lost_offsets = [], [], IntervalSet()
        log.wanted = log.cut = log.expiry = None
        log.scrub_began_ns = log.scrubbed_ns = 0


def log_sized(scope: Scope, fact: f.LogSized) -> None:
    """Note how large a log is; of a partition that is not probed nothing is kept."""
    log = scope.state.log(fact.topic, fact.partition)
    if log is not None:
        log.size = Reading(fact.at_ns, fact.size_bytes)


def settle_expiry(scope: Scope, topic: Topic, log: Log) -> None:
    """Judge an advance of the start by the retention that was read after it, and by those in force just before.

    Where only the size of the log may explain it and that is not known, it is not excused: it is reported as unknown.
    Compaction explains nothing: it removes records and moves no log start.
    """
    expiry, log.expiry = log.expiry, None
    if expiry is None:
        return
    at_ns, state = expiry["at_ns"], scope.state
    age_ms = (at_ns - expiry["youngest_ns"]) / 1e6
    sizes = [expiry.get("size"), _size(log, at_ns)]
    most_ms = _in_force(topic, topic.retention_ms, topic.former_retentions, at_ns)
    most_bytes = _in_force(topic, topic.retention_bytes, topic.former_retention_bytes, at_ns)
    explained = {
        *(_by_age(state, kept_ms, age_ms, expiry["youngest_ns"]) for kept_ms in most_ms),
        *(_by_size(kept, sizes) for kept in most_bytes),
    }
    if True in explained:
        return
    if None in explained and 0 <= state.now_ns - at_ns < _SIZE_AWAITED_NS:
        log.expiry = expiry
        return
    evidence = {
        "retention_ms": topic.retention_ms,
        "retention_bytes": topic.retention_bytes,
        "compacted": topic.compacted,
        "size_before": sizes[0],
        "size_after": sizes[1],
        "age_at_most_ms": round(age_ms),
        "clock_doubt_ms": round(clock.doubt_ms(scope.state, topic.retention_ms or 0, expiry["youngest_ns"])),
        "count": expiry["count"],
        "log_start": expiry["start"],
    }
    begins = f"the log now begins at {expiry['start']}: {expiry['count']} promised records are gone"
    if None in explained:
        summary = f"{topic.name}-{log.partition}: {begins}, and it is unknown whether by retention: {_unknown(topic)}"
        evidence |= {"partition": log.partition, "first": expiry["first"]}
        found = scope.violation("unexplained-expiry", Where(topic), summary, evidence=evidence)
    else:
        where = Where(topic, log.partition, expiry["first"], leader_epoch=expiry.get("leader_epoch"))
        found = scope.violation("early-expiry", where, f"{begins} too early", evidence=evidence)
    scope.hold(log, found.since(expiry.get("after_ns")))


def _in_force(topic: Topic, present: int | None, formers: list[FormerLimit], at_ns: int) -> list[int | None]:
    """Return a setting and those before it by which brokers may still have deleted; -1: without a limit."""
    return [-1 if topic.compacted else present, *(one for until_ns, one in formers if until_ns >= at_ns - _HEARD_NS)]


def _by_age(state: State, kept_ms: int | None, age_ms: float, sent_ns: float) -> bool | None:
    """Say whether a retention.ms explains that records of an age are gone; None: unknown."""
    if kept_ms is None or kept_ms < 0:
        return None if kept_ms is None else False
    return age_ms + clock.doubt_ms(state, kept_ms, sent_ns) >= least_age_ms(kept_ms)


def _by_size(kept_bytes: int | None, sizes: list[int | None]) -> bool | None:
    """Say whether a retention.bytes explains that records are gone, by the log's sizes before and after; None: unknown.

    Example: retention.bytes is 1 GB. A log of 1.1 GB that is 1 GB now was deleted from by size; one of 100 kB was not.
    """
    if kept_bytes is None or kept_bytes < 0:
        return None if kept_bytes is None else False
    near = {explains_by_size(kept_bytes, size) for size in sizes if size is not None}
    return near.pop() if len(near) == 1 else None


def _unknown(topic: Topic) -> str:
    if topic.retention_ms is None or topic.retention_bytes is None:
        return "the settings in force are not known"
    return f"retention.bytes={topic.retention_bytes} may explain it, and the size of the log is not known well enough"


def _settle_sequences(topic: Topic, log: Log) -> None:
    """Forget the outcomes of sequences below the log's start; called when that has moved.

    Aborted transactions break the runs of a stream, a few each minute for as long as it lives. Below the log start they
    are merged into one interval, because expired offsets are never judged again: a read of one is a copy.
    """
    for stream in topic.streams:
        if stream.partition == log.partition and (stream.failed or stream.indeterminate):
            _settle(stream)


def _settle(stream: Stream) -> None:
    """Merge the sequences before the first one that has a place or waits for anything."""
    waiting = (stream.open, stream.unplaced, *stream.unseen.values())
    firsts = [one.first() for one in waiting] + [stream.places.first(), stream.next_sequence]
    floor = min(first for first in firsts if first is not None)
    known = [interval for one in (stream.acked, stream.seen) for interval in one.within(0, floor)]
    placed = [end for interval in known for _, end in stream.lost.without(*interval)]  # a lost one stood anywhere
    floor = max(placed, default=0)  # later ones may be above the start, and still be read
    if floor <= (stream.failed.first() or 0) and floor <= (stream.indeterminate.first() or 0):
        return
    for were in (stream.acked, stream.promised, stream.seen):
        were.add(0, floor)
    for over in (stream.failed, stream.zombies, stream.indeterminate, stream.lost, *stream.early.values()):
        over.remove(0, floor)
    stream.transactions.remove(0, floor)
