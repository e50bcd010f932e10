"""Expired is not lost, and gone is not expired (decision 8): what an advance of the log's start means."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from canary.anomalies.expiry import least_age_ms
from canary.anomalies.online import generations, settled
from canary.anomalies.online.claims import settle_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log, Stream, Topic

_TIMELINE_STEP_NS = 30 * 10**9
_TIMELINE_STEPS = 100
"""A retention is divided into so many steps at least."""
_TIMELINE_KEPT = 30_000
_HEARD_NS = 60 * 10**9
"""So long after a change a broker may delete by the former retention, and we may not have heard of what it deleted."""


def remember_sent(topic: Topic, log: Log, offset: int, n: int, sent_ns: Callable[[int], int | None]) -> None:
    """Note when ``n`` probes from an offset on were sent, so that the age of what expires can be told.

    A broker counts a record's age from there, not from its acknowledgement, which may have taken an outage longer.

    Args:
        topic: their topic.
        log: their partition's.
        offset: of the first.
        n: how many.
        sent_ns: returns when the i-th was sent (rising with i), None if that is not known.
    """
    step = _TIMELINE_STEP_NS
    if topic.retention_ms is not None and topic.retention_ms >= 0:
        step = min(step, topic.retention_ms * 1_000_000 // _TIMELINE_STEPS)
    timeline, last = log.timeline, sent_ns(n - 1)
    if last is None or (timeline and last - timeline[-1][0] < step):
        return  # the usual case
    for i in range(n):
        at_ns = sent_ns(i)
        if at_ns is None or (timeline and at_ns - timeline[-1][0] < step):
            continue
        while timeline and timeline[-1][1] >= offset + i:  # cut off since: what was sent later stands before it
            timeline.pop()
        timeline.append([at_ns, offset + i])
        if len(timeline) > _TIMELINE_KEPT:
            del timeline[1::2]


def clock_seen(log: Log, now_ns: int) -> None:
    """A process begins: what was sent later than now was sent by a clock that was ahead, and is no younger for that."""
    while log.timeline and log.timeline[-1][0] > now_ns:
        log.timeline.pop()


def start_advanced(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    """The log begins at ``start`` now. What was promised below is expired if retention explains it."""
    gone = log.promised.within(log.start, start)
    count = sum(b - a for a, b in gone)
    _expire_missing(scope, topic, log, start)
    settle_held(topic, log, start)  # while it is known what still stands, and who still awaits it
    for run in log.claims.within(0, start):
        stream = topic.streams[run.tag]
        for x, y in stream.unseen.get("read_committed", _NOTHING).within(run.value, run.value + run.length):
            expired_unread(scope, topic, log, stream, x, y)
        for unseen in stream.unseen.values():  # who had only fallen behind waits for it in vain
            unseen.remove(run.value, run.value + run.length)
        stream.places.remove(run.value, run.value + run.length)
        stream.transactions.remove(run.value, run.value + run.length)
    log.claims.remove(0, start)
    log.promised.remove(0, start)
    log.corrupt.remove(0, start)
    log.copies.remove(0, start)
    log.phantoms.remove(0, start)
    log.start, log.expired = start, max(start, log.expired)
    _expire_unplaced(scope, topic, log)
    generations.forget(scope, topic, log)
    settled.forget(topic, log)
    if count:
        youngest_ns = _sent_by(log, start)
        if log.expiry is None:
            log.expiry = {
                "first": gone[0][0],
                "count": 0,
                "start": start,
                "youngest_ns": youngest_ns,
                "at_ns": scope.state.now_ns,
            }
        log.expiry["count"] += count
        log.expiry["start"] = start
        log.expiry["youngest_ns"] = max(log.expiry["youngest_ns"], youngest_ns)
        log.expiry["at_ns"] = scope.state.now_ns
    while len(log.timeline) > 1 and log.timeline[1][1] < start:
        del log.timeline[0]


def _expire_missing(scope: Scope, topic: Topic, log: Log, start: int) -> None:
    """What is looked for below the start can be found no more; what was found to be gone was so before."""
    for m in log.missing:
        below = min(max(start - m.offset, 0), m.count)
        if below and not (m.state == "absent" and m.confirmed):
            stream = topic.streams[m.tag]
            for x, y in stream.unseen.get("read_committed", _NOTHING).within(m.sequence, m.sequence + below):
                expired_unread(scope, topic, log, stream, x, y)
            m.offset, m.sequence, m.count = m.offset + below, m.sequence + below, m.count - below
    log.missing = [m for m in log.missing if m.count]
    log.unplaced = [u for u in log.unplaced if u.low >= start]


def _expire_unplaced(scope: Scope, topic: Topic, log: Log) -> None:
    """Wherever former processes wrote what was acknowledged without an offset: when all of theirs expired, it did."""
    dead = [one for one in topic.streams if one.partition == log.partition and not one.live]
    for stream in dead if log.start >= log.before else ():
        for a, b in list(stream.unplaced):
            expired_unread(scope, topic, log, stream, a, b)
            stream.unplaced.remove(a, b)


def begins_anew(log: Log) -> None:
    """The log begins lower than before: every replica was emptied, or one leads that has deleted less."""
    log.start = log.scrub_goal = 0


def _sent_by(log: Log, start: int) -> int:
    """Return a time (ns) after which hardly anything below ``start`` was sent, 0 if that is not known: it is as old."""
    i = bisect_left(log.timeline, start, key=itemgetter(1))
    return log.timeline[i - 1][0] if i else 0


class _Nothing:
    """An empty set of sequences."""

    @staticmethod
    def within(_a: int, _b: int) -> list[tuple[int, int]]:
        return []


_NOTHING = _Nothing()


def expired_unread(scope: Scope, topic: Topic, log: Log, stream: Stream, a: int, b: int) -> None:
    """The promises [a, b) ran out before anyone verified them: counted, and no loss."""
    meters = scope.meters(topic.name, log.partition)
    meters.unverified[stream.mode] = meters.unverified.get(stream.mode, 0) + b - a
    for unseen in stream.unseen.values():
        unseen.remove(a, b)


def settle_expiry(scope: Scope, topic: Topic, log: Log) -> None:
    """The retention in force was asked for after the advance: does that explain it, or one in force just before?"""
    expiry, log.expiry = log.expiry, None
    if expiry is None or topic.compacted:
        return
    if topic.retention_ms is None or topic.retention_bytes is None or topic.retention_bytes >= 0:
        return  # not known, or by size: explained
    age_ms = (expiry["at_ns"] - expiry["youngest_ns"]) / 1e6
    former = [ms for until_ns, ms in topic.former_retentions if until_ns >= expiry["at_ns"] - _HEARD_NS]
    for kept_ms in (topic.retention_ms, *former):
        if kept_ms >= 0 and age_ms >= least_age_ms(kept_ms):
            return
    scope.hold(
        log,
        scope.violation(
            "early-expiry",
            topic,
            log.partition,
            expiry["first"],
            None,
            f"the log now begins at {expiry['start']}: {expiry['count']} promised records are gone too early",
            evidence={
                "retention_ms": topic.retention_ms,
                "retention_bytes": topic.retention_bytes,
                "age_at_most_ms": round(age_ms),
                "count": expiry["count"],
                "log_start": expiry["start"],
            },
        ),
    )
