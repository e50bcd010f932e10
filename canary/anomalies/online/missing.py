"""Missing probes: promised, and not found at their offsets. The first step to a loss (see the package losses)."""

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Missing
from canary.anomalies.online.scope import Probes, Scope
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import Stream

SKIPPED = frozenset({"skipped"})
"""Reasons of probes that a consumer skipped: it was given their neighbours."""
CUT = "end"
"""Reason of promises below which the log's end was listed several times: a fetch decides whether they are gone."""
_LATE = frozenset({"late-ack", "late-place"})
"""Reasons of promises that were made of a place which had been passed already: who passed it has not read them."""
PASSED = SKIPPED | _LATE
"""Reasons of probes that a consumer passed without a delivery, at least by its position."""


def miss(scope: Scope, probes: Probes, why: str, *, given: bool = False) -> None:
    """Note probes that were not found at their offsets, unless that is known already."""
    state = scope.state
    _, log, stream, sequence, n, offset = probes
    if stream.lost.covers(sequence, sequence + n):
        return
    if _among(log, log.sought, stream.tag, sequence, n):
        for known in log.missing:
            there = known.tag == stream.tag and known.sequence - known.offset == sequence - offset
            if there and known.sequence <= sequence and sequence + n <= known.sequence + known.count:
                return
    now = (state.now_ns, state.ordinal)
    place = (offset, n, sequence, stream.tag)
    seek(log, Missing(*place, why, *now, given=given, epoch=log.whole_epoch, cut=why == CUT))


def seek(log: Log, missing: Missing) -> None:
    """Add to what is missing, and note when it was last known not to be: of what is missed first, or is cut off.

    What has read its place since it was missed has not read it.
    """
    end = missing.offset + missing.count
    if missing.verified_ns is None:
        missing.verified_ns = 0 if missing.why in _LATE else log.last_verified(end)
    if missing.by_end and end <= log.whole.value:
        missing.verified_ns = max(missing.verified_ns, log.whole.known_ns)
    log.missing.append(missing)
    sets = (log.sought, log.absent) if missing.state == "absent" else (log.sought,)
    for by_stream in sets:
        by_stream.setdefault(missing.tag, IntervalSet()).add(missing.sequence, missing.sequence + missing.count)


def known_absent(log: Log, tag: int, a: int, b: int) -> bool:
    """Say whether sequences of a stream are known to be absent already."""
    return _among(log, log.absent, tag, a, b - a) and any(
        m.state == "absent" and m.tag == tag and m.sequence <= a and b <= m.sequence + m.count for m in log.missing
    )


def _among(log: Log, by_stream: dict[int, IntervalSet], tag: int, sequence: int, n: int) -> bool:
    """Say whether any may be in ``missing``, without a walk through all of it."""
    if not log.missing:
        log.sought.clear()
        log.absent.clear()
    sequences = by_stream.get(tag)
    return sequences is not None and sequences.overlaps(sequence, sequence + n)


def absent(scope: Scope, topic: Topic, log: Log, missing: Missing, *, by_end: bool = False) -> None:
    """A fresh re-read proves them absent: they claim no place, and wait for confirmation.

    ``by_end``: it met the log's end below them.
    """
    stream = topic.streams[missing.tag]
    a, b, shift = missing.offset, missing.offset + missing.count, missing.sequence - missing.offset
    for run in log.claims.aligned(a, b, shift, missing.tag):
        for offsets in (log.claims, log.promised, log.copies):
            offsets.remove(run.key, run.end)
    if missing.why == "moved":
        return  # it is at another offset, and the probe at this one has contradicted it already
    for x, y in stream.lost.without(missing.sequence, missing.sequence + missing.count):
        if not known_absent(log, missing.tag, x, y):
            seek(log, missing.part(x, y - x, scope.state.ordinal, state="absent", by_end=by_end))


def not_given(log: Log, stream: Stream, a: int, b: int, past: int | None = None, heard_since: int = -1) -> IntervalSet:
    """Return which sequences of [a, b) some read_committed consumer has not been given.

    With ``past``, the offset of ``a``: only of consumers that have gone past it since they were put into the log, and
    were heard of since a fact's ordinal.
    """
    waiting = IntervalSet()
    for name, reader in log.readers.items():
        first, end = a, b
        if past is not None:
            if reader.astray or reader.heard <= heard_since:
                continue
            first, end = max(a, a + reader.began - past), min(b, a + reader.position - past)
        if reader.isolation == "read_committed":
            unseen = stream.unseen.get(name) or IntervalSet()
            for x, y in (stream.early.get(name) or IntervalSet()).without(first, end):
                for part in (*unseen.within(x, y), *stream.promised.without(x, y)):
                    waiting.add(*part)
    return waiting


def stop_awaiting(log: Log, stream: Stream, offset: int, a: int, b: int) -> None:
    """Sequences [a, b) are there, from ``offset`` on; a consumer beyond them will not be given them any more."""
    for name, unseen in stream.unseen.items():
        reader = log.readers.get(name)
        unseen.remove(a, b if reader is None else min(b, a + reader.position - offset))
